package routes

import (
	"encoding/json"
	"time"

	"farebox/billing"
	"farebox/billing/journal"
	"farebox/billing/store"
	"farebox/proxy"
)

// unusualFlags are those of charges that an operator looks into.
const unusualFlags = journal.FlagEstimated | journal.FlagIncomplete | journal.FlagAborted | journal.FlagCut

// unusual says that a request did not simply succeed.
func (c *Call) unusual() bool {
	return c.Status >= 400 || c.Cause != "" || c.Attempts > 1 || len(c.Tried) > 0 || c.Sold.Flags&unusualFlags != 0
}

// noteUnusual has the ledger keep the details of a request that did not simply succeed. They are
// written later: the client never waits for it. Nothing of the client's or an upstream's words is
// in them.
func (c *Call) noteUnusual(took time.Duration) {
	r := store.RequestRow{Status: c.Status, Code: c.errCode, Cause: c.Cause}
	if c.Row != nil {
		r.Route = c.Row.Method + " " + c.Row.Path
	}
	if c.Model != nil {
		r.Model = c.Model.ID
	}
	switch {
	case c.refused != nil:
		if !c.g.ledger.TakesRefused(c.refused, &r) {
			return
		}
		c.limitBy = c.refused.By()
	case !c.g.ledger.TakesRequest(c.Key, &r):
		return
	}
	r.ID, r.AtUs, r.TookMs = c.raw, c.StartNs/1000, took.Milliseconds()
	r.Flags, r.Hold, r.Upstream, r.Attempts = int64(c.Sold.Flags), c.hold.Ended(), c.Upstream, c.Attempts
	r.Refused = c.refused != nil || c.Status == 402 || c.Status == 403 || c.Status == 429
	r.LimitBy = c.limitBy
	if limit := c.short.Limiter(); limit != "" {
		s := &c.short.Short
		r.LimitBy, r.Had, r.Held, r.Needed = limit, s.Had, s.Held, s.Needed
		if c.short.Code == billing.KeyLimitUSD || c.short.Code == billing.KeyLimitDIEM {
			r.Remaining, r.Period = s.Left, s.Period.String()
		}
	}
	r.Tries = c.attemptsText(took)
	c.g.ledger.NoteRequest(&r)
}

// mostAttempts bounds the stored attempts of a request.
const mostAttempts = 32

// attemptsText are the attempts as JSON. The last one is not among those that failed where it
// gave the answer.
func (c *Call) attemptsText(took time.Duration) string {
	list := make([]billing.RequestAttempt, 0, c.Attempts+1)
	for i := range c.Tried[:min(len(c.Tried), mostAttempts)] {
		t := &c.Tried[i]
		a := billing.RequestAttempt{Upstream: t.Upstream, Status: t.Status}
		if t.Cause != proxy.None {
			a.Cause = t.Cause.String()
		}
		if !t.At.IsZero() {
			a.EndedMs = t.At.Sub(c.Began).Milliseconds()
		}
		list = append(list, a)
	}
	if c.Upstream != "" && c.Attempts > len(c.Tried) {
		a := billing.RequestAttempt{Upstream: c.Upstream, EndedMs: took.Milliseconds(), Cause: c.Cause}
		if c.Status < 400 {
			a.Status = c.Status
		}
		list = append(list, a)
	}
	if len(list) == 0 {
		return ""
	}
	text, _ := json.Marshal(list) // of texts and numbers
	return string(text)
}
