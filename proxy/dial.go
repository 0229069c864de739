package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"farebox/config/fair"
)

// dial connects and, for https, completes the handshake: a lazy one would run
// without a limit inside the first write. No proxy of the environment is asked.
func (t *Endpoint) dial(ctx context.Context) (*link, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, t.network, t.address)
	if err != nil {
		return nil, err
	}
	l := &link{Conn: conn, endpoint: t, fd: rawFD(conn), vec: true}
	if t.tls == nil {
		return l, nil
	}
	l.probe = &probe{Conn: conn, fd: l.fd}
	c := tls.Client(l.probe, t.tls)
	if err := c.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	l.Conn, l.vec = c, false
	return l, nil
}

// connect finds a connection for the exchange, an idle one or a new one.
func (x *Exchange) connect(t *Endpoint, nowNs int64, fresh bool) (Cause, error) {
	var owner fair.Owner
	if client := ClientOf(x.client); client != nil {
		owner = client.Owner
	}
	l, cause := t.take(nowNs, owner, fresh)
	if cause != None {
		return cause, errNoFreeConn
	}
	if l == nil {
		ctx, cancel := context.WithTimeout(context.Background(), t.o.Connect)
		defer cancel()
		if cause := x.attach(nil, cancel); cause != None {
			t.release()
			return cause, nil
		}
		var err error
		if l, err = t.dial(ctx); err != nil {
			t.release()
			if cause := x.why(); cause != None {
				return cause, nil
			}
			if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
				return ConnectTimeout, errConnectTimeout
			}
			return ConnectFailed, plainError(err)
		}
		if !l.quiet() {
			t.drop(l)
			return ConnectFailed, errUnasked
		}
		l.owner = owner
	}
	x.endpoint, x.link = t, l
	return x.attach(l, nil), nil
}

var (
	errNoFreeConn     = errors.New("all connections are in use (max_connections)")
	errConnectTimeout = errors.New("no connection in time (timeouts.connect)")
	// ErrName is a host name without an address.
	ErrName = errors.New("the host name cannot be resolved")
	// ErrCertificate is a certificate of no trusted authority.
	ErrCertificate = errors.New("the upstream's certificate is not trusted (ca_file)")
	// ErrHandshake is a server that does not speak TLS as we do.
	ErrHandshake = errors.New("the TLS handshake failed")
	errBroken    = errors.New("the connection broke")
	errUnasked   = errors.New("the upstream closed the connection, or spoke, before it was asked")
	errClosed    = errors.New("the upstream closed the connection")
)

// plainError describes an error without addresses, names or certificates: those of upstreams may
// not reach clients, and logs know the endpoint by its label.
func plainError(err error) error {
	var (
		number  syscall.Errno
		dns     *net.DNSError
		cert    *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		record  tls.RecordHeaderError
		alert   tls.AlertError
	)
	switch {
	case errors.As(err, &number):
		return number
	case errors.As(err, &dns):
		return ErrName
	case errors.As(err, &cert), errors.As(err, &unknown):
		return ErrCertificate
	case errors.As(err, &record), errors.As(err, &alert):
		return ErrHandshake
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errClosed
	}
	return errBroken
}

func readCertificates(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no PEM certificate", file)
	}
	return pool, nil
}
