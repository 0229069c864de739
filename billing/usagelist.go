package billing

import (
	"context"
	"errors"
	"farebox/billing/money"
	"fmt"
	"math"
	"slices"
	"time"
)

// UsageQuery asks for one numbered page of an account's entries.
type UsageQuery struct {
	Currency     Currency // 0: all
	FromUs, ToUs int64    // Unix µs, from and before; ToUs 0: no end
	Ascending    bool     // else the newest first
	Limit, Page  int64    // Page counts from 1
}

// UsageList is a page of entries.
type UsageList struct {
	Entries []UsageEntry
	Total   int64 // on all pages
	Behind  bool  // the newest requests are not in it yet
}

// ErrReportTimeout is a report that took too long.
var ErrReportTimeout = errors.New("the report took too long")

const (
	// reportLimit keeps an answer within the 10 seconds of the specification.
	reportLimit = 8 * time.Second
	// forever is a time after all others.
	forever = math.MaxInt64
)

// report reads the store for an account, at most for reportFor.
func (l *Ledger) report(do func(*query) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), l.reportFor)
	defer cancel()
	err := l.store.Report(ctx, do)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrReportTimeout, err)
	}
	return err
}

// Usage lists entries of a key's account. Page 1 fixes what the pages after it
// count, so that requests that arrive meanwhile neither repeat nor hide an entry.
func (l *Ledger) Usage(k *Key, q UsageQuery) (list UsageList, err error) {
	a := k.Account
	place, some := usagePlace(q.Currency)
	if !some {
		return list, nil
	}
	fixed := anchorKey{a.no, place, q.FromUs, q.ToUs, q.Limit, q.Ascending}
	bounds := map[uint32]uint64(nil)
	if q.Page > 1 {
		bounds = l.anchors.get(fixed)
	}
	if bounds == nil {
		list.Behind = !l.showDetail(a)
	}
	err = l.report(func(r *query) error {
		if q.Page == 1 {
			if bounds, err = r.detailed(); err != nil {
				return err
			}
			l.anchors.put(fixed, bounds)
		}
		x, err := newUsageIndex(r, a.no, place, bounds)
		if err != nil {
			return err
		}
		if err := x.page(&q, &list); err != nil {
			return err
		}
		return l.nameModels(r, list.Entries)
	})
	if err != nil {
		return UsageList{}, fmt.Errorf("cannot list the usage of account %s: %w", a.ID, err)
	}
	return list, nil
}

// usagePlace is the place of a currency, and whether anything is paid in it.
func usagePlace(c Currency) (place int, some bool) {
	switch c {
	case 0:
		return anyPlace, true
	case USD, DIEM, Bundled:
		return money.PlaceOf(c), true
	}
	return 0, false
}

// page reads the entries of a numbered page.
func (x *usageIndex) page(q *UsageQuery, list *UsageList) (err error) {
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
	list.Entries = make([]UsageEntry, 0, want)
	err = x.walk(usagePosition{us: us}, forever, func(e *UsageEntry) bool {
		if rank++; rank > first {
			list.Entries = append(list.Entries, *e)
		}
		return int64(len(list.Entries)) < want
	})
	if err == nil && int64(len(list.Entries)) != want {
		err = fmt.Errorf("%w: %d entries from number %d on, counted as %d", errPage, len(list.Entries), first, want)
	}
	if !q.Ascending {
		slices.Reverse(list.Entries)
	}
	return err
}
