package window

import "farebox/config"

// Failures count one caller's failures and block it when they are too many
// (addendum 3.6).
type Failures struct {
	startNs int64 // of Instant.Mono, as every time here
	untilNs int64 // blocked until then
	count   int32
}

// Note counts one failure: the one that goes beyond limit.Count within
// limit.Window blocks for limit.Block.
func (f *Failures) Note(limit *config.Budget, now int64) {
	if now-f.startNs >= int64(limit.Window) {
		f.startNs, f.count = now, 0
	}
	if f.count++; int(f.count) > limit.Count {
		f.untilNs, f.startNs, f.count = now+int64(limit.Block), 0, 0
	}
}

// Over says that they mean nothing any more.
func (f *Failures) Over(limit *config.Budget, now int64) bool {
	return f.untilNs <= now && now-f.startNs >= int64(limit.Window)
}

// Blocked gives until when the caller is blocked; 0 when it is not.
func (f *Failures) Blocked(now int64) int64 {
	if f.untilNs > now {
		return f.untilNs
	}
	return 0
}
