package listen

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
)

// The PROXY protocol, version 2 (haproxy.org/download/3.0/doc/proxy-protocol.txt):
// a header at the begin of a connection, before TLS, that says whose it is.
const (
	prefaceSign  = "\r\n\r\n\x00\r\nQUIT\n"
	prefaceFixed = len(prefaceSign) + 4
	// maxPreface bounds the rest: addresses and the extensions of the proxy, which are passed
	// over.
	maxPreface = 2 << 10
)

// OwnPreface is the header of a trusted peer that speaks for itself (LOCAL).
const OwnPreface = prefaceSign + "\x20\x00\x00\x00"

var errPreface = errors.New("the connection does not begin with a PROXY header of version 2 (server.proxy_protocol)")

// Preface takes the header off a trusted proxy's connection. from is nil
// when it speaks for itself, as in a health check.
func Preface(r io.Reader) (from net.Addr, err error) {
	var b [prefaceFixed + maxPreface]byte
	if _, err := io.ReadFull(r, b[:prefaceFixed]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(b[prefaceFixed-2:]))
	if string(b[:len(prefaceSign)]) != prefaceSign || n > maxPreface {
		return nil, errPreface
	}
	if _, err := io.ReadFull(r, b[prefaceFixed:prefaceFixed+n]); err != nil {
		return nil, err
	}
	body := b[prefaceFixed : prefaceFixed+n]
	switch command, family := b[len(prefaceSign)], b[len(prefaceSign)+1]; {
	case command == 0x20, command == 0x21 && family == 0x00: // LOCAL, or the proxy does not know
		return nil, nil
	case command == 0x21 && family == 0x11 && n >= 12: // TCP over IPv4
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte(body)),
			binary.BigEndian.Uint16(body[8:]))), nil
	case command == 0x21 && family == 0x21 && n >= 36: // and IPv6
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom16([16]byte(body)),
			binary.BigEndian.Uint16(body[32:]))), nil
	}
	return nil, errPreface
}
