package limits

import (
	"sync"
	"sync/atomic"
	"time"
)

// breaker keeps requests from waiting for a Redis that does not answer. It
// opens after failures in a row, or when more than one call in a hundred was
// slow for a second; a successful probe closes it again.
type breaker struct {
	slowAfter time.Duration
	opened    func(why error) // called once each time, under the lock

	open atomic.Bool

	mu       sync.Mutex
	failures int
	second   time.Time // begin of the second that the counts are of
	calls    int
	slow     int
}

const (
	breakerFailures = 5
	// A handful of slow calls is a pause of this process, not a slow Redis.
	breakerSlow = 5
	// slowShare of the timeout is slow: 25 ms of 30.
	slowShareNum, slowShareDen = 5, 6
	breakerProbe               = time.Second
)

// done notes how a call ended.
func (b *breaker) done(now time.Time, took time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.second) >= time.Second {
		if b.slow >= breakerSlow && b.slow*100 > b.calls && !b.second.IsZero() {
			b.trip(errSlow)
		}
		b.second, b.calls, b.slow = now, 0, 0
	}
	b.calls++
	if took > b.slowAfter {
		b.slow++
	}
	if err == nil {
		b.failures = 0
		return
	}
	if b.failures++; b.failures >= breakerFailures {
		b.trip(err)
	}
}

// trip opens the breaker.
func (b *breaker) trip(why error) {
	if !b.open.Swap(true) {
		b.opened(why)
	}
}

// reset lets calls through again.
func (b *breaker) reset() {
	b.mu.Lock()
	b.failures, b.calls, b.slow, b.second = 0, 0, 0, time.Time{}
	b.open.Store(false)
	b.mu.Unlock()
}
