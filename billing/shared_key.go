package billing

import (
	"farebox/billing/calendar"
	"farebox/billing/window"
	"farebox/config"
)

// keyWindow gives the window of a key over all nodes: what Redis says now, with what
// this node has yet to tell it. ok is false when nothing of it is known here,
// because Redis is away; then the node's own window is all there is.
func (s *sharedLimits) keyWindow(k *Key, r *config.Rate, now int64) (state window.Window, ok bool) {
	w := s.window(windowID{account: k.Account.no, slot: -1, key: k.No})
	if !s.breaker.open.Load() {
		reads := askFor(r, 0, 0, 0)
		blob := reads.append(appendDoubles(nil, float64(w.bucket.known())))
		var a answer
		if err := s.send(w.bucket, []any{w.bucket.epochKey, w.key}, blob, &a); err == nil && a.status == statusTaken {
			w.mu.Lock()
			w.saw(r, &a, 0, now)
			w.mu.Unlock()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seenU == 0 {
		return state, false
	}
	return w.state(r, now, calendar.DayOf(now)), true
}
