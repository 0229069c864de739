package report

import (
	"sync"
	"time"
)

// anchors remember how far the detail was when page 1 of a listing was
// asked for, so that its further pages are counted from the same end.
type anchors struct {
	mu sync.Mutex
	m  map[anchorKey]*anchor
}

// anchorKey is a listing without the number of its page.
type anchorKey struct {
	account      uint32
	place        int
	fromUs, toUs int64
	limit        int64
	ascending    bool
}

type anchor struct {
	bounds map[uint32]uint64 // by node
	used   time.Time
}

const (
	anchorFor   = 10 * time.Minute
	anchorsMost = 1024
)

func (s *anchors) get(k anchorKey) map[uint32]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.m[k]
	if a == nil || time.Since(a.used) > anchorFor {
		return nil
	}
	a.used = time.Now()
	return a.bounds
}

func (s *anchors) put(k anchorKey, bounds map[uint32]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[anchorKey]*anchor{}
	}
	if s.m[k] == nil && len(s.m) >= anchorsMost {
		s.drop()
	}
	s.m[k] = &anchor{bounds, time.Now()}
}

// drop makes room: all that are over, or else the one that was used longest ago.
func (s *anchors) drop() {
	var oldest anchorKey
	var at time.Time
	for k, a := range s.m {
		if time.Since(a.used) > anchorFor {
			delete(s.m, k)
		} else if at.IsZero() || a.used.Before(at) {
			oldest, at = k, a.used
		}
	}
	if len(s.m) >= anchorsMost {
		delete(s.m, oldest)
	}
}
