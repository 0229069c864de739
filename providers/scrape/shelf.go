package scrape

import (
	"sync"
	"time"

	"github.com/dgraph-io/ristretto/v2"
)

// pageCache keeps pages by their final URLs. Another URL that led there is kept as a
// word of where.
type pageCache struct {
	ttl time.Duration
	m   *ristretto.Cache[string, *cacheEntry]

	mu     sync.RWMutex // m must not be used while and after it is closed
	closed bool
}

// cacheEntry is a page, or where to find it. It does not change.
type cacheEntry struct {
	page Page
	at   string
}

const (
	// volumeOverhead is the memory that a page takes beside its bytes.
	volumeOverhead = 300
	// volumeTypical is for how large pages the counters are made.
	volumeTypical = 4 << 10
)

// newShelf keeps at most size bytes; 0 keeps nothing.
func newShelf(size int64, ttl time.Duration) (*pageCache, error) {
	s := &pageCache{ttl: ttl, closed: size <= 0 || ttl <= 0}
	if s.closed {
		return s, nil
	}
	var err error
	s.m, err = ristretto.NewCache(&ristretto.Config[string, *cacheEntry]{
		NumCounters: min(max(10*size/volumeTypical, 1000), 10_000_000), MaxCost: size, BufferItems: 64,
		IgnoreInternalCost: true,
	})
	return s, err
}

func (pc *pageCache) find(url string) (p Page, ok bool) {
	pc.mu.RLock()
	defer pc.mu.RUnlock()
	if pc.closed {
		return p, false
	}
	v, ok := pc.m.Get(url)
	if ok && v.at != "" {
		v, ok = pc.m.Get(v.at)
	}
	if !ok || v.at != "" {
		return p, false
	}
	p = v.page
	p.Cached = true
	return p, true
}

func (pc *pageCache) store(asked string, p Page) {
	pc.mu.RLock()
	defer pc.mu.RUnlock()
	if pc.closed {
		return
	}
	pc.m.SetWithTTL(p.URL, &cacheEntry{page: p}, int64(len(p.Markdown)+2*len(p.URL)+volumeOverhead), pc.ttl)
	if asked != p.URL {
		pc.m.SetWithTTL(asked, &cacheEntry{at: p.URL}, int64(len(asked)+len(p.URL)+volumeOverhead), pc.ttl)
	}
}

func (pc *pageCache) close() {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	if !pc.closed {
		pc.m.Close()
	}
	pc.closed = true
}
