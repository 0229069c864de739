package security

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream/chain"
	"farebox/tests/rig"
)

// scriptedPage has no text until its script ran.
const scriptedPage = `<html><title>A page</title><body><div id="a"></div><script>setTimeout(function () {
document.getElementById("a").innerHTML = "<h1>A page</h1><p>" + "Rain falls on the old roof of the mill. ".repeat(30)
}, 300)</script></body></html>`

// connect opens a connection that hangUp closes, and sends the beginning of a request
// with a body of n bytes.
func (s *shares) connect(c caller, path string, n int) (*net.TCPConn, error) {
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.stalled = append(s.stalled, conn)
	s.mu.Unlock()
	_ = conn.SetDeadline(time.Now().Add(rig.CallLimit))
	_, err = fmt.Fprintf(conn, "POST /api/v1%s HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"+
		"Authorization: Bearer %s\r\nX-Forwarded-For: %s\r\nContent-Length: %d\r\n\r\n", path, c.key, c.from, n)
	return conn.(*net.TCPConn), err
}

// hangUp closes the connections of clients that neither read nor write on.
func (s *shares) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.stalled {
		_ = conn.Close()
	}
	s.stalled = nil
}

// stallReading asks for a large batch answer and reads no more than its status.
func (s *shares) stallReading(c caller) (status int) {
	conn, err := s.connect(c, "/crypto/rpc/ethereum-sepolia", len(largeBatch))
	if err == nil {
		_ = conn.SetReadBuffer(4 << 10)
		_, err = io.WriteString(conn, largeBatch)
	}
	if err != nil {
		return 0
	}
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
	if err != nil {
		return 0
	}
	return res.StatusCode
}

// stallUpload sends most of a large body. The status is 0 unless that is refused.
func (s *shares) stallUpload(c caller) (status int) {
	conn, err := s.connect(c, "/chat/completions", 1_000_000)
	if err == nil {
		_, err = io.WriteString(conn, strings.Repeat(" ", 900_000))
	}
	_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	res, rerr := http.ReadResponse(bufio.NewReader(conn), nil)
	switch {
	case rerr == nil:
		return res.StatusCode
	case err == nil && errors.Is(rerr, os.ErrDeadlineExceeded):
		return 0
	}
	return http.StatusServiceUnavailable // it was closed
}

// topUp pays 5 USD from a wallet.
func (s *shares) topUp(ctx context.Context, p *chain.Payer, c caller) (int, string) {
	a := p.Authorization(sharesPayTo, 5_000_000, time.Now().Add(5*time.Minute))
	payment, err := json.Marshal(map[string]any{"x402Version": 2, "payload": chain.EVMPayload(a, p.SignAuthorization(s.evm, a)),
		"accepted": map[string]any{"scheme": "exact", "network": "eip155:8453", "amount": "5000000", "asset": chain.USDC,
			"payTo": sharesPayTo, "maxTimeoutSeconds": 300, "extra": map[string]any{"name": "USD Coin", "version": "2"}}})
	if err != nil {
		return 0, err.Error()
	}
	return s.ask(ctx, c, "POST", "/x402/top-up", "", nil, "PAYMENT-SIGNATURE",
		base64.StdEncoding.EncodeToString(payment))
}

// signIn asks for the balance of a wallet, which signs in.
func (s *shares) signIn(ctx context.Context, p *chain.Payer, c caller) (int, string) {
	header := chain.Header(p.SignInMembers(chain.SignIn{Domain: "shop.test", URI: "http://shop.test/api/v1"}))
	return s.ask(ctx, c, "GET", "/x402/balance/"+p.Address, "", nil, "SIGN-IN-WITH-X", header)
}

// coldKey is a key that the process has not read yet.
func (s *shares) coldKey() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.cold[0]
	s.cold = s.cold[1:]
	return key
}

// notices is how soon the gateway notices that a client left.
const notices = 100 * time.Millisecond

// leavable is an upstream whose clients leave before its answer.
type leavable struct {
	mu       sync.Mutex
	requests map[string]*leavableRequest
}

type leavableRequest struct {
	asked   atomic.Bool
	once    sync.Once
	arrived chan struct{}
	answer  chan struct{} // closed when it is to be answered
	ended   chan bool     // true: it was answered, false: the gateway gave it up
}

func (l *leavable) start(t testing.TB) (url string) {
	l.requests = map[string]*leavableRequest{}
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, rest, _ := strings.Cut(string(body), "<")
		id, _, _ := strings.Cut(rest, ">")
		req := l.request(id)
		if !req.asked.CompareAndSwap(false, true) {
			w.WriteHeader(http.StatusInternalServerError) // it was asked once already
			return
		}
		close(req.arrived)
		select {
		case <-req.answer:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,`+
				`"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}],`+
				`"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`)
			req.ended <- true
		case <-r.Context().Done():
			req.ended <- false
		}
	}))
	t.Cleanup(func() { l.finish(""); at.Close() })
	return at.URL + "/v1"
}

func (l *leavable) request(id string) *leavableRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.requests[id]
	if r == nil {
		r = &leavableRequest{arrived: make(chan struct{}), answer: make(chan struct{}), ended: make(chan bool, 1)}
		l.requests[id] = r
	}
	return r
}

// finish answers all that wait whose id begins with a letter.
func (l *leavable) finish(letter string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, r := range l.requests {
		if strings.HasPrefix(id, letter) {
			r.once.Do(func() { close(r.answer) })
		}
	}
}

// leave sends a chat and leaves once the upstream has it. It holds a place where the
// gateway goes on without the client: then the status is 200, else 503. With stay the
// upstream does not answer before finish.
func (s *shares) leave(ctx context.Context, c caller, model, key string, stay bool) (status int) {
	id := "d" + s.mark() + "."
	if key != "" {
		id = "k" + s.mark() + "."
	}
	r := s.left.request(id)
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	body, headers := rig.Ask(model, "<"+id+">", ""), []string(nil)
	if key != "" {
		headers = []string{"Idempotency-Key", key}
	}
	answered := make(chan int, 1)
	go func() {
		status, _ := s.post(ctx, c, "/chat/completions", body, headers...)
		answered <- status
	}()
	select {
	case <-r.arrived:
	case status := <-answered:
		return status
	}
	leave()
	<-answered
	select {
	case <-r.ended: // the gateway gave it up
		return http.StatusServiceUnavailable
	case <-time.After(notices):
	}
	if stay {
		return http.StatusOK
	}
	s.left.finish(id)
	if !<-r.ended {
		return http.StatusServiceUnavailable
	}
	if key == "" {
		return http.StatusOK
	}
	for end := time.Now().Add(rig.CallLimit); ; time.Sleep(5 * time.Millisecond) {
		status, _ = s.post(context.Background(), c, "/chat/completions", body, headers...)
		if status != http.StatusConflict || time.Now().After(end) {
			return status
		}
	}
}
