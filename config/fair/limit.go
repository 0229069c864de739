package fair

import (
	"context"
	"sync"
	"time"
)

type limitKey struct{}

// limit is a context that ends after some time of work.
type limit struct {
	context.Context // the parent
	outer           *limit
	done            chan struct{}
	unhook          func() bool

	mu      sync.Mutex
	left    time.Duration
	since   time.Time // the last start of the clock
	waiting int
	timer   *time.Timer
	err     error
}

// WithLimit makes a context that ends with context.DeadlineExceeded after d. Its clock
// stops while [Turns] has the work wait for a place, so that other customers' work does
// not use up the time. How long that may take is the parent's to say.
func WithLimit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	l := &limit{Context: ctx, done: make(chan struct{}), left: d, since: time.Now()}
	l.outer, _ = ctx.Value(limitKey{}).(*limit)
	l.mu.Lock() // the timer may end before it is kept
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(d, l.expire)
	l.unhook = context.AfterFunc(ctx, func() { l.end(ctx.Err()) })
	return l, func() {
		l.unhook()
		l.end(context.Canceled)
	}
}

// Left is how much time the innermost limit of ctx has, and whether there is one.
func Left(ctx context.Context) (time.Duration, bool) {
	l, ok := ctx.Value(limitKey{}).(*limit)
	if !ok {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting > 0 {
		return l.left, true
	}
	return max(0, l.left-time.Since(l.since)), true
}

// waits stops the clocks of ctx until the returned function is called.
func waits(ctx context.Context) (goOn func()) {
	inner, _ := ctx.Value(limitKey{}).(*limit)
	for l := inner; l != nil; l = l.outer {
		l.pause()
	}
	return func() {
		for l := inner; l != nil; l = l.outer {
			l.resume()
		}
	}
}

func (l *limit) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting++; l.waiting == 1 {
		l.timer.Stop()
		l.left -= time.Since(l.since)
	}
}

func (l *limit) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting--; l.waiting == 0 && l.err == nil {
		l.since = time.Now()
		l.timer.Reset(max(0, l.left))
	}
}

func (l *limit) expire() {
	l.mu.Lock()
	over := l.waiting == 0 && time.Since(l.since) >= l.left
	l.mu.Unlock()
	if over { // else the clock was stopped at the same moment
		l.end(context.DeadlineExceeded)
	}
}

func (l *limit) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		l.timer.Stop()
		close(l.done)
	}
}

// Done is context.Context.
func (l *limit) Done() <-chan struct{} { return l.done }

// Err is context.Context.
func (l *limit) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Value is context.Context.
func (l *limit) Value(key any) any {
	if key == (limitKey{}) {
		return l
	}
	return l.Context.Value(key)
}
