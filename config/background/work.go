// Package background runs the goroutines that one owner starts and ends.
package background

import (
	"context"
	"sync"
	"time"
)

// Work is the goroutines of one owner, which end when it closes. The zero value is
// ready. A Work is not copied, and nothing is started after Close.
type Work struct {
	made  sync.Once
	ctx   context.Context
	stop  context.CancelFunc
	group sync.WaitGroup
}

// Context ends when the owner closes.
func (w *Work) Context() context.Context {
	w.made.Do(func() { w.ctx, w.stop = context.WithCancel(context.Background()) })
	return w.ctx
}

// Closing is closed when the owner closes.
func (w *Work) Closing() <-chan struct{} { return w.Context().Done() }

// Go runs f in a goroutine that Close waits for.
func (w *Work) Go(f func()) { w.group.Go(f) }

// Every runs f in a goroutine after each pace, until the owner closes.
func (w *Work) Every(pace time.Duration, f func()) {
	w.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			select {
			case <-w.Closing():
				return
			case <-tick.C:
				f()
			}
		}
	})
}

// Sleep waits for d. It returns false at once when the owner closes.
func (w *Work) Sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.Closing():
		return false
	case <-t.C:
		return true
	}
}

// Close tells the goroutines to end and waits for them. It may be called again.
func (w *Work) Close() {
	w.Context()
	w.stop()
	w.group.Wait()
}
