package routes

import (
	"farebox/billing/replay"
	"farebox/proxy"
)

// Kept are texts of an account that later requests may use: whole answers, or items of
// them.
type Kept struct {
	c      *Call
	values *replay.Values
	what   string
}

// Items are items of answers, which requests may refer to.
func (c *Call) Items() Kept { return Kept{c, c.g.ledger.Items(), "Items of earlier answers"} }

// Responses are answers, which requests may go on from.
func (c *Call) Responses() Kept { return Kept{c, c.g.ledger.Responses(), "Kept answers"} }

// On says that they are kept.
func (k Kept) On() bool { return k.values != nil }

// Put keeps a text under its name, where there is space for it. It says whether it did.
func (k Kept) Put(name, text []byte) bool {
	return k.values.Put(k.c.Key.Account.No(), k.c.Owner(), name, text)
}

// Find gives the texts of some names, nil for each that is not known. They count as bytes
// of the body, which has a size so far.
func (k Kept) Find(names [][]byte, size int) ([][]byte, *Error) {
	texts, err := k.values.Find(k.c.Key.Account.No(), names)
	if err != nil {
		return nil, k.away()
	}
	n := 0
	for _, text := range texts {
		n += len(text)
	}
	why, ok := proxy.LargeBody, false
	if size+n <= k.c.MostBody() {
		why, ok = k.c.g.uploads.Extend(k.c.Ctx, k.c.Owner(), int64(n))
	}
	if !ok {
		return nil, k.c.g.unreadable(k.c.Ctx, why)
	}
	return texts, nil
}

// Drop removes the texts of some names.
func (k Kept) Drop(names [][]byte) *Error {
	if k.values.Drop(k.c.Key.Account.No(), k.c.Owner(), names) != nil {
		return k.away()
	}
	return nil
}

func (k Kept) away() *Error {
	return &Error{Status: 503, Message: k.what + " cannot be looked up right now; nothing was carried out. Please retry, " +
		"or send the items themselves.", RetryAfter: RetrySoon}
}
