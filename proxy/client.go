package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"farebox/config/fair"
	"farebox/proxy/listen"
)

// ClientConn is a client's connection. The server sets three deadlines a request, and each takes
// the runtime's timer lock, though nearly none is ever waited for. Here a deadline is only
// remembered; the connection gets it when it is the first, or earlier than the one it has. A
// deadline that fires before the wanted one is put off then.
//
// The server's goroutine owns it. The watcher alone may use it meanwhile, and
// only to expire it: a deadline in the distant past takes effect at once.
type ClientConn struct {
	// Kept is the handler's: a value for the next requests of this connection.
	Kept any
	// Owner is the handler's, too: the owner of the share that the current request uses. It is
	// set before an exchange begins.
	Owner fair.Owner

	net.Conn
	wire
	upload      upload // of the request that is being served
	read, write deadline
	cut         atomic.Bool // the watcher has expired writing
	lingers     atomic.Bool // its client may still be sending bytes that nobody reads

	front   *listen.Front // nil: clients come to us directly
	preface bool          // a PROXY header comes first
	from    net.Addr      // that it named
}

// RemoteAddr is the client's address, as the PROXY header said it.
func (c *ClientConn) RemoteAddr() net.Addr {
	if c.from != nil {
		return c.from
	}
	return c.Conn.RemoteAddr()
}

// deadline is the requested deadline and the connection's.
type deadline struct{ want, armed time.Time }

// due says whether the connection must get the wanted deadline before it waits.
func (d *deadline) due() bool {
	return !d.want.IsZero() && (d.armed.IsZero() || d.want.Before(d.armed))
}

// early says that the one that went by is not the wanted one.
func (d *deadline) early() bool { return d.want.IsZero() || time.Now().Before(d.want) }

// ClientOf is the client's connection below c, nil when it came from elsewhere
// than Listen.
func ClientOf(c net.Conn) *ClientConn {
	if t, ok := c.(*tlsClient); ok {
		c = t.NetConn()
	}
	client, _ := c.(*ClientConn)
	return client
}

// wireOf is the record of the bytes that the server reads from c.
func wireOf(c net.Conn) *wire { return c.(interface{ wired() *wire }).wired() }

// Read reads until the wanted deadline.
func (c *ClientConn) Read(p []byte) (int, error) {
	if n := c.replay(p); n > 0 {
		return n, nil
	}
	n, err := c.receive(p)
	if n > 0 {
		c.note(p[:n])
	}
	return n, err
}

func (c *ClientConn) receive(p []byte) (int, error) {
	if c.read.due() {
		if err := c.armRead(); err != nil {
			return 0, err
		}
	}
	if c.preface {
		c.preface = false
		from, err := listen.Preface(c.Conn)
		if err != nil {
			return 0, err
		}
		c.from = from
	}
	for {
		n, err := c.Conn.Read(p)
		if err == nil || n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !c.read.early() {
			return n, err
		}
		if err := c.armRead(); err != nil {
			return 0, err
		}
	}
}

func (c *ClientConn) armRead() error {
	c.read.armed = c.read.want
	return c.Conn.SetReadDeadline(c.read.want)
}

// Write writes until the wanted deadline, or until the watcher ends it.
func (c *ClientConn) Write(p []byte) (n int, err error) {
	if c.write.due() {
		if err := c.armWrite(); err != nil {
			return 0, err
		}
	}
	for {
		k, err := c.Conn.Write(p[n:])
		n += k
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || c.cut.Load() || !c.write.early() {
			return n, err
		}
		if err := c.armWrite(); err != nil {
			return n, err
		}
	}
}

func (c *ClientConn) armWrite() error {
	c.write.armed = c.write.want
	err := c.Conn.SetWriteDeadline(c.write.want)
	if c.cut.Load() {
		// The watcher was a moment earlier, and its word stands.
		return c.Conn.SetWriteDeadline(past)
	}
	return err
}

// SetReadDeadline is for the connection's own goroutine.
func (c *ClientConn) SetReadDeadline(t time.Time) error {
	c.read.want = t
	return nil
}

// SetWriteDeadline remembers t; past, the watcher's word, takes effect at once.
func (c *ClientConn) SetWriteDeadline(t time.Time) error {
	if t.Equal(past) {
		c.cut.Store(true)
		return c.Conn.SetWriteDeadline(past)
	}
	c.write.want = t
	if c.cut.Swap(false) {
		return c.armWrite()
	}
	return nil
}

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *ClientConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite shuts the sending side.
func (c *ClientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

const (
	// lingerTime and lingerBytes bound how long a client that was refused is
	// listened to, so that it gets to see why: closing at once would reset the
	// connection and may destroy the answer on its way.
	lingerTime  = 3 * time.Second
	lingerBytes = 64 << 20
)

// Close closes the connection, after a while when its client may still be
// sending. Only the goroutine that serves it can have asked for that.
func (c *ClientConn) Close() error {
	if c.lingers.Swap(false) && c.CloseWrite() == nil {
		_ = c.Conn.SetDeadline(time.Now().Add(lingerTime))
		_, _ = io.Copy(io.Discard, io.LimitReader(c.Conn, lingerBytes))
	}
	return c.Conn.Close()
}
