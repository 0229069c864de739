package fair

import "sync"

// reserve is how many times the free space an owner may hold: 7, so that alone it gets
// seven eighths, and an owner that holds nothing always finds space.
const reserve = 7

// Space is countable space that is held for a time and not waited for: bytes of a spool,
// kept answers, streams that are read on without a client. An owner gets more as long as
// it then holds at most seven times what stays free. An owner that holds nothing gets
// whatever fits. Safe for concurrent use.
type Space struct {
	mu   sync.Mutex
	most int64
	used int64
	held map[uint64]int64 // by account; 0: of all unpaid callers together
	nets map[uint64]int64 // of unpaid callers, by address
}

// NewRoom makes a Room of a size.
func NewRoom(most int64) *Space {
	return &Space{most: most, held: map[uint64]int64{}, nets: map[uint64]int64{}}
}

// Take takes n for an owner, or nothing. n is at least 0.
func (s *Space) Take(o Owner, n int64) bool { return s.Grow(o, 0, n) }

// Grow takes n more for a piece that has had already. A piece that is all its owner
// holds gets whatever fits, like one that begins.
func (s *Space) Grow(o Owner, had, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.allowed(o, had) {
		return false
	}
	s.add(o, n)
	return true
}

// Fits says whether Take would give n now.
func (s *Space) Fits(o Owner, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return n <= s.allowed(o, 0)
}

// Put counts n for an owner without asking: units of an earlier process, or the rest of a piece
// that was let in.
func (s *Space) Put(o Owner, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(o, n)
}

// Give gives n of an owner back.
func (s *Space) Give(o Owner, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(o, -n)
}

// Resize changes the size. Units held beyond it stay until they are given back.
func (s *Space) Resize(most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = most
}

// Used is how much is held.
func (s *Space) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// allowed is how much more an owner may take now, for a piece that has had.
func (s *Space) allowed(o Owner, had int64) int64 {
	return allowed(o, had, max(0, s.most-s.used), s.held[o.Account], s.nets[o.Net])
}

// Fits is Room.Take for space that somebody else counts, such as rows of a database:
// used is held in all, account of it by the owner's account, and net by its address.
func Fits(o Owner, n, most, used, account, net int64) bool {
	return n <= allowed(o, 0, max(0, most-used), account, net)
}

func allowed(o Owner, had, free, account, net int64) int64 {
	n := allowance(account, had, free)
	if o.Account == 0 {
		n = allowance(net, had, n)
	}
	return n
}

// allowance is the most n for which held+n <= reserve*(free-n), or all that is free for
// the only piece.
func allowance(held, had, free int64) int64 {
	if held == had {
		return free
	}
	return max(0, free-(free+held+reserve)/(reserve+1))
}

func (s *Space) add(o Owner, n int64) {
	s.used += n
	add(s.held, o.Account, n)
	if o.Account == 0 {
		add(s.nets, o.Net, n)
	}
}

// add keeps no zeros, so that the map is as large as the number of holders.
func add(m map[uint64]int64, k uint64, n int64) {
	if n += m[k]; n == 0 {
		delete(m, k)
		return
	}
	m[k] = n
}
