package billing

import (
	"fmt"
	"time"
)

// HistoryQuery asks for entries in the order of time, from its first page on.
type HistoryQuery struct {
	Currency     Currency // 0: all
	FromUs, ToUs int64    // Unix µs, from and before; ToUs 0: up to now
	PageSize     int
}

// UsageHistory is a page of the history; Next asks for the following one and is
// empty after the last.
type UsageHistory struct {
	Entries []UsageEntry
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
	// detail, or is not the last of what is there.
	historySettled = 3 * time.Second
	// othersWrite is how long after a request another node has its detail in the
	// store, with a margin: it writes each second, or puts it off when busy.
	othersWrite = projectEvery + 1500*time.Millisecond
)

// UsageHistory gives the first page of a history.
func (l *Ledger) UsageHistory(k *Key, q HistoryQuery) (UsageHistory, error) {
	now := l.now() / 1000
	if q.ToUs == 0 && l.severalNodes() {
		q.ToUs = now // up to here awaitOthers waits
	}
	if end := now + historySkew.Microseconds(); q.ToUs == 0 || q.ToUs > end {
		q.ToUs = end
	}
	return l.history(k, &usageCursor{HistoryQuery: q, from: usagePosition{us: q.FromUs}})
}

// UsageHistoryAfter gives the page that a cursor stands for; it refuses with
// ErrCursor one that is not good.
func (l *Ledger) UsageHistoryAfter(k *Key, cursor string) (UsageHistory, error) {
	c, err := l.readCursor(k.Account, cursor)
	if err != nil {
		return UsageHistory{}, err
	}
	return l.history(k, c)
}

func (l *Ledger) history(k *Key, c *usageCursor) (h UsageHistory, err error) {
	a := k.Account
	place, some := usagePlace(c.Currency)
	if !some {
		return h, nil
	}
	more, err := l.historyPage(a, place, c, &h)
	// Only what came last can be missing; earlier pages need not wait for it.
	if err == nil && (!more || h.Entries[len(h.Entries)-1].AtUs > l.now()/1000-historySettled.Microseconds()) {
		upTo := c.ToUs
		if more {
			upTo = h.Entries[len(h.Entries)-1].AtUs
		}
		waited := l.awaitOthers(upTo)
		behind := !l.detailed(a)
		if behind {
			h.Behind = !l.showDetail(a)
		}
		if waited || behind {
			more, err = l.historyPage(a, place, c, &h)
		}
	}
	if err != nil {
		return UsageHistory{}, fmt.Errorf("cannot read the usage history of account %s: %w", a.ID, err)
	}
	if more {
		c.from = h.Entries[len(h.Entries)-1].at
		c.from.line++ // no entry is between
		h.Next = l.makeCursor(a, c)
	}
	return h, nil
}

// severalNodes says whether other nodes write to the store, too.
func (l *Ledger) severalNodes() bool { return l.node != nil && l.node.live.Load() > 1 }

// awaitOthers waits until what other nodes served up to a time (Unix µs) is in
// the store. A page that went beyond it would hide those requests for ever:
// whoever reads on begins after its last entry.
func (l *Ledger) awaitOthers(upToUs int64) (waited bool) {
	if !l.severalNodes() {
		return false
	}
	wait := time.Duration(upToUs-l.now()/1000)*time.Microsecond + othersWrite
	if wait <= 0 {
		return false
	}
	time.Sleep(min(wait, historySkew+othersWrite))
	return true
}

func (l *Ledger) historyPage(a *AccountState, place int, c *usageCursor, h *UsageHistory) (more bool, err error) {
	err = l.report(func(q *query) error {
		x := &usageIndex{query: q, account: a.no, place: place}
		h.Entries = make([]UsageEntry, 0, c.PageSize)
		err := x.walk(c.from, c.ToUs, func(e *UsageEntry) bool {
			if more = len(h.Entries) == c.PageSize; !more {
				h.Entries = append(h.Entries, *e)
			}
			return !more
		})
		if err != nil {
			return err
		}
		return l.nameModels(q, h.Entries)
	})
	return more, err
}
