//go:build !linux

package load

import "time"

// alarm falls back to the runtime's timers.
type alarm struct{ quit chan struct{} }

func newAlarm() (*alarm, error) { return &alarm{quit: make(chan struct{})}, nil }

func (a *alarm) sleep(d time.Duration) bool {
	select {
	case <-a.quit:
		return false
	case <-time.After(d):
		return true
	}
}

func (a *alarm) close() { close(a.quit) }
