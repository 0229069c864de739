package routes

import (
	"net/netip"
	"sync"
	"time"
)

// PerMinute counts the requests of each of many in the last minute, GCRA with a burst
// of the whole limit: client addresses, wallets. Memory is bounded: when there are too
// many, those go first that have nothing used. The zero value is ready.
type PerMinute[K comparable] struct {
	mu sync.Mutex
	at map[K]int64 // theoretical arrival time, Unix ns
}

const (
	// maxCounted is how many are counted at a time.
	maxCounted = 1 << 14
	// countedSeen is how many of them are looked at to make room for another: a client with many
	// addresses must not cause a search through all for each.
	countedSeen = 16
)

// Take counts a request of k, or says how long to wait. 0 is any number.
func (p *PerMinute[K]) Take(k K, limit int64, now time.Time) (wait time.Duration) {
	if limit == 0 {
		return 0
	}
	ns, step := now.UnixNano(), int64(time.Minute)/limit
	p.mu.Lock()
	defer p.mu.Unlock()
	at := max(p.at[k], ns)
	if over := at + step - ns - int64(time.Minute); over > 0 {
		return time.Duration(over)
	}
	if p.at == nil {
		p.at = map[K]int64{}
	}
	if len(p.at) >= maxCounted {
		p.makeRoom(ns)
	}
	p.at[k] = at + step
	return 0
}

// Wait is how long k waits for its next request, which is not counted.
func (p *PerMinute[K]) Wait(k K, limit int64, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, time.Duration(p.at[k]+int64(time.Minute)/limit-now.UnixNano()-int64(time.Minute)))
}

func (p *PerMinute[K]) makeRoom(ns int64) {
	n := 0
	for k, at := range p.at {
		if n++; at <= ns || n == countedSeen {
			delete(p.at, k)
		}
		if n == countedSeen {
			return
		}
	}
}

// PerAddress counts the requests of each client address (proxy.Address). Requests over a Unix
// socket without a trusted header have no address, and are not counted: all clients of the proxy
// there would share one.
type PerAddress struct{ counts PerMinute[netip.Addr] }

// Take is PerMinute.Take.
func (p *PerAddress) Take(from netip.Addr, limit int64, now time.Time) (wait time.Duration) {
	if !from.IsValid() {
		return 0
	}
	return p.counts.Take(from, limit, now)
}
