package load

import (
	"io"
	"net"
	"time"
)

// script is a connection that gives prepared bytes, a few at a time.
type script struct {
	net.Conn
	data []byte
	step int
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.step)], s.data)
	s.data = s.data[n:]
	return n, nil
}

func (s *script) SetDeadline(time.Time) error { return nil }
