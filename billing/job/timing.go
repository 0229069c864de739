package job

import (
	"slices"
	"time"
)

const (
	// remembered is how many jobs of a model its average is made of.
	remembered = 64
	// unmeasured is its value before there are any.
	unmeasured = time.Minute
)

// timing is how long the last jobs of a model took.
type timing struct {
	last []time.Duration
	next int
	p80  time.Duration
}

func (t *timing) add(d time.Duration) {
	if d <= 0 {
		return
	}
	if len(t.last) < remembered {
		t.last = append(t.last, d)
	} else {
		t.last[t.next] = d
		t.next = (t.next + 1) % remembered
	}
	sorted := slices.Clone(t.last)
	slices.Sort(sorted)
	t.p80 = sorted[(len(sorted)*4+4)/5-1]
}

// Average is the time within which four of five recent jobs of a model ended.
func (m *Machine) Average(model string) time.Duration {
	m.mu.Lock()
	t := m.timing[model]
	m.mu.Unlock()
	if t == nil {
		t = m.measure(model)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.p80 == 0 {
		return unmeasured
	}
	return t.p80
}

// measure reads from the store the times of a model's jobs from before this process.
func (m *Machine) measure(model string) *timing {
	t := &timing{}
	took, err := m.o.Store.FinishedTimes(model, remembered)
	if !m.note(err) {
		return t // and it is asked for again
	}
	for _, d := range took {
		t.add(d)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if have := m.timing[model]; have != nil {
		return have
	}
	m.timing[model] = t
	return t
}

// noteTime counts a job that was completed. Before anybody asked for the average, the
// store has it.
func (m *Machine) noteTime(model string, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.timing[model]; t != nil {
		t.add(took)
	}
}
