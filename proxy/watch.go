package proxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// defaultTick is how often the watcher looks: a client that left is noticed
	// within one tick and a little, a phase that ran out within two.
	defaultTick = 250 * time.Millisecond
	// guardShards spread the registry over locks; a power of two.
	guardShards = 16
)

// past is a deadline that has gone by: setting it wakes a blocked read or write.
var past = time.Unix(1, 0)

// watcher is the one goroutine that notices clients that left and phases that
// ran out of time, for all exchanges. A deadline set per read would cost
// 159 ns each, a goroutine per request 8 KiB; registering here costs 23 ns.
//
// Its rules: it may only expire sockets, never read, write or close them; an
// exchange is unregistered before any of its sockets can get another owner;
// an exchange with a cause closes its sockets instead of pooling them.
type watcher struct {
	tick   time.Duration
	stall  time.Duration // ClientStall
	gone   bool          // a client that shut its sending side counts as gone
	began  time.Time
	nowMs  atomic.Int64 // coarse clock; stands still while the watcher rests
	ended  atomic.Bool  // Shutdown cuts whatever registers from here on
	rests  atomic.Bool  // nothing is registered: the next add wakes the watcher
	wake   chan struct{}
	next   atomic.Uint32
	shards [guardShards]shard
	poll   poller
	stop   chan struct{}
	done   chan struct{}
}

type shard struct {
	mu   sync.Mutex
	list []seat
	_    [64]byte // own cache line
}

// seat is one registration. gen tells it from later ones of the same guard.
type seat struct {
	g   *guard
	gen uint32
}

// guard is the watched side of an Exchange. The exchange's goroutine and the
// watcher share it.
type guard struct {
	mu     sync.Mutex
	gen    uint32
	on     bool
	client net.Conn
	fd     int // of client: unknown until the first sweep
	queued int // bytes in the client's send queue at the last sweep of a blocked write
	link   *link
	cancel context.CancelFunc // of a dial
	sends  bool               // a large request is being written to link
	early  bool               // and link began to answer meanwhile
	drain  drainOption

	cause atomic.Uint32
	phase atomic.Int64 // due<<8 | Cause, 0 for no limit
	total atomic.Int64 // due of the whole attempt, 0 for no limit
	last  int64        // the bound of phase; the exchange's goroutine alone

	w     *watcher
	shard *shard
	slot  int // in shard.list, under its lock
}

// drainOption lets an answer be read on after its client left.
type drainOption struct {
	may      func() (time.Duration, bool) // nil: never
	bytes    int64
	draining bool
}

const (
	fdUnknown = -1
	fdNone    = -2
)

func newWatcher(tick, stall time.Duration, halfCloseGone bool) *watcher {
	if tick <= 0 {
		tick = defaultTick
	}
	w := &watcher{tick: tick, stall: stall, gone: halfCloseGone, began: time.Now(), wake: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

func (w *watcher) shut() {
	close(w.stop)
	<-w.done
}

func (w *watcher) run() {
	defer close(w.done)
	ticker := time.NewTicker(w.tick)
	defer ticker.Stop()
	var seats []seat
	for {
		select {
		case <-w.stop:
			return
		case <-ticker.C:
		}
		w.setClock()
		seats = w.sweep(seats[:0])
		if len(seats) == 0 && !w.rest(ticker) {
			return
		}
		clear(seats)
	}
}

// setClock sets the coarse clock, which never goes back.
func (w *watcher) setClock() {
	now := time.Since(w.began).Milliseconds()
	for old := w.nowMs.Load(); old < now && !w.nowMs.CompareAndSwap(old, now); old = w.nowMs.Load() {
	}
}

// rest waits until something is registered, so that an idle process is not woken
// to look at nothing. It reports whether to go on.
func (w *watcher) rest(ticker *time.Ticker) bool {
	w.rests.Store(true)
	if w.active() > 0 { // it was registered before it could see that
		w.resume()
	}
	ticker.Stop()
	select {
	case <-w.stop:
		return false
	case <-w.wake:
	}
	ticker.Reset(w.tick)
	return true
}

// resume ends a rest. The clock is right before anybody can see that it ended.
func (w *watcher) resume() {
	w.setClock()
	if w.rests.CompareAndSwap(true, false) {
		w.wake <- struct{}{}
	}
}

// sweep looks at every registration once. The locks are held for copies only;
// a seat whose guard has moved on meanwhile is passed over.
func (w *watcher) sweep(seats []seat) []seat {
	for i := range w.shards {
		sh := &w.shards[i]
		sh.mu.Lock()
		seats = append(seats, sh.list...)
		sh.mu.Unlock()
	}
	now := w.nowMs.Load()
	for _, s := range seats {
		phase := s.g.phase.Load()
		if Cause(phase&0xff) == ClientStalled && s.g.progress(s.gen, phase) {
			continue
		}
		if phase != 0 && phase>>8 <= now {
			s.g.expire(s.gen, Cause(phase&0xff), phase)
		}
		if total := s.g.total.Load(); total != 0 && total <= now {
			s.g.expire(s.gen, TotalTimeout, 0)
		}
	}
	w.poll.sweep(seats, w.gone)
	return seats
}

// expire cuts for a phase that ran out, unless the exchange has moved on since
// the sweep looked.
func (g *guard) expire(gen uint32, c Cause, phase int64) {
	g.mu.Lock()
	if g.on && g.gen == gen && (phase == 0 || g.phase.Load() == phase) {
		g.cut(c)
	}
	g.mu.Unlock()
}

// progress gives a blocked write more time when the client has taken bytes since
// the last sweep. The kernel wakes a writer only when a third of its buffer, up
// to megabytes, is free again: a slow client is not a stalled one.
func (g *guard) progress(gen uint32, phase int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.on || g.gen != gen || g.client == nil {
		return false
	}
	if g.fd == fdUnknown {
		g.fd = rawFD(g.client)
	}
	queued := sendQueue(g.fd)
	moved := queued >= 0 && g.queued >= 0 && queued < g.queued
	g.queued = queued
	return moved && g.phase.CompareAndSwap(phase, g.w.due(g.w.stall)<<8|int64(ClientStalled))
}

// cut records the first cause and wakes the exchange. Under g.mu.
func (g *guard) cut(c Cause) {
	g.cause.CompareAndSwap(uint32(None), uint32(c))
	writing := Cause(g.phase.Load()&0xff) == ClientStalled
	if (c.ofClient() || writing) && g.client != nil {
		_ = g.client.SetWriteDeadline(past)
	}
	if c.ofClient() && g.mayDrain() {
		return
	}
	if g.link != nil {
		_ = g.link.SetDeadline(past)
	}
	if g.cancel != nil {
		g.cancel()
	}
}

// mayDrain asks, once, whether the answer may be read on without its client.
func (g *guard) mayDrain() bool {
	if g.drain.may != nil {
		var most time.Duration
		most, g.drain.draining = g.drain.may()
		g.drain.may = nil
		if g.drain.draining && g.link != nil {
			g.drain.draining = g.link.drain()
		}
		if g.drain.draining && most > 0 {
			g.total.Store(g.w.due(most))
		}
	}
	return g.drain.draining
}

// due is a time from now on the coarse clock, never early.
func (w *watcher) due(d time.Duration) int64 {
	return w.nowMs.Load() + (d + w.tick).Milliseconds() + 1
}

// add registers an exchange; its client is watched from here on.
func (w *watcher) add(g *guard, client net.Conn) {
	if g.w != w {
		g.w = w
		g.shard = &w.shards[w.next.Add(1)%guardShards]
	}
	g.mu.Lock()
	g.gen++
	gen := g.gen
	g.on, g.client, g.fd, g.queued = true, client, fdUnknown, -1
	g.cause.Store(uint32(None))
	g.last = 0
	g.phase.Store(0)
	g.total.Store(0)
	if w.ended.Load() {
		g.cause.Store(uint32(Shutdown))
	}
	g.mu.Unlock()

	sh := g.shard
	sh.mu.Lock()
	g.slot = len(sh.list)
	sh.list = append(sh.list, seat{g, gen})
	sh.mu.Unlock()
	if w.rests.Load() {
		w.resume()
	}
}

// remove unregisters; after it nothing expires the exchange's sockets. The
// cause may still have been set just before, so it is read after this.
func (w *watcher) remove(g *guard) Cause {
	sh := g.shard
	sh.mu.Lock()
	last := len(sh.list) - 1
	sh.list[g.slot] = sh.list[last]
	sh.list[g.slot].g.slot = g.slot
	sh.list[last] = seat{}
	sh.list = sh.list[:last]
	sh.mu.Unlock()

	g.mu.Lock()
	g.on, g.client, g.link, g.cancel, g.sends, g.early = false, nil, nil, nil, false, false
	g.mu.Unlock()
	return g.why()
}

// shutdown cuts every exchange, now and as long as the watcher lives.
func (w *watcher) shutdown() (cut int) {
	w.ended.Store(true)
	for i := range w.shards {
		sh := &w.shards[i]
		sh.mu.Lock()
		seats := append([]seat(nil), sh.list...)
		sh.mu.Unlock()
		for _, s := range seats {
			s.g.expire(s.gen, Shutdown, 0)
			cut++
		}
	}
	return cut
}

// active is the number of exchanges under way.
func (w *watcher) active() (n int) {
	for i := range w.shards {
		w.shards[i].mu.Lock()
		n += len(w.shards[i].list)
		w.shards[i].mu.Unlock()
	}
	return n
}

func (g *guard) why() Cause { return Cause(g.cause.Load()) }

// beginPhase begins a phase that may take d; c is the cause when it takes longer.
// The store is skipped while nothing changes, which is the usual case between
// two events of a stream within one tick.
func (g *guard) beginPhase(c Cause, d time.Duration) {
	var phase int64
	if d > 0 {
		phase = g.w.due(d)<<8 | int64(c)
	}
	if phase != g.last {
		g.last = phase
		g.phase.Store(phase)
	}
}

// attach puts an upstream connection under watch. It fails with the cause of
// an exchange that is over.
func (g *guard) attach(link *link, cancel context.CancelFunc) Cause {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.link, g.cancel = link, cancel
	return g.why()
}

// adopt watches the client of an exchange that had none so far.
func (g *guard) adopt(client net.Conn) {
	g.mu.Lock()
	if g.on && g.client == nil {
		g.client, g.fd, g.queued = client, fdUnknown, -1
	}
	g.mu.Unlock()
}

// detach takes the upstream connection from the watch after a failed attempt
// and forgets a cause that concerned only that.
func (g *guard) detach() Cause {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.link, g.cancel, g.sends, g.early = nil, nil, false, false
	g.phase.Store(0)
	g.total.Store(0)
	g.last = 0
	c := g.why()
	if !c.Final() {
		g.cause.Store(uint32(None))
	}
	return c
}

// sending brackets the writing of a large request. Between the two the watcher
// looks whether the upstream answers already, and if so breaks the write off:
// an upstream that refuses a body may neither read it nor close.
func (g *guard) sending(begin bool) {
	g.mu.Lock()
	g.sends = begin && g.link.vec // under TLS readable bytes need not be an answer
	if g.early {
		_ = g.link.SetWriteDeadline(time.Time{})
		g.early = false
	}
	g.mu.Unlock()
}

// sendFD is the upstream's descriptor while a large request is being written.
func (g *guard) sendFD(gen uint32) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.on || g.gen != gen || !g.sends || g.early {
		return fdNone
	}
	return g.link.fd
}

func (g *guard) answered(gen uint32) {
	g.mu.Lock()
	if g.on && g.gen == gen && g.sends {
		g.early = true
		_ = g.link.SetWriteDeadline(past)
	}
	g.mu.Unlock()
}

// clientGone says that the exchange itself found its client gone. It reports
// whether the answer is read on.
func (g *guard) clientGone(c Cause) (draining bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cause.CompareAndSwap(uint32(None), uint32(c))
	return g.mayDrain()
}

func (g *guard) draining() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.drain.draining
}

// plainConn is the socket under TLS and ClientConn.
func plainConn(c net.Conn) net.Conn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // of TLS, on either side
		c = t.NetConn()
	}
	if client, ok := c.(*ClientConn); ok {
		return client.Conn
	}
	return c
}
