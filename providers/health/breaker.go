// Package health knows whether a target is worth another request: a [Breaker]
// counts failures in a row, rests the target, and then lets one request find
// out whether it is back. It knows nothing of targets, requests or time.
package health

import (
	"sync/atomic"
	"time"
)

const (
	// MaxCoolDown bounds how long an upstream's Retry-After keeps requests away:
	// longer waits are more often a mistake than a promise.
	MaxCoolDown = 2 * time.Minute
	// probeLimit is when a probe counts as lost, so that a request that was
	// never reported on cannot close a target for good.
	probeLimit = 5 * time.Minute
)

// State is what a Breaker lets pass.
type State uint8

const (
	// Closed lets everything pass.
	Closed State = iota
	// Open lets nothing pass until its rest is over.
	Open
	// HalfOpen has rested; one request at a time finds out.
	HalfOpen
)

// Breaker is the health of one target. Safe for concurrent use; no method
// blocks or allocates. The zero value never opens.
type Breaker struct {
	limit   int32         // failures in a row that open it; 0: never
	openFor time.Duration // how long it then rests

	failures atomic.Int32 // in a row
	openNs   atomic.Int64 // until when it rests; 0: closed
	asked    atomic.Bool  // …because the upstream asked for it
	probeNs  atomic.Int64 // when the request that finds out was let pass; 0: none is

	failed atomic.Int64 // all failures
	opened atomic.Int64 // how often it opened
}

// NewBreaker opens after limit failures in a row and rests for openFor; with
// limit 0 it never opens.
func NewBreaker(limit int, openFor time.Duration) *Breaker {
	return &Breaker{limit: int32(limit), openFor: openFor}
}

// Like says whether a Breaker with these settings would be the same.
func (b *Breaker) Like(limit int, openFor time.Duration) bool {
	return b.limit == int32(limit) && b.openFor == openFor
}

// State at a time.
func (b *Breaker) State(nowNs int64) State {
	until := b.openNs.Load()
	switch {
	case until == 0:
		return Closed
	case nowNs < until:
		return Open
	}
	return HalfOpen
}

// RestsUntil is when the rest ends; 0 when closed.
func (b *Breaker) RestsUntil() int64 { return b.openNs.Load() }

// Failing says that the breaker is open for failures, not because the upstream
// named a time to come back.
func (b *Breaker) Failing() bool { return b.openNs.Load() != 0 && !b.asked.Load() }

// Ready says whether Acquire would let a request pass.
func (b *Breaker) Ready(nowNs int64) bool {
	until := b.openNs.Load()
	return until == 0 || nowNs >= until && !b.probing(nowNs)
}

func (b *Breaker) probing(nowNs int64) bool {
	since := b.probeNs.Load()
	return since != 0 && nowNs-since < int64(probeLimit)
}

// Acquire lets a request pass or not. After the rest it passes one, as a probe,
// until that was reported on.
func (b *Breaker) Acquire(nowNs int64) bool {
	until := b.openNs.Load()
	if until == 0 {
		return true
	}
	return nowNs >= until && b.Probe(nowNs)
}

// Probe takes the place of the one request that finds out, also before the
// rest is over: the last resort when every target rests.
func (b *Breaker) Probe(nowNs int64) bool {
	since := b.probeNs.Load()
	if since != 0 && nowNs-since < int64(probeLimit) {
		return false
	}
	return b.probeNs.CompareAndSwap(since, nowNs)
}

// Succeeded closes the breaker.
func (b *Breaker) Succeeded() {
	// The usual case writes nothing, so that cores do not fight for the line.
	if b.failures.Load() != 0 {
		b.failures.Store(0)
	}
	if b.openNs.Load() != 0 {
		b.openNs.Store(0)
		b.probeNs.Store(0)
	}
}

// Failed counts a failure. retryAfter is how long the upstream asked to be left
// alone (0: it did not), which opens the breaker at once.
func (b *Breaker) Failed(nowNs int64, retryAfter time.Duration) {
	b.failed.Add(1)
	n := b.failures.Add(1)
	if b.limit > 0 {
		rest := min(retryAfter, MaxCoolDown)
		if n >= b.limit {
			rest = max(rest, b.openFor)
		}
		if rest > 0 {
			b.asked.Store(retryAfter > 0)
			b.open(nowNs + int64(rest))
		}
	}
	b.probeNs.Store(0)
}

func (b *Breaker) open(until int64) {
	for {
		old := b.openNs.Load()
		if old >= until {
			return
		}
		if b.openNs.CompareAndSwap(old, until) {
			b.opened.Add(1)
			return
		}
	}
}

// Released reports a request that says nothing about the target, such as one
// whose client left.
func (b *Breaker) Released() {
	if b.probeNs.Load() != 0 {
		b.probeNs.Store(0)
	}
}

// Counts are all failures and how often the breaker opened.
func (b *Breaker) Counts() (failures, opened int64) { return b.failed.Load(), b.opened.Load() }
