package limits

import (
	"encoding/binary"
	"fmt"
	"math"

	"farebox/billing/window"
	"farebox/config"
)

// ask is the demand on one window in a call: permits and tokens to take, and
// corrections that come along. The zero value only reads.
type ask struct {
	want                  int64 // permits, as many as there are, but one at least; 0: none needed
	minuteOne, hourOne    int64 // ns of the first permit; 0: no such limit
	minuteUnit, hourUnit  float64
	minuteAhead           int64 // ns; how far ahead of now the minute's time of arrival may be (burst)
	dayLimit, monthLimit  int64
	tokenFit              int64 // ns that must be free
	tokenTake             int64 // ns taken then
	tokenMore             int64 // ns taken beyond, if there are
	owed                  owed
	permit, tokens, slice bool // the parts of it that this request needs; is a slice
}

// owed is the use that Redis does not know yet, positive for more use.
type owed struct {
	minute, hour, tokens int64 // ns
	day                  int32 // whose counters the next two are for
	inDay, inMonth       int64
}

// answer is the result of a call.
type answer struct {
	status  int // 0 taken, else the number of the window that refuses
	nowUs   int64
	windows [2]windowAnswer
}

type windowAnswer struct {
	state   window.Window // in Redis's time
	granted int64
	moreNs  int64 // of tokens
}

const (
	headDoubles   = 2 // numbers in front of an answer, of a window in it, and of an ask
	windowDoubles = 9
	askDoubles    = 12 + 6
	statusTaken   = 0
)

// askFor is the part of an ask that the limits decide.
func askFor(r *config.Rate, want, tokens, moreTokens int64) (a ask) {
	a.want = want
	unit := func(limit, period int64) (int64, float64) {
		if limit <= 0 {
			return 0, 1
		}
		one := window.Span(1, limit, period)
		if want <= 1 {
			return one, float64(max(one, 1))
		}
		return one, float64(period) / float64(limit)
	}
	a.minuteOne, a.minuteUnit = unit(r.RPM, window.MinuteNs)
	_, a.minuteAhead = window.Burst(r)
	a.hourOne, a.hourUnit = unit(r.RPH, window.HourNs)
	a.dayLimit, a.monthLimit = r.RPD, r.RPMon
	if r.TPM > 0 && tokens > 0 {
		a.tokenFit, a.tokenTake = window.Span(min(tokens, r.TPM), r.TPM, window.MinuteNs),
			window.Span(tokens, r.TPM, window.MinuteNs)
	}
	if r.TPM > 0 && moreTokens > 0 {
		a.tokenMore = window.Span(moreTokens, r.TPM, window.MinuteNs)
	}
	return a
}

// append packs a in the order in which limits.lua reads.
func (a *ask) append(b []byte) []byte {
	extra := 0.0
	if a.owed != (owed{}) {
		extra = 1
	}
	b = appendDoubles(b, extra, float64(a.want), float64(a.minuteOne), a.minuteUnit, float64(a.minuteAhead),
		float64(a.hourOne), a.hourUnit, float64(a.dayLimit), float64(a.monthLimit),
		float64(a.tokenFit), float64(a.tokenTake), float64(a.tokenMore))
	if o := &a.owed; extra != 0 {
		b = appendDoubles(b, float64(o.minute), float64(o.hour), float64(o.tokens),
			float64(o.day), float64(o.inDay), float64(o.inMonth))
	}
	return b
}

func appendDoubles(b []byte, list ...float64) []byte {
	for _, v := range list {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// readAnswer unpacks the answer for n windows.
func readAnswer(s string, n int, a *answer) error {
	if len(s) < headDoubles*8 {
		return fmt.Errorf("an answer of %d bytes", len(s))
	}
	at := 0
	next := func() int64 {
		v := math.Float64frombits(uint64(s[at]) | uint64(s[at+1])<<8 | uint64(s[at+2])<<16 | uint64(s[at+3])<<24 |
			uint64(s[at+4])<<32 | uint64(s[at+5])<<40 | uint64(s[at+6])<<48 | uint64(s[at+7])<<56)
		at += 8
		return int64(v)
	}
	a.status, a.nowUs = int(next()), next()
	if len(s) != (headDoubles+n*windowDoubles)*8 || a.status < 0 || a.status > n {
		return fmt.Errorf("an answer of %d bytes with status %d to a question about %d windows", len(s), a.status, n)
	}
	now := a.nowUs * 1000
	for i := range n {
		w := &a.windows[i]
		w.state.Minute, w.state.Hour, w.state.Tokens = now+next(), now+next(), now+next()
		w.state.Day, w.state.InDay, w.state.Month, w.state.InMonth = int32(next()), next(), int32(next()), next()
		w.granted, w.moreNs = next(), next()
	}
	return nil
}
