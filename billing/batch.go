package billing

import (
	"cmp"
	"iter"
	"slices"

	"farebox/billing/journal"
	"farebox/billing/money"
)

// batch is a run of journal records added up for the store: one update an
// account and currency, one row of daily usage a key, model, day and currency.
// What a record costs in the store thus shrinks as the rate grows.
type batch struct {
	first, last uint64 // sequences
	sealed      bool   // handed to the store
	nowUs       int64
	day         int32 // UTC day when it was handed over
	index       map[rollupKey]int32
	rollups     []rollup
	sums        []usageSum
	shortfall   map[uint32]Nano // of records from before there was debt
	debt        map[uint32]Nano // what accounts owe more
	payments    map[paymentID]Nano
	progress    map[uint64]journal.Record // open holds whose progress is not in the store yet
	known       map[uint64]bool           // holds whose progress is in the store
	resolved    []uint64                  // of known
}

type rollupKey struct {
	account, key, model uint32
	day                 int32
}

// rollup is usage of one day: its sums by currency and kind are a list in
// batch.sums, in the order of both.
type rollup struct {
	rollupKey
	lastUs int64
	first  int32 // its index in sums, and 1
}

// usageSum is what one currency paid for one kind.
type usageSum struct {
	place    uint8
	kind     money.Kind
	next     int32 // as rollup.first
	requests int64
	units    int64
	amount   Nano
}

// paymentID is money that debt was paid from; day is that of DIEM, else 0.
type paymentID struct {
	account uint32
	place   int
	day     int32
}

// keepRollups is how much room a batch keeps for the next, about 1 MB; a larger
// one comes at most every few seconds and should not stay in idle memory.
const keepRollups = 4096

func newBatch() *batch {
	return &batch{index: map[rollupKey]int32{}, shortfall: map[uint32]Nano{}, debt: map[uint32]Nano{}, payments: map[paymentID]Nano{}, progress: map[uint64]journal.Record{}, known: map[uint64]bool{}}
}

// begin empties the batch for records after sequence last. What is known of
// open progress stays.
func (b *batch) begin(last uint64) {
	b.first, b.last, b.sealed = last+1, last, false
	if cap(b.rollups) > keepRollups {
		b.rollups, b.sums, b.index = nil, nil, map[rollupKey]int32{}
	}
	clear(b.index)
	clear(b.shortfall)
	clear(b.debt)
	clear(b.payments)
	b.rollups, b.sums = b.rollups[:0], b.sums[:0]
	b.resolved = b.resolved[:0]
}

func (b *batch) empty() bool { return b.last < b.first }

func (b *batch) add(r *journal.Record) {
	b.last = r.Seq
	switch r.Kind {
	case journal.Settle:
		b.charge(r)
		b.resolve(r.Hold)
	case journal.Void:
		b.resolve(r.Hold)
	case journal.Progress:
		b.progress[r.Hold] = *r
	case journal.Pay:
		b.pay(r)
	}
}

func (b *batch) charge(r *journal.Record) {
	k := rollupKey{r.Account, r.Key, r.Model, r.Day}
	var u *rollup
	if n := len(b.rollups); n > 0 && b.rollups[n-1].rollupKey == k {
		u = &b.rollups[n-1]
	} else if i, ok := b.index[k]; ok {
		u = &b.rollups[i]
	} else {
		b.index[k] = int32(n)
		b.rollups = append(b.rollups, rollup{rollupKey: k})
		u = &b.rollups[n]
	}
	u.lastUs = max(u.lastUs, r.TimeNs/1000)
	var s journal.Shares
	r.Spread(&s)
	for _, x := range s.All() {
		sum := b.sum(u, x.Place, x.Kind)
		sum.units += x.Units
		sum.amount += x.Amount
	}
	b.sum(u, uint8(s.First), s.Last).requests++
	if r.Shortfall > 0 {
		b.shortfall[r.Account] += r.Shortfall
	}
	if r.Debt > 0 {
		b.debt[r.Account] += r.Debt
	}
}

// sum is that of a rollup for a currency and kind.
func (b *batch) sum(u *rollup, place uint8, kind money.Kind) *usageSum {
	at := &u.first
	for *at != 0 {
		s := &b.sums[*at-1]
		if s.place == place && s.kind == kind {
			return s
		}
		if s.place > place || s.place == place && s.kind > kind {
			break
		}
		at = &s.next
	}
	next := *at
	*at = int32(len(b.sums) + 1)
	b.sums = append(b.sums, usageSum{place: place, kind: kind, next: next})
	return &b.sums[len(b.sums)-1]
}

// each gives the sums of a rollup.
func (b *batch) each(u *rollup) iter.Seq[*usageSum] {
	return func(yield func(*usageSum) bool) {
		for at := u.first; at != 0 && yield(&b.sums[at-1]); at = b.sums[at-1].next {
		}
	}
}

func (b *batch) pay(r *journal.Record) {
	for place, n := range r.Amounts {
		if n == 0 {
			continue
		}
		id := paymentID{account: r.Account, place: place}
		if place == money.InDIEM {
			id.day = r.Day
		}
		b.payments[id] += n
	}
}

func (b *batch) resolve(hold uint64) {
	if len(b.progress) > 0 {
		delete(b.progress, hold)
	}
	if len(b.known) > 0 && b.known[hold] {
		b.resolved = append(b.resolved, hold)
	}
}

// applied is told that the store has the batch.
func (b *batch) applied() {
	for hold := range b.progress {
		b.known[hold] = true
	}
	for _, hold := range b.resolved {
		delete(b.known, hold)
	}
	clear(b.progress)
}

// sort brings the rollups into the order of the store's keys.
func (b *batch) sort() {
	slices.SortFunc(b.rollups, func(x, y rollup) int {
		switch {
		case x.account != y.account:
			return cmp.Compare(x.account, y.account)
		case x.key != y.key:
			return cmp.Compare(x.key, y.key)
		case x.day != y.day:
			return cmp.Compare(x.day, y.day)
		}
		return cmp.Compare(x.model, y.model)
	})
}
