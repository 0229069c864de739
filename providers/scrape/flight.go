package scrape

import (
	"context"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// flights let those who ask for the same page at once share one reading of it,
// which goes on as long as one of them waits.
type flights struct {
	mu sync.Mutex
	m  map[string]*flight
}

type flight struct {
	waiting int // under flights.mu
	asked   atomic.Bool
	cancel  context.CancelFunc
	done    chan struct{}
	page    Page
	err     error
}

func (s *flights) do(ctx context.Context, key string, read func(context.Context) (Page, error)) (Page, error) {
	if err := ctx.Err(); err != nil {
		return Page{}, err
	}
	s.mu.Lock()
	f := s.m[key]
	if f == nil {
		f = s.begin(key, read)
	}
	f.waiting++
	s.mu.Unlock()
	select {
	case <-f.done:
		s.leave(key, f)
		return f.page, f.err
	case <-ctx.Done():
		s.leave(key, f)
		return Page{Asked: f.asked.Load()}, ctx.Err()
	}
}

// begin is for callers that hold mu. What it begins belongs to nobody: whoever asked
// first may leave before the others.
func (s *flights) begin(key string, read func(context.Context) (Page, error)) *flight {
	ctx, cancel := context.WithCancel(context.Background())
	f := &flight{cancel: cancel, done: make(chan struct{})}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { f.asked.Store(true) }})
	if s.m == nil {
		s.m = map[string]*flight{}
	}
	s.m[key] = f
	go func() {
		defer cancel()
		f.page, f.err = read(ctx)
		s.land(key, f)
		close(f.done)
	}()
	return f
}

// land takes a flight off the list: who comes from here on asks anew.
func (s *flights) land(key string, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[key] == f {
		delete(s.m, key)
	}
}

// leave ends a flight that nobody waits for any more.
func (s *flights) leave(key string, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiting--; f.waiting > 0 {
		return
	}
	f.cancel()
	if s.m[key] == f {
		delete(s.m, key)
	}
}
