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
func (r *Space) Take(o Owner, n int64) bool { return r.Grow(o, 0, n) }

// Grow takes n more for a piece that has had already. A piece that is all its owner
// holds gets whatever fits, like one that begins.
func (r *Space) Grow(o Owner, had, n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > r.allowed(o, had) {
		return false
	}
	r.add(o, n)
	return true
}

// Fits says whether Take would give n now.
func (r *Space) Fits(o Owner, n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return n <= r.allowed(o, 0)
}

// Put counts n for an owner without asking: what an earlier process kept, or what
// completes a piece that was let in.
func (r *Space) Put(o Owner, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(o, n)
}

// Give gives n of an owner back.
func (r *Space) Give(o Owner, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(o, -n)
}

// Resize changes the size. What is held beyond it stays until it is given back.
func (r *Space) Resize(most int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = most
}

// Used is how much is held.
func (r *Space) Used() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// allowed is how much more an owner may take now, for a piece that has had.
func (r *Space) allowed(o Owner, had int64) int64 {
	return allowed(o, had, max(0, r.most-r.used), r.held[o.Account], r.nets[o.Net])
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

func (r *Space) add(o Owner, n int64) {
	r.used += n
	add(r.held, o.Account, n)
	if o.Account == 0 {
		add(r.nets, o.Net, n)
	}
}

// add keeps no zeros, so that the map is as large as what is held.
func add(m map[uint64]int64, k uint64, n int64) {
	if n += m[k]; n == 0 {
		delete(m, k)
		return
	}
	m[k] = n
}
