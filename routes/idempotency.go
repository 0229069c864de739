package routes

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/billing/journal"
	"farebox/billing/replay"
	"farebox/proxy"
)

const (
	headerKey = "Idempotency-Key"
	// keyedWait is how long a repeat waits for the request it repeats.
	keyedWait = 30 * time.Second
)

// headerReplayed marks an answer that was given before (addendum 13).
var headerReplayed = canonical("idempotent-replayed")

// Keyed says that the client sent an idempotency key.
func (c *Call) Keyed() bool { return c.Ctx.Request.Header.Peek(headerKey) != nil }

// lookUp gives the answer of the first request with this key. It writes nothing and needs no
// money, so that an account that is empty by now gets the answer that it paid for. With neither
// answer nor error the request goes on. If it has a key, c.lead is set then: the request ends in
// charge, or in release, which forgets it.
func (c *Call) lookUp(t Terms) (*replay.Answer, *Error) {
	key := c.Ctx.Request.Header.Peek(headerKey)
	if key == nil {
		return nil, nil
	}
	if !replay.ValidKey(key) || len(c.Ctx.Request.Header.PeekAll(headerKey)) > 1 {
		if c.snap.cfg.Idempotency.Malformed == "ignore" {
			return nil, nil
		}
		return nil, Invalid(Issue{Code: "invalid_string", Path: headerKey, Received: Excerpt(key),
			Expected: "[A-Za-z0-9_-]{1,255}",
			Message: headerKey + ": must be one header of 1 to 255 letters A-Z a-z, digits, _ and -. Nothing was " +
				"carried out."})
	}
	lead, answer, err := c.g.ledger.Idempotency().Begin(&replay.Claim{
		Account: c.Key.Account.No(), Caller: c.Key.No, Owner: c.Owner(), Key: key,
		Fingerprint: fingerprint(&c.Ctx.Request), Patience: t.Patience, Wait: keyedWait, Write: t.Writes,
	})
	if err != nil {
		return nil, keyRefused(err)
	}
	if answer != nil {
		return answer, nil
	}
	// The charge stands under an id made of the key; the answer says the same.
	c.lead = lead
	c.identifyAs(lead.RequestID())
	return nil, nil
}

// claim writes the key of an admitted request down. Where another node was faster, the
// hold is voided and that node's answer given: the request counts in the limits like
// any repeat.
func (c *Call) claim() (*replay.Answer, *Error) {
	err := c.lead.Claim()
	if err == nil {
		return nil, nil
	}
	var answer *replay.Answer
	if errors.Is(err, replay.ErrLost) {
		c.hold.Void(billing.At(time.Now()))
		answer, err = c.lead.Follow()
	}
	c.lead = nil
	if err != nil {
		return nil, keyRefused(err)
	}
	raw, _ := newRequestID(c.StartNs) // a repeat has an id of its own
	c.identifyAs(raw)
	return answer, nil
}

// identifyAs gives the request another id.
func (c *Call) identifyAs(raw [16]byte) {
	c.raw = raw
	hex.Encode(c.ID[:], raw[:])
	c.setCommon()
}

// fingerprint is the hash that identifies a request: of its method, its path and its body, byte
// for byte. A form is the same when its parts are: clients make another boundary for each try,
// and name files as they like.
func fingerprint(r *fasthttp.Request) (sum [32]byte) {
	h := sha256.New()
	piece := func(b []byte) {
		var size [8]byte
		binary.LittleEndian.PutUint64(size[:], uint64(len(b)))
		h.Write(size[:])
		h.Write(b)
	}
	piece(r.Header.Method())
	piece(r.URI().Path())
	body := r.Body()
	if boundary, err := BoundaryOf(r.Header.ContentType()); boundary != "" && err == nil {
		if parts, err := ParseParts(body, boundary); err == nil {
			for i := range parts {
				piece([]byte(parts[i].Name))
				piece(parts[i].Content)
			}
			h.Sum(sum[:0])
			return sum
		}
	}
	piece(body)
	h.Sum(sum[:0])
	return sum
}

// Keeps says that the answer is to be kept for a repeat with the same key.
func (c *Call) Keeps() bool { return c.lead != nil }

// Record keeps the next piece of an answer that is sent as it arrives.
func (c *Call) Record(piece []byte) {
	if c.lead != nil {
		c.lead.Record(piece)
	}
}

// CutKept says that the client did not take the answer to its end, or that it is too large to be
// kept: the recorded part cannot be given again.
func (c *Call) CutKept() {
	if c.lead != nil {
		c.lead.Cut()
	}
}

// Freed says that nothing is charged, since the answer could not be kept.
func (c *Call) Freed() bool { return c.lead != nil && !c.lead.Kept() }

// KeepSource is Keep for a body that is not in one piece.
func (c *Call) KeepSource(contentType string, body proxy.Source, headers ...replay.Header) {
	if body.Len() > int64(c.snap.cfg.Idempotency.MaxAnswer) {
		c.CutKept()
	} else if _, err := body.WriteTo(recorder{c}); err != nil {
		c.CutKept()
	}
	c.Keep(contentType, nil, headers...)
}

// recorder writes to the recorded answer of a Call.
type recorder struct{ c *Call }

func (r recorder) Write(piece []byte) (int, error) {
	r.c.Record(piece)
	return len(piece), nil
}

// Keep sets the answer of a request with an idempotency key, before it is charged. Without a body
// it is the one that lead records. Headers that every answer of the endpoint has are not kept:
// they are set again.
func (c *Call) Keep(contentType string, body []byte, headers ...replay.Header) {
	if c.lead != nil {
		c.kept = replay.Answer{Status: 200, Header: append(headers,
			replay.Header{Name: "Content-Type", Value: contentType}), Body: body}
	}
}

// KeepStatus says that the answer that is kept is a refusal which is charged.
func (c *Call) KeepStatus(status int) { c.kept.Status = status }

// KeepRelayed is Keep for an answer that is relayed: its body is recorded on
// its way, in Pass and End. more are headers that are kept where the answer has them.
func (c *Call) KeepRelayed(more ...[]byte) {
	if c.lead == nil {
		return
	}
	h := &c.Ctx.Response.Header
	var headers []replay.Header
	for _, name := range []string{"Cache-Control", "X-Accel-Buffering"} {
		if value := h.Peek(name); len(value) > 0 {
			headers = append(headers, replay.Header{Name: name, Value: string(value)})
		}
	}
	for _, name := range more {
		if value := h.PeekBytes(name); len(value) > 0 {
			headers = append(headers, replay.Header{Name: string(name), Value: string(value)})
		}
	}
	c.Keep(string(h.ContentType()), nil, headers...)
}

// RecordEnd records the last bytes of a relayed answer. One that ends without
// them cannot be given again.
func (c *Call) RecordEnd(out []byte, clean bool) {
	if clean {
		c.Record(out)
	} else {
		c.CutKept()
	}
}

// charge settles the hold; with the answer that is kept when the request has an
// idempotency key, both or neither. One that failed before it cost anything can
// be tried again.
func (c *Call) charge(s *billing.Settlement) {
	switch {
	case c.lead == nil:
		c.Charged, c.shortfall = c.hold.Settle(*s)
	case s.Cost == 0 && (s.Flags&journal.FlagIncomplete != 0 || s.Flags&journal.FlagAborted != 0 && c.lead.Lost()):
		c.hold.Void(s.Now)
		c.endLead()
	default:
		if c.kept.Status == 0 {
			c.CutKept() // it ended before it had an answer: a retry must not get an empty one
		}
		c.Charged, c.shortfall = c.hold.SettleKept(*s, c.lead, &c.kept)
	}
}

// NothingDone says that the request has not changed anything outside: a keyed one can be tried
// again though it writes.
func (c *Call) NothingDone() { c.doubt = false }

// endLead ends a keyed request without an answer that was kept. It is as if it had not
// been, unless it may have changed something outside.
func (c *Call) endLead() {
	if c.doubt {
		c.lead.Doubt()
	} else {
		c.lead.Forget()
	}
}

// MayFinish takes one of the slots for requests that go on without their client since they have
// an idempotency key: the retry is to get the answer. Customers share the slots. The watcher
// calls it, from its own goroutine; each step of a request with a slot calls it again.
func (c *Call) MayFinish() bool {
	if c.finishes.Load() {
		return true
	}
	c.g.finishes.Resize(int64(c.g.live.Load().cfg.Idempotency.Unattended))
	if !c.g.finishes.Take(c.Owner(), 1) {
		return false
	}
	c.finishes.Store(true)
	return true
}

// Finishes says that the request goes on without its client (MayFinish): its failure is not the
// client's.
func (c *Call) Finishes() bool { return c.finishes.Load() }

func keyRefused(err error) *Error {
	switch {
	case errors.Is(err, replay.ErrReused):
		return Invalid(Issue{Code: "custom", Path: headerKey,
			Message: headerKey + ": was used with another request in the last 24 hours; use a new key for a new " +
				"request."})
	case errors.Is(err, replay.ErrBusy):
		return &Error{Status: 409, Code: "IDEMPOTENCY_KEY_IN_USE",
			Message: "The first request with this " + headerKey +
				" is still under way; retry later with the same key.",
			RetryAfter: RetrySoon, Uncounted: true}
	case errors.Is(err, replay.ErrUnknown):
		return &Error{Status: 409, Code: "IDEMPOTENT_OUTCOME_UNKNOWN",
			Message: "The first request with this " + headerKey + " was sent on, and its answer was lost: whether it " +
				"was carried out is not known. It was not charged, and is not carried out again under this key. Find out " +
				"whether it took effect; use a new key to send it again."}
	case errors.Is(err, replay.ErrFull):
		return &Error{Status: 503, Code: "IDEMPOTENCY_STORE_FULL", Message: "This account has its share of the kept " +
			"answers for requests with an " + headerKey + "; nothing was carried out. Earlier ones expire with time; " +
			"requests without the header are served.", RetryAfter: OverloadRetry}
	case errors.Is(err, replay.ErrAway):
		return &Error{Status: 503, Message: "Requests with an " + headerKey +
			" cannot be taken right now; nothing was carried out. Please retry.", RetryAfter: RetrySoon}
	}
	return &Error{Status: 409, Code: "IDEMPOTENT_ANSWER_NOT_KEPT",
		Message: "The first request with this " + headerKey +
			" was carried out and charged, but its answer was not kept: it was too large, was not received to its end, " +
			"or came from an enclave. " +
			"It is not carried out again; use a new key to do so."}
}

// replay gives an answer that was given before. It costs nothing.
func (c *Call) replay(a *replay.Answer) {
	r := &c.Ctx.Response
	r.SetStatusCode(a.Status)
	for _, h := range a.Header {
		r.Header.Set(h.Name, h.Value)
	}
	r.Header.SetCanonical(headerReplayed, []byte("true"))
	r.SetBodyRaw(a.Body)
}
