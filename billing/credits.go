package billing

import "time"

// creditHours count the blockchain credits of an account over the last 24 hours
// (addendum 13, 429; D47). The account's mutex guards them. What open holds may
// cost counts from their admission; what they did not cost in the end is taken
// off the hour in which they were admitted.
//
// They count by the hour, and the hour that began 24 hours ago counts whole: no
// 24 hours ever have more than the cap, and credits come back within 25.
//
// They are in memory of this node alone: a restart begins with nothing counted,
// and each of several nodes of a shared store lets through the cap divided by
// the nodes that live.
type creditHours struct {
	newest int64 // the hour of the last request, since 1970
	taken  [creditSpan]int64
}

// creditSpan is how many calendar hours 24 hours can touch.
const creditSpan = 25

// roll forgets the hours that are past. A clock that was set back changes nothing.
func (c *creditHours) roll(nowNs int64) {
	hour := max(nowNs/hourNs, c.newest)
	for h := max(c.newest, hour-creditSpan) + 1; h <= hour; h++ {
		c.taken[h%creditSpan] = 0
	}
	c.newest = hour
}

// used is what counts now.
func (c *creditHours) used() (sum int64) {
	for _, n := range c.taken {
		sum += n
	}
	return sum
}

// check says whether n more credits stay within most; it takes none.
func (c *creditHours) check(n, most, nowNs int64, no *Denial) bool {
	c.roll(nowNs)
	over := c.used() + n - most
	if over <= 0 {
		return true
	}
	*no = Denial{Code: RateCredits, Limit: "RPD", Scope: scopeAccount, Allowed: most, Remaining: max(0, most-c.used())}
	// The first hour after which enough has gone. What alone is more than the
	// cap never passes, and is told the time at which all else has gone.
	back := c.newest + creditSpan
	for h := c.newest - creditSpan + 1; h <= c.newest; h++ {
		if over -= c.taken[h%creditSpan]; over <= 0 {
			back = h + creditSpan
			break
		}
	}
	no.Reset = time.Unix(0, back*hourNs)
	no.RetryAfter = max(time.Duration(back*hourNs-nowNs), 0)
	return false
}

// commit takes what check allowed.
func (c *creditHours) commit(h *Hold, n int64) {
	c.taken[c.newest%creditSpan] += n
	h.credits, h.creditHour = n, c.newest
}

// correct replaces what a hold took by what it used.
func (c *creditHours) correct(h *Hold, used, nowNs int64) {
	c.roll(nowNs)
	if at := min(h.creditHour, c.newest); c.newest-at < creditSpan {
		c.taken[at%creditSpan] += used - h.credits
	}
	h.credits = 0
}

// clockSet moves the hours back with a clock that was ahead: requests of all the
// time until it is there again would count as of one hour.
func (c *creditHours) clockSet(nowNs int64) {
	ahead := c.newest - nowNs/hourNs
	if ahead <= 1 {
		return // it counts as standing still
	}
	was := c.taken
	for h := c.newest - creditSpan + 1; h <= c.newest; h++ {
		c.taken[(h-ahead)%creditSpan] = was[h%creditSpan]
	}
	c.newest -= ahead
}

// creditCap is this node's part of a cap.
func (l *Ledger) creditCap(most int64) int64 {
	if l.node != nil {
		most /= max(1, l.node.live.Load())
	}
	return most
}
