package facilitator

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"farebox/config"
)

const supported = `{"kinds":[{"x402Version":2,"scheme":"exact","network":"n:1"},` +
	`{"x402Version":2,"scheme":"exact","network":"s:1","extra":{"feePayer":"payer"}}],"extensions":[],"signers":{}}`

// fake is a facilitator with configured answers.
type fake struct {
	*httptest.Server
	calls  atomic.Int64 // but those to supported
	answer atomic.Pointer[func(w http.ResponseWriter, r *http.Request)]
}

func newFake(t *testing.T) *fake {
	f := new(fake)
	f.says(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"isValid":true,"success":true,"transaction":"0x1"}`)
	})
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/supported") {
			_, _ = io.WriteString(w, supported)
			return
		}
		f.calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see who leaves
		(*f.answer.Load())(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) says(answer func(w http.ResponseWriter, r *http.Request)) { f.answer.Store(&answer) }

func (f *fake) config(name string) config.X402Facilitator {
	return config.X402Facilitator{Name: name, URL: config.Secret(f.URL + "/base/"), Auth: "none",
		VerifyTimeout: 1500 * time.Millisecond, SettleTimeout: 1500 * time.Millisecond, MaxInFlight: 2}
}

func newTestSet(t *testing.T, list ...config.X402Facilitator) *Set {
	t.Helper()
	s, err := NewSet(&config.X402{Facilitators: list}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(nil) })
	return s
}

var question = &Question{ID: "pay_1", Network: "n:1", Body: []byte(`{"x402Version":2}`)}

// closedPort is an address without a listener.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

// Another facilitator is asked to settle only while no other can have heard of the
// payment; the one that verified it settles it.
func TestNobodySettlesWhatAnotherMayHave(t *testing.T) {
	first, second := newFake(t), newFake(t)
	ctx := context.Background()
	s := newTestSet(t, first.config("first"), second.config("second"))
	if r, err := s.Settle(ctx, question); err != nil || !r.OK || first.calls.Load() != 1 || second.calls.Load() != 0 {
		t.Errorf("in order: %+v %v", r, err)
	}
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"hangs":       func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"breaks off":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"half a head": func(w http.ResponseWriter, _ *http.Request) { hijacked(w, "HTTP/1.1 200 OK\r\nContent-Le") },
		"half a body": func(w http.ResponseWriter, _ *http.Request) {
			hijacked(w, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{")
		},
		"a page": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) },
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, second.URL+"/settle", http.StatusTemporaryRedirect)
		},
		"talks forever": flood,
		"trickles":      trickle,
		"vast head": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Vast", strings.Repeat("a", 1<<20))
		},
	} {
		first.says(answer)
		before, began := second.calls.Load(), time.Now()
		r, err := s.Settle(ctx, question)
		if err == nil || !r.Unclear || r.OK || second.calls.Load() != before {
			t.Errorf("%s: %+v %v, and the second was asked %d times", name, r, err, second.calls.Load()-before)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		// To verify moves nothing, so that the next is asked.
		if r, err := s.Verify(ctx, question); err != nil || !r.OK || second.calls.Load() != before+1 {
			t.Errorf("%s, to verify: %+v %v", name, r, err)
		}
		if r, err := s.Settle(ctx, question); err != nil || !r.OK || second.calls.Load() != before+2 {
			t.Errorf("%s: the one that verified does not settle: %+v %v", name, r, err)
		}
		s.mu.Lock()
		clear(s.verified)
		s.order = nil
		s.mu.Unlock()
	}
	// If the first cannot be connected to, no facilitator has heard of it.
	gone := first.config("gone")
	gone.URL = config.Secret(closedPort(t))
	s = newTestSet(t, gone, second.config("second"))
	s.list[0].known.Store(&support{networks: map[string]string{"n:1": ""}})
	if r, err := s.Settle(ctx, question); err != nil || !r.OK {
		t.Errorf("after one that is not there: %+v %v", r, err)
	}
	if r, err := s.Settle(ctx, &Question{ID: "p", Network: "n:2"}); err == nil || r.Unclear {
		t.Errorf("an unsupported network: %+v %v", r, err)
	}
	if _, err := s.Verify(ctx, &Question{ID: "p", Network: "s:1", FeePayer: "stranger"}); err == nil ||
		!strings.Contains(err.Error(), "account") {
		t.Errorf("a fee payer of no facilitator: %v", err)
	}
	if r, err := s.Verify(ctx, &Question{ID: "p", Network: "s:1", FeePayer: "payer"}); err != nil || !r.OK {
		t.Errorf("a fee payer that is announced: %+v %v", r, err)
	}
}

func hijacked(w http.ResponseWriter, text string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, text)
	_ = conn.Close()
}

func flood(w http.ResponseWriter, _ *http.Request) {
	block := strings.Repeat(" ", 64<<10)
	for range 1 << 14 { // 1 GB
		if _, err := io.WriteString(w, block); err != nil {
			return
		}
	}
}

func trickle(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		_, _ = io.WriteString(w, " ")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(20 * time.Millisecond)
	}
}

// No more questions are under way than the operator allows, and those that wait do
// not wait for ever.
func TestQuestionsUnderWayAreBounded(t *testing.T) {
	f := newFake(t)
	var now, most atomic.Int64
	f.says(func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		time.Sleep(10 * time.Millisecond)
		_, _ = io.WriteString(w, `{"isValid":true}`)
	})
	s := newTestSet(t, f.config("f"))
	done := make(chan error)
	for range 20 {
		go func() {
			_, err := s.Verify(context.Background(), question)
			done <- err
		}()
	}
	for range 20 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if most.Load() > 2 {
		t.Errorf("%d questions at once, of 2 that are allowed", most.Load())
	}
	f.says(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	began := time.Now()
	for range 8 {
		go func() {
			_, err := s.Verify(context.Background(), question)
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err == nil {
			t.Error("a facilitator that hangs has answered")
		}
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("after a facilitator that hangs it took %v", took)
	}
}

// pemOf is a key as PEM.
func pemOf(t *testing.T, kind string, der []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// Credentials are sent as their service wants them: a token that is signed for this one
// request, or the one in the config.
func TestCredentialsAreShown(t *testing.T) {
	f := newFake(t)
	var header atomic.Pointer[http.Header]
	f.says(func(w http.ResponseWriter, r *http.Request) {
		header.Store(&r.Header)
		_, _ = io.WriteString(w, `{"isValid":true}`)
	})
	_, own, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err1 := x509.MarshalECPrivateKey(curve)
	pkcs8, err8 := x509.MarshalPKCS8PrivateKey(curve)
	for name, c := range map[string]struct {
		secret string
		public any
		method string
	}{
		"Ed25519": {base64.StdEncoding.EncodeToString(own), own.Public(), "EdDSA"},
		"PKCS#8":  {pemOf(t, "PRIVATE KEY", pkcs8, err8), curve.Public(), "ES256"},
		"SEC 1":   {pemOf(t, "EC PRIVATE KEY", sec1, err1), curve.Public(), "ES256"},
	} {
		with := f.config(name)
		with.Auth, with.KeyID, with.Secret = "cdp", "key-1", config.Secret(c.secret)
		if _, err := newTestSet(t, with).Verify(context.Background(), question); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := strings.TrimPrefix(header.Load().Get("Authorization"), "Bearer ")
		token, err := jwt.Parse(text, func(*jwt.Token) (any, error) { return c.public, nil },
			jwt.WithValidMethods([]string{c.method}), jwt.WithIssuer("cdp"), jwt.WithSubject("key-1"),
			jwt.WithExpirationRequired(), jwt.WithIssuedAt())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := "[POST " + strings.TrimPrefix(f.URL, "http://") + "/base/verify]"
		nonce, _ := token.Header["nonce"].(string)
		if got := fmt.Sprint(token.Claims.(jwt.MapClaims)["uris"]); got != want || token.Header["kid"] != "key-1" ||
			len(nonce) != 32 || token.Header["typ"] != "JWT" {
			t.Errorf("%s: %v for %s", name, token.Header, got)
		}
	}
	with := f.config("bearer")
	with.Auth, with.Token = "bearer", "open sesame"
	if _, err := newTestSet(t, with).Verify(context.Background(), question); err != nil ||
		header.Load().Get("Authorization") != "Bearer open sesame" {
		t.Errorf("bearer: %v %v", err, header.Load())
	}
	if _, err := newTestSet(t, f.config("none")).Verify(context.Background(), question); err != nil ||
		header.Load().Get("Authorization") != "" || header.Load().Get("Content-Type") != "application/json" {
		t.Errorf("none: %v %v", err, header.Load())
	}
}

// A key that cannot sign is found when the config is taken, and its error does not
// hold it.
func TestBadKeysAreRefused(t *testing.T) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(p384)
	another := make([]byte, 64)
	another[63] = 1
	for name, secret := range map[string]string{
		"nothing": "", "words": "some plain words", "half": base64.StdEncoding.EncodeToString(make([]byte, 32)),
		"two halves that do not fit": base64.StdEncoding.EncodeToString(another),
		"P-384":                      pemOf(t, "PRIVATE KEY", der, err),
		"empty PEM":                  "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n",
	} {
		c := config.X402Facilitator{Name: "f", Auth: "cdp", KeyID: "k", Secret: config.Secret(secret)}
		_, err := NewSet(&config.X402{Facilitators: []config.X402Facilitator{c}}, nil)
		if err == nil || len(secret) > 0 && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Fee payers that rotate are offered soon, and a reload keeps unchanged facilitators.
func TestReloadKeepsFacilitators(t *testing.T) {
	f := newFake(t)
	one, two := f.config("one"), f.config("two")
	s := newTestSet(t, one)
	s.Start()
	for end := time.Now().Add(time.Minute); s.Offer("s:1") != "payer"; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no facilitator pays fees: %+v", s.States())
		}
	}
	next, err := NewSet(&config.X402{Facilitators: []config.X402Facilitator{two, one}}, s)
	if err != nil {
		t.Fatal(err)
	}
	next.Start()
	s.Close(next)
	if next.list[1] != s.list[0] || next.list[0] == s.list[0] || !takes(t, next, "s:1", "payer") {
		t.Error("the unchanged facilitator was not kept")
	}
	next.Close(nil)
	if list := next.States(); len(list) != 2 || !list[1].Known || list[1].Err != "" {
		t.Errorf("the states are %+v", list)
	}
	gone := f.config("gone")
	gone.URL = config.Secret(closedPort(t))
	s = newTestSet(t, gone)
	for name, err := range s.Ask(context.Background(), "n:1") {
		if name != "gone" || err == nil || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s says %v", name, err)
		}
	}
	if list := s.States(); list[0].Known || list[0].Err == "" {
		t.Errorf("the states are %+v", list)
	}
}

func takes(t *testing.T, s *Set, network, account string) bool {
	t.Helper()
	yes, err := s.Takes(context.Background(), network, account)
	if err != nil {
		t.Fatal(err)
	}
	return yes
}
