package proxy

import (
	"bytes"
	"net"
	"net/netip"

	"github.com/valyala/fasthttp"
)

// Front is what stands between clients and us: the proxies whose word is taken
// on who a client is. Everybody else's is not.
type Front struct {
	Trusted []netip.Prefix
	// Unix trusts who connects through a Unix socket.
	Unix bool
	// ProxyProtocol is spoken by all trusted proxies: each of their connections
	// begins with a PROXY header of version 2.
	ProxyProtocol bool
}

// trusts says whether a peer's word is taken; a peer without an address came
// through a Unix socket.
func (f *Front) trusts(peer netip.Addr) bool {
	if f == nil {
		return false
	}
	if !peer.IsValid() {
		return f.Unix
	}
	for _, p := range f.Trusted {
		if p.Contains(peer) {
			return true
		}
	}
	return false
}

// addrOf is the address of a connection's end, not valid for Unix sockets.
func addrOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// Address is whose limits by address a request counts in: of IPv6 the /64, which
// one customer has to himself. It is not valid where there is none, as on a Unix
// socket. X-Forwarded-For counts as far as trusted proxies have written it: from
// the right, past those of them that it names.
func Address(ctx *fasthttp.RequestCtx) netip.Addr {
	at := addrOf(ctx.RemoteAddr())
	if front := ClientOf(ctx.Conn()).front; front.trusts(at) {
		at = front.behind(at, ctx.Request.Header.PeekAll("X-Forwarded-For"))
	}
	return Counted(at)
}

// Counted is what an address counts as: of IPv6 its /64.
func Counted(at netip.Addr) netip.Addr {
	if at.Is6() {
		p, _ := at.Prefix(64)
		at = p.Addr()
	}
	return at
}

// behind is the first address on the way from a trusted peer to the client that
// is not trusted itself, or the last that can be read.
func (f *Front) behind(at netip.Addr, lines [][]byte) netip.Addr {
	for i := len(lines) - 1; i >= 0; i-- {
		for line := lines[i]; len(line) > 0; {
			comma := bytes.LastIndexByte(line, ',')
			next, ok := parseHop(bytes.TrimSpace(line[comma+1:]))
			if !ok {
				return at
			}
			if at = next; !f.trusts(at) {
				return at
			}
			line = line[:max(comma, 0)]
		}
	}
	return at
}

// parseHop reads one entry; some proxies write the port, too.
func parseHop(text []byte) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(string(text)); err == nil {
		return a.Unmap().WithZone(""), true
	}
	a, err := netip.ParseAddrPort(string(text))
	return a.Addr().Unmap().WithZone(""), err == nil
}
