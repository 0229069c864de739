package scrape

import (
	"context"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"farebox/config/fair"
)

// flights let requests of one owner for the same page at once share one reading of it,
// which goes on as long as one of them waits. Another owner does not share it: it would
// wait in a queue behind all requests of the first one. x/sync/singleflight cannot end a
// reading when the last of those who wait has left.
type flights struct {
	mu sync.Mutex
	m  map[flightKey]*flight
}

type flightKey struct {
	owner fair.Owner
	url   string
}

type flight struct {
	waiting int // under flights.mu
	asked   atomic.Bool
	cancel  context.CancelFunc
	done    chan struct{}
	page    Page
	err     error
}

func (s *flights) do(ctx context.Context, key flightKey, read func(context.Context) (Page, error)) (Page, error) {
	if err := ctx.Err(); err != nil {
		return Page{}, err
	}
	s.mu.Lock()
	f := s.m[key]
	if f == nil {
		f = s.begin(ctx, key, read)
	}
	f.waiting++
	s.mu.Unlock()
	select {
	case <-f.done:
		s.endFlight(key, f)
		return f.page, f.err
	case <-ctx.Done():
		s.endFlight(key, f)
		return Page{Asked: f.asked.Load()}, ctx.Err()
	}
}

// begin is for callers that hold mu. The flight outlives the request that began it, whose
// client may leave before the others.
func (s *flights) begin(of context.Context, key flightKey, read func(context.Context) (Page, error)) *flight {
	ctx, cancel := context.WithCancel(fair.WithMeter(fair.With(context.Background(), key.owner), fair.MeterOf(of)))
	f := &flight{cancel: cancel, done: make(chan struct{})}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { f.asked.Store(true) }})
	if s.m == nil {
		s.m = map[flightKey]*flight{}
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

// land removes a flight from the list: later requests begin another.
func (s *flights) land(key flightKey, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[key] == f {
		delete(s.m, key)
	}
}

// endFlight ends a flight without waiting requests.
func (s *flights) endFlight(key flightKey, f *flight) {
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
