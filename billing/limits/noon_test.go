package limits

import (
	"time"

	"farebox/billing/window"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixNano()

// at is an instant at which the wall clock and the monotonic clock agree.
func at(ns int64) window.Instant { return window.Instant{Wall: ns, Mono: ns} }

func now() window.Instant { return at(time.Now().UnixNano()) }
