package report

import (
	"fmt"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
)

// HistoryQuery asks for entries in the order of time, from its first page on.
type HistoryQuery struct {
	Currency     money.Currency // 0: all
	FromUs, ToUs int64          // Unix µs, from and before; ToUs 0: up to now
	PageSize     int
}

// History is a page of the history; Next asks for the following one and is
// empty after the last.
type History struct {
	Entries []Entry
	Next    string
	Behind  bool // the newest requests are not in it yet
}

const (
	// cursorFor is how long a cursor is good for.
	cursorFor = 24 * time.Hour
	// historySkew is how far the clock of another node may be ahead: a history
	// without an end goes so far beyond now, and no further, so that it ends
	// however many requests arrive.
	historySkew = 2 * time.Second
	// historySettled is the age from which a request is in the store with its
	// detail, or is not the last one there.
	historySettled = 3 * time.Second
	// othersWrite is how long after a request another node has its detail in the
	// store, with a margin: it writes each second, or puts it off when busy.
	othersWrite = 2500 * time.Millisecond
)

// History gives the first page of a history.
func (a Account) History(q HistoryQuery) (History, error) {
	now := a.source.Now() / 1000
	if q.ToUs == 0 && a.source.SeveralNodes() {
		q.ToUs = now // up to here awaitOthers waits
	}
	if end := now + historySkew.Microseconds(); q.ToUs == 0 || q.ToUs > end {
		q.ToUs = end
	}
	return a.history(&cursor{HistoryQuery: q, from: Position{Us: q.FromUs}}, true)
}

// HistoryAfter returns the page of a cursor; it refuses with ErrCursor one that
// is not good.
func (a Account) HistoryAfter(text string) (History, error) {
	c, err := a.readCursor(text)
	if err != nil {
		return History{}, err
	}
	return a.history(c, false)
}

func (a Account) history(c *cursor, first bool) (h History, err error) {
	place, some := placeOf(c.Currency)
	if !some {
		return h, nil
	}
	more, err := a.historyPage(place, c, first, &h)
	// Only the last requests can be missing; earlier pages need not wait for them.
	if err == nil && (!more || h.Entries[len(h.Entries)-1].AtUs > a.source.Now()/1000-historySettled.Microseconds()) {
		upTo := c.ToUs
		if more {
			upTo = h.Entries[len(h.Entries)-1].AtUs
		}
		waited := a.awaitOthers(upTo)
		behind := !a.Newest.Detailed()
		if behind {
			h.Behind = !a.Newest.Detail()
		}
		if waited || behind {
			more, err = a.historyPage(place, c, first, &h)
		}
	}
	if err != nil {
		return History{}, fmt.Errorf("cannot read the usage history of account %s: %w", a.ID, err)
	}
	if more {
		c.from = h.Entries[len(h.Entries)-1].At
		c.from.Line++ // no entry is between
		h.Next = a.makeCursor(c)
	}
	return h, nil
}

// awaitOthers waits until requests at other nodes up to a time (Unix µs) are in
// the store. A page that went beyond it would hide those requests for ever:
// the next page begins after its last entry.
func (a Account) awaitOthers(upToUs int64) (waited bool) {
	if !a.source.SeveralNodes() {
		return false
	}
	wait := time.Duration(upToUs-a.source.Now()/1000)*time.Microsecond + othersWrite
	if wait <= 0 {
		return false
	}
	time.Sleep(min(wait, historySkew+othersWrite))
	return true
}

func (a Account) historyPage(place int, c *cursor, first bool, h *History) (more bool, err error) {
	err = a.read(func(q *store.Query) error {
		pruned, err := q.Pruned()
		if err != nil {
			return err
		}
		if !first && c.movedOn(pruned) {
			return fmt.Errorf("%w: the single requests behind it were pruned; begin again", ErrCursor)
		}
		c.pruned = pruned
		x := &index{Query: q, account: a.No, place: place, pruned: &pruned}
		h.Entries = make([]Entry, 0, c.PageSize)
		err = x.walk(c.from, c.ToUs, func(e *Entry) bool {
			if more = len(h.Entries) == c.PageSize; !more {
				h.Entries = append(h.Entries, *e)
			}
			return !more
		})
		if err != nil {
			return err
		}
		return a.nameModels(q, h.Entries)
	})
	return more, err
}
