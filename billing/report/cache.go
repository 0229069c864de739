package report

import (
	"sync"
	"time"
)

// cache keeps answers for cacheFor, and lets requests for the same at the same
// time wait for one query.
type cache struct {
	mu sync.Mutex
	m  map[cacheKey]*cached
}

type cacheKey struct {
	account     uint32
	first, last int32
}

type cached struct {
	done chan struct{}
	at   time.Time
	sum  *Analytics
	err  error
}

const (
	cacheFor  = 10 * time.Minute // interface.md, Limits
	cacheMost = 256
)

// get gives the answer that is kept, or asks for one. ask says whether it is
// complete and may be kept.
func (c *cache) get(k cacheKey, ask func() (sum *Analytics, keep bool, err error)) (*Analytics, error) {
	c.mu.Lock()
	a := c.m[k]
	if a != nil && time.Since(a.at) < cacheFor {
		c.mu.Unlock()
		<-a.done
		return a.sum, a.err
	}
	a = &cached{done: make(chan struct{}), at: time.Now()}
	c.put(k, a)
	c.mu.Unlock()
	defer close(a.done)
	keep := false
	if a.sum, keep, a.err = ask(); !keep {
		c.mu.Lock()
		if c.m[k] == a {
			delete(c.m, k)
		}
		c.mu.Unlock()
	}
	return a.sum, a.err
}

// put makes room: all that are over, or else the oldest.
func (c *cache) put(k cacheKey, a *cached) {
	if c.m == nil {
		c.m = map[cacheKey]*cached{}
	}
	if len(c.m) >= cacheMost {
		oldest := k
		at := a.at
		for k, b := range c.m {
			if time.Since(b.at) > cacheFor {
				delete(c.m, k)
			} else if b.at.Before(at) {
				oldest, at = k, b.at
			}
		}
		if len(c.m) >= cacheMost {
			delete(c.m, oldest)
		}
	}
	c.m[k] = a
}
