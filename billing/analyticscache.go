package billing

import (
	"sync"
	"time"
)

// analyticsCache keeps answers for analyticsFor, and lets those who ask for the
// same at the same time wait for one query.
type analyticsCache struct {
	mu sync.Mutex
	m  map[analyticsKey]*analyticsAnswer
}

type analyticsKey struct {
	account     uint32
	first, last int32
}

type analyticsAnswer struct {
	done chan struct{}
	at   time.Time
	sum  *Analytics
	err  error
}

const (
	analyticsFor  = 10 * time.Minute // interface.md, Limits
	analyticsMost = 256
)

// get gives the answer that is kept, or asks for one. ask says whether it is
// complete and may be kept.
func (c *analyticsCache) get(k analyticsKey, ask func() (sum *Analytics, keep bool, err error)) (*Analytics, error) {
	c.mu.Lock()
	a := c.m[k]
	if a != nil && time.Since(a.at) < analyticsFor {
		c.mu.Unlock()
		<-a.done
		return a.sum, a.err
	}
	a = &analyticsAnswer{done: make(chan struct{}), at: time.Now()}
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
func (c *analyticsCache) put(k analyticsKey, a *analyticsAnswer) {
	if c.m == nil {
		c.m = map[analyticsKey]*analyticsAnswer{}
	}
	if len(c.m) >= analyticsMost {
		oldest := k
		at := a.at
		for k, b := range c.m {
			if time.Since(b.at) > analyticsFor {
				delete(c.m, k)
			} else if b.at.Before(at) {
				oldest, at = k, b.at
			}
		}
		if len(c.m) >= analyticsMost {
			delete(c.m, oldest)
		}
	}
	c.m[k] = a
}
