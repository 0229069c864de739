package proxy

import "time"

// Options of a Proxy.
type Options struct {
	// Tick is how often the watcher looks; 0: 250ms.
	Tick time.Duration
	// ClientStall is how long a client may not read; 0: 30s.
	ClientStall time.Duration
	// HalfCloseGone counts a client that shut its sending side as gone.
	HalfCloseGone bool
	// OnPanic is notified of a panic in a lens or a done function, for the log.
	OnPanic func(v any)
}

const defaultClientStall = 30 * time.Second

// Proxy forwards requests and relays answers. It owns the watcher.
type Proxy struct {
	watch *watcher
	stall time.Duration
	panic func(v any)
}

// New starts the watcher.
func New(o Options) *Proxy {
	if o.ClientStall <= 0 {
		o.ClientStall = defaultClientStall
	}
	return &Proxy{watch: newWatcher(o.Tick, o.ClientStall, o.HalfCloseGone), stall: o.ClientStall, panic: o.OnPanic}
}

// OnPanic is Options.OnPanic for a handler that is made after the Proxy; to be called before
// anything is served.
func (p *Proxy) OnPanic(f func(v any)) { p.panic = f }

// Active is the number of exchanges under way.
func (p *Proxy) Active() int { return p.watch.active() }

// Close stops the watcher. Exchanges still under way are cut first.
func (p *Proxy) Close() {
	p.watch.shutdown()
	p.watch.shut()
}
