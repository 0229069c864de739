package routes

import (
	"net"
	"net/netip"

	"github.com/valyala/fasthttp"
)

// clientAddr is the address that limits by address count: the client's, of IPv6
// its /64, since one customer has all of that. What comes over a Unix socket has
// none: the zero Addr.
func clientAddr(ctx *fasthttp.RequestCtx) netip.Addr { return countedAddr(ctx.RemoteAddr()) }

func countedAddr(from net.Addr) netip.Addr {
	tcp, ok := from.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr := tcp.AddrPort().Addr().Unmap()
	if addr.Is6() {
		p, _ := addr.WithZone("").Prefix(64)
		addr = p.Addr()
	}
	return addr
}
