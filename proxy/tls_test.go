package proxy

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// certificate writes a self-signed certificate for 127.0.0.1.
func certificate(t *testing.T) (cert, key string) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	kder, _ := x509.MarshalECPrivateKey(k)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "EC PRIVATE KEY", Bytes: kder}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// tlsUpstream is an upstream that serves with TLS.
func tlsUpstream(t *testing.T, cert, key string, serve func(c net.Conn, r *bufio.Reader, n int)) *upstream {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return newUpstream(t, func(raw net.Conn, _ *bufio.Reader, n int) {
		c := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}})
		defer c.Close()
		if c.Handshake() != nil || c.ConnectionState().NegotiatedProtocol != "http/1.1" {
			return
		}
		serve(c, bufio.NewReader(c), n)
	})
}

func TestUpstreamsOverTLS(t *testing.T) {
	cert, key := certificate(t)
	big := strings.Repeat("0123456789", 50000)
	u := tlsUpstream(t, cert, key, func(c net.Conn, r *bufio.Reader, n int) {
		for {
			_, body, err := readRequest(r)
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, sseHead+chunk(body)+"0\r\n\r\n")
		}
	})
	mk := func(ca string) *Endpoint {
		return endpoint(t, u.addr, func(o *EndpointOptions) { o.BaseURL, o.CAFile = "https://"+u.addr+"/v1", ca })
	}
	tg := mk(cert)
	g := newGateway(t, Options{}, ServerOptions{}, streaming(func() (*plan, Lens) {
		return &plan{endpoints: []*Endpoint{tg}, request: Request{Patches: []Patch{{0, 1, []byte("{!")}}}}, nil
	}))
	for _, body := range []string{"{}", "{" + big + "}"} {
		for range 3 {
			if _, got, err := g.ask(body); err != nil || got != "{!"+body[1:] {
				t.Fatalf("%v: %d bytes of %d", err, len(got), len(body)+1)
			}
			g.outcome()
			time.Sleep(10 * time.Millisecond) // session tickets have arrived by now
		}
	}
	if n := u.conns.Load(); n != 1 {
		t.Errorf("%d connections for 6 requests", n)
	}

	untrusted := mk("")
	g2 := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan {
		return &plan{endpoints: []*Endpoint{untrusted}}
	}, 100))
	if _, body, err := g2.ask("{}"); err != nil || body != "connect_failed" {
		t.Errorf("%q %v", body, err)
	}
	if r := g2.result(); r.Err != ErrCertificate {
		t.Errorf("%v", r.Err)
	}
	plain := endpoint(t, "x", func(o *EndpointOptions) {
		o.BaseURL, o.Connect = "https://"+newUpstream(t, answering("HTTP/1.1 400 x\r\n\r\n")).addr, 300*time.Millisecond
	})
	g3 := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan { return &plan{endpoints: []*Endpoint{plain}} },
		100))
	if _, body, err := g3.ask("{}"); err != nil || body != "connect_failed" && body != "connect_timeout" {
		t.Errorf("%q %v", body, err)
	}
}

// Clients over TLS get streams and are watched like others.
func TestClientsOverTLS(t *testing.T) {
	cert, key := certificate(t)
	noticed := make(chan time.Time, 1)
	u := newUpstream(t, talking(5*time.Millisecond, noticed))
	tg := endpoint(t, u.addr)
	p := New(Options{Tick: testTick, HalfCloseGone: true})
	defer p.Close()
	outcomes := make(chan Outcome, 1)
	s := NewServer(func(ctx *fasthttp.RequestCtx) {
		x := new(Exchange)
		p.Ask(ctx, x, 0, tg, &Request{Body: ctx.PostBody()})
		x.Relay(ctx, nil, func(o Outcome) { outcomes <- o })
	}, ServerOptions{MaxBody: 1 << 20})
	ln, err := Listen("127.0.0.1:0", cert, key)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(ln) }()
	defer s.Shutdown()
	roots, err := readCertificates(cert)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	resp, err := (&http.Client{Transport: tr}).Post("https://"+ln.Addr().String()+"/x", "", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || line != "data: x\n" {
		t.Fatalf("%q %v", line, err)
	}
	resp.Body.Close()
	tr.CloseIdleConnections()
	select {
	case <-noticed:
	case <-time.After(time.Minute):
		t.Fatal("the upstream was never closed")
	}
	if o := <-outcomes; o.Cause != ClientGone {
		t.Errorf("%+v", o)
	}
}

func TestListenersThatCannotBe(t *testing.T) {
	if _, err := Listen("127.0.0.1:0", "/none", "/none"); err == nil {
		t.Error("without a certificate")
	}
	if _, err := Listen("127.0.0.1:99999", "", ""); err == nil {
		t.Error("on port 99999")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("unix:"+file, "", ""); err == nil {
		t.Error("over a file")
	}
	if b, _ := os.ReadFile(file); string(b) != "precious" {
		t.Error("the file is gone")
	}
	cert, _ := certificate(t)
	if _, err := readCertificates(file); err == nil {
		t.Error("a CA file without certificates")
	}
	if _, err := readCertificates(cert); err != nil {
		t.Error(err)
	}
}

// A crash leaves the socket file behind; the next start takes it over, but
// never from a process that is still serving.
func TestUnixSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("unix:"+path, "", ""); err == nil {
		t.Fatal("took a socket that is being served")
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	first.Close()
	ln, err := Listen("unix:"+path, "", "")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		answering(jsonAnswer(strings.Repeat("x", 50000)))(c, bufio.NewReader(c), 0)
	}()
	defer ln.Close()
	tg := endpoint(t, "", func(o *EndpointOptions) { o.BaseURL = "unix:" + path })
	g := newGateway(t, Options{}, ServerOptions{}, streaming(func() (*plan, Lens) {
		return &plan{endpoints: []*Endpoint{tg}}, nil
	}))
	for _, body := range []string{"{}", strings.Repeat("y", 100000)} {
		if _, got, err := g.ask(body); err != nil || len(got) != 50000 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

// "The certificate was renewed, the log said that it was in effect, and clients
// saw the old one until it had run out."
func TestRenewedCertificateIsServed(t *testing.T) {
	cert, key := certificate(t)
	ln, err := Listen("127.0.0.1:0", cert, key)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = c.Read(make([]byte, 1)) }()
		}
	}()
	served := func() string {
		t.Helper()
		c, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return string(c.ConnectionState().PeerCertificates[0].Raw)
	}
	old := served()
	newCert, newKey := certificate(t)
	replace := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
		later := time.Now().Add(time.Second)
		if err := os.Chtimes(to, later, later); err != nil {
			t.Fatal(err)
		}
	}
	replace(newCert, cert)
	// In the middle of a renewal the two files do not match.
	if err := ln.(Refresher).Refresh(); err == nil || served() != old {
		t.Errorf("a certificate without its key: %v", err)
	}
	replace(newKey, key)
	if err := ln.(Refresher).Refresh(); err != nil || served() == old {
		t.Errorf("the old certificate is served on: %v", err)
	}
}
