package config

// Watch begins to look for changes, until Close.
func (f *CharacterFolder) Watch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bounds.files != nil || f.watch != nil {
		return
	}
	// Without events the tick finds changes.
	f.watch, _ = newFileWatch(func() { f.follow(); f.Look() })
	f.follow()
	f.watch.work.Go(f.watch.run)
}

// Close ends watching, and waits until nothing is read any more.
func (f *CharacterFolder) Close() {
	f.mu.Lock()
	w := f.watch
	f.mu.Unlock()
	if w != nil {
		w.close()
	}
}

// follow watches the folder under its name, also one that was not there before or is
// another now.
func (f *CharacterFolder) follow() {
	if f.watch.events != nil {
		_ = f.watch.events.Add(f.bounds.Directory)
	}
}
