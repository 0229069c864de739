package config

import (
	"time"

	"github.com/fsnotify/fsnotify"

	"farebox/config/background"
)

const (
	// settle is how long a file must be quiet before it is read: editors and
	// deployment tools write in several steps.
	settle = 200 * time.Millisecond
	// settleMost ends that wait in a directory where something always happens.
	settleMost = 2 * time.Second
	// lookEvery is how often files are looked at without an event: network and
	// overlay file systems, and files bound into a container, often send none.
	lookEvery = 10 * time.Second
)

// fileWatch looks at files when something happens to them, and now and then. Its
// functions are called from one goroutine, never at the same time.
type fileWatch struct {
	events   *fsnotify.Watcher         // nil when the system gives none
	concerns func(fsnotify.Event) bool // nil: every event does
	look     func()
	orders   chan func() // run between two looks
	work     background.Work
}

// newFileWatch makes a watch that does nothing until run. Without events the error says why.
func newFileWatch(look func()) (*fileWatch, error) {
	events, err := fsnotify.NewWatcher()
	return &fileWatch{events: events, look: look, orders: make(chan func())}, err
}

// order has f run by the watch's goroutine, unless it is closed.
func (w *fileWatch) order(f func()) {
	finished := make(chan struct{})
	select {
	case w.orders <- func() { f(); close(finished) }:
		<-finished
	case <-w.work.Closing():
	}
}

// close ends watching, and waits until nothing is looked at any more.
func (w *fileWatch) close() { w.work.Close() }

func (w *fileWatch) run() {
	var events chan fsnotify.Event
	var failures chan error
	if w.events != nil {
		defer func() { _ = w.events.Close() }()
		events, failures = w.events.Events, w.events.Errors
	}
	quiet := time.NewTimer(0) // the first look: for changes since the file was read
	var since time.Time       // first event of the burst that quiet waits for
	tick := time.NewTicker(lookEvery)
	defer quiet.Stop()
	defer tick.Stop()
	for {
		select {
		case <-w.work.Closing():
			return
		case f := <-w.orders:
			f()
		case e := <-events:
			if w.concerns != nil && !w.concerns(e) {
				continue
			}
			if since.IsZero() {
				since = time.Now()
			}
			quiet.Reset(min(settle, max(0, settleMost-time.Since(since))))
		case <-failures: //nolint:errcheck // a full event queue
			// Something happened, but it is not known what.
			quiet.Reset(settle)
		case <-quiet.C:
			since = time.Time{}
			w.look()
		case <-tick.C:
			w.look()
		}
	}
}
