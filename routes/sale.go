package routes

import (
	"time"

	"farebox/billing"
	"farebox/billing/money"
)

// work is what a capability does for its sale: its part of the Call.
type work interface {
	part
	// admit opens the hold that pays for the worst that the request can cost, or
	// says why not. With again an answer is given again: that costs nothing, and
	// counts in the limits.
	admit(again bool) *Error
	// carryOut has the work done, with the hold open, and tells what it came to in
	// Call.sold. relayed says that this is known at the answer's end only: then
	// what relays the answer meters it, and settles. After an error there is no
	// answer; whatever was caused for a client that left is settled already.
	carryOut() (relayed bool, e *Error)
	// keepAnswer keeps a whole answer for a repeat with the same idempotency key.
	keepAnswer()
	// respond makes the answer the response, whole or by what relays it.
	respond()
}

// terms are what holds for repeats with the same idempotency key.
type terms struct {
	patience time.Duration // how long carrying it out can take
	writes   bool          // it changes something outside
	compress bool          // the answer is compressed where the client takes that
}

// bill is what a request came to.
type bill struct {
	lines     money.Lines
	cost      billing.Nano // of lines, or 0 where they are not charged
	tokens    int64        // that the limits count
	reasoning int64        // tokens of them
	credits   int64        // that the daily cap counts
	flags     billing.Flags
	status    int
}

// sell is the one path of everything that has a price (design.md 1): an answer
// that was paid for is given again; else the worst is held, the work done and the
// hold settled, once, before the last byte leaves. Who leaves, a panic and every
// error end in release, which voids what was not settled, or in lost.go.
func (c *Call) sell(w work, t terms) *Error {
	usd, diem, _ := c.key.BalanceAt(c.startNs)
	first, e := c.keyed(t.patience, t.writes)
	if e != nil {
		return e
	}
	if e := w.admit(first != nil); e != nil {
		return e
	}
	if first != nil {
		usd, diem, _ = c.key.BalanceAt(c.startNs) // the first may have been charged meanwhile
		c.setServed(usd, diem)
		c.replay(first)
		if t.compress {
			c.compress()
		}
		return nil
	}
	relayed, e := w.carryOut()
	if e != nil {
		return e
	}
	c.setServed(usd, diem)
	if !relayed {
		if c.lead != nil {
			w.keepAnswer()
		}
		c.settle()
	}
	w.respond()
	return nil
}

// settle charges what was sold, exactly once. Nothing sold is nothing held.
func (c *Call) settle() {
	b := &c.sold
	c.took = time.Since(c.began)
	now := c.startNs + int64(c.took)
	if len(b.lines.All()) == 0 {
		c.hold.Void(now)
		return
	}
	c.settled = true
	s := billing.Settlement{
		Cost: b.cost, Lines: b.lines, Tokens: b.tokens, Reasoning: b.reasoning, Credits: b.credits, Flags: b.flags,
		Status: b.status, Took: c.took, NowNs: now,
	}
	if c.model != nil {
		s.Model = c.model.ID
	}
	c.charge(&s)
	if c.shortfall > 0 {
		c.g.log.Warn().Bytes("request_id", c.id[:]).Str("account", c.key.Account.ID).Str("shortfall_usd", c.shortfall.String()).Msg("a request cost more than its account could cover")
	}
}
