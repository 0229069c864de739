package billing

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
func (c *creditHours) check(n, most, nowNs int64, no *refusal) bool {
	c.roll(nowNs)
	over := c.used() + n - most
	if over <= 0 {
		return true
	}
	// The first hour after which enough has gone. What alone is more than the
	// cap never passes, and is told the time at which all else has gone.
	back := c.newest + creditSpan
	for h := c.newest - creditSpan + 1; h <= c.newest; h++ {
		if over -= c.taken[h%creditSpan]; over <= 0 {
			back = h + creditSpan
			break
		}
	}
	no.until("RPD", most, nowNs, back*hourNs, back*hourNs)
	no.remaining = max(0, most-c.used())
	return false
}

// commit takes what check allowed and gives the hour in which it counts.
func (c *creditHours) commit(n int64) (hour int64) {
	c.taken[c.newest%creditSpan] += n
	return c.newest
}

// correct replaces what was taken in an hour by what was used.
func (c *creditHours) correct(hour, taken, used, nowNs int64) {
	c.roll(nowNs)
	if at := min(hour, c.newest); c.newest-at < creditSpan {
		c.taken[at%creditSpan] += used - taken
	}
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
