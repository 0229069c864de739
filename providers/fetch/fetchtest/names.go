// Package fetchtest helps tests of fetching: names that resolve to a test's addresses, and
// to others the next time, hostile servers, and one that must not be reached. Out of scope:
// anything that is not a test.
package fetchtest

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// Names is a DNS server that answers with one address for each name, changing
// ones in turn, and a resolver that asks only it.
func Names(t testing.TB, list map[string][]string) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pc.Close() })
	turns := map[string]int{}
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			if out := answer(b[:n], list, turns); out != nil {
				_, _ = pc.WriteTo(out, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

func answer(q []byte, list map[string][]string, turns map[string]int) []byte {
	if len(q) < 17 {
		return nil
	}
	name, at := "", 12
	for at < len(q) && q[at] != 0 {
		name += string(q[at+1:at+1+int(q[at])]) + "."
		at += 1 + int(q[at])
	}
	kind := binary.BigEndian.Uint16(q[at+1:])
	question := q[12 : at+5]
	var ip []byte
	if a := list[strings.ToLower(name)]; len(a) > 0 {
		addr := netip.MustParseAddr(a[turns[name]%len(a)])
		if kind == 1 && addr.Is4() || kind == 28 && addr.Is6() {
			ip = addr.AsSlice()
			turns[name]++
		}
	}
	out := append([]byte(nil), q[:2]...)
	out = append(out, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
	out = append(out, question...)
	if ip != nil {
		out[7] = 1
		out = append(out, 0xc0, 12, byte(kind>>8), byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(ip)))
		out = append(out, ip...)
	}
	return out
}
