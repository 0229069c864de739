package proxy

import (
	"errors"
	"net"
	"os"
)

// probe is the connection under TLS to an upstream. Records that came along with
// an answer's last one are in memory of crypto/tls, where no poll sees them,
// and tickets arrive on the socket that are not an answer: only a read that does not
// wait tells whether there is something to read.
type probe struct {
	net.Conn
	fd   int
	asks bool // reads do not wait
	one  [1]byte
}

func (p *probe) Read(b []byte) (int, error) {
	if p.asks {
		return readNow(p.fd, b)
	}
	return p.Conn.Read(b)
}

// quiet reads from the TLS connection above p.
func (p *probe) quiet(above net.Conn) bool {
	p.asks = true
	n, err := above.Read(p.one[:])
	p.asks = false
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}
