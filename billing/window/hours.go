package window

// Hours count the blockchain credits of an account over the last 24 hours
// (addendum 13, 429; D47). The highest cost of open holds counts from their admission;
// the unused part is taken off the hour of their admission.
//
// They count by the hour, and the hour that began 24 hours ago counts whole: no
// 24 hours ever have more than the cap, and credits come back within 25.
//
// They are in memory of this node alone: a restart begins with nothing counted,
// and each of several nodes of a shared store lets through the cap divided by
// the number of live nodes.
type Hours struct {
	newest int64 // the hour of the last request, of Instant.Mono
	taken  [hoursSpan]int64
}

// hoursSpan is how many calendar hours 24 hours can touch.
const hoursSpan = 25

// roll forgets the hours that are past. A request that comes late changes nothing.
func (ho *Hours) roll(nowNs int64) {
	hour := max(nowNs/HourNs, ho.newest)
	for h := max(ho.newest, hour-hoursSpan) + 1; h <= hour; h++ {
		ho.taken[h%hoursSpan] = 0
	}
	ho.newest = hour
}

// Used is the sum that counts now.
func (ho *Hours) Used() (sum int64) {
	for _, n := range ho.taken {
		sum += n
	}
	return sum
}

// Check says whether n more credits stay within most; it takes none.
func (ho *Hours) Check(n, most int64, now Instant, refusal *Refusal) bool {
	ho.roll(now.Mono)
	over := ho.Used() + n - most
	if over <= 0 {
		return true
	}
	// The first hour after which enough has gone. A request that alone is more than the
	// cap never passes, and gets the time at which all else has gone.
	back := ho.newest + hoursSpan
	for h := ho.newest - hoursSpan + 1; h <= ho.newest; h++ {
		if over -= ho.taken[h%hoursSpan]; over <= 0 {
			back = h + hoursSpan
			break
		}
	}
	refusal.After("RPD", most, now, back*HourNs, back*HourNs)
	refusal.Remaining = max(0, most-ho.Used())
	return false
}

// Commit takes the credits that Check allowed and gives the hour in which it counts.
func (ho *Hours) Commit(n int64) (hour int64) {
	ho.taken[ho.newest%hoursSpan] += n
	return ho.newest
}

// Correct replaces the credits taken in an hour by those used.
func (ho *Hours) Correct(hour, taken, used, nowNs int64) {
	ho.roll(nowNs)
	if at := min(hour, ho.newest); ho.newest-at < hoursSpan {
		ho.taken[at%hoursSpan] += used - taken
	}
}
