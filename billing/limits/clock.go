package limits

import "farebox/billing/window"

// Shift moves what this node remembers of windows that Redis keeps in its
// own clock.
func (s *Limits) Shift(m *window.Step) {
	was := s.lostNs.Load()
	at := was
	m.Move(&at)
	s.lostNs.CompareAndSwap(was, at)
	for i := range s.shards {
		shard := &s.shards[i]
		shard.mu.RLock()
		for _, w := range shard.m {
			w.mu.Lock()
			for _, at := range []*int64{&w.leased, &w.again, &w.seenN, &w.fullUntil, &w.full.ResetNs} {
				m.Move(at)
			}
			w.seen.Shift(m)
			for j := range w.part.at {
				m.Move(&w.part.at[j])
			}
			w.mu.Unlock()
		}
		shard.mu.RUnlock()
	}
}
