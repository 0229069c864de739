package augment

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/tests/rig"
)

// price is the price of a call (addendum 12).
const price = rig.Money(10_000_000)

// settings are those of all gateways here. Of this machine only 127.0.0.1 may be
// fetched from.
const settings = `
log: { level: debug, format: json, sample_above: 0 }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 }, unsupported_features: { count: 0 }, aborted_requests: { count: 0 } }
fetch: { allow: [127.0.0.1] }
`

// shop is a gateway and one of its customers.
type shop struct {
	*rig.Gateway
	key, admin string
	had        rig.Money // at the last look
}

// start starts a gateway whose customer has so much USD.
func start(t testing.TB, config, usd string) *shop {
	t.Helper()
	g := rig.NewGateway(t, config)
	g.ListenAndStart()
	g.NewAccount("a", usd)
	s := &shop{Gateway: g, key: g.Key("a"), admin: g.Key("a", "--type", "ADMIN")}
	s.had = s.has()
	return s
}

// idle waits until nothing is held.
func (s *shop) idle() {
	s.T.Helper()
	s.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
}

// holds are how many requests have money held.
func (s *shop) holds() float64 {
	n, _ := s.Metric("farebox_holds_open")
	return n
}

// has is the customer's balance.
func (s *shop) has() (m rig.Money) {
	s.T.Helper()
	s.idle()
	var b struct {
		Balances struct{ USD json.Number }
	}
	s.Must(200, "GET", "/billing/balance", s.admin, "", &b)
	if err := m.UnmarshalJSON([]byte(`"` + b.Balances.USD.String() + `"`)); err != nil {
		s.T.Fatalf("the balance is %s: %v", b.Balances.USD, err)
	}
	return m
}

// charged says that so many calls were charged since the last look. A balance may show a charge a moment later.
func (s *shop) charged(t testing.TB, calls int) {
	t.Helper()
	has := s.has()
	for end := time.Now().Add(time.Minute); has > s.had-rig.Money(calls)*price && time.Now().Before(end); has = s.has() {
		time.Sleep(20 * time.Millisecond)
	}
	if took := s.had - has; took != rig.Money(calls)*price {
		t.Errorf("%s were charged, want %d calls of %s", took, calls, price)
	}
	s.had = has
}

// reload has another config read.
func (s *shop) reload(config string) {
	s.T.Helper()
	text := " is in effect: "
	before := strings.Count(s.Log(), text)
	s.WriteConfig(config)
	s.Signal(rig.Hangup)
	rig.Await(s.T, "the config is read again", func() bool { return strings.Count(s.Log(), text) > before })
}

// ask posts JSON; further headers are names and values.
func (s *shop) ask(t testing.TB, path, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	status, header, answer, err := rig.Try(rig.Client, s.Gateway.URL+path, s.key, body, headers...)
	if err != nil {
		t.Fatalf("%s %.200s: %v", path, body, err)
	}
	return status, header, answer
}

// send sends a request of any kind and gives up with ctx: status 0.
func (s *shop) send(ctx context.Context, path, contentType string, body []byte, headers ...string) (
	int, http.Header, string,
) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Gateway.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err.Error()
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Authorization", "Bearer "+s.key)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := rig.Client.Do(req)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, err.Error()
	}
	return res.StatusCode, res.Header, string(text)
}

// leave posts JSON and goes away when arrived says so.
func (s *shop) leave(t testing.TB, path, contentType string, body []byte, arrived func() bool, headers ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int)
	go func() {
		status, _, _ := s.send(ctx, path, contentType, body, headers...)
		done <- status
	}()
	rig.Await(t, "the request arrives", arrived)
	cancel()
	if status := <-done; status != 0 {
		t.Errorf("%s was answered %d before its client left", path, status)
	}
}

// asking is a request to a server behind the gateway.
type asking struct {
	method, uri string
	header      http.Header
	body        string
}

// peer is a server behind the gateway: it records its requests.
type peer struct {
	URL    string
	Addr   string
	mu     sync.Mutex
	all    []asking
	answer func(w http.ResponseWriter, r *http.Request)
}

// serve starts a peer on 127.0.0.1.
func serve(t testing.TB, answer func(w http.ResponseWriter, r *http.Request)) *peer {
	t.Helper()
	p := &peer{answer: answer}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	p.URL, p.Addr = s.URL, s.Listener.Addr().String()
	return p
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	p.mu.Lock()
	p.all = append(p.all, asking{r.Method, r.RequestURI, r.Header, string(body)})
	answer := p.answer
	p.mu.Unlock()
	answer(w, r)
}

// now changes the answer, and forgets the requests so far.
func (p *peer) now(answer func(w http.ResponseWriter, r *http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all, p.answer = nil, answer
}

// asked is how often it was.
func (p *peer) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}

// last is the last request.
func (p *peer) last(t testing.TB) asking {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) == 0 {
		t.Fatal("it was not asked")
	}
	return p.all[len(p.all)-1]
}

// says answers with a status, a type and a body.
func says(status int, kind, body string, headers ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// late answers after a while, unless who asked is gone.
func late(after time.Duration, then func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(after):
			then(w, r)
		case <-r.Context().Done():
		}
	}
}

// cut begins an answer of 200 and breaks off.
func cut(body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, body)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// mute is the address of a server that takes connections and does not answer.
func mute(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln.Addr().String()
}
