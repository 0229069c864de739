package billing

import (
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/calendar"
	"farebox/billing/window"
)

// Two clocks count. Days, periods, expiry and all that is written down go by the
// calendar: a machine that slept must not lag behind it. The windows of this node
// measure how long something is ago, by the monotonic clock: setting the
// clock of a machine blocks no client, and lets no limit begin anew.

var (
	processStart   = time.Now()
	processStartNs = processStart.UnixNano()
)

func monotonic() int64 { return int64(time.Since(processStart)) }

// At is a reading of the clock on both. One without a monotonic part is of a
// clock that is never set.
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
// the store's clock from the monotonic one, so that its rows keep the
// store's time even if the clock here is set.
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

// Whose clock counts: with several nodes on one PostgreSQL, its clock decides
// days, periods and every time that is written down (Ledger.now), and Redis's
// clock decides the windows that it keeps (package limits). A node's own clock
// only measures how long something takes, and its own rate windows. So clocks
// that differ by some minutes cost no limit and no money. A difference of more
// than that is a mistake that sessions, certificates and logs would
// suffer from too: a node refuses to start with it. One that comes later, while
// requests are served, stops none of them: it is an error in the log and in the
// metrics.
const (
	// skewStart is how far a clock may be off at the start: two minutes, and some
	// seconds for reading it.
	skewStart = 2*time.Minute + 5*time.Second
	// skewQuiet is how far it may be off without a log entry, skewNews by how much it
	// has to change to be reported again.
	skewQuiet = 2 * time.Second
	skewNews  = 10 * time.Second
	// readingLeast is the usual difference of two readings of a clock, ns.
	readingLeast = int64(20 * time.Millisecond)
)

// farApart refuses to start with a clock that differs by skew from a server's.
func farApart(server string, skew time.Duration) error {
	if skew.Abs() <= skewStart {
		return nil
	}
	return fmt.Errorf("the clock of this machine is %s %s's, and may differ from it by 2 minutes: "+
		"set the one that is wrong (timedatectl shows whether NTP runs), then start again", aheadOf(skew), server)
}

// aheadOf says 1m30s as "1m30s ahead of" and -1m30s as "1m30s behind".
func aheadOf(skew time.Duration) string {
	text := skew.Abs().Round(time.Second).String()
	if skew < 0 {
		return text + " behind"
	}
	return text + " ahead of"
}

// skewLog writes a line when a difference begins, changes or ends, and none in
// between.
type skewLog struct {
	mu   sync.Mutex
	told time.Duration // 0: nothing is wrong
}

func (s *skewLog) report(log *zerolog.Logger, server string, skew time.Duration, follows string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wrong := skew.Abs() > skewQuiet
	switch {
	case !wrong && s.told != 0:
		s.told = 0
		log.Warn().Str("server", server).Msg("the clocks agree again")
	case wrong && (s.told == 0 || (skew-s.told).Abs() > skewNews):
		s.told = skew
		log.Error().Str("server", server).Dur("skew_ms", skew).
			Msgf("the clock of this machine is %s %s's; %s. Set the one that is wrong", aheadOf(skew), server, follows)
	}
}

// Skew is how far this machine's clock is ahead of those of PostgreSQL and
// Redis, as last seen; 0 without them.
func (l *Ledger) Skew() (store, redis time.Duration) {
	if l.node != nil {
		store = time.Duration(l.node.skewNs.Load())
	}
	if l.redis != nil {
		redis = l.redis.Skew()
	}
	return store, redis
}
