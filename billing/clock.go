package billing

import (
	"time"

	"farebox/billing/calendar"
	"farebox/billing/window"
)

// Two clocks count. Days, periods, expiry and all that is written down go by the
// calendar: a machine that slept must not lag behind it. The windows of this node
// measure how long something is ago, by the monotonic clock: whoever sets the
// clock of a machine blocks nobody with it, and lets no limit begin anew.

var (
	processStart   = time.Now()
	processStartNs = processStart.UnixNano()
)

func monotonic() int64 { return int64(time.Since(processStart)) }

// At is a reading of the clock on both. One without a monotonic part is of a
// clock that nobody sets.
func At(t time.Time) window.Instant {
	return window.Instant{Wall: t.UnixNano(), Mono: processStartNs + int64(t.Sub(processStart))}
}

// at is the present by the clocks of this machine.
func (l *Ledger) at() window.Instant { return At(l.clock()) }

// now is the clock that everything written goes by, Unix ns: this machine's, or
// on a shared store the store's, so that nodes whose clocks differ write and
// read one history.
func (l *Ledger) now() int64 { return l.written(l.at()) }

// written is the time to write down for an instant of this machine. A node reckons
// the store's clock from the monotonic one, so that what it writes keeps the
// store's time whoever sets the clock here.
func (l *Ledger) written(t window.Instant) int64 {
	if l.node != nil {
		return t.Mono + l.ahead.Load()
	}
	return t.Wall + l.ahead.Load()
}

// Now is the time that all nodes of a store agree on.
func (l *Ledger) Now() time.Time { return time.Unix(0, l.now()) }

// day is the UTC day of a request at ns: by the local clock, or on a shared
// store by its clock, so that all nodes begin a day together.
func (l *Ledger) day(ns int64) int32 {
	if l.node != nil {
		return l.node.day.Load()
	}
	return calendar.DayOf(ns)
}

// Today is the UTC day, counted from 1970-01-01.
func (l *Ledger) Today() int32 { return l.day(l.now()) }
