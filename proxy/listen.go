package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// Listen opens host:port or unix:/path, with TLS when cert and key are given.
// A socket file that a crashed process left behind is replaced; one that is
// served is not.
func Listen(addr, cert, key string) (net.Listener, error) {
	return ListenBehind(nil, addr, cert, key)
}

// ListenBehind is Listen with proxies in front.
func ListenBehind(front *Front, addr, cert, key string) (net.Listener, error) {
	var pair tls.Certificate
	if cert != "" || key != "" {
		var err error
		if pair, err = tls.LoadX509KeyPair(cert, key); err != nil {
			return nil, fmt.Errorf("cannot load the TLS certificate: %w", err)
		}
	}
	ln, err := listenPlain(addr)
	if err != nil {
		return nil, err
	}
	if cert == "" {
		return clientListener{ln, nil, front}, nil
	}
	return clientListener{ln, &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}, front}, nil
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
