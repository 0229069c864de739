package listen

import (
	"bytes"
	"net"
	"net/netip"
)

// Front describes the trusted proxies between clients and us: only theirs are believed about the
// addresses of clients.
type Front struct {
	Trusted []netip.Prefix
	// Unix trusts clients that connect through a Unix socket.
	Unix bool
	// ProxyProtocol is spoken by all trusted proxies: each of their connections
	// begins with a PROXY header of version 2.
	ProxyProtocol bool
}

// Trusts says whether a peer's word is taken; a peer without an address came
// through a Unix socket.
func (f *Front) Trusts(peer netip.Addr) bool {
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

// AddrOf is the address of a connection's end, not valid for Unix sockets.
func AddrOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// Behind is the first address on the way from a trusted peer to the client that
// is not trusted itself, or the last that can be read.
func (f *Front) Behind(at netip.Addr, lines [][]byte) netip.Addr {
	for i := len(lines) - 1; i >= 0; i-- {
		for line := lines[i]; len(line) > 0; {
			comma := bytes.LastIndexByte(line, ',')
			next, ok := parseHop(bytes.TrimSpace(line[comma+1:]))
			if !ok {
				return at
			}
			if at = next; !f.Trusts(at) {
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
