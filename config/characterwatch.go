package config

import (
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// folderWatch looks at a folder of characters again when something happens in it, and
// now and then, since network and overlay file systems often tell nothing.
type folderWatch struct {
	folder *CharacterFolder
	events *fsnotify.Watcher // nil when the system gives none
	stop   chan struct{}
	once   sync.Once
	done   sync.WaitGroup
}

// Watch begins to look for changes, until Close.
func (f *CharacterFolder) Watch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bounds.files != nil || f.watch != nil {
		return
	}
	w := &folderWatch{folder: f, stop: make(chan struct{})}
	w.events, _ = fsnotify.NewWatcher() // without it the tick finds what changes
	w.follow()
	f.watch = w
	w.done.Go(w.run)
}

// Close ends watching, and waits until nothing is read any more.
func (f *CharacterFolder) Close() {
	f.mu.Lock()
	w := f.watch
	f.mu.Unlock()
	if w != nil {
		w.once.Do(func() { close(w.stop) })
		w.done.Wait()
	}
}

// follow watches the folder under its name, also one that was not there before or is
// another now.
func (w *folderWatch) follow() {
	if w.events != nil {
		_ = w.events.Add(w.folder.bounds.Directory)
	}
}

func (w *folderWatch) run() {
	var events chan fsnotify.Event
	var failures chan error
	if w.events != nil {
		defer func() { _ = w.events.Close() }()
		events, failures = w.events.Events, w.events.Errors
	}
	quiet := time.NewTimer(0) // the first look: for changes since the folder was read
	var since time.Time       // first event of the burst that quiet waits for
	tick := time.NewTicker(lookEvery)
	defer quiet.Stop()
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-events:
			if since.IsZero() {
				since = time.Now()
			}
			quiet.Reset(min(settle, max(0, settleMost-time.Since(since))))
		case <-failures:
			quiet.Reset(settle) // something happened, but it is not known what
		case <-quiet.C:
			since = time.Time{}
			w.look()
		case <-tick.C:
			w.look()
		}
	}
}

func (w *folderWatch) look() {
	w.follow()
	w.folder.Look()
}
