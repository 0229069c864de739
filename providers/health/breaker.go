// Package health decides whether a target gets another request: a [Breaker] counts failures
// in a row, rests the target, and then lets one request probe whether it is back. It does
// not depend on targets, requests or clocks.
package health

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxCoolDown bounds how long an upstream's Retry-After keeps requests away:
	// longer waits are more often a mistake than a promise.
	MaxCoolDown = 2 * time.Minute
	// MaxAlone bounds how long a target rests for failures of one account's requests only:
	// they may have caused it, and all others would wait for it.
	MaxAlone = 5 * time.Second
	// probeLimit is when a probe counts as lost, so that a request that was
	// never reported on cannot close a target for good.
	probeLimit = 5 * time.Minute
	// probeShare is how long the request of one account may be the only probe: a whole
	// answer can take minutes, and one client's hanging request must not delay the probes
	// of all others.
	probeShare = MaxAlone
	// probePause is how long an account whose probe failed leaves the next one
	// to others, so that an account that floods does not make every probe.
	probePause = time.Second
)

// State is the state of a Breaker: which requests it lets pass.
type State uint8

const (
	// Closed lets everything pass.
	Closed State = iota
	// Open lets nothing pass until its rest is over.
	Open
	// HalfOpen has rested; one request at a time probes.
	HalfOpen
)

// String is the state's name in logs and metrics.
func (s State) String() string { return [...]string{"closed", "open", "half_open"}[s] }

// Held is the operators' setting for a target.
type Held uint32

const (
	// Free leaves it to the target's health.
	Free Held = iota
	// Drained lets only those requests pass that failed at all other targets.
	Drained
	// Offline lets nothing pass.
	Offline
)

// String is the name in lists.
func (h Held) String() string { return [...]string{"free", "drained", "offline"}[h] }

// heldUntil is the end of the rest of a target that is not Free. Requests read the end of the rest anyway, so that
// holding a target costs them nothing.
const heldUntil = math.MaxInt64

// Change is a Breaker's new state: Open for Rest, HalfOpen when a probe was let pass, or
// Closed.
type Change struct {
	To    State
	Rest  time.Duration
	Asked bool // the upstream asked for the rest
}

// Breaker is the health of one target. Safe for concurrent use; while the
// target is well, no method blocks, allocates or writes.
//
// A failure is reported with the account whose request met it. Failures of one account only
// rest the target for MaxAlone at most; longer rests need a failure of another account too,
// or a report without an account (0): a failure that no request can have caused, or a probe
// of our own.
type Breaker struct {
	limit   int32         // failures in a row that open it; 0: never
	openFor time.Duration // how long it then rests

	failures atomic.Int32 // in a row
	openNs   atomic.Int64 // until when it rests; 0: closed; heldUntil: held by operators
	probeNs  atomic.Int64 // when the probe was let pass; 0: no probe

	failed atomic.Int64    // all failures
	became [3]atomic.Int64 // changes by state
	watch  atomic.Pointer[func(Change)]
	held   atomic.Uint32

	mu      sync.Mutex      // guards the fields below, and changes of openNs and probeNs
	half    bool            // a request was let pass after the rest
	failing failureReporter // the accounts that met the failures in a row
	asking  failureReporter // the accounts that were asked to come back later

	prober atomic.Uint64 // account whose probe failed last
	lastNs atomic.Int64  // …and when
}

// failureReporter is the accounts that met failures since the last success.
type failureReporter struct {
	first  uint64 // 0: no account yet
	shared bool   // other accounts, too
}

// note notes an account and says whether it is known to concern more than one.
func (p *failureReporter) note(account uint64) (shared bool) {
	if account == 0 || p.first != 0 && p.first != account {
		p.shared = true
	}
	if p.first == 0 {
		p.first = account
	}
	return p.shared
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

// Watch calls f with every change from here on, in place of an earlier f. f is called
// outside of all locks and must not block.
func (b *Breaker) Watch(f func(Change)) { b.watch.Store(&f) }

func (b *Breaker) notify(c Change) {
	b.became[c.To].Add(1)
	if f := b.watch.Load(); f != nil {
		(*f)(c)
	}
}

// Hold keeps requests away, or with Free lets them come again. Both reset its health.
func (b *Breaker) Hold(h Held) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if was := Held(b.held.Swap(uint32(h))); was == h || was != Free && h != Free {
		return
	}
	b.failures.Store(0)
	b.failing, b.asking, b.half = failureReporter{}, failureReporter{}, false
	b.probeNs.Store(0)
	b.prober.Store(0)
	b.openNs.Store(0)
	if h != Free {
		b.openNs.Store(heldUntil)
	}
}

// Held is the operators' setting.
func (b *Breaker) Held() Held { return Held(b.held.Load()) }

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

// ReadyFor says whether AcquireFor would let a request of an account (0: one of our
// own) pass.
func (b *Breaker) ReadyFor(account uint64, nowNs int64) bool {
	until := b.openNs.Load()
	return until == 0 || nowNs >= until && b.free(account, nowNs)
}

// free says that a request of an account may be the next probe.
func (b *Breaker) free(account uint64, nowNs int64) bool {
	most := probeLimit
	if account != 0 {
		most = probeShare
	}
	if since := b.probeNs.Load(); since != 0 && nowNs-since < int64(most) {
		return false
	}
	return account == 0 || account != b.prober.Load() || nowNs-b.lastNs.Load() >= int64(probePause)
}

// AcquireFor lets a request of an account pass or not. After the rest it passes
// one, as a probe, until that was reported on.
func (b *Breaker) AcquireFor(account uint64, nowNs int64) bool {
	until := b.openNs.Load()
	if until == 0 {
		return true
	}
	return nowNs >= until && b.ProbeFor(account, nowNs)
}

// ProbeFor takes the place of the one probe, also before the rest is over: the last resort
// when every target rests. An account whose probe failed just now leaves the place to
// others for a while.
func (b *Breaker) ProbeFor(account uint64, nowNs int64) bool {
	b.mu.Lock()
	until := b.openNs.Load()
	free := until == 0 || until != heldUntil && b.free(account, nowNs)
	if free && until != 0 {
		b.probeNs.Store(nowNs)
	}
	first := free && until != 0 && nowNs >= until && !b.half
	b.half = b.half || first
	b.mu.Unlock()
	if first {
		b.notify(Change{To: HalfOpen})
	}
	return free
}

// RestsForAnother says that all failures in a row were met by the requests of
// one account, and that this is another one. Where nothing else can serve it,
// it need not rest for failures that the account may have caused.
func (b *Breaker) RestsForAnother(account uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return account != 0 && b.held.Load() == 0 && b.failing.first != 0 && !b.failing.shared && b.failing.first != account
}

// Succeeded closes the breaker: an answer was read whole.
func (b *Breaker) Succeeded() {
	// The usual case writes nothing, so that cores do not fight for the line.
	if b.failures.Load() == 0 && b.openNs.Load() == 0 {
		return
	}
	b.mu.Lock()
	b.failures.Store(0)
	b.failing, b.asking = failureReporter{}, failureReporter{}
	closed := b.close()
	b.mu.Unlock()
	if closed {
		b.notify(Change{To: Closed})
	}
}

// Answering lets requests pass again: a stream has begun well, and may last minutes. The
// failures in a row are reset only when it ended well.
func (b *Breaker) Answering() {
	if b.openNs.Load() == 0 {
		return
	}
	b.mu.Lock()
	closed := b.close()
	b.mu.Unlock()
	if closed {
		b.notify(Change{To: Closed})
	}
}

// close is for callers that hold mu.
func (b *Breaker) close() (closed bool) {
	if b.openNs.Load() == heldUntil {
		return false
	}
	closed = b.openNs.Swap(0) != 0
	b.probeNs.Store(0)
	b.prober.Store(0)
	return closed
}

// Failed counts a failure that concerns everyone. rest is the rest that the upstream asked
// for (0: it did not), which opens the breaker at once.
func (b *Breaker) Failed(nowNs int64, rest time.Duration) { b.FailedFor(0, nowNs, rest) }

// FailedFor counts a failure that a request of an account met.
func (b *Breaker) FailedFor(account uint64, nowNs int64, rest time.Duration) {
	b.failed.Add(1)
	b.mu.Lock()
	n := b.failures.Add(1)
	rest = min(rest, MaxCoolDown)
	asked := rest > 0
	if asked && !b.asking.note(account) {
		rest = min(rest, MaxAlone)
	}
	most := b.openFor
	if !b.failing.note(account) {
		most = min(most, MaxAlone)
	}
	if n >= b.limit {
		rest = max(rest, most)
	}
	opened := false
	if old, until := b.openNs.Load(), nowNs+int64(rest); b.limit > 0 && rest > 0 && old < until {
		resting := old != 0 && nowNs < old
		// Requests of one account that were under way do not add up.
		if !resting || rest > MaxAlone {
			b.half = false
			b.openNs.Store(until)
			opened = !resting || until-old > int64(time.Second)
		}
	}
	if b.probeNs.Load() != 0 {
		b.prober.Store(account)
		b.lastNs.Store(nowNs)
	}
	b.probeNs.Store(0)
	b.mu.Unlock()
	if opened {
		b.notify(Change{To: Open, Rest: rest, Asked: asked})
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
func (b *Breaker) Counts() (failures, opened int64) { return b.failed.Load(), b.became[Open].Load() }

// Became is how often the breaker changed to a state.
func (b *Breaker) Became(s State) int64 { return b.became[s].Load() }
