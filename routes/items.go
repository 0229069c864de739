package routes

import "farebox/proxy"

// Items of answers, which later requests of the same account may refer to.

// KeepsItems says that they are kept.
func (c *Call) KeepsItems() bool { return c.g.ledger.Items() != nil }

// KeepItem keeps an item of an answer under its id, where there is space for it.
func (c *Call) KeepItem(id, item []byte) {
	c.g.ledger.Items().Put(c.Key.Account.No(), c.Owner(), id, item)
}

// FindItems gives the items with some ids, nil for each that is not known. They count as
// bytes of the body, which has a size so far.
func (c *Call) FindItems(ids [][]byte, size int) ([][]byte, *Error) {
	items, err := c.g.ledger.Items().Find(c.Key.Account.No(), ids)
	if err != nil {
		return nil, &Error{Status: 503, Message: "Items of earlier answers cannot be looked up right now; nothing was " +
			"carried out. Please retry, or send the items themselves.", RetryAfter: RetrySoon}
	}
	n := 0
	for _, item := range items {
		n += len(item)
	}
	why, ok := proxy.LargeBody, false
	if size+n <= c.MostBody() {
		why, ok = c.g.uploads.Extend(c.Ctx, c.Owner(), int64(n))
	}
	if !ok {
		return nil, c.g.unreadable(c.Ctx, why)
	}
	return items, nil
}
