package billing

import (
	"math/bits"
	"slices"
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
	shortfall   map[uint32]Nano // of records from before there was debt
	debt        map[uint32]Nano // what accounts owe more
	payments    map[paymentID]Nano
	progress    map[uint64]record // open holds whose progress is not in the store yet
	known       map[uint64]bool   // holds whose progress is in the store
	resolved    []uint64          // of known
}

type rollupKey struct {
	account, key, model uint32
	day                 int32
}

type rollup struct {
	rollupKey
	lastUs int64
	cells  [currencies]cell
}

// paymentID is money that debt was paid from; day is that of DIEM, else 0.
type paymentID struct {
	account uint32
	place   int
	day     int32
}

// cell is usage that one currency paid for, by line of the charge.
type cell struct {
	requests int64
	tokens   lines
	amounts  lines
}

// keepRollups is how much room a batch keeps for the next, about 1 MB; a larger
// one comes at most every few seconds and should not stay in idle memory.
const keepRollups = 4096

func newBatch() *batch {
	return &batch{index: map[rollupKey]int32{}, shortfall: map[uint32]Nano{}, debt: map[uint32]Nano{}, payments: map[paymentID]Nano{}, progress: map[uint64]record{}, known: map[uint64]bool{}}
}

// begin empties the batch for records after sequence last. What is known of
// open progress stays.
func (b *batch) begin(last uint64) {
	b.first, b.last, b.sealed = last+1, last, false
	if cap(b.rollups) > keepRollups {
		b.rollups, b.index = nil, map[rollupKey]int32{}
	}
	clear(b.index)
	clear(b.shortfall)
	clear(b.debt)
	clear(b.payments)
	b.rollups = b.rollups[:0]
	b.resolved = b.resolved[:0]
}

func (b *batch) empty() bool { return b.last < b.first }

func (b *batch) add(r *record) {
	b.last = r.seq
	switch r.kind {
	case recSettle:
		b.charge(r)
		b.resolve(r.hold)
	case recVoid:
		b.resolve(r.hold)
	case recProgress:
		b.progress[r.hold] = *r
	case recPay:
		b.pay(r)
	}
}

func (b *batch) charge(r *record) {
	k := rollupKey{r.account, r.key, r.model, r.day}
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
	u.lastUs = max(u.lastUs, r.timeNs/1000)
	r.spread(&u.cells)
	if r.shortfall > 0 {
		b.shortfall[r.account] += r.shortfall
	}
	if r.debt > 0 {
		b.debt[r.account] += r.debt
	}
}

func (b *batch) pay(r *record) {
	for place, n := range r.amounts {
		if n == 0 {
			continue
		}
		id := paymentID{account: r.account, place: place}
		if place == inDIEM {
			id.day = r.day
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
			return compare(x.account, y.account)
		case x.key != y.key:
			return compare(x.key, y.key)
		case x.day != y.day:
			return compare(x.day, y.day)
		}
		return compare(x.model, y.model)
	})
}

func compare[T uint32 | int32 | uint64](a, b T) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

// spread adds a charge to the cells of the currencies that paid it. Lines are
// paid in order, each from the first currency with something left, so that
// amounts add up exactly in both directions; tokens of a line that two
// currencies paid are divided as its amount is.
func (r *record) spread(cells *[currencies]cell) {
	units := r.usage.lines()
	amounts, sum := r.lineAmounts(&units)
	first, only := r.payer()
	cells[first].requests++
	if only && sum == r.amounts[first] {
		c := &cells[first]
		for i := range units {
			c.tokens[i] += units[i]
			c.amounts[i] += amounts[i]
		}
		return
	}
	rest := r.amounts
	for i := range units {
		left, leftUnits := Nano(amounts[i]), units[i]
		for place := first; place < currencies && left > 0; place++ {
			part := min(left, rest[place])
			if part == 0 {
				continue
			}
			share := leftUnits
			if part < left {
				hi, lo := bits.Mul64(uint64(leftUnits), uint64(part))
				q, _ := bits.Div64(hi, lo, uint64(left))
				share = int64(q)
			}
			cells[place].tokens[i] += share
			cells[place].amounts[i] += int64(part)
			rest[place] -= part
			left -= part
			leftUnits -= share
		}
		cells[first].tokens[i] += leftUnits
	}
}

// payer is the first currency that paid, and whether it is the only one. What
// cost nothing counts as USD.
func (r *record) payer() (first int, only bool) {
	first, only = inUSD, true
	for i := currencies - 1; i >= 0; i-- {
		if r.amounts[i] > 0 {
			only = only && (first == inUSD && r.amounts[inUSD] == 0 || first == i)
			first = i
		}
	}
	return first, only
}

// lineAmounts is what each line cost, and their sum. Where the charge was not
// the sum of its lines (money ran out, no output, settled after a crash) the
// last lines give way.
func (r *record) lineAmounts(units *lines) (amounts lines, sum Nano) {
	charged := r.amounts.total()
	left := charged
	for i := range units {
		part := min(lineCost(units[i], r.prices[i]), left)
		amounts[i] = int64(part)
		left -= part
	}
	amounts[lineOutput] += int64(left)
	return amounts, charged
}
