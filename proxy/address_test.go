package proxy

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"farebox/proxy/listen"
)

func prefixes(list ...string) (out []netip.Prefix) {
	for _, p := range list {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// fronted serves each request its own address.
func fronted(t *testing.T, f *listen.Front, addr string) net.Addr {
	t.Helper()
	s := NewServer(func(ctx *fasthttp.RequestCtx) { fmt.Fprintf(ctx, "<%v>", Address(ctx)) },
		ServerOptions{MaxBody: 1 << 10})
	ln, err := ListenWith(addr, ListenOptions{Front: f})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Shutdown() })
	return ln.Addr()
}

// told returns the address that a request counts in; empty when it was refused.
func told(t *testing.T, to net.Addr, wire string) string {
	t.Helper()
	c, err := net.Dial(to.Network(), to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, wire)
	b, _ := io.ReadAll(c)
	_, text, found := strings.Cut(string(b), "<")
	if !found || !strings.HasPrefix(string(b), "HTTP/1.1 200") {
		return ""
	}
	return strings.TrimSuffix(text, ">")
}

func asking(fields string) string {
	return "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + fields + "\r\n"
}

// Only trusted proxies name the client of a request, in every form of the header.
func TestOnlyTrustedProxiesSayWhoAClientIs(t *testing.T) {
	direct := fronted(t, nil, "127.0.0.1:0")
	trusted := fronted(t, &listen.Front{Trusted: prefixes("127.0.0.0/8", "10.0.0.0/8", "2001:db8:1::/48")},
		"127.0.0.1:0")
	other := fronted(t, &listen.Front{Trusted: prefixes("10.0.0.0/8")}, "127.0.0.1:0")
	for _, c := range []struct {
		to           net.Addr
		fields, want string
	}{
		{direct, "", "127.0.0.1"},
		{direct, "X-Forwarded-For: 192.0.2.1\r\n", "127.0.0.1"},
		{other, "X-Forwarded-For: 192.0.2.1\r\n", "127.0.0.1"},
		{trusted, "", "127.0.0.1"},
		{trusted, "X-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1"},
		{trusted, "x-forwarded-for:192.0.2.1:5555\r\n", "192.0.2.1"},
		// The client wrote the entries further left.
		{trusted, "X-Forwarded-For: 192.0.2.66, 192.0.2.1\r\n", "192.0.2.1"},
		{trusted, "X-Forwarded-For: 192.0.2.66\r\nX-Forwarded-For: 192.0.2.1, 10.1.1.1\r\n", "192.0.2.1"},
		{trusted, "X-Forwarded-For: 192.0.2.66, 10.9.9.9,192.0.2.1 , 10.1.1.1,127.0.0.9\r\n", "192.0.2.1"},
		{trusted, "X-Forwarded-For: 10.2.2.2, 10.1.1.1\r\n", "10.2.2.2"},
		{trusted, "X-Forwarded-For: somebody\r\n", "127.0.0.1"},
		{trusted, "X-Forwarded-For: 192.0.2.1, unknown, 10.1.1.1\r\n", "10.1.1.1"},
		{trusted, "X-Forwarded-For: \r\n", "127.0.0.1"},
		{trusted, "X-Forwarded-For: ,,,\r\n", "127.0.0.1"},
		{trusted, "X-Forwarded-For: 2001:db8:7:8:9::1\r\n", "2001:db8:7:8::"},
		{trusted, "X-Forwarded-For: [2001:db8:7:8:9::1]:99, 2001:db8:1::5\r\n", "2001:db8:7:8::"},
		{trusted, "X-Forwarded-For: ::ffff:192.0.2.1\r\n", "192.0.2.1"},
	} {
		if got := told(t, c.to, asking(c.fields)); got != c.want {
			t.Errorf("%q: %q, want %q", c.fields, got, c.want)
		}
	}
	dir := t.TempDir()
	for _, unix := range []bool{false, true} {
		to := fronted(t, &listen.Front{Unix: unix}, "unix:"+filepath.Join(dir, fmt.Sprint(unix)))
		want := map[bool]string{false: "invalid IP", true: "192.0.2.1"}[unix]
		if got := told(t, to, asking("X-Forwarded-For: 192.0.2.1\r\n")); got != want {
			t.Errorf("a Unix socket, trusted %v: %q", unix, got)
		}
	}
}

// preface is a PROXY header.
func preface(command, family byte, body ...byte) string {
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), command, family)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	return string(append(b, body...))
}

// A trusted proxy's PROXY header names the connection's client. Without one, or from any
// other peer, there is no request.
func TestPROXYHeaders(t *testing.T) {
	four := []byte{192, 0, 2, 7, 127, 0, 0, 1, 4, 210, 0, 80}
	six := append(append(netip.MustParseAddr("2001:db8:1:2:3::4").AsSlice(), netip.MustParseAddr("::1").AsSlice()...),
		4, 210, 0, 80)
	trusted := fronted(t, &listen.Front{Trusted: prefixes("127.0.0.0/8", "192.0.2.128/25"), ProxyProtocol: true},
		"127.0.0.1:0")
	untrusted := fronted(t, &listen.Front{Trusted: prefixes("10.0.0.0/8"), ProxyProtocol: true}, "127.0.0.1:0")
	f := func(name string, to net.Addr, begin, fields, want string) {
		t.Helper()
		if got := told(t, to, begin+asking(fields)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	f("IPv4", trusted, preface(0x21, 0x11, four...), "", "192.0.2.7")
	f("IPv6", trusted, preface(0x21, 0x21, six...), "", "2001:db8:1:2::")
	f("with extensions", trusted, preface(0x21, 0x11, append(four, make([]byte, 700)...)...), "", "192.0.2.7")
	f("a health check", trusted, preface(0x20, 0x00), "", "127.0.0.1")
	f("unknown", trusted, preface(0x21, 0x00), "", "127.0.0.1")
	f("a client that forwards for itself", trusted, preface(0x21, 0x11, four...), "X-Forwarded-For: 1.1.1.1\r\n",
		"192.0.2.7")
	f("a second proxy", trusted, preface(0x21, 0x11, append([]byte{192, 0, 2, 200}, four[4:]...)...),
		"X-Forwarded-For: 1.1.1.1\r\n", "1.1.1.1")
	f("no header", trusted, "", "", "")
	f("an untrusted peer without a header", untrusted, "", "", "127.0.0.1")
	f("an untrusted peer with one", untrusted, preface(0x21, 0x11, four...), "", "")
	f("short", trusted, preface(0x21, 0x11, four[:11]...), "", "")
	f("datagrams", trusted, preface(0x21, 0x12, four...), "", "")
	f("version 1", trusted, "PROXY TCP4 192.0.2.7 127.0.0.1 1 2\r\n", "", "")
	f("version 3", trusted, preface(0x31, 0x11, four...), "", "")
	f("huge", trusted, preface(0x21, 0x11, make([]byte, 2<<10+1)...), "", "")
}
