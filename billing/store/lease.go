package store

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/money"
)

func (s *postgresStore) LastOp() (uint64, error) {
	return value[uint64](s.sqlStore, "SELECT op FROM node WHERE no = $1", s.node)
}

func (s *postgresStore) Grant(op uint64, wants []Want) ([]Funds, error) {
	return s.operate(op, wants, (*tx).grantLeases)
}

func (s *postgresStore) Return(op uint64, rests []Want, recalls ...uint64) ([]Funds, error) {
	return s.operate(op, rests, func(t *tx, rests []Want, moved []money.Parts) error {
		for _, number := range recalls {
			t.change(changeAnswered, s.node, int64(number))
		}
		if len(rests) == 0 {
			return nil
		}
		return t.returnLeases(rests, moved)
	})
}

// operate runs one operation on leases, once: done again, it gives the answer
// that it gave before.
func (s *postgresStore) operate(op uint64, wants []Want, do func(*tx, []Want, []money.Parts) error) (list []Funds,
	err error) {
	err = s.writeFor(leaseTimeout, func(t *tx) error {
		n, err := t.nodeState()
		switch {
		case err != nil:
			return err
		case n.ended != 0:
			return ErrFenced
		case n.reclaims != s.reclaims.Load():
			return ErrReclaimed
		}
		moved := make([]money.Parts, len(wants))
		switch op {
		case n.op:
			if !readMoved(n.answer, wants, moved) {
				return fmt.Errorf("operation %d of this node's leases was another one", op)
			}
		case n.op + 1:
			if err := do(t, wants, moved); err != nil {
				return err
			}
			if _, err := t.exec("UPDATE node SET op = $2, answer = $3 WHERE no = $1", s.node, op,
				appendMoved(nil, wants, moved)); err != nil {
				return err
			}
		default:
			return fmt.Errorf("operation %d of this node's leases cannot follow operation %d", op, n.op)
		}
		list, err = t.funds(wants, moved)
		return err
	})
	return list, err
}

// appendMoved encodes the amounts that an operation moved, with their wants.
func appendMoved(b []byte, wants []Want, moved []money.Parts) []byte {
	for i := range wants {
		for _, n := range wants[i].record(&moved[i]) {
			b = binary.AppendVarint(b, n)
		}
	}
	return b
}

func (w *Want) record(moved *money.Parts) [10]int64 {
	a := &w.Amounts
	return [10]int64{int64(moved[0]), int64(moved[1]), int64(moved[2]), int64(a[0]), int64(a[1]), int64(a[2]),
		int64(w.Account), w.Key, int64(w.Day), int64(w.Period)}
}

// readMoved is false for the answer to another operation.
func readMoved(b []byte, wants []Want, moved []money.Parts) bool {
	for i := range wants {
		var f [10]int64
		for j := range f {
			v, n := binary.Varint(b)
			if n <= 0 {
				return false
			}
			f[j], b = v, b[n:]
		}
		moved[i] = money.Parts{money.Nano(f[0]), money.Nano(f[1]), money.Nano(f[2])}
		if f != wants[i].record(&moved[i]) {
			return false
		}
	}
	return len(b) == 0
}

// places are the buckets of a want that is for money.
func (w *Want) places() [money.Currencies]placeID {
	var ids [money.Currencies]placeID
	for place, c := range money.SpendOrder {
		ids[place] = placeID{account: w.Account, currency: c}
		if c == money.DIEM {
			ids[place].date = calendar.Date(w.Day)
		}
	}
	return ids
}

// quotas are the limits of a want that is for a key, at the places of their
// currencies; that of BUNDLED_CREDITS is the one of USD, and empty.
func (w *Want) quotas() [money.Currencies]quotaID {
	return [money.Currencies]quotaID{money.InDIEM: {w.Key, w.Period, money.DIEM},
		money.InUSD: {w.Key, w.Period, money.USD}}
}

func (t *tx) grantLeases(wants []Want, moved []money.Parts) error {
	keys, err := t.keyLimits(keysOf(wants), true)
	if err != nil {
		return err
	}
	if err := t.collectFor(wants, time.Now().UnixMicro()); err != nil {
		return err
	}
	if err := t.moveLeases(wants, moved, true); err != nil {
		return err
	}
	return t.leaseQuotas(wants, moved, keys, true)
}

func (t *tx) returnLeases(rests []Want, moved []money.Parts) error {
	if err := t.moveLeases(rests, moved, false); err != nil {
		return err
	}
	if err := t.collectFor(rests, time.Now().UnixMicro()); err != nil {
		return err
	}
	keys, err := t.keyLimits(keysOf(rests), false)
	if err != nil {
		return err
	}
	return t.leaseQuotas(rests, moved, keys, false)
}

// moveLeases grants money that is wanted, as far as a bucket has it, or takes
// back rests, as far as they are leased.
func (t *tx) moveLeases(wants []Want, moved []money.Parts, grant bool) error {
	found, err := t.lockBuckets(placesOf(wants), time.Now().UnixMicro())
	if err != nil {
		return err
	}
	var moves []move
	for i := range wants {
		w := &wants[i]
		if w.Key != 0 {
			continue
		}
		for place, id := range w.places() {
			b := found[id]
			if b == nil || w.Amounts[place] <= 0 {
				continue
			}
			n := min(w.Amounts[place], b.avail)
			if !grant {
				n = -min(w.Amounts[place], b.lease)
			}
			b.avail -= n
			b.lease += n
			moved[i][place] = max(n, -n)
			moves = append(moves, move{placeID: id, avail: -n, escrow: n, taken: -n, ends: b.lease == 0})
		}
	}
	return t.moveMoney(mergeMoves(moves))
}

// leaseQuotas is moveLeases for the limits of keys.
func (t *tx) leaseQuotas(wants []Want, moved []money.Parts, keys map[int64]*keyLimit, grant bool) error {
	found, err := t.quotas(quotasOf(wants), keys, true)
	if err != nil {
		return err
	}
	var moves []moveQuota
	for i := range wants {
		w := &wants[i]
		k := keys[w.Key]
		// A period of another kind than the key has now: the feed notifies the node.
		if w.Key == 0 || grant && (k == nil || k.kind != kindOfPeriod(w.Period)) {
			continue
		}
		for place, id := range w.quotas() {
			row := found[id]
			if row == nil || grant && row.limit == nil || w.Amounts[place] <= 0 {
				continue
			}
			n := min(w.Amounts[place], row.room())
			if !grant {
				n = -min(w.Amounts[place], row.lease)
			}
			row.lease += n
			moved[i][place] = max(n, -n)
			moves = append(moves, moveQuota{id, -n, row.lease == 0})
		}
	}
	return t.moveQuotas(mergeQuotas(moves))
}

// mergeMoves makes one of several moves of a bucket: an UPDATE from rows takes
// only one of them.
func mergeMoves(list []move) []move {
	return merge(list, func(a, b move) int { return comparePlaces(a.placeID, b.placeID) }, func(a *move, b move) {
		a.avail, a.escrow, a.spent, a.taken = a.avail+b.avail, a.escrow+b.escrow, a.spent+b.spent, a.taken+b.taken
		a.ends = b.ends
	})
}

func mergeQuotas(list []moveQuota) []moveQuota {
	return merge(list, func(a, b moveQuota) int { return compareQuotas(a.quotaID, b.quotaID) },
		func(a *moveQuota, b moveQuota) { a.taken, a.ends = a.taken+b.taken, b.ends })
}

// merge sorts a list and adds up entries that are equal in its order.
func merge[T any](list []T, compare func(a, b T) int, add func(to *T, from T)) []T {
	slices.SortStableFunc(list, compare)
	merged := list[:0]
	for _, m := range list {
		if n := len(merged); n > 0 && compare(merged[n-1], m) == 0 {
			add(&merged[n-1], m)
			continue
		}
		merged = append(merged, m)
	}
	return merged
}

func keysOf(wants []Want) []int64 {
	keys := []int64{}
	for i := range wants {
		if wants[i].Key != 0 {
			keys = append(keys, wants[i].Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// placesOf are the buckets of wants. DIEM that no want asks for are left out:
// asking makes the bucket of a day.
func placesOf(wants []Want) (ids []placeID) {
	for i := range wants {
		if wants[i].Key != 0 {
			continue
		}
		for place, id := range wants[i].places() {
			if wants[i].Amounts[place] > 0 {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

func quotasOf(wants []Want) (ids []quotaID) {
	for i := range wants {
		if wants[i].Key == 0 {
			continue
		}
		for _, id := range wants[i].quotas() {
			if id.key != 0 {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// funds says where the money and limits of wants are now.
func (q *Query) funds(wants []Want, moved []money.Parts) ([]Funds, error) {
	var ids []placeID
	for i := range wants {
		if wants[i].Key == 0 {
			all := wants[i].places()
			ids = append(ids, all[:]...)
		}
	}
	buckets := map[placeID]*bucketRow{}
	var err error
	if len(ids) > 0 {
		slices.SortFunc(ids, comparePlaces)
		if buckets, err = q.buckets(slices.Compact(ids)); err != nil {
			return nil, err
		}
	}
	keys, err := q.keyLimits(keysOf(wants), false)
	if err != nil {
		return nil, err
	}
	quotas, err := q.quotas(quotasOf(wants), keys, false)
	if err != nil {
		return nil, err
	}
	list := make([]Funds, len(wants))
	for i := range wants {
		w, f := &wants[i], &list[i]
		*f = Funds{Account: w.Account, Key: w.Key, Day: w.Day, Period: w.Period}
		if moved != nil {
			f.Granted = moved[i]
		}
		if w.Key == 0 {
			for place, id := range w.places() {
				if b := buckets[id]; b != nil {
					f.Lease[place], f.Avail[place], f.Others[place], f.Debt = b.lease, b.avail, b.escrow-b.lease, b.debt
				}
			}
			continue
		}
		for place, id := range w.quotas() {
			if row := quotas[id]; row != nil {
				f.Lease[place], f.Avail[place], f.Others[place] = row.lease, row.room(), row.others
			}
		}
	}
	return list, nil
}

// Funds says where the money of accounts is, and the limits of keys of which
// this node has leases.
func (s *postgresStore) Funds(accounts []uint32, day int32) (list []Funds, err error) {
	err = s.snapshot(leaseTimeout, func(q *Query) error {
		wants, err := q.openLeases(accounts, day)
		if err != nil {
			return err
		}
		list, err = q.funds(wants, nil)
		for i := range list {
			if f := &list[i]; f.Key == 0 && f.Day != day {
				for _, p := range []*money.Parts{&f.Lease, &f.Avail, &f.Others} {
					*p = money.Parts{money.InDIEM: p[money.InDIEM]} // the rest is in the account's first one
				}
			}
		}
		return err
	})
	return list, err
}

// openLeases are the wants that Funds answers.
func (q *Query) openLeases(accounts []uint32, day int32) (wants []Want, err error) {
	at := map[uint32]bool{}
	for _, account := range accounts {
		if !at[account] {
			at[account] = true
			wants = append(wants, Want{Account: account, Day: day})
		}
	}
	var more []Want
	note := func(w Want, main bool) {
		switch {
		case accounts != nil && !at[w.Account]:
			return
		case accounts == nil && !at[w.Account]:
			at[w.Account] = true
			wants = append(wants, Want{Account: w.Account, Day: day})
		}
		if !main {
			more = append(more, w)
		}
	}
	today := calendar.Date(day)
	err = each3(q, func(account uint32, c money.Currency, date int64) {
		w := Want{Account: account, Day: day}
		other := c == money.DIEM && date != today
		if other {
			w.Day = calendar.DayOfDate(date)
		}
		note(w, !other)
	}, "SELECT account, currency, day FROM lease WHERE node = $1 AND amount > 0 ORDER BY account, currency, day",
		q.s.node)
	if err != nil {
		return nil, err
	}
	err = q.Each(func(rows *sql.Rows) error {
		var w Want
		err := rows.Scan(&w.Account, &w.Key, &w.Period)
		note(w, false)
		return err
	}, `SELECT DISTINCT k.account, q.api_key, q.period FROM quota q JOIN api_key k ON k.no = q.api_key
		WHERE q.node = $1 AND q.amount > 0 ORDER BY k.account, q.api_key, q.period`, q.s.node)
	return append(wants, more...), err
}
