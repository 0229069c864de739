package audio

import "time"

// SweepOnce deletes the voices whose time is over then.
func (of *Capability) SweepOnce(then time.Time) { of.sweepOnce(then) }
