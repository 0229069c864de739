package fetch

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"

	"code.dny.dev/ssrf"
)

// denied are addresses that look public and are not: Azure's metadata and DNS
// service (WireServer) answers on one inside every of its machines.
var denied = []netip.Prefix{netip.MustParsePrefix("168.63.129.16/32")}

// refused is the address of the operators' listener of this process.
var refused atomic.Pointer[netip.AddrPort]

// Refuse blocks an address of this host for all fetches: that of the operators' listener.
func Refuse(at netip.AddrPort) { refused.Store(&at) }

// guard decides on every address before it is dialled.
type guard struct {
	allow []netip.Prefix
	deny  []netip.Prefix
	rules *ssrf.Guardian
	own   func() ([]net.Addr, error) // the host's addresses
}

func newGuard(allow, deny []netip.Prefix, ports ...uint16) *guard {
	g := &guard{deny: append(append([]netip.Prefix(nil), denied...), deny...), rules: ssrf.New(),
		own: net.InterfaceAddrs}
	if len(ports) > 0 {
		g.rules = ssrf.New(ssrf.WithPorts(ports...))
	}
	for _, p := range allow {
		g.allow = append(g.allow, p.Masked())
	}
	return g
}

// control is net.Dialer.ControlContext. address is numeric.
func (g *guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return &Error{Reason: Forbidden}
	}
	ip := at.Addr()
	if refusal := refused.Load(); refusal != nil && refusal.Port() == at.Port() && (ip.Unmap() == refusal.Addr().Unmap() || ip.Unmap().IsLoopback() ||
		ip.IsUnspecified() || g.isOwn(ip)) {
		return &Error{Reason: Forbidden}
	}
	if within(g.allow, ip) {
		return nil // any port
	}
	if within(g.deny, ip) || within(g.deny, ip.Unmap()) || g.rules.Safe(network, address, nil) != nil || g.isOwn(ip) {
		return &Error{Reason: Forbidden}
	}
	return nil
}

// public is the guard of a host that allows nothing beyond the public internet.
var public = ssrf.New()

// Public says that an address written in a link belongs to the public internet.
// It does not check this host's own addresses, as a guard does.
func Public(ip netip.Addr) bool {
	network := "tcp6"
	if ip = ip.Unmap(); ip.Is4() {
		network = "tcp4"
	}
	return !within(denied, ip) && public.Safe(network, netip.AddrPortFrom(ip, 443).String(), nil) == nil
}

func within(list []netip.Prefix, ip netip.Addr) bool {
	for _, p := range list {
		if p.Contains(ip.WithZone("")) {
			return true
		}
	}
	return false
}

// isOwn says that the address is one of this host's: its public addresses lead to services
// that trust the local network. The list is read anew each time, since addresses change;
// when it cannot be read, nothing is allowed.
func (g *guard) isOwn(ip netip.Addr) bool {
	list, err := g.own()
	if err != nil {
		return true
	}
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Unmap() == ip.Unmap() {
			return true
		}
	}
	return false
}
