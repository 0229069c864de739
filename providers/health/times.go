package health

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// timeBounds are the buckets of Times; the last one has no bound.
var timeBounds = [...]time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond,
	80 * time.Millisecond, 160 * time.Millisecond, 320 * time.Millisecond, 640 * time.Millisecond, 1280 * time.Millisecond,
	2560 * time.Millisecond, 5120 * time.Millisecond, 10240 * time.Millisecond, 20480 * time.Millisecond,
	40960 * time.Millisecond, 81920 * time.Millisecond, 300 * time.Second}

// Times is a histogram of durations, without locks. The zero value is ready.
type Times struct {
	counts [len(timeBounds) + 1]atomic.Int64
	sumNs  atomic.Int64
}

// Add counts a duration.
func (t *Times) Add(took time.Duration) {
	i := 0
	for i < len(timeBounds) && took > timeBounds[i] {
		i++
	}
	t.counts[i].Add(1)
	t.sumNs.Add(int64(took))
}

// Count is how many were added.
func (t *Times) Count() (n int64) {
	for i := range t.counts {
		n += t.counts[i].Load()
	}
	return n
}

// Quantile is the duration that a share q of all, 0 to 1, did not exceed, as exact as
// the buckets are. Without durations it is 0.
func (t *Times) Quantile(q float64) time.Duration {
	rank, below := q*float64(t.Count()), 0.0
	from := time.Duration(0)
	for i, to := range timeBounds {
		n := float64(t.counts[i].Load())
		if n > 0 && below+n >= rank {
			return from + time.Duration(float64(to-from)*max(rank-below, 0)/n)
		}
		below, from = below+n, to
	}
	if t.Count() == 0 {
		return 0
	}
	return from
}

// Write writes it in the Prometheus text format; labels are without braces.
func (t *Times) Write(w io.Writer, name, labels string) {
	n := int64(0)
	for i, bound := range timeBounds {
		n += t.counts[i].Load()
		fmt.Fprintf(w, "%s_bucket{%s,le=\"%g\"} %d\n", name, labels, bound.Seconds(), n)
	}
	n += t.counts[len(timeBounds)].Load()
	fmt.Fprintf(w, "%s_bucket{%s,le=\"+Inf\"} %d\n%s_sum{%s} %g\n%s_count{%s} %d\n", name, labels, n, name, labels,
		time.Duration(t.sumNs.Load()).Seconds(), name, labels, n)
}

// Outcome is the outcome of a request to a target, in metrics.
type Outcome uint8

// The outcomes.
const (
	NoAnswer Outcome = iota // not a byte
	Success                 // 2xx
	Redirect                // 3xx
	Refused                 // 4xx
	Failed                  // 5xx
	Broken                  // a 2xx that broke off or was of no use
	Left                    // the client left, or we did
	outcomes
)

var outcomeNames = [outcomes]string{"none", "2xx", "3xx", "4xx", "5xx", "broken", "left"}

// OutcomeOf is that of an answer's status.
func OutcomeOf(status int) Outcome {
	if status < 200 || status > 599 {
		return NoAnswer
	}
	return Success + Outcome(status/100-2)
}

// Meter has the times of a target's requests by kind of answer and outcome. Kinds without
// requests take no memory.
type Meter struct {
	series [2][outcomes]atomic.Pointer[series]
}

type series struct{ first, whole Times }

// Of are the times to the first byte, and of the whole, of whole or streamed answers.
func (m *Meter) Of(streamed bool, o Outcome) (first, whole *Times) {
	at := &m.series[0][o]
	if streamed {
		at = &m.series[1][o]
	}
	s := at.Load()
	if s == nil {
		at.CompareAndSwap(nil, new(series))
		s = at.Load()
	}
	return &s.first, &s.whole
}

// Each goes through the times that there are, by the status in words.
func (m *Meter) Each(f func(status string, streamed bool, first, whole *Times)) {
	for streamed := range m.series {
		for o := range m.series[streamed] {
			if s := m.series[streamed][o].Load(); s != nil {
				f(outcomeNames[o], streamed == 1, &s.first, &s.whole)
			}
		}
	}
}
