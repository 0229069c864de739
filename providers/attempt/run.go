package attempt

import "time"

// Work is the capability's part of a request's attempts.
type Work[T any] interface {
	// Fits prepares the request to t. False: t cannot take the request, and
	// nothing is learnt of its health.
	Fits(t T, nowNs int64) bool
	// Try asks t and reads its answer far enough to know whether it is of use. No
	// byte has gone to the client yet, so an answer that is broken is a failed
	// attempt like any other: another target may do better, and it costs nothing.
	Try(t T) Verdict
}

// Fitting is the next target that can take the request; the zero T if absent.
func (p *Picker[T, R]) Fitting(w Work[T], nowNs int64) (t T) {
	var none T
	for {
		if t = p.Next(nowNs); t == none || w.Fits(t, nowNs) {
			return t
		}
		p.Pass(t)
	}
}

// Run is the one loop of all capabilities: it has targets asked, one after the
// other, from t on, which Fitting gave, until a verdict ends it or none is left.
// The result is with w. Waiting for a queue (poll) goes on inside of a Try;
// so does a hedge, which asks a target that Choose gives.
func (p *Picker[T, R]) Run(w Work[T], t T) {
	var none T
	for t != none {
		v := w.Try(t)
		now := v.AtNs
		if now == 0 {
			now = time.Now().UnixNano()
		}
		p.Report(t, v, now)
		t = p.Fitting(w, now)
	}
}
