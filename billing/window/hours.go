package window

// Hours count the blockchain credits of an account over the last 24 hours
// (addendum 13, 429; D47). What open holds may cost counts from their admission;
// what they did not cost in the end is taken off the hour in which they were
// admitted.
//
// They count by the hour, and the hour that began 24 hours ago counts whole: no
// 24 hours ever have more than the cap, and credits come back within 25.
//
// They are in memory of this node alone: a restart begins with nothing counted,
// and each of several nodes of a shared store lets through the cap divided by
// the nodes that live.
type Hours struct {
	newest int64 // the hour of the last request, of Instant.Mono
	taken  [hoursSpan]int64
}

// hoursSpan is how many calendar hours 24 hours can touch.
const hoursSpan = 25

// roll forgets the hours that are past. A request that comes late changes nothing.
func (c *Hours) roll(nowNs int64) {
	hour := max(nowNs/HourNs, c.newest)
	for h := max(c.newest, hour-hoursSpan) + 1; h <= hour; h++ {
		c.taken[h%hoursSpan] = 0
	}
	c.newest = hour
}

// Used is what counts now.
func (c *Hours) Used() (sum int64) {
	for _, n := range c.taken {
		sum += n
	}
	return sum
}

// Check says whether n more credits stay within most; it takes none.
func (c *Hours) Check(n, most int64, now Instant, refusal *Refusal) bool {
	c.roll(now.Mono)
	over := c.Used() + n - most
	if over <= 0 {
		return true
	}
	// The first hour after which enough has gone. What alone is more than the
	// cap never passes, and gets the time at which all else has gone.
	back := c.newest + hoursSpan
	for h := c.newest - hoursSpan + 1; h <= c.newest; h++ {
		if over -= c.taken[h%hoursSpan]; over <= 0 {
			back = h + hoursSpan
			break
		}
	}
	refusal.After("RPD", most, now, back*HourNs, back*HourNs)
	refusal.Remaining = max(0, most-c.Used())
	return false
}

// Commit takes what check allowed and gives the hour in which it counts.
func (c *Hours) Commit(n int64) (hour int64) {
	c.taken[c.newest%hoursSpan] += n
	return c.newest
}

// Correct replaces what was taken in an hour by what was used.
func (c *Hours) Correct(hour, taken, used, nowNs int64) {
	c.roll(nowNs)
	if at := min(hour, c.newest); c.newest-at < hoursSpan {
		c.taken[at%hoursSpan] += used - taken
	}
}
