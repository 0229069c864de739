package routes

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"farebox/config"
)

// maxFailureKinds is how many kinds of failures are told apart in a second. Status,
// code and cause are words of ours, or of an upstream.
const maxFailureKinds = 64

// sampler says which requests get a line in the log, so that logging never decides
// the cost of a request. Of successful ones it lets a bounded number a second through.
// Failures are all accounted for: some of each kind have a line, whatever else is
// logged, and one line a second counts the others of the kind.
type sampler struct {
	log     zerolog.Logger
	limit   atomic.Int64 // of successful requests a second; 0: all are logged
	same    atomic.Int64 // of failures of a kind
	second  atomic.Int64
	seen    atomic.Int64
	skipped atomic.Int64

	mu       sync.Mutex
	failures map[failure]*tally // of this second
	pending  *time.Timer        // ends it; nil: there was none
}

// failure is a kind of failed request. It says nothing of whose request it was.
type failure struct {
	status      int
	code, cause string
}

// tally is how many failures of a kind have a line, and how many have none.
type tally struct{ logged, counted int64 }

func (s *sampler) configure(l *config.Log) {
	s.limit.Store(int64(l.SampleAbove))
	s.same.Store(int64(l.SameErrors))
}

// take reports whether a successful request is to be logged, and how many were not since
// the last one.
func (s *sampler) take(now int64) (ok bool, skipped int64) {
	limit := s.limit.Load()
	if limit <= 0 {
		return true, 0
	}
	sec := now / int64(time.Second)
	if old := s.second.Load(); old != sec && s.second.CompareAndSwap(old, sec) {
		s.seen.Store(0)
	}
	if s.seen.Add(1) > limit {
		s.skipped.Add(1)
		return false, 0
	}
	return true, s.skipped.Swap(0)
}

// takeFailure reports whether a failed request is to be logged; else it is counted.
func (s *sampler) takeFailure(f failure) bool {
	if s.limit.Load() <= 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == nil {
		s.failures = map[failure]*tally{}
		s.pending = time.AfterFunc(time.Second, s.flush)
	}
	n := s.failures[f]
	if n == nil && len(s.failures) >= maxFailureKinds {
		f = failure{status: f.status, code: "other", cause: "other"}
		n = s.failures[f]
	}
	if n == nil {
		// Their text may be part of an answer whose memory is used again.
		f.code, f.cause, n = strings.Clone(f.code), strings.Clone(f.cause), new(tally)
		s.failures[f] = n
	}
	if n.logged >= s.same.Load() {
		n.counted++
		return false
	}
	n.logged++
	return true
}

// flush ends the second, and logs how many failures of it have no line of their own.
func (s *sampler) flush() {
	s.mu.Lock()
	failures := s.failures
	s.failures = nil
	if s.pending != nil {
		s.pending.Stop()
		s.pending = nil
	}
	s.mu.Unlock()
	for f, n := range failures {
		if n.counted == 0 {
			continue
		}
		e := s.log.Info()
		if f.status >= 500 {
			e = s.log.Warn()
		}
		e = e.Int("status", f.status).Int64("count", n.counted)
		if f.code != "" {
			e = e.Str("code", f.code)
		}
		if f.cause != "" {
			e = e.Str("cause", f.cause)
		}
		e.Msg("more requests failed alike")
	}
}
