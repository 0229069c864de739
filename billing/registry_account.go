package billing

import (
	"fmt"
	"slices"

	"farebox/billing/money"
	"farebox/billing/store"
)

// relimit brings k's limits into force. Where the use of the new period is not
// in memory, because the key had no limits or another kind of period, it is
// counted again while the account is locked: everything that was recorded is
// projected first.
func (l *Ledger) relimit(k, old *Key) error {
	a, u := k.Account, k.use
	a.mu.Lock()
	defer a.mu.Unlock()
	if u.lease != nil {
		// Other changes of a key, and the feed's echo of a change of our own,
		// must not send its leased limits away: requests would miss them.
		if !k.limitedLike(old) {
			u.relimit(k)
		}
		return nil
	}
	if k.limited() && (!old.limited() || k.Period != u.kind) {
		if err := l.project.catchUp(); err != nil {
			return err
		}
		used, err := l.keyUsed(k, k.Period, a.day)
		if err == nil {
			u.later, err = l.keyUsedLater(a.no, k.No, k.Period, a.day)
		}
		if err != nil {
			return err
		}
		u.quota = quotaOf(k.Period.Number(a.day), &used)
	}
	u.kind, u.mostUSD, u.mostDIEM = k.Period, limitOf(k.LimitUSD), limitOf(k.LimitDIEM)
	return nil
}

// keyUsed is a key's use in the period that day lies in, by the store and by
// its open holds. The caller holds the account's lock.
func (l *Ledger) keyUsed(k *Key, p store.Period, day int32) (money.Parts, error) {
	a := k.Account
	used, err := l.store.KeyUsed(a.no, k.No, p, day)
	for h, n := a.open, a.opened; n > 0; h, n = h.next, n-1 {
		if h.key.No == k.No && p.Number(h.day) == p.Number(day) {
			used.Add(&h.parts)
		}
	}
	return used, err
}

// keyUsedLater is a key's use in periods after the one that day lies in: of a
// time when the clock was ahead. Those begin with it, or a limit would hold
// twice in each of them.
func (l *Ledger) keyUsedLater(account uint32, key int64, p store.Period, day int32) (map[int32]quota, error) {
	days, err := l.store.KeyUsedLater(account, key, day)
	if err != nil {
		return nil, err
	}
	var later map[int32]quota
	for d, used := range days {
		n := p.Number(d)
		if n <= p.Number(day) {
			continue
		}
		if later == nil {
			later = map[int32]quota{}
		}
		q, more := later[n], quotaOf(n, &used)
		more.usd, more.diem = more.usd+q.usd, more.diem+q.diem
		later[n] = more
	}
	return later, nil
}

// account gives the one AccountState of an account, from the store at its first
// use: read once for all concurrent requests.
func (l *Ledger) account(number uint32) (*AccountState, error) {
	r := l.registry
	for {
		r.mu.Lock()
		a, over := r.accounts[number], r.opening[number]
		if a == nil && over == nil {
			r.opening[number] = make(chan struct{})
			r.mu.Unlock()
			return l.openAccount(number)
		}
		r.mu.Unlock()
		if a != nil {
			return a, nil
		}
		<-over // then it is there, or reading it failed and this caller tries
	}
}

// openAccount reads an account and publishes it. The caller is the one that was
// let in by opening.
func (l *Ledger) openAccount(number uint32) (a *AccountState, err error) {
	r := l.registry
	defer func() {
		r.mu.Lock()
		if a != nil {
			r.accounts[number] = a
		}
		over := r.opening[number]
		delete(r.opening, number)
		r.mu.Unlock()
		close(over)
	}()
	day := l.Today()
	row, err := l.store.Account(number, day)
	if err != nil {
		return nil, fmt.Errorf("cannot read account %d: %w", number, err)
	}
	r.mu.Lock()
	read := r.accountSlab.Take()
	r.mu.Unlock()
	*read = AccountState{ID: row.ID, name: row.Name, no: number, ledger: l, day: day, avail: row.Avail,
		refill: row.DIEMDaily, spent: row.Spent, debt: row.Debt, paid: row.Paid, status: row.Status, slot: noSlot}
	switch {
	case l.node != nil:
		if err := l.node.lease(read); err != nil {
			return nil, fmt.Errorf("cannot read the funds of account %d: %w", number, err)
		}
	case row.LastDIEM > day:
		if read.later, err = l.store.LaterDIEM(number, day); err != nil {
			return nil, fmt.Errorf("cannot read account %d: %w", number, err)
		}
	}
	if l.journal != nil && read.owes() {
		// Its debt since a crash, or since another process credited it.
		read.pay(l.at())
	}
	return read, nil
}

// loaded gives an account that is in memory, or will be when those who are
// reading it now have done so; nil for none. Whatever changed in the store
// before this is called is known to the account that it gives.
func (l *Ledger) loaded(number uint32) *AccountState {
	r := l.registry
	r.mu.Lock()
	over := r.opening[number]
	r.mu.Unlock()
	if over != nil {
		<-over
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accounts[number]
}

// allLoaded gives all accounts that are in memory or are being read now.
func (l *Ledger) allLoaded() []*AccountState {
	r := l.registry
	r.mu.Lock()
	waits := make([]chan struct{}, 0, len(r.opening))
	for _, over := range r.opening {
		waits = append(waits, over)
	}
	r.mu.Unlock()
	for _, over := range waits {
		<-over
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*AccountState, 0, len(r.accounts))
	for _, a := range r.accounts {
		list = append(list, a)
	}
	return list
}

// Revoked and expired keys leave memory. Requests that were admitted with one
// run on: they have the Key, and with the last of them it is gone. A secret
// that is tried afterwards is read from the store and refused.

// forgetAfter is how long after a key expired it leaves memory, ns: its owner may
// prolong it, and its use must be in the store by then.
const forgetAfter = int64(3600 * 1e9)

// forgetKey refuses a key from now on, and takes it out of memory.
func (l *Ledger) forgetKey(k *Key) {
	k.use.gate.Store(gateRevoked)
	r := l.registry
	r.mu.Lock()
	if current := r.byNo[k.No]; current != nil {
		r.drop(current)
	}
	k.Account.deletes = true
	r.changed() // a lookup may have read it before
	r.mu.Unlock()
	if k.use.lease != nil {
		a := k.Account
		a.mu.Lock()
		a.lease.forget(a)
		a.mu.Unlock()
	}
}

// forgetExpired does so with keys that expired a while ago.
func (l *Ledger) forgetExpired() {
	r, now := l.registry, l.now()
	r.mu.Lock()
	var list []*Key
	for _, k := range r.byNo {
		if k.expiresNs != 0 && now-k.expiresNs >= forgetAfter {
			list = append(list, k)
		}
	}
	r.mu.Unlock()
	for _, k := range list {
		if l.allStored(k) {
			l.forgetKey(k)
		}
	}
}

// allStored says that all that k was used for is in the store: that is where
// its use is counted from if it comes back.
func (l *Ledger) allStored(k *Key) bool {
	a := k.Account
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.holds(k.use) && a.lastSeq <= l.project.ledgerSeq.Load()
}

// holds says that some open hold is one of a key. The caller holds a.mu.
func (a *AccountState) holds(u *keyUse) bool {
	for h, n := a.open, a.opened; n > 0; h, n = h.next, n-1 {
		if h.key.use == u {
			return true
		}
	}
	return false
}

// forget gives back the leases of the limits of keys that are refused, and
// forgets them when nothing is held for them any more. The caller holds a.mu.
func (s *lease) forget(a *AccountState) {
	s.limited = slices.DeleteFunc(s.limited, func(u *keyUse) bool {
		if !u.revoked() {
			return false
		}
		s.rest(u.giveRoom())
		return u.lease.need == 0 && !a.holds(u)
	})
	s.give(a, 0)
}
