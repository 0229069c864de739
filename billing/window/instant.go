package window

import "time"

// Instant is one point in time on both clocks of a machine, in ns. Wall is since
// 1970, and steps when the clock is set: calendars and clients go by it.
// Mono never steps, and was Wall when the process started: code that measures how long
// something is ago goes by it, so that a clock that is set moves no limit.
type Instant struct{ Wall, Mono int64 }

// Add is the instant d later.
func (t Instant) Add(d time.Duration) Instant {
	return Instant{Wall: t.Wall + int64(d), Mono: t.Mono + int64(d)}
}

// WallAt is the wall clock's time at a point of Mono, unless it is set again.
func (t Instant) WallAt(mono int64) int64 { return mono + t.Wall - t.Mono }
