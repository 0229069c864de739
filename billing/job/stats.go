package job

import (
	"sync"
	"sync/atomic"
)

// counters count a machine's work since it began.
type counters struct {
	submits, again, polls, pollErrors, cancels, cancelsLost atomic.Int64
	completed, failed, lost, taken, expired                 atomic.Int64
	storeErrors, keepErrors, mediaBytes, panics             atomic.Int64

	mu     sync.Mutex
	alarms map[string]int64
}

// alarm counts a job that an upstream may charge for and whose customer does not pay.
func (c *counters) alarm(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alarms == nil {
		c.alarms = map[string]int64{}
	}
	c.alarms[why]++
}

// Reasons of alarms, for the metrics.
var Reasons = []string{"unknown", "interrupted", "timeout", "fetch", "unfit", "full"}

// States are the names of jobs' next steps, for the metrics.
var States = []string{ask: "running", submit: "submitting", fetch: "storing", cancel: "cancelling", discard: "discarding"}

// Left is a kind of jobs, and their next step.
type Left struct{ Kind, State string }

// Stats is a machine's view of itself, for metrics.
type Stats struct {
	Jobs    map[Left]int64 // jobs that this node drives
	Working int64          // steps that are being taken

	Submits, Again, Polls, PollErrors, Cancels, CancelsLost int64
	Completed, Failed, Lost, Taken, Expired                 int64
	StoreErrors, KeepErrors, MediaBytes, Panics             int64
	Alarms                                                  map[string]int64
}

// Stats returns the state of the machine.
func (m *Machine) Stats() Stats {
	c := &m.stats
	s := Stats{Submits: c.submits.Load(), Again: c.again.Load(), Polls: c.polls.Load(), PollErrors: c.pollErrors.Load(),
		Cancels: c.cancels.Load(), CancelsLost: c.cancelsLost.Load(), Completed: c.completed.Load(),
		Failed: c.failed.Load(), Lost: c.lost.Load(), Taken: c.taken.Load(), Expired: c.expired.Load(),
		StoreErrors: c.storeErrors.Load(), KeepErrors: c.keepErrors.Load(), MediaBytes: c.mediaBytes.Load(),
		Panics: c.panics.Load(), Alarms: map[string]int64{}}
	c.mu.Lock()
	for why, n := range c.alarms {
		s.Alarms[why] = n
	}
	c.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Working = int64(m.working)
	s.Jobs = map[Left]int64{}
	for _, e := range m.entries {
		state := States[e.next]
		if e.next == ask && e.begun.IsZero() {
			state = States[submit] // a client waits for it
		}
		s.Jobs[Left{e.place.kind, state}]++
	}
	return s
}
