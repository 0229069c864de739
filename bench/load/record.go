package load

import (
	"sync"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms hold 0.1 µs to 10 minutes with three digits; about 200 KB each,
// which is why connections share a few recorders.
const (
	lowestNs  = 100
	highestNs = int64(10 * time.Minute)
	digits    = 3
	// maxSeconds bounds the series of a run that lasts for days.
	maxSeconds = 24 * 3600
)

// recorder collects the measurements of one shard's workers.
type recorder struct {
	requests atomic.Int64 // for the progress line
	failed   atomic.Int64
	whole    atomic.Int64 // requests that began and ended in the measured time

	mu       sync.Mutex
	latency  *hdr.Histogram
	first    *hdr.Histogram
	gaps     *hdr.Histogram
	delays   *hdr.Histogram
	events   int64
	aborted  int64
	bytes    int64
	errors   map[string]int64
	seconds  []Second
	finished int64
}

func newHistogram() *hdr.Histogram { return hdr.New(lowestNs, highestNs, digits) }

func newRecorder() *recorder {
	return &recorder{
		latency: newHistogram(), first: newHistogram(), gaps: newHistogram(), delays: newHistogram(),
		errors: map[string]int64{},
	}
}

func record(h *hdr.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(int64(d), 0), highestNs))
}

// done counts a request that ended well. One that began before the measured
// time counts, but its latency does not.
func (r *recorder) done(took time.Duration, second int, whole bool, bytes int64) {
	r.requests.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished++
	r.bytes += bytes
	if whole {
		r.whole.Add(1)
		record(r.latency, took)
	}
	s := r.second(second)
	s.Requests++
	s.SumUs += float64(took) / 1e3
	s.MaxUs = max(s.MaxUs, float64(took)/1e3)
}

func (r *recorder) second(n int) *Second {
	n = min(max(n, 0), maxSeconds)
	for len(r.seconds) <= n {
		r.seconds = append(r.seconds, Second{At: len(r.seconds)})
	}
	return &r.seconds[n]
}

func (r *recorder) fail(kind string, counts bool) {
	if !counts {
		return
	}
	r.failed.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors[kind]++
}

func (r *recorder) abort(counts bool) {
	if !counts {
		return
	}
	r.requests.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.aborted++
}

// seen describes one read of a stream; -1: not known.
type seen struct {
	events            int
	first, gap, delay time.Duration
}

func (r *recorder) event(s seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events += int64(s.events)
	for _, part := range []struct {
		h *hdr.Histogram
		d time.Duration
	}{{r.first, s.first}, {r.gaps, s.gap}, {r.delays, s.delay}} {
		if part.d >= 0 {
			record(part.h, part.d)
		}
	}
}

// begun counts the time to the first byte of a whole answer's body.
func (r *recorder) begun(after time.Duration) {
	r.mu.Lock()
	record(r.first, after)
	r.mu.Unlock()
}

func (r *recorder) merge(o *recorder) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.latency.Merge(o.latency)
	r.first.Merge(o.first)
	r.gaps.Merge(o.gaps)
	r.delays.Merge(o.delays)
	r.events += o.events
	r.aborted += o.aborted
	r.bytes += o.bytes
	r.finished += o.finished
	for k, n := range o.errors {
		r.errors[k] += n
	}
	for _, s := range o.seconds {
		into := r.second(s.At)
		into.Requests += s.Requests
		into.SumUs += s.SumUs
		into.MaxUs = max(into.MaxUs, s.MaxUs)
	}
}
