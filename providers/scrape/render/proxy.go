package render

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"farebox/providers/fetch"
)

const (
	// maxConns is how many connections a page may have at once, maxAll how many in
	// its life.
	maxConns, maxAll = 48, 400
	// proxyHead bounds the head of a request.
	proxyHead = 64 << 10
	// silence is how long a connection may say nothing.
	silence = 30 * time.Second
)

// guardProxy is the only way out of a browser. It serves only requests with a page's
// password: other programs of this machine do not have it, and neither does the browser's
// own telemetry.
type guardProxy struct {
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	refuse func(host string) error // may be nil
	plain  *http.Transport
	server *http.Server
	listen net.Listener

	mu    sync.Mutex
	pages map[string]*pass
}

// pass is one page's right to go out, until it ends.
type pass struct {
	user, password string
	ctx            context.Context // ends with the page, and all its connections with it
	end            context.CancelFunc
	bytes          atomic.Int64 // that are left, both ways
	conns, all     atomic.Int64
}

var errSpent = errors.New("the page has had its share")

// newProxy listens on address, which others cannot use without a pass.
func newProxy(client *fetch.Client, address string, refuse func(host string) error) (*guardProxy, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &guardProxy{dial: client.DialContext, refuse: refuse, listen: l, pages: map[string]*pass{}}
	p.plain = &http.Transport{Proxy: nil, DialContext: client.DialContext, DisableCompression: true,
		DisableKeepAlives: true, MaxResponseHeaderBytes: proxyHead, ResponseHeaderTimeout: silence}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: silence,
		MaxHeaderBytes: proxyHead}
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

func (p *guardProxy) close() error { return p.server.Close() }

// admit makes a pass that ends with ctx.
func (p *guardProxy) admit(ctx context.Context, bytes int64) *pass {
	s := &pass{user: rand.Text(), password: rand.Text()}
	s.ctx, s.end = context.WithCancel(ctx)
	s.bytes.Store(bytes)
	p.mu.Lock()
	p.pages[s.user] = s
	p.mu.Unlock()
	context.AfterFunc(s.ctx, func() {
		p.mu.Lock()
		delete(p.pages, s.user)
		p.mu.Unlock()
	})
	return s
}

// who finds the page of a request by its password.
func (p *guardProxy) who(r *http.Request) *pass {
	probe := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	user, password, ok := probe.BasicAuth()
	if !ok {
		return nil
	}
	p.mu.Lock()
	s := p.pages[user]
	p.mu.Unlock()
	if s == nil || subtle.ConstantTimeCompare([]byte(password), []byte(s.password)) != 1 {
		return nil
	}
	return s
}

// ServeHTTP lets a request with a pass through, to where the guard allows.
func (p *guardProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := p.who(r)
	if s == nil {
		w.Header().Set("Proxy-Authenticate", `Basic realm="pages"`)
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	host := r.URL.Hostname()
	if r.Method == http.MethodConnect {
		host, _, _ = net.SplitHostPort(r.Host)
	} else if r.URL.Scheme != "http" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if host == "" || p.refuse != nil && p.refuse(host) != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if s.all.Add(1) > maxAll || s.conns.Add(1) > maxConns {
		s.conns.Add(-1)
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	defer s.conns.Add(-1)
	if r.Method == http.MethodConnect {
		p.tunnel(w, r, s)
		return
	}
	p.pass(w, r, s)
}

// pass does a plain request.
func (p *guardProxy) pass(w http.ResponseWriter, r *http.Request, s *pass) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	out := r.Clone(ctx)
	out.RequestURI = ""
	for _, h := range []string{"Proxy-Authorization", "Proxy-Connection", "Connection", "Keep-Alive", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade"} {
		out.Header.Del(h)
	}
	out.Body = io.NopCloser(&spending{r.Body, s})
	resp, err := p.plain.RoundTrip(out)
	if err != nil {
		w.WriteHeader(status(err))
		return
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		if k != "Connection" && k != "Keep-Alive" && k != "Proxy-Authenticate" && k != "Upgrade" {
			w.Header()[k] = v
		}
	}
	w.WriteHeader(resp.StatusCode)
	_, err = io.Copy(w, &spending{resp.Body, s})
	if err != nil {
		panic(http.ErrAbortHandler) // the browser has to know that it is not all
	}
}

// tunnel connects two ends that speak for themselves.
func (p *guardProxy) tunnel(w http.ResponseWriter, r *http.Request, s *pass) {
	far, err := p.dial(s.ctx, "tcp", r.Host)
	if err != nil {
		w.WriteHeader(status(err))
		return
	}
	defer far.Close()
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer near.Close()
	defer context.AfterFunc(s.ctx, func() {
		near.Close()
		far.Close()
	})()
	if _, err := io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	done := make(chan struct{}, 2)
	flow := func(to, from net.Conn, r io.Reader) {
		_, _ = io.Copy(to, &spending{&listening{r, from, to}, s})
		to.Close() // a half that ended ends both: pages need no more
		from.Close()
		done <- struct{}{}
	}
	go flow(far, near, buffered)
	go flow(near, far, far)
	<-done
	<-done
}

func status(err error) int {
	var refusal *fetch.Error
	switch {
	case errors.As(err, &refusal) && refusal.Reason == fetch.Forbidden:
		return http.StatusForbidden
	case errors.As(err, &refusal) && refusal.Reason == fetch.TooSlow:
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// spending charges the bytes read to a page's budget.
type spending struct {
	io.Reader
	s *pass
}

func (s *spending) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if s.s.bytes.Add(-int64(n)) < 0 {
		return 0, errSpent
	}
	return n, err
}

// listening gives a silent connection up.
type listening struct {
	io.Reader
	from, to net.Conn
}

func (l *listening) Read(b []byte) (int, error) {
	until := time.Now().Add(silence)
	_ = l.from.SetReadDeadline(until)
	_ = l.to.SetWriteDeadline(until)
	return l.Reader.Read(b)
}

// local is an address in the form that a browser on this machine gets.
func local(l net.Listener) string {
	return "http://" + strings.Replace(l.Addr().String(), "[::]", "127.0.0.1", 1)
}
