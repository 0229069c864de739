package scrape

import (
	"sync"
	"time"

	"github.com/dgraph-io/ristretto/v2"
)

// pageCache keeps pages by their final URLs. Another URL of a page is stored with the
// final one.
type pageCache struct {
	ttl time.Duration
	m   *ristretto.Cache[string, *cacheEntry]

	mu     sync.RWMutex // m must not be used while and after it is closed
	closed bool
}

// cacheEntry is a page, or its final URL. It does not change.
type cacheEntry struct {
	page Page
	at   string
}

const (
	// pageOverhead is the memory that a page takes beside its bytes.
	pageOverhead = 300
	// typicalPage is the typical size of a page, for the number of counters.
	typicalPage = 4 << 10
)

// newPageCache keeps at most size bytes; 0 keeps nothing.
func newPageCache(size int64, ttl time.Duration) (*pageCache, error) {
	s := &pageCache{ttl: ttl, closed: size <= 0 || ttl <= 0}
	if s.closed {
		return s, nil
	}
	var err error
	s.m, err = ristretto.NewCache(&ristretto.Config[string, *cacheEntry]{
		NumCounters: min(max(10*size/typicalPage, 1000), 10_000_000), MaxCost: size, BufferItems: 64,
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
	pc.m.SetWithTTL(p.URL, &cacheEntry{page: p}, int64(len(p.Markdown)+2*len(p.URL)+pageOverhead), pc.ttl)
	if asked != p.URL {
		pc.m.SetWithTTL(asked, &cacheEntry{at: p.URL}, int64(len(asked)+len(p.URL)+pageOverhead), pc.ttl)
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
