package security

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

const tokenAsk = "GET /api/v1" + rig.Web3Path + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"

// walletStatus asks for a wallet's token from a local address; begin precedes the request.
func walletStatus(g *rig.Gateway, from, begin, fields string) string {
	g.T.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", g.Addr)
	if err != nil {
		servers.Elsewhere(g.T, "address "+from+" to connect from")
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(rig.CallLimit))
	_, _ = io.WriteString(c, begin+tokenAsk+fields+"\r\n")
	answer, _ := io.ReadAll(c)
	_, status, _ := strings.Cut(string(answer), " ")
	return strings.SplitN(status+" ", " ", 2)[0]
}

// Behind a proxy each client has limits of its own, by the proxy's header; headers of
// others change no client's limits.
func TestLimitsByAddressBehindAProxy(t *testing.T) {
	t.Parallel()
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, "http://127.0.0.1:9")+
		"web3_keys: { per_ip: 3 }\nserver: { trusted_proxies: [127.0.0.2] }\n")
	ok, full := fmt.Sprint(http.StatusOK), fmt.Sprint(http.StatusTooManyRequests)
	f := func(name, from, fields, want string) {
		t.Helper()
		if got := walletStatus(g, from, "", fields); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for i := range 3 {
		f("one client", "127.0.0.2", "X-Forwarded-For: 192.0.2.1\r\n", ok)
		f("another", "127.0.0.2", fmt.Sprintf("X-Forwarded-For: 203.0.113.%d, 192.0.2.2\r\n", i), ok)
		f("a stranger's word", "127.0.0.1", fmt.Sprintf("X-Forwarded-For: 192.0.2.%d\r\n", 10+i), ok)
	}
	f("one client", "127.0.0.2", "X-Forwarded-For: 192.0.2.1\r\n", full)
	f("another, who lies", "127.0.0.2", "X-Forwarded-For: 203.0.113.77, 192.0.2.2\r\n", full)
	f("a stranger's word", "127.0.0.1", "X-Forwarded-For: 192.0.2.99\r\n", full)
	f("a third", "127.0.0.2", "X-Forwarded-For: 192.0.2.3\r\n", ok)
}

func TestLimitsByAddressWithThePROXYProtocol(t *testing.T) {
	t.Parallel()
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, "http://127.0.0.1:9")+
		"web3_keys: { per_ip: 2 }\nserver: { trusted_proxies: [127.0.0.2], proxy_protocol: true }\n")
	client := func(last byte) string {
		return "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + string([]byte{192, 0, 2, last, 127, 0, 0, 1, 1, 2, 3, 4})
	}
	for _, c := range []struct{ name, from, begin, want string }{
		{"one client", "127.0.0.2", client(1), "200"}, {"one client", "127.0.0.2", client(1), "200"},
		{"one client", "127.0.0.2", client(1), "429"},
		{"another", "127.0.0.2", client(2), "200"},
		{"the proxy without a header", "127.0.0.2", "", "400"},
		{"a stranger with one", "127.0.0.1", client(3), "400"},
		{"a stranger", "127.0.0.1", "", "200"},
	} {
		if got := walletStatus(g, c.from, c.begin, ""); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
