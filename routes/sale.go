package routes

import (
	"time"

	"farebox/billing"
	"farebox/billing/journal"
	"farebox/billing/money"
)

// Work is a capability's part of a sale, and of the Call.
type Work interface {
	Part
	// admit opens the hold that pays for the worst that the request can cost, or
	// says why not. With again an answer is given again: that costs nothing, and
	// counts in the limits.
	Admit(again bool) *Error
	// CarryOut has the work done, with the hold open, and sets Call.Sold. relayed says that usage
	// is known at the answer's end only: then the relay of the answer meters it, and settles.
	// After an error there is no answer; whatever was caused for a client that left is settled
	// already.
	CarryOut() (relayed bool, e *Error)
	// keepAnswer keeps a whole answer for a repeat with the same idempotency key.
	KeepAnswer()
	// Respond makes the answer the response, whole or by its relay.
	Respond()
}

// Hold is the capability's access to the hold of its sale. Sell and Settle decide its end.
type Hold interface {
	// Book says in which slot's usage the charge stands, where that is not the model's.
	Book(slot int)
	// Open says that nothing has been settled yet.
	Open() bool
	// Granted is the held money, Reach the money that the account could add.
	Granted() money.Nano
	Reach() money.Nano
	// ExtendUpTo holds as much of more as there is, and says how much; 0 where that
	// is less than least.
	ExtendUpTo(more, least money.Nano) (got money.Nano)
	// Progress journals the charge for the case of a crash.
	Progress(sold *money.Lines)
	// Foresee shows how a cost would be paid.
	Foresee(cost money.Nano) (diem, usd money.Nano, ok bool)
}

// Terms are the rules for repeats with the same idempotency key.
type Terms struct {
	Patience time.Duration // how long carrying it out can take
	Writes   bool          // it changes something outside, and must not be carried out twice
	Compress bool          // the answer is compressed where the client takes that
}

// Bill is the charge of a request with its usage.
type Bill struct {
	Lines     money.Lines
	Cost      billing.Nano // of lines, or 0 where they are not charged
	Tokens    int64        // that the limits count
	Reasoning int64        // tokens of them
	Credits   int64        // that the daily cap counts
	Flags     journal.Flags
	Status    int
}

// Sell is the one path of everything that has a price (design.md 1): an answer
// that was paid for is given again; else the worst is held, the idempotency key
// claimed, the work done and the hold settled, once, before the last byte leaves. Nothing is
// written or sent before admission: a refused request leaves only its count in the limits
// (design.md, P10). Disconnects, panics and errors end in release, which voids an unsettled hold,
// or in lost.go.
func (c *Call) Sell(w Work, t Terms) *Error {
	have := c.Key.BalanceAt(c.StartNs)
	first, e := c.lookUp(t)
	if e != nil {
		return e
	}
	if e := w.Admit(first != nil); e != nil {
		return e
	}
	if c.lead != nil {
		if first, e = c.claim(); e != nil {
			return e
		}
	}
	if first != nil {
		have = c.Key.BalanceAt(c.StartNs) // the first may have been charged meanwhile
		c.setServed(&have)
		c.setBalanceLeft()
		c.replay(first)
		if t.Compress {
			c.Compress()
		}
		return nil
	}
	c.doubt = t.Writes // until NothingDone
	relayed, e := w.CarryOut()
	if e != nil {
		return e
	}
	c.setServed(&have)
	if !relayed {
		if c.Keeps() {
			w.KeepAnswer()
		}
		c.Settle()
	}
	c.setBalanceLeft()
	w.Respond()
	return nil
}

// Settle charges the sold lines, exactly once. Without lines the hold is void.
func (c *Call) Settle() {
	s := c.settlement()
	if len(c.Sold.Lines.All()) == 0 {
		c.hold.Void(s.Now)
		return
	}
	c.Settled = true
	c.charge(&s)
	if c.shortfall > 0 {
		c.g.log.Warn().Bytes("request_id", c.ID[:]).Str("account", c.Key.Account.ID).Str("shortfall_usd",
			c.shortfall.String()).Msg("a request cost more than its account could cover")
	}
}

// nameUpstream says in whose usage the charge counts.
func (c *Call) nameUpstream() {
	if c.Upstream != "" {
		c.hold.From(c.snap.upstreams[c.Upstream])
	}
}

// Progress records the charge so far of an answer on its way, should this process die.
func (c *Call) Progress(sold *money.Lines) {
	c.nameUpstream()
	c.hold.Progress(sold)
}

// settlement is the charge of the sold lines, as of now.
func (c *Call) settlement() billing.Settlement {
	b := &c.Sold
	c.Took = time.Since(c.Began)
	c.nameUpstream()
	s := billing.Settlement{
		Cost: b.Cost, Lines: b.Lines, Tokens: b.Tokens, Reasoning: b.Reasoning, Credits: b.Credits, Flags: b.Flags,
		Status: b.Status, Took: c.Took, Now: billing.At(c.Began).Add(c.Took),
	}
	if c.Model != nil {
		s.Model = c.Model.ID
	}
	return s
}
