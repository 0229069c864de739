package config

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"time"
)

const (
	// logSocketWrite bounds how long a line of the log waits for its reader, since requests wait for it.
	logSocketWrite = 10 * time.Millisecond
	// logSocketRest is the pause after a failure, so that a reader that hangs delays one line a second.
	logSocketRest = time.Second
)

// logSocketSchemes are the networks of log.socket.
var logSocketSchemes = map[string]string{"unix": "unix", "unixgram": "unixgram", "tcp": "tcp", "udp": "udp"}

// parseLogSocket gives the network and address of log.socket.
func parseLogSocket(text string) (network, address string, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", "", err
	}
	network = logSocketSchemes[u.Scheme]
	switch {
	case network == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		err = fmt.Errorf("expected unix:///PATH, unixgram:///PATH, tcp://HOST:PORT or udp://HOST:PORT")
	case network[0] == 'u' && network != "udp":
		if address = u.Path; address == "" || u.Host != "" {
			err = fmt.Errorf("expected an absolute path, as in %s:///run/log.sock", u.Scheme)
		}
	default:
		if address = u.Host; u.Hostname() == "" || u.Port() == "" || u.Path != "" {
			err = fmt.Errorf("expected a host and a port, as in %s://127.0.0.1:5170", u.Scheme)
		}
	}
	return network, address, err
}

func (v *validator) logSocket() {
	if text := v.c.Log.Socket; text != "" {
		if _, _, err := parseLogSocket(text); err != nil {
			v.wrong("log.socket", "%s is not an address of a socket; %v", v.shown("log.socket"), err)
		}
	}
}

// logSocket sends each line of the log to a socket. Lines that it cannot send go to other.
type logSocket struct {
	network, address string
	other            io.Writer

	mu      sync.Mutex
	conn    net.Conn  // nil: not connected
	dialing bool      // a goroutine connects
	next    time.Time // the next try to connect
}

// Write takes one line. It never fails, since a log has nobody to report to.
func (s *logSocket) Write(line []byte) (int, error) {
	if !s.send(line) {
		_, _ = s.other.Write(line)
	}
	return len(line), nil
}

func (s *logSocket) send(line []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		if now := time.Now(); !s.dialing && !now.Before(s.next) {
			s.dialing, s.next = true, now.Add(logSocketRest)
			go s.dial()
		}
		return false
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(logSocketWrite))
	if _, err := s.conn.Write(line); err != nil {
		_ = s.conn.Close() // half a line may be sent: the reader sees the end of the stream
		s.conn, s.next = nil, time.Now().Add(logSocketRest)
		return false
	}
	return true
}

func (s *logSocket) dial() {
	conn, err := net.DialTimeout(s.network, s.address, logSocketRest)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialing = false
	if err == nil {
		s.conn = conn
	}
}
