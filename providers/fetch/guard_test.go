package fetch

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// Every address that is not the public internet is refused at the dialer,
// whatever port, and a few public ones are let through.
func TestTheGuardRefusesInternalAddresses(t *testing.T) {
	t.Parallel()
	g := newGuard(nil, []netip.Prefix{netip.MustParsePrefix("8.8.4.0/24")})
	g.own = func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP("9.9.9.9"), Mask: net.CIDRMask(24, 32)},
			&net.IPNet{IP: net.ParseIP("2a00:1450::5"), Mask: net.CIDRMask(64, 128)}}, nil
	}
	f := func(address string, safe bool) {
		t.Helper()
		network := "tcp4"
		if strings.HasPrefix(address, "[") {
			network = "tcp6"
		}
		err := g.control(context.Background(), network, address, nil)
		if (err == nil) != safe {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, a := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.1.2.3",
		"127.255.255.255",
		"169.254.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1",
		"192.31.196.1",
		"192.52.193.1", "192.88.99.1", "192.168.0.1", "192.175.48.1", "198.18.0.1", "198.19.255.255", "198.51.100.1",
		"203.0.113.1",
		"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16", "9.9.9.9", "8.8.4.4",
	} {
		f(a+":80", false)
		f(a+":443", false)
		f("[::ffff:"+a+"]:80", false)         // mapped
		f("[64:ff9b::"+a+"]:443", false)      // NAT64
		f("[64:ff9b:1::"+a+"]:443", false)    // local NAT64
		f("[::"+a+"]:80", false)              // compatible
		f("[2002:"+hex(a)+"::1]:80", false)   // 6to4
		f("[2001::"+hex(a)+"]:80", false)     // Teredo's range
		f("[2001:0:"+hex(a)+"::1]:80", false) // Teredo's server
		f("[fe80::1%lo]:80", false)           // zone
		f("[::ffff:0:"+a+"]:80", false)       // translated
		f("[fec0::"+hex(a)+"]:80", false)     // site-local
	}
	for _, a := range []string{
		"::", "::1", "::2", "fc00::1", "fd00:ec2::254", "fd12:3456::1", "fe80::1", "febf::1", "ff02::1", "100::1",
		"2001:db8::1", "2001::1",
		"2002::1", "3fff::1", "5f00::1", "2620:4f:8000::1", "64:ff9b::808:808", "::ffff:8.8.8.8", "2a00:1450::5",
		"4000::1",
	} {
		f("["+a+"]:443", false)
	}
	for _, a := range []string{"1.1.1.1", "8.8.8.8", "9.9.9.10", "11.0.0.1", "172.32.0.1", "192.169.0.1",
		"168.63.129.17"} {
		f(a+":80", true)
		f(a+":443", true)
		f(a+":22", false)
		f(a+":8080", false)
		f(a+":0", false)
	}
	f("[2606:4700:4700::1111]:443", true)
	f("[2606:4700:4700::1111]:6379", false)
	for _, bad := range []string{"", "localhost:80", "1.1.1.1", "127.1:80", "[::1", "0x7f000001:80"} {
		f(bad, false)
	}
	if err := g.control(context.Background(), "udp4", "1.1.1.1:80", nil); err == nil {
		t.Error("udp")
	}
	g.own = func() ([]net.Addr, error) { return nil, errors.New("unknown") }
	f("1.1.1.1:80", false)
}

// hex writes an IPv4 address as two groups of an IPv6 one.
func hex(a string) string {
	b := netip.MustParseAddr(a).As4()
	const digits = "0123456789abcdef"
	out := make([]byte, 0, 9)
	for i, c := range b {
		if i == 2 {
			out = append(out, ':')
		}
		out = append(out, digits[c>>4], digits[c&15])
	}
	return string(out)
}

// An operator may open a range, at any port; nothing else opens with it.
func TestTheGuardOpensAllowedAddresses(t *testing.T) {
	t.Parallel()
	g := newGuard([]netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/64")}, nil)
	for address, safe := range map[string]bool{
		"10.1.2.3:9000": true, "10.2.0.1:80": false, "[fd00::5]:8080": true, "[fd00:1::5]:8080": false,
		"[::ffff:10.1.2.3]:80": false, "127.0.0.1:9000": false,
	} {
		network := "tcp4"
		if address[0] == '[' {
			network = "tcp6"
		}
		if err := g.control(context.Background(), network, address, nil); (err == nil) != safe {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// "An operator allowed 127.0.0.0/8 for pictures, and a customer's link reached the operators' API."
func TestNoLinkLeadsToTheOperatorsListener(t *testing.T) {
	before := refused.Load()
	t.Cleanup(func() { refused.Store(before) })
	Refuse(netip.MustParseAddrPort("10.1.2.3:9465"))
	g := newGuard([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}, nil)
	g.own = func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP("10.9.9.9"), Mask: net.CIDRMask(8, 32)}}, nil
	}
	for address, allowed := range map[string]bool{"10.1.2.3:9465": false, "127.0.0.1:9465": false, "127.9.9.9:9465": false, "0.0.0.0:9465": false,
		"10.9.9.9:9465": false, "10.1.2.3:80": true, "127.0.0.1:80": true, "10.8.8.8:9465": true} {
		if err := g.control(context.Background(), "tcp4", address, nil); (err == nil) != allowed {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"[::1]:9465", "[::ffff:10.1.2.3]:9465", "[::]:9465"} {
		if g.control(context.Background(), "tcp6", address, nil) == nil {
			t.Errorf("%s is reached", address)
		}
	}
}
