package servers

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Cut is a TCP proxy before a server that fails as networks do. Its address always stays
// the same.
type Cut struct {
	Addr   string
	target string

	listener  net.Listener
	refuse    atomic.Bool
	hole      atomic.Bool
	lose      atomic.Int64 // answers
	delay     atomic.Int64
	cuts      atomic.Int64
	mu        sync.Mutex
	pairs     map[*pair]bool
	closed    bool
	copying   sync.WaitGroup
	accepting sync.WaitGroup
}

// pair is a client's connection and the server's.
type pair struct{ client, server net.Conn }

func (p *pair) closeBoth() {
	for _, c := range []net.Conn{p.client, p.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, as from a machine that is gone
		}
		_ = c.Close()
	}
}

// StartCut puts a proxy before the server at target, without faults yet.
func StartCut(tb testing.TB, target string) *Cut {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("cannot start a proxy: %v", err)
	}
	c := &Cut{Addr: ln.Addr().String(), target: target, listener: ln, pairs: map[*pair]bool{}}
	c.accepting.Go(c.accept)
	tb.Cleanup(c.close)
	return c
}

// Cut breaks all connections and says how many that were; new ones are taken.
func (c *Cut) Cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.pairs)
	for p := range c.pairs {
		p.closeBoth()
		delete(c.pairs, p)
	}
	c.cuts.Add(int64(n))
	return n
}

// Cuts is how many connections were broken so far.
func (c *Cut) Cuts() int { return int(c.cuts.Load()) }

// Refuse breaks all connections and takes no new ones until it is called with false.
func (c *Cut) Refuse(on bool) {
	c.refuse.Store(on)
	if on {
		c.Cut()
	}
}

// Hole swallows everything in both directions while connections stay, until it
// is called with false; the swallowed bytes are lost, so all are cut then.
func (c *Cut) Hole(on bool) {
	c.hole.Store(on)
	if !on {
		c.Cut()
	}
}

// LoseAnswer lets the next thing that a client sends reach the server, and
// breaks the connection when the server answers it. A waiting client cannot know
// whether it was done.
func (c *Cut) LoseAnswer() { c.LoseAnswers(1) }

// LoseAnswers does that to the next n answers.
func (c *Cut) LoseAnswers(n int64) { c.lose.Store(n) }

// loses says whether the answer at hand is to be lost.
func (c *Cut) loses() bool {
	for n := c.lose.Load(); n > 0; n = c.lose.Load() {
		if c.lose.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

// Delay holds back everything for d in each direction.
func (c *Cut) Delay(d time.Duration) { c.delay.Store(int64(d)) }

func (c *Cut) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		if c.refuse.Load() {
			(&pair{client: client, server: client}).closeBoth()
			continue
		}
		server, err := net.DialTimeout("tcp", c.target, 10*time.Second)
		if err != nil {
			_ = client.Close()
			continue
		}
		p := &pair{client, server}
		c.mu.Lock()
		if c.closed || c.refuse.Load() {
			c.mu.Unlock()
			p.closeBoth()
			continue
		}
		c.pairs[p] = true
		c.mu.Unlock()
		c.copying.Go(func() { c.copy(p, client, server, false) })
		c.copying.Go(func() { c.copy(p, server, client, true) })
	}
}

// copy carries bytes one way until an end or a fault.
func (c *Cut) copy(p *pair, from, to net.Conn, answers bool) {
	defer c.drop(p)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if d := time.Duration(c.delay.Load()); d > 0 {
				time.Sleep(d)
			}
			if answers && c.loses() {
				c.cuts.Add(1)
				return
			}
			if !c.hole.Load() {
				if _, err := to.Write(buf[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

func (c *Cut) drop(p *pair) {
	c.mu.Lock()
	delete(c.pairs, p)
	c.mu.Unlock()
	p.closeBoth()
}

func (c *Cut) close() {
	_ = c.listener.Close()
	c.accepting.Wait()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.Cut()
	c.copying.Wait()
}
