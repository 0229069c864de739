package routes

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"farebox/billing"
)

const (
	headerKey = "Idempotency-Key"
	// keyedWait is how long a repeat waits for the request it repeats.
	keyedWait = 30 * time.Second
)

// headerReplayed marks an answer that was given before (addendum 13).
var headerReplayed = canonical("idempotent-replayed")

// keyed is for endpoints that take an Idempotency-Key, after a request was
// checked and before it is admitted. parts are what makes the request what it
// is, such as its path and its body. It gives the answer of the first request
// with this key; or neither answer nor error, and then the request goes on. If
// it has a key, c.lead is set: settle it with the hold (billing.Lead), or leave
// it to end, which forgets it.
func (c *Call) keyed(patience time.Duration, write bool, parts ...[]byte) (*billing.Answer, *Error) {
	key := c.ctx.Request.Header.Peek(headerKey)
	if key == nil {
		return nil, nil
	}
	if !billing.ValidKey(key) || len(c.ctx.Request.Header.PeekAll(headerKey)) > 1 {
		if c.snap.cfg.Idempotency.Malformed == "ignore" {
			return nil, nil
		}
		return nil, errInvalid(Issue{Code: "invalid_string", Path: headerKey, Received: excerpt(key), Expected: "[A-Za-z0-9_-]{1,255}",
			Message: headerKey + ": must be one header of 1 to 255 letters A-Z a-z, digits, _ and -. Nothing was carried out."})
	}
	fingerprint := sha256.New()
	for i, part := range parts {
		if i > 0 {
			fingerprint.Write([]byte{0})
		}
		fingerprint.Write(part)
	}
	claim := billing.Claim{Account: c.key.Account, Key: key, Patience: patience, Wait: keyedWait, Write: write}
	fingerprint.Sum(claim.Fingerprint[:0])
	lead, answer, err := c.g.ledger.Idempotency().Begin(&claim)
	if err != nil {
		return nil, keyRefused(err)
	}
	if answer != nil {
		return answer, nil
	}
	// The charge stands under an id made of the key; the answer says the same.
	c.lead, c.raw = lead, lead.RequestID()
	hex.Encode(c.id[:], c.raw[:])
	c.setCommon()
	return nil, nil
}

func keyRefused(err error) *Error {
	switch {
	case errors.Is(err, billing.ErrKeyReused):
		return errInvalid(Issue{Code: "custom", Path: headerKey, Message: headerKey + ": was used with another request in the last 24 hours; use a new key for a new request."})
	case errors.Is(err, billing.ErrKeyBusy):
		return &Error{Status: 409, Code: "IDEMPOTENCY_KEY_IN_USE", Message: "The first request with this " + headerKey + " is still under way; retry later with the same key.", RetryAfter: retrySoon, Uncounted: true}
	case errors.Is(err, billing.ErrKeysAway):
		return &Error{Status: 503, Message: "Requests with an " + headerKey + " cannot be taken right now; nothing was carried out. Please retry.", RetryAfter: retrySoon}
	}
	return &Error{Status: 409, Code: "IDEMPOTENT_ANSWER_NOT_KEPT", Message: "The first request with this " + headerKey + " was carried out and charged, but its answer was too large to be kept, or was not received to its end. It is not carried out again; use a new key to do so."}
}

// replay gives an answer that was given before. It costs nothing.
func (c *Call) replay(a *billing.Answer) {
	r := &c.ctx.Response
	r.SetStatusCode(a.Status)
	for _, h := range a.Header {
		r.Header.Set(h.Name, h.Value)
	}
	r.Header.SetCanonical(headerReplayed, []byte("true"))
	r.SetBodyRaw(a.Body)
}
