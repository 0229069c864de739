package proxy

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// Listen opens host:port or unix:/path, with TLS when cert and key are given.
// A socket file that a crashed process left behind is replaced; one that is
// served is not.
func Listen(addr, cert, key string) (net.Listener, error) {
	return ListenWith(addr, ListenOptions{Cert: cert, Key: key})
}

// ListenOptions are for the connections of clients.
type ListenOptions struct {
	Cert, Key string        // PEM files; empty: no TLS
	Front     *Front        // proxies in front; nil: none
	Unsent    int           // bytes that wait in the kernel for a client that does not read; 0: its default
	Inherited *Inherited    // in place of a socket of its own; nil: none
	Stall     time.Duration // how long they may wait; 0: as long as the kernel keeps the connection
}

// ListenWith is Listen with more options.
func ListenWith(addr string, o ListenOptions) (net.Listener, error) {
	cert, key := o.Cert, o.Key
	var files *certFiles
	if cert != "" || key != "" {
		var err error
		if files, err = loadCertificate(cert, key); err != nil {
			return nil, err
		}
	}
	var ln net.Listener
	if o.Inherited != nil {
		ln = o.Inherited.Listener
	} else if l, err := listenPlain(addr); err == nil {
		ln = l
	} else {
		return nil, err
	}
	if files == nil {
		return clientListener{Listener: ln, o: o}, nil
	}
	return clientListener{ln, &tls.Config{
		GetCertificate: files.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}, files, o}, nil
}

func listenPlain(addr string) (net.Listener, error) {
	path, ok := strings.CutPrefix(addr, "unix:")
	if !ok {
		return net.Listen("tcp", addr)
	}
	ln, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && abandoned(path) {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		ln, err = net.Listen("unix", path)
	}
	return ln, err
}

// abandoned says that path is a socket nobody listens on.
func abandoned(path string) bool {
	st, err := os.Lstat(path)
	if err != nil || st.Mode()&os.ModeSocket == 0 {
		return false
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		_ = c.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
