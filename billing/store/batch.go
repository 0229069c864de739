package store

import (
	"cmp"
	"iter"
	"slices"

	"farebox/billing/journal"
	"farebox/billing/money"
)

// Batch is a run of journal records added up for the store: one update an
// account and currency, one row of daily usage a key, model, upstream, day and currency.
// The cost of a record in the store thus shrinks as the rate grows.
type Batch struct {
	First, Last uint64 // sequences
	Sealed      bool   // handed to the store
	NowUs       int64
	Day         int32 // UTC day when it was handed over
	index       map[rollupKey]int32
	Rollups     []Rollup
	sums        []usageSum
	Shortfall   map[uint32]money.Nano // of records from before there was debt
	Debt        map[uint32]money.Nano // new debt of accounts
	Payments    map[paymentID]money.Nano
	Progress    map[uint64]journal.Record // open holds whose progress is not in the store yet
	Known       map[uint64]bool           // holds whose progress is in the store
	Resolved    []uint64                  // of known
	jobs        []jobCharge
	owing       []journal.Record // those that left debt
}

type rollupKey struct {
	Account, Key, model, upstream uint32
	Day                           int32
}

func keyOf(r *journal.Record) rollupKey {
	return rollupKey{r.Account, r.Key, r.Model, r.Upstream, r.Day}
}

// Rollup is usage of one day: its sums by currency and kind are a list in
// batch.sums, in the order of both.
type Rollup struct {
	rollupKey
	lastUs int64
	first  int32 // its index in sums, and 1
}

// usageSum is the payment in one currency for one kind.
type usageSum struct {
	Place    uint8
	kind     money.Kind
	next     int32 // as rollup.first
	requests int64
	units    int64
	Amount   money.Nano
}

// paymentID is money that debt was paid from; day is that of DIEM, else 0.
type paymentID struct {
	Account uint32
	Place   int
	Day     int32
}

// keepRollups is how much room a batch keeps for the next, about 1 MB; a larger
// one comes at most every few seconds and should not stay in idle memory.
const keepRollups = 4096

// NewBatch makes an empty batch.
func NewBatch() *Batch {
	return &Batch{index: map[rollupKey]int32{}, Shortfall: map[uint32]money.Nano{}, Debt: map[uint32]money.Nano{},
		Payments: map[paymentID]money.Nano{}, Progress: map[uint64]journal.Record{}, Known: map[uint64]bool{}}
}

// Begin empties the batch for records after sequence last. The known state of
// open progress stays.
func (b *Batch) Begin(last uint64) {
	b.First, b.Last, b.Sealed = last+1, last, false
	if cap(b.Rollups) > keepRollups {
		b.Rollups, b.sums, b.index = nil, nil, map[rollupKey]int32{}
	}
	clear(b.index)
	clear(b.Shortfall)
	clear(b.Debt)
	clear(b.Payments)
	b.Rollups, b.sums = b.Rollups[:0], b.sums[:0]
	b.Resolved = b.Resolved[:0]
	b.jobs, b.owing = b.jobs[:0], b.owing[:0]
}

// Empty says that nothing was added since the last reset.
func (b *Batch) Empty() bool { return b.Last < b.First }

// Add adds the effects of a record. Records come in the order of their numbers.
func (b *Batch) Add(r *journal.Record) {
	b.Last = r.Seq
	switch r.Kind {
	case journal.Settle:
		b.charge(r)
		if r.Flags&journal.FlagJob != 0 {
			b.chargeJob(r)
		}
		b.resolve(r.Hold)
	case journal.Void:
		b.resolve(r.Hold)
	case journal.Progress:
		b.Progress[r.Hold] = *r
	case journal.Pay:
		b.pay(r)
	}
}

func (b *Batch) charge(r *journal.Record) {
	k := keyOf(r)
	var u *Rollup
	if n := len(b.Rollups); n > 0 && b.Rollups[n-1].rollupKey == k {
		u = &b.Rollups[n-1]
	} else if i, ok := b.index[k]; ok {
		u = &b.Rollups[i]
	} else {
		b.index[k] = int32(n)
		b.Rollups = append(b.Rollups, Rollup{rollupKey: k})
		u = &b.Rollups[n]
	}
	u.lastUs = max(u.lastUs, r.TimeNs/1000)
	var s journal.Shares
	r.Spread(&s)
	for _, x := range s.All() {
		sum := b.sum(u, x.Place, x.Kind)
		sum.units += r.Moved.Sign() * x.Units
		sum.Amount += money.Nano(r.Moved.Sign()) * x.Amount
	}
	if r.Moved != journal.Charged {
		return
	}
	b.sum(u, uint8(s.First), s.Last).requests++
	if r.Shortfall > 0 {
		b.Shortfall[r.Account] += r.Shortfall
	}
	if r.Debt > 0 {
		b.Debt[r.Account] += r.Debt
		b.owing = append(b.owing, *r)
	}
}

// sum is that of a rollup for a currency and kind.
func (b *Batch) sum(u *Rollup, place uint8, kind money.Kind) *usageSum {
	at := &u.first
	for *at != 0 {
		s := &b.sums[*at-1]
		if s.Place == place && s.kind == kind {
			return s
		}
		if s.Place > place || s.Place == place && s.kind > kind {
			break
		}
		at = &s.next
	}
	next := *at
	*at = int32(len(b.sums) + 1)
	b.sums = append(b.sums, usageSum{Place: place, kind: kind, next: next})
	return &b.sums[len(b.sums)-1]
}

// Each gives the sums of a rollup.
func (b *Batch) Each(u *Rollup) iter.Seq[*usageSum] {
	return func(yield func(*usageSum) bool) {
		for at := u.first; at != 0 && yield(&b.sums[at-1]); at = b.sums[at-1].next {
		}
	}
}

func (b *Batch) pay(r *journal.Record) {
	for place, n := range r.Amounts {
		if n == 0 {
			continue
		}
		id := paymentID{Account: r.Account, Place: place}
		if place == money.InDIEM {
			id.Day = r.Day
		}
		b.Payments[id] += n
	}
}

func (b *Batch) resolve(hold uint64) {
	if len(b.Progress) > 0 {
		delete(b.Progress, hold)
	}
	if len(b.Known) > 0 && b.Known[hold] {
		b.Resolved = append(b.Resolved, hold)
	}
}

// Applied is called when the store has the batch.
func (b *Batch) Applied() {
	for hold := range b.Progress {
		b.Known[hold] = true
	}
	for _, hold := range b.Resolved {
		delete(b.Known, hold)
	}
	clear(b.Progress)
}

// sort brings the rollups into the order of the store's keys.
func (b *Batch) sort() {
	slices.SortFunc(b.Rollups, func(x, y Rollup) int {
		return cmp.Or(cmp.Compare(x.Account, y.Account), cmp.Compare(x.Key, y.Key), cmp.Compare(x.Day, y.Day),
			cmp.Compare(x.model, y.model), cmp.Compare(x.upstream, y.upstream))
	})
}
