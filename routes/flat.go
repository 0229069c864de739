package routes

import (
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/replay"
)

// Flat is a sale whose price is known before its work: that much is held, and charged
// with a whole answer.
type Flat struct {
	Call *Call
	// Held is what admission holds: the price, or the least of it where Do covers the rest.
	Held func() money.Lines
	// Do does the work, and sets Call.Sold and Answer.
	Do       func() *Error
	Answer   Answer
	Children bool // it needs children; see Call.MayWork

	// The capability's additions to Close, Observe and Log; nil: nothing.
	OnClose   func()
	OnObserve func(took time.Duration)
	OnLog     func(e *zerolog.Event) *zerolog.Event

	compress bool
}

// Answer is a whole answer.
type Answer struct {
	Type    string // empty: JSON
	Body    []byte
	Headers []replay.Header // beside those that every answer of the endpoint has
}

// FlatBill charges all lines of an answer.
func FlatBill(lines money.Lines, flags journal.Flags) Bill {
	return Bill{Lines: lines, Cost: lines.Cost(), Flags: flags, Status: 200}
}

// SellFlat sells an answer of a known price.
func (c *Call) SellFlat(f *Flat, t Terms) *Error {
	f.Call, f.compress, c.Part = c, t.Compress, f
	return c.Sell(f, t)
}

// Admit is Work.
func (f *Flat) Admit(again bool) *Error {
	if f.Children && !again {
		if e := f.Call.MayWork(); e != nil {
			return e
		}
	}
	lines := f.Held()
	return f.Call.AdmitCost(again, lines.Cost(), 1)
}

// CarryOut is Work.
func (f *Flat) CarryOut() (relayed bool, e *Error) { return false, f.Do() }

// KeepAnswer is Work.
func (f *Flat) KeepAnswer() {
	kind := f.Answer.Type
	if kind == "" {
		kind = JSONType
	}
	f.Call.Keep(kind, f.Answer.Body, f.Answer.Headers...)
}

// Respond is Work.
func (f *Flat) Respond() {
	_ = f.Call.WriteJSON(f.Answer.Body)
	h := &f.Call.Ctx.Response.Header
	if f.Answer.Type != "" {
		h.SetContentType(f.Answer.Type)
	}
	for _, header := range f.Answer.Headers {
		h.SetCanonical(ViewBytes(header.Name), ViewBytes(header.Value))
	}
	if f.compress {
		f.Call.Compress()
	}
}

// Close is Part.
func (f *Flat) Close() {
	if f.OnClose != nil {
		f.OnClose()
	}
}

// Observe is Part.
func (f *Flat) Observe(took time.Duration) {
	if f.OnObserve != nil {
		f.OnObserve(took)
	}
}

// Log is Part: the charge.
func (f *Flat) Log(e *zerolog.Event) *zerolog.Event {
	if !f.Call.Settled {
		return e
	}
	if f.OnLog != nil {
		e = f.OnLog(e)
	}
	return e.Str("charged_usd", f.Call.Charged.String())
}

// Recycle is Part: it is not used again.
func (f *Flat) Recycle() {}
