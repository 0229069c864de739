package limits

import (
	"sync"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/window"
	"farebox/config"
)

// Window is this node's side of a window that all nodes share: permits
// taken in advance, use that Redis does not know yet, and its last answer. One
// of an account and model, or of a key. Its mutex is never held while Redis is
// asked. Its times are of Instant.Mono, where they are not Redis's.
type Window struct {
	id  windowID
	key any // its name in Redis

	mu      sync.Mutex
	rate    config.Rate // of the last slice
	permits int64       // taken in slices and not spent
	tokens  int64
	taken   int64         // when, ns; of the last slice
	refill  chan struct{} // closed when the slice that is under way has come; nil: none is
	again   int64         // ns; before then no slice is worth asking for

	owed  owed
	seen  window.Window
	seenN int64 // when seen was true, ns
	seenU int64 // the same in Redis's clock, µs; 0: nothing seen

	full      window.Refusal // the last one, which holds until fullUntil
	fullScope int64          // tokens it was asked for
	fullUntil int64

	part part // while Redis is away

	listed bool // in the flush list
}

type windowID struct {
	account uint32
	slot    int32 // of a model; -1: of a key
	key     int64
}

const (
	// sliceLife is how long permits wait for requests before they go back.
	sliceLife = int64(time.Second)
	// sliceLeast is the smallest slice worth a call of its own: limits that
	// give less in the time of one are asked for request by request.
	sliceLeast = 10
	slicesHour = 36_000 // slices of 100 ms in an hour
	slicesMin  = 600    // in a minute
	// slicesBurst bounds the idle permits of slices, which pass in addition to a burst.
	slicesBurst = 10
	// slicesLong bounds the idle permits of a limit of a day or a month.
	slicesLong = 10_000
	// fullFor is how long a refusal is believed without asking again. Permits
	// and tokens that others give back are found that much later.
	fullFor = int64(100 * time.Millisecond)
)

// sliceOf is how many permits and tokens a slice of these limits has; 1 and 0
// when every request asks.
func sliceOf(r *config.Rate) (permits, tokens int64) {
	permits = int64(1) << 40
	atOnce, _ := window.Burst(r)
	for _, l := range [...]struct{ limit, slices int64 }{{r.RPM, slicesMin}, {atOnce, slicesBurst}, {r.RPH, slicesHour},
		{r.RPD, slicesLong}, {r.RPMon, slicesLong}} {
		if l.limit > 0 {
			permits = min(permits, l.limit/l.slices)
		}
	}
	if permits < sliceLeast {
		return 1, 0
	}
	tokens = r.TPM / slicesMin
	if r.TPM > 0 && tokens < sliceLeast {
		return 1, 0
	}
	return permits, tokens
}

func counts(r *config.Rate) bool { return r.RPM|r.RPH|r.RPD|r.RPMon > 0 }

// prepare finds a request's need of Redis and takes the rest from the
// slice. A zero need is a request that passes without a call.
func (w *Window) prepare(r *config.Rate, tokens int64) (need ask) {
	permits, more := sliceOf(r)
	needPermit, needTokens := counts(r), r.TPM > 0 && tokens > 0
	if needPermit && w.permits > 0 {
		w.permits--
		need.permit, needPermit = true, false
	}
	if needTokens && w.tokens >= tokens {
		w.tokens -= tokens
		need.tokens, needTokens = true, false
	}
	if !needPermit && !needTokens {
		return need
	}
	took, tookTokens := need.permit, need.tokens
	want, askTokens := int64(0), int64(0)
	if needPermit {
		want = permits
	}
	if needTokens {
		askTokens = tokens
	}
	need = askFor(r, want, askTokens, max(0, more-w.tokens))
	// A request that needs more tokens than a slice has asks for itself.
	need.permit, need.tokens, need.slice = took, tookTokens, permits > 1 && askTokens <= more
	return need
}

// asks says whether Redis has to be asked.
func (a *ask) asks() bool { return a.want > 0 || a.tokenTake > 0 || a.tokenMore > 0 }

// undo gives back the permits that prepare took from the slice.
func (w *Window) undo(a *ask, tokens int64) {
	if a.permit {
		w.permits++
	}
	if a.tokens {
		w.tokens += tokens
	}
}

// correct adds to an ask the use that Redis does not know yet. From here on it counts
// as told, whatever the result of the call: told twice is worse than not at all.
func (w *Window) correct(a *ask) {
	a.owed, w.owed = w.owed, owed{}
}

// uncorrect takes back correct after a call that Redis did not execute.
func (w *Window) uncorrect(a *ask) {
	o := &w.owed
	if o.day == 0 || o.day == a.owed.day {
		o.day, o.inDay, o.inMonth = a.owed.day, o.inDay+a.owed.inDay, o.inMonth+a.owed.inMonth
	}
	o.minute, o.hour, o.tokens = o.minute+a.owed.minute, o.hour+a.owed.hour, o.tokens+a.owed.tokens
	a.owed = owed{}
}

// refilled ends the slice that mine stands for; nil: none.
func (w *Window) refilled(mine chan struct{}) {
	if mine == nil {
		return
	}
	close(mine)
	if w.refill == mine {
		w.refill = nil
	}
}

// day is the UTC day by Redis's clock, which ends the counters of days and
// months; before Redis has answered by this node's.
func (w *Window) day(now window.Instant) int32 {
	if w.seenU == 0 {
		return calendar.DayOf(now.Wall)
	}
	return calendar.DayOf(w.seenU*1000 + now.Mono - w.seenN)
}

// saw takes over Redis's answer. Answers may overtake each other; the
// latest state stays.
func (w *Window) saw(a *answer, i int, nowNs int64) {
	if a.nowUs < w.seenU {
		return
	}
	shift := nowNs - a.nowUs*1000
	w.seen = a.windows[i].state
	w.seen.Minute += shift
	w.seen.Hour += shift
	w.seen.Tokens += shift
	w.seenN, w.seenU = nowNs, a.nowUs
}

// store stores the part of a slice beyond the request's own need.
func (w *Window) store(r *config.Rate, a *answer, i int, spent, nowNs int64) {
	got := &a.windows[i]
	w.rate = *r
	if rest := got.granted - spent; rest > 0 {
		w.permits += rest
		w.taken = nowNs
	}
	if got.moreNs > 0 {
		w.tokens += window.Units(got.moreNs, r.TPM, window.MinuteNs)
		w.taken = nowNs
	}
}

// expire turns a slice that waited too long into something owed: less use.
func (w *Window) expire(now int64, end bool) {
	if w.permits == 0 && w.tokens == 0 || now-w.taken < sliceLife && !end {
		return
	}
	w.giveBack(&w.rate, w.permits, w.tokens)
	w.permits, w.tokens = 0, 0
}

// giveBack adds permits and tokens to the unreported use, negative.
func (w *Window) giveBack(r *config.Rate, permits, tokens int64) {
	w.owe(r, -permits, -tokens, w.seen.Day)
}

// owe adds use that Redis does not know yet, or with negative numbers use that
// it counts too much.
func (w *Window) owe(r *config.Rate, permits, tokens int64, day int32) {
	signed := func(n, limit, period int64) int64 {
		switch {
		case limit <= 0 || n == 0:
			return 0
		case n < 0:
			return -window.Span(-n, limit, period)
		}
		return window.Span(n, limit, period)
	}
	w.owed.minute += signed(permits, r.RPM, window.MinuteNs)
	w.owed.hour += signed(permits, r.RPH, window.HourNs)
	w.owed.tokens += signed(tokens, r.TPM, window.MinuteNs)
	if permits == 0 || r.RPD|r.RPMon <= 0 {
		return
	}
	if w.owed.day != day {
		if calendar.MonthOf(w.owed.day) != calendar.MonthOf(day) {
			w.owed.inMonth = 0
		}
		w.owed.day, w.owed.inDay = day, 0
	}
	if r.RPD > 0 {
		w.owed.inDay += permits
	}
	if r.RPMon > 0 {
		w.owed.inMonth += permits
	}
}

// refuses says whether the last refusal still holds for such a request.
func (w *Window) refuses(now, tokens int64, refusal *window.Refusal) bool {
	if now >= w.fullUntil || w.full.Limit == "TPM" && tokens < w.fullScope {
		return false
	}
	*refusal = w.full
	refusal.RetryAfter = time.Duration(max(1, int64(w.full.RetryAfter)-(now-w.fullUntil+fullLasts(&w.full))))
	return true
}

// fullLasts is how long a refusal is believed.
func fullLasts(refusal *window.Refusal) int64 { return min(int64(refusal.RetryAfter), fullFor) }

// refused works out which limit it was and remembers it.
func (w *Window) refused(r *config.Rate, a *answer, i int, tokens int64, now window.Instant, refusal *window.Refusal) {
	at := a.nowUs * 1000
	s := a.windows[i].state
	if s.Check(r, window.Instant{Wall: at, Mono: at}, calendar.DayOf(at), 1, tokens, refusal) {
		// Only its slice did not fit, by less than a permit.
		refusal.Until("RPM", r.RPM, at, at+int64(time.Millisecond), at+int64(time.Millisecond))
	}
	refusal.ResetNs += now.Wall - at
	w.full, w.fullScope, w.fullUntil = *refusal, tokens, now.Mono+fullLasts(refusal)
}

// state is the window of all nodes as far as this one knows, in its own clock:
// with use that Redis does not know yet, without the unspent rest of slices.
func (w *Window) state(r *config.Rate, now int64, day int32) window.Window {
	s := w.seen
	move := func(tat, owed, idle, limit, period int64) int64 {
		return max(tat, now) + owed - window.Span(idle, max(limit, 1), period)
	}
	if r.RPM > 0 {
		s.Minute = move(s.Minute, w.owed.minute, w.permits, r.RPM, window.MinuteNs)
	}
	if r.RPH > 0 {
		s.Hour = move(s.Hour, w.owed.hour, w.permits, r.RPH, window.HourNs)
	}
	if r.TPM > 0 {
		s.Tokens = move(s.Tokens, w.owed.tokens, w.tokens, r.TPM, window.MinuteNs)
	}
	if s.Day != day {
		s.Day, s.InDay = day, 0
	}
	if month := calendar.MonthOf(day); s.Month != month {
		s.Month, s.InMonth = month, 0
	}
	if w.owed.day == day {
		s.InDay += w.owed.inDay
		s.InMonth += w.owed.inMonth
	}
	s.InDay, s.InMonth = max(0, s.InDay-w.permits), max(0, s.InMonth-w.permits)
	return s
}
