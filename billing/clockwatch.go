package billing

import (
	"time"

	"farebox/billing/window"
)

// Rate windows and failure budgets reckon in the wall clock, since that is what
// requests carry and answers name. When the clock is set, what they remember
// would lie hours ahead, and block everybody for so long, or hours back, and
// let every limit begin anew. clockWatch notices that the wall clock has gone
// another way than the monotonic one, and moves what they remember along.
//
// Days and periods are not moved: they follow the calendar, and never go back
// (AccountState.roll, keyUse.roll). Sessions of nodes never look at the wall
// clock.
type clockWatch struct {
	l    *Ledger
	mono func() int64 // ns

	offset int64 // of the wall clock to the monotonic one at the last look
	looked int64 // when that was, monotonic

	stop chan struct{}
	done chan struct{}
}

const (
	clockEvery = 250 * time.Millisecond
	// clockStep is the smallest jump worth moving anything for; NTP slews less.
	clockStep = int64(500 * time.Millisecond)
)

func monotonic() int64 { return int64(time.Since(processStart)) }

func startClockWatch(l *Ledger, mono func() int64) *clockWatch {
	w := &clockWatch{l: l, mono: mono, looked: mono(), stop: make(chan struct{}), done: make(chan struct{})}
	w.offset = l.wall() - w.looked
	go w.run()
	return w
}

func (w *clockWatch) run() {
	defer close(w.done)
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
			w.look()
		}
	}
}

func (w *clockWatch) close() {
	close(w.stop)
	<-w.done
}

// look moves what is remembered when the wall clock was set since the last look.
func (w *clockWatch) look() {
	mono := w.mono()
	wall := w.l.wall()
	step, gap := wall-mono-w.offset, mono-w.looked
	w.offset, w.looked = wall-mono, mono
	if step > -clockStep && step < clockStep {
		return
	}
	w.l.log.Warn().Dur("step_ms", time.Duration(step)).Msg("the clock of this machine was set; rate windows go on where they were")
	if w.l.node != nil {
		w.l.node.compare(0)
	}
	w.l.clockSet(&window.Step{By: step, Now: wall, Gap: gap})
}

// clockSet moves all that is remembered in the wall clock.
func (l *Ledger) clockSet(m *window.Step) {
	r := l.registry
	accounts := l.allLoaded()
	r.mu.Lock()
	keys := make([]*Key, 0, len(r.byNo))
	for _, k := range r.byNo {
		keys = append(keys, k)
	}
	r.mu.Unlock()
	for _, a := range accounts {
		a.mu.Lock()
		a.first.Shift(m)
		for i := range a.windows {
			a.windows[i].Shift(m)
		}
		if a.credits != nil {
			a.credits.Shift(m)
		}
		a.mu.Unlock()
	}
	for _, k := range keys {
		k.Account.mu.Lock()
		k.use.window.Shift(m)
		k.Account.mu.Unlock()
	}
	l.budgets.clockSet(m)
	l.keyBudgets.clockSet(m)
	l.addressBudgets.clockSet(m)
	if l.redis != nil {
		l.redis.Shift(m)
	}
}

func (b *budgets) clockSet(m *window.Step) {
	for i := range b.shards {
		s := &b.shards[i]
		s.mu.Lock()
		for k, e := range s.m {
			e.Shift(m)
			s.m[k] = e
		}
		s.mu.Unlock()
	}
}
