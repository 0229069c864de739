package report

import (
	"fmt"
	"math"
	"slices"

	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/store"
)

// ListQuery asks for one numbered page of an account's entries.
type ListQuery struct {
	Currency     money.Currency // 0: all
	FromUs, ToUs int64          // Unix µs, from and before; ToUs 0: no end
	Ascending    bool           // else the newest first
	Limit, Page  int64          // Page counts from 1
}

// List is a page of entries.
type List struct {
	Entries []Entry
	Total   int64 // on all pages
	Behind  bool  // the newest requests are not in it yet
}

// forever is a time after all others.
const forever = math.MaxInt64

// List lists entries of the account. Page 1 fixes the entries that later pages
// count, so that requests that arrive meanwhile neither repeat nor hide an entry.
func (a Account) List(q ListQuery) (list List, err error) {
	place, some := placeOf(q.Currency)
	if !some {
		return list, nil
	}
	fixed := anchorKey{a.No, place, q.FromUs, q.ToUs, q.Limit, q.Ascending}
	bounds := map[uint32]uint64(nil)
	if q.Page > 1 {
		bounds = a.anchors.get(fixed)
	}
	if bounds == nil {
		list.Behind = !a.Newest.Detail()
	}
	err = a.read(func(tx *store.Query) error {
		if q.Page == 1 {
			if bounds, err = detailed(tx); err != nil {
				return err
			}
			a.anchors.put(fixed, bounds)
		}
		x, err := newIndex(tx, a.No, place, bounds)
		if err != nil {
			return err
		}
		if err := x.page(&q, &list); err != nil {
			return err
		}
		return a.nameModels(tx, list.Entries)
	})
	if err != nil {
		return List{}, fmt.Errorf("cannot list the usage of account %s: %w", a.ID, err)
	}
	return list, nil
}

// placeOf is the place of a currency, and whether anything is paid in it.
func placeOf(c money.Currency) (place int, some bool) {
	if c == 0 {
		return journal.AnyPlace, true
	}
	return money.PlaceOf(c), slices.Contains(money.Listed[:], c)
}

// page reads the entries of a numbered page.
func (x *index) page(q *ListQuery, list *List) (err error) {
	begin, end := int64(0), x.total()
	if q.FromUs > 0 {
		if begin, err = x.rank(q.FromUs); err != nil {
			return err
		}
	}
	if q.ToUs > 0 {
		if end, err = x.rank(q.ToUs); err != nil {
			return err
		}
	}
	list.Total = max(0, end-begin)
	before := q.Page - 1
	if before > list.Total/q.Limit {
		return nil
	}
	before *= q.Limit
	want := min(q.Limit, list.Total-before)
	if want <= 0 {
		return nil
	}
	first := begin + before
	if !q.Ascending {
		first = end - before - want
	}
	us, rank, err := x.seek(first)
	if err != nil {
		return err
	}
	list.Entries = make([]Entry, 0, want)
	err = x.walk(Position{Us: us}, forever, func(e *Entry) bool {
		if rank++; rank > first {
			list.Entries = append(list.Entries, *e)
		}
		return int64(len(list.Entries)) < want
	})
	if err == nil && int64(len(list.Entries)) != want {
		err = fmt.Errorf("%w: %d entries from number %d on, counted as %d", journal.ErrPage, len(list.Entries), first, want)
	}
	if !q.Ascending {
		slices.Reverse(list.Entries)
	}
	return err
}
