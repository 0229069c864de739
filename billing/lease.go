package billing

import (
	"slices"

	"farebox/billing/money"
	"farebox/billing/store"
)

// lease is a node's view of the money of one account on a shared store:
// AccountState.avail and held are the leased money that the node may spend
// unasked, less charges; the rest is elsewhere. Guarded by the account's mutex.
// Accounts of an embedded store have no lease.
//
// The row of the lease in the store is avail + held + rests + charges that are
// not applied yet, at any time but within a lease operation.
type lease struct {
	node     *node
	unleased money.Parts // left in the store, as last read
	others   money.Parts // leased to other nodes
	heardNs  int64       // when, by the monotonic clock
	newDay   bool        // nothing is known about the DIEM of this day
	rests    []store.Want
	limited  []*keyUse // keys whose limits have been asked for here

	need       Nano // of requests that wait
	asking     bool // in the node's queue for a grant
	giving     bool // in the node's queue for a return
	giveAmount Nano // how much goes back; giveAll: the free money
	looking    bool // in the node's queue for a look
	recalls    recalls
	debt       Nano       // of the account in the store, as last read
	marks      []debtMark // oldest first

	listed   bool // in node.queue.active
	touched  bool // since windowNs
	windowNs int64
	low      Nano // least that was free since windowNs
	largest  Nano // recent hold
	spent    Nano // of the account at the last look
	rate     Nano // charged a second, smoothed
	target   Nano // money that should be free here
}

// quotaLease is the same about the limits of a key. keyUse.mostUSD and
// mostDIEM are the leased parts of them in this period.
type quotaLease struct {
	account          *AccountState
	key              int64
	limited                    // by the limits in force
	was              []limited // by keyUse.regime
	unleased, others money.Parts
	need             Nano
	listed           bool
}

// limited says which limits a key has.
type limited struct{ usd, diem bool }

// of are the amounts that count under the limits.
func (l limited) of(diem, usd Nano) (p money.Parts) {
	if l.usd {
		p[money.InUSD] = usd
	}
	if l.diem {
		p[money.InDIEM] = diem
	}
	return p
}

// beginDay is called before the account switches to a new day: the free rest of the
// old day's DIEM goes back, so that the store can let it expire.
func (s *lease) beginDay(a *AccountState) {
	s.rest(store.Want{Account: a.no, Day: a.day, Amounts: money.Parts{money.InDIEM: a.avail[money.InDIEM]}})
	s.unleased[money.InDIEM], s.others[money.InDIEM], s.newDay = 0, 0, true
}

func limitsOf(k *Key) limited { return limited{usd: k.LimitUSD != nil, diem: k.LimitDIEM != nil} }

// enforce brings the limits of a key into force that nothing was used of here.
func (u *keyUse) enforce(k *Key, day int32) {
	u.kind, u.quota = k.Period, quota{period: k.Period.Number(day)}
	u.lease.limited = limitsOf(k)
	u.lease.was = append(u.lease.was, u.lease.limited)
	u.empty()
}

// empty is the room of a period of which nothing is leased yet.
func (u *keyUse) empty() {
	u.mostUSD, u.mostDIEM = money.MaxCredit, money.MaxCredit
	if u.lease.usd {
		u.mostUSD = 0
	}
	if u.lease.diem {
		u.mostDIEM = 0
	}
	u.lease.unleased, u.lease.others = money.Parts{}, money.Parts{}
}

// beginPeriod switches to another period. The lease of the old one goes back.
func (u *keyUse) beginPeriod(period int32) {
	u.lease.account.lease.rest(u.giveRoom())
	u.quota = quota{period: period}
	u.empty()
}

// relimit brings changed limits into force. The free rest of the old ones goes
// back, so that a lower limit holds for all nodes together at once. Holds from
// before count on as long as the limits are of the same kind.
func (u *keyUse) relimit(k *Key) {
	a := u.lease.account
	a.lease.rest(u.giveRoom())
	a.lease.give(a, 0)
	if k.Period != u.kind || u.lease.limited != limitsOf(k) {
		u.regime++
		u.enforce(k, a.day)
	}
}

// restsOf is the part of the key's limits of this period on its way back: with
// neither the node nor the store, and yet not gone.
func (s *lease) restsOf(u *keyUse) (p money.Parts) {
	for i := range s.rests {
		if w := &s.rests[i]; w.Key == u.lease.key && w.Period == u.quota.period {
			p.Add(&w.Amounts)
		}
	}
	return p
}

// late gives back the unused part of a hold of another period or of former
// limits, to the limits as they were when it was opened.
func (q *quotaLease) late(p *money.Parts, h *Hold) {
	w := store.Want{Account: q.account.no, Key: q.key, Period: h.period, Amounts: q.was[h.regime].of(p.ByLimit())}
	q.account.lease.rest(w)
}

const giveAll = money.MaxCredit

// Slices of money that a node leases ahead (notes: ledger 2.4).
const (
	// sliceLeast is the smallest slice where there is plenty.
	sliceLeast = Nano(100_000_000)
	// sliceSeconds is how long a slice lasts at the recent rate.
	sliceSeconds = 10
	// sliceHolds is how many of the largest recent holds a slice covers.
	sliceHolds = 4
	// wantMost bounds the weight of one request, so that sums stay in int64.
	wantMost = Nano(1_000_000_000_000_000)
)

// elsewhere is the account's money outside of this node's lease.
func (a *AccountState) elsewhere() (p money.Parts) {
	if a.lease != nil {
		p = a.lease.unleased
		p.Add(&a.lease.others)
	}
	return p
}

// short says whether the store should be asked before a hold of want takes
// the money here: there is too little, or more of a currency that comes first.
func (a *AccountState) short(k *Key, take *money.Parts, want Nano) bool {
	rest := want
	for i := range take {
		rest -= take[i]
		switch {
		case rest <= 0:
			return false
		case i == money.InDIEM && a.lease.newDay:
			return true
		case take[i] == a.avail[i] && a.lease.unleased[i] > 0:
			return true
		case take[i] < a.avail[i] && k.use.lease != nil && k.use.lease.unleased[money.LimitPlace(i)] > 0:
			return true
		}
	}
	return true
}

// took notes a hold of up to want.
func (s *lease) took(a *AccountState, want Nano) {
	free := a.avail.Total()
	s.low, s.touched, s.largest = min(s.low, free), true, max(s.largest, min(want, wantMost))
	if !s.listed {
		s.listed, s.windowNs, s.low = true, s.node.t.mono(), free
		s.node.queue.list(a)
	}
	if free < s.aim(free)/2 && !s.asking {
		s.node.queue.queueRequest(a)
	}
}

// aim is how much should be free here: the need of the account's recent
// requests, but no more than this node's share of all free money, and nothing
// that other nodes ask for.
func (s *lease) aim(free Nano) Nano {
	if s.contended() {
		return 0
	}
	return min(s.target, (free+s.unleased.Total())/Nano(2*max(1, s.node.live.Load())))
}

// wants is the money that the account should lease now: the need of waiting requests, and a
// slice to go on with where no other node is short of it. Earlier currencies
// first, as they are spent.
func (s *lease) wants(a *AccountState, list []store.Want) []store.Want {
	w := store.Want{Account: a.no, Day: a.day}
	share := Nano(2 * max(1, s.node.live.Load()))
	need, ahead := s.need, s.target
	contended := s.contended()
	if contended {
		ahead = 0
	}
	for i := range w.Amounts {
		if i == money.InDIEM && s.newDay {
			w.Amounts[i] = need + ahead // the answer has the available money
			continue
		}
		here, known := a.avail[i], s.unleased[i]
		use := min(need, here)
		need, here = need-use, here-use
		get := min(need, known)
		need, known = need-get, known-get
		ahead -= min(ahead, here)
		if need == 0 && ahead > 0 {
			more := min(ahead, known, max(0, (here+s.unleased[i])/share-here))
			ahead -= more
			get += more
		}
		w.Amounts[i] = get
	}
	if need > 0 {
		// The known money does not suffice; there may be more by now.
		for i := range w.Amounts {
			w.Amounts[i] += need
		}
	}
	if w.Amounts != (money.Parts{}) {
		list = append(list, w)
	}
	for _, u := range s.limited {
		q := u.lease
		diem, usd := u.room()
		w := store.Want{Account: a.no, Key: q.key, Period: u.quota.period}
		slice := sliceHolds * q.need
		if contended {
			slice = 0
		}
		if q.usd && usd < q.need {
			w.Amounts[money.InUSD] = q.need - usd + min(q.unleased[money.InUSD]/share, slice)
		}
		if q.diem && diem < q.need {
			w.Amounts[money.InDIEM] = q.need - diem + min(q.unleased[money.InDIEM]/share, slice)
		}
		if w.Amounts != (money.Parts{}) {
			list = append(list, w)
		}
	}
	return list
}

// gives takes the returned money off the account.
func (s *lease) gives(a *AccountState, list []store.Want) []store.Want {
	for _, u := range s.limited {
		back := s.restsOf(u)
		u.lease.unleased.Add(&back)
	}
	list = append(list, s.rests...)
	s.rests = nil
	w := store.Want{Account: a.no, Day: a.day}
	left := s.giveAmount
	for i := len(w.Amounts) - 1; i >= 0; i-- {
		w.Amounts[i] = min(left, a.avail[i])
		left -= w.Amounts[i]
	}
	a.avail.Sub(&w.Amounts)
	// Until the store has answered with the money there. A request that looks for
	// money meanwhile must not believe that there is less.
	s.unleased.Add(&w.Amounts)
	if w.Amounts != (money.Parts{}) {
		list = append(list, w)
	}
	if s.giveAmount == giveAll {
		for _, u := range s.limited {
			w := u.giveRoom()
			u.lease.unleased.Add(&w.Amounts)
			if w.Amounts != (money.Parts{}) {
				list = append(list, w)
			}
		}
	}
	s.low = min(s.low, a.avail.Total())
	return list
}

// giveRoom takes back the unused part of the key's leased limits.
func (u *keyUse) giveRoom() store.Want {
	back := u.lease.of(u.room())
	u.mostDIEM -= back[money.InDIEM]
	u.mostUSD -= back[money.InUSD]
	return store.Want{Account: u.lease.account.no, Key: u.lease.key, Period: u.quota.period, Amounts: back}
}

// granted puts money that the store leased where it can be spent. Money for
// a past day or period goes back.
func (s *lease) granted(a *AccountState, w *store.Want, f *store.Funds, applied uint64) {
	if w.Key != 0 {
		for _, u := range s.limited {
			if u.lease.key == w.Key {
				u.granted(f)
				return
			}
		}
		// The key was forgotten meanwhile.
		s.rest(store.Want{Account: a.no, Key: w.Key, Period: f.Period, Amounts: f.Granted})
		return
	}
	got := f.Granted
	if f.Day != a.day && got[money.InDIEM] > 0 {
		s.rest(store.Want{Account: a.no, Day: f.Day, Amounts: money.Parts{money.InDIEM: got[money.InDIEM]}})
		got[money.InDIEM] = 0
	}
	if w.Day == a.day && w.Amounts[money.InDIEM] > 0 {
		s.newDay = false
	}
	a.avail.Add(&got)
	s.know(a, f, applied)
}

func (u *keyUse) granted(f *store.Funds) {
	q := u.lease
	if f.Period != u.quota.period {
		q.account.lease.rest(store.Want{Account: q.account.no, Key: q.key, Period: f.Period, Amounts: f.Granted})
		return
	}
	q.unleased, q.others = f.Avail, f.Others
	if q.usd {
		u.mostUSD += f.Granted[money.InUSD]
	}
	if q.diem {
		u.mostDIEM += f.Granted[money.InDIEM]
	}
}

// know takes over the store's answer about the rest. applied is the last record that had come
// to it when it was asked: the marks up to there are in its answer.
func (s *lease) know(a *AccountState, f *store.Funds, applied uint64) {
	if f.Key == 0 {
		s.debt = f.Debt
		for len(s.marks) > 0 && s.marks[0].seq <= applied {
			s.marks = s.marks[1:]
		}
	}
	if f.Key != 0 {
		for _, u := range s.limited {
			if u.lease.key == f.Key && f.Period == u.quota.period {
				u.lease.unleased, u.lease.others = f.Avail, f.Others
			}
		}
		return
	}
	unleased, others := f.Avail, f.Others
	switch diem := f.Lease[money.InDIEM] + unleased[money.InDIEM] + others[money.InDIEM]; {
	case f.Day != a.day:
		unleased[money.InDIEM], others[money.InDIEM] = s.unleased[money.InDIEM], s.others[money.InDIEM]
	case diem > 0 || a.refill == 0:
		s.newDay = false
	case s.newDay:
		unleased[money.InDIEM] = a.refill // the first grant of the day makes it
	}
	s.unleased, s.others, s.heardNs = unleased, others, s.node.t.mono()
}

// rest notes something to be given back that is not part of avail any more.
func (s *lease) rest(w store.Want) {
	if w.Amounts == (money.Parts{}) {
		return
	}
	s.rests = append(s.rests, w)
}

// limit makes the key known as one whose limits are leased.
func (s *lease) limit(u *keyUse) {
	if !u.lease.listed {
		u.lease.listed = true
		s.limited = append(s.limited, u)
	}
}

// maintain is the keeper's visit: it learns the rate, gives back money not
// needed for a while, and fetches the expected need.
func (s *lease) maintain(a *AccountState, now int64) (idle bool) {
	t := &s.node.t
	spent := a.spent.Total()
	perSecond := (spent - s.spent) * 1000 / Nano(max(1, t.keep.Milliseconds()))
	s.spent = spent
	s.rate += (perSecond - s.rate) / 4
	s.target = max(s.rate*sliceSeconds, sliceLeast, s.largest*sliceHolds)
	free := a.avail.Total()
	if now-s.windowNs >= int64(t.idle) {
		switch {
		case !s.touched:
			s.rate, s.largest, s.target = 0, 0, 0
			idle = a.opened == 0 && free == 0 && len(s.rests) == 0
			s.give(a, giveAll)
		case s.low > s.aim(free):
			s.give(a, s.low-s.aim(free))
		}
		s.touched, s.windowNs, s.low = false, now, free
		s.largest /= 2
	}
	if slices.ContainsFunc(s.limited, func(u *keyUse) bool { return u.revoked() }) {
		s.forget(a)
	}
	if len(s.rests) > 0 {
		s.give(a, 0)
	}
	if s.touched && free < s.aim(free)/2 {
		s.node.queue.queueRequest(a)
	}
	if now-s.heardNs >= int64(t.keep) {
		s.node.queue.queueVisit(a)
	}
	return idle
}

// give sends amount back, or the free money if that is less.
func (s *lease) give(a *AccountState, amount Nano) {
	if amount == 0 && len(s.rests) == 0 {
		return
	}
	if !s.giving {
		s.giveAmount = 0
	}
	s.giveAmount = max(s.giveAmount, amount)
	s.node.queue.give(a)
}
