package routes

import (
	"net/netip"
	"testing"
	"time"

	"farebox/proxy"
)

// "A script with many addresses filled the memory."
func TestAddressesAreCountedInBoundedMemory(t *testing.T) {
	var p PerAddress
	now := time.Unix(1_795_000_000, 0)
	from := func(ip string) netip.Addr { return proxy.Counted(netip.MustParseAddr(ip).Unmap()) }
	take := func(ip string) time.Duration { return p.Take(from(ip), 2, now) }
	for i, want := range []bool{true, true, false, false} {
		if wait := take("192.0.2.1"); (wait == 0) != want {
			t.Errorf("try %d waits %s", i, wait)
		}
	}
	if take("192.0.2.2") != 0 || take("::ffff:192.0.2.1") == 0 {
		t.Error("addresses are mixed up")
	}
	if take("2001:db8::1") != 0 || take("2001:db8::2") != 0 || take("2001:db8::3") == 0 {
		t.Error("one customer's /64 is not counted together")
	}
	if p.Take(from("192.0.2.1"), 2, now.Add(30*time.Second)) != 0 {
		t.Error("half a minute later one of two a minute is refused")
	}
	if p.Take(from("192.0.2.1"), 0, now) != 0 {
		t.Error("without a limit it is refused")
	}
	for i := range 10 {
		if p.Take(netip.Addr{}, 2, now) != 0 {
			t.Errorf("request %d of the proxy at a Unix socket is refused, for any client", i)
		}
	}
	for i := range 3 * maxCounted {
		p.Take(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 2, now)
	}
	if n := len(p.counts.at); n > maxCounted {
		t.Errorf("%d addresses are kept", n)
	}
}
