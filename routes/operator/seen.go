package operator

import (
	"crypto/sha256"
	"sync"
)

// seen remembers tokens that were right, by their digests.
type seen struct {
	mu sync.Mutex
	of map[[sha256.Size]byte]bool
}

func (s *seen) has(secret string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[sha256.Sum256([]byte(secret))]
}

func (s *seen) add(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) >= mostSeen {
		s.of = map[[sha256.Size]byte]bool{}
	}
	s.of[sha256.Sum256([]byte(secret))] = true
}

func (s *seen) drop(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, sha256.Sum256([]byte(secret)))
}
