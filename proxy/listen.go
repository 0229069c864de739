package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/proxy/listen"
)

// Listen opens host:port or unix:/path, with TLS when cert and key are given.
// A socket file that a crashed process left behind is replaced; one that is
// served is not.
func Listen(addr, cert, key string) (net.Listener, error) {
	return ListenWith(addr, ListenOptions{Cert: cert, Key: key})
}

// ListenOptions are for the connections of clients.
type ListenOptions struct {
	Cert, Key string            // PEM files; empty: no TLS
	Front     *listen.Front     // proxies in front; nil: none
	Unsent    int               // bytes that wait in the kernel for a client that does not read; 0: its default
	Inherited *listen.Inherited // in place of a socket of its own; nil: none
	Stall     time.Duration     // how long they may wait; 0: as long as the kernel keeps the connection
}

// ListenWith is Listen with more options. Its errors say what to do.
func ListenWith(addr string, o ListenOptions) (net.Listener, error) {
	ln, err := open(addr, o)
	if err == nil {
		return ln, nil
	}
	hint := "write the address as host:port or unix:/path"
	if errors.Is(err, syscall.EADDRINUSE) {
		hint = "is another farebox running? choose another address with --listen"
	}
	return nil, fmt.Errorf("cannot listen on %s: %w; %s", addr, err, hint)
}

func open(addr string, o ListenOptions) (net.Listener, error) {
	cert, key := o.Cert, o.Key
	var files *listen.Certificate
	if cert != "" || key != "" {
		var err error
		if files, err = listen.LoadCertificate(cert, key); err != nil {
			return nil, err
		}
	}
	var ln net.Listener
	if o.Inherited != nil {
		ln = o.Inherited.Listener
	} else if l, err := listen.Socket(addr); err == nil {
		ln = l
	} else {
		return nil, err
	}
	if files == nil {
		return clientListener{Listener: ln, o: o}, nil
	}
	return clientListener{ln, &tls.Config{
		GetCertificate: files.Get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}, files, o}, nil
}

// clientListener gives ClientConns, with TLS on them where there is a config.
type clientListener struct {
	net.Listener
	tls  *tls.Config
	cert *listen.Certificate // nil: no TLS
	o    ListenOptions
}

func (l clientListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	front := l.o.Front
	client := &ClientConn{Conn: c, front: front}
	client.preface = front != nil && front.ProxyProtocol && front.Trusts(listen.AddrOf(c.RemoteAddr()))
	if l.o.Unsent > 0 || l.o.Stall > 0 {
		listen.BoundBuffers(rawFD(c), l.o.Unsent, l.o.Stall)
	}
	if l.tls == nil {
		return client, nil
	}
	return &tlsClient{Conn: tls.Server(client, l.tls)}, nil
}

// Refresher is a listener whose certificate can be read again.
type Refresher interface{ Refresh() error }

// Refresh reads the certificate again where its files have changed, for a
// reload of the config.
func (ln clientListener) Refresh() error {
	if ln.cert == nil {
		return nil
	}
	return ln.cert.Refresh()
}

// Address is whose limits by address a request counts in: of IPv6 the /64, which
// one customer has to himself. It is not valid without an address, as on a Unix
// socket. X-Forwarded-For counts as far as trusted proxies have written it: from
// the right, past those of them that it names.
func Address(ctx *fasthttp.RequestCtx) netip.Addr {
	at := listen.AddrOf(ctx.RemoteAddr())
	if front := ClientOf(ctx.Conn()).front; front.Trusts(at) {
		at = front.Behind(at, ctx.Request.Header.PeekAll("X-Forwarded-For"))
	}
	return Counted(at)
}

// FromFront says that a trusted proxy passed a request on.
func FromFront(ctx *fasthttp.RequestCtx) bool {
	return ClientOf(ctx.Conn()).front.Trusts(listen.AddrOf(ctx.RemoteAddr()))
}

// Counted is the prefix that counts for an address: of IPv6 its /64.
func Counted(at netip.Addr) netip.Addr {
	if at.Is6() {
		p, _ := at.Prefix(64)
		at = p.Addr()
	}
	return at
}
