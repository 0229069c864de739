package proxy

import (
	"net"
	"net/netip"

	"github.com/valyala/fasthttp"
)

// Address is whose limits by address a request counts in; not valid where there
// is none, as on a Unix socket. One customer has a whole /64 of IPv6.
func Address(ctx *fasthttp.RequestCtx) netip.Addr {
	tcp, ok := ctx.RemoteAddr().(*net.TCPAddr)
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
