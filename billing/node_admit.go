package billing

import (
	"errors"
	"time"

	"farebox/billing/money"
)

// The steps of a request when this node has too little for it. Nothing here runs
// while a node has enough.

const (
	// lookApart is how often a request looks whether something came back.
	lookApart = 20 * time.Millisecond
	// asksAtOnce is how often it asks for money that it believes unleased
	// before it waits as for the money of other nodes: another may take it each
	// time, or that belief may be wrong.
	asksAtOnce = 8
)

// admit fetches the money that a hold lacks, first from unleased money, then
// from money that other nodes do not need.
func (n *node) admit(h *Hold, a *Admission) (d Denial) {
	answered := n.seek(a.Key, a.Hold, a.Min, func(final bool) bool {
		var short bool
		d, short = n.l.admitHere(h, a, final)
		return !short
	})
	if !answered && (d.Code.OfMoney() || d.Code == InDebt) {
		// Whether there is money is unknown.
		return Denial{Code: StoreAway, RetryAfter: time.Second}
	}
	if d.Code == InsufficientBalance {
		acct := a.Key.Account
		reason := acct.sources(a.Key, min(a.Hold, wantMost)).reason
		acct.mu.Lock()
		d = acct.shortage(a.Key, reason, d.Short.Needed)
		acct.mu.Unlock()
	}
	return d
}

// extend is admit for more of a hold that is open.
func (n *node) extend(h *Hold, more, least Nano) (got Nano) {
	n.seek(h.key, more, least, func(final bool) bool {
		enough := more
		if final {
			enough = least
		}
		got = h.extend(more, enough)
		return got > 0 || !h.Open()
	})
	return got
}

// cover fetches a request's cost beyond its hold, before it is charged: all
// of it, or else the available part. The account waits for covered until the caller
// has charged the request: before that, this node must not give the money back.
func (n *node) cover(h *Hold, cost Nano) (covered Nano) {
	a := h.key.Account
	missing := func() Nano {
		a.mu.Lock()
		defer a.mu.Unlock()
		return h.missing(cost)
	}
	if covered = min(missing(), wantMost); covered > 0 {
		a.wait(h.key, covered)
		n.fetch(h.key, covered, 1, func(bool) bool { return missing() == 0 })
	}
	return covered
}

// missing is the part of cost that neither the hold nor free money here pays. Money
// held beyond a past limit counts as available: the charge leaves it out and makes
// a debt of as much, but the hold gives it back before Settle pays that debt.
// To fetch it again would take money from other nodes for nothing.
func (h *Hold) missing(cost Nano) Nano {
	a, u := h.key.Account, h.key.use
	over := cost - h.parts.Total()
	short := max(0, over-a.avail.Total())
	if u.lease != nil && over > 0 {
		if _, usd := u.room(); u.lease.usd && u.lease.unleased[money.InUSD] > 0 {
			short = max(short, over-usd)
		}
	}
	return short
}

// seek tries again after each answer of the store until try says that it is
// done, for as long as more can come: from unleased money, then from other
// nodes. The last try is final: it takes the money there is. false: the store,
// or a node that has leases, did not answer.
func (n *node) seek(k *Key, want, least Nano, try func(final bool) (done bool)) (answered bool) {
	want = min(want, wantMost)
	k.Account.wait(k, want)
	defer k.Account.wait(k, -want)
	return n.fetch(k, want, least, try)
}

// fetch is seek for an account that waits for want already.
func (n *node) fetch(k *Key, want, least Nano, try func(final bool) (done bool)) (answered bool) {
	a := k.Account
	least = min(max(least, 1), want)
	var r *recall
	var rivals, end int64 // until when
	recalls := 0
	for asked := 1; ; asked++ {
		if !n.awaitGrant(a) {
			try(true)
			return false
		}
		if try(false) {
			a.helped(r)
			return true
		}
		from := a.sources(k, want)
		if from.reach < least || !from.left && !from.others {
			try(true)
			return true
		}
		if from.left && asked < asksAtOnce {
			continue
		}
		now := n.t.mono()
		if r == nil {
			rivals, end = now+int64(n.t.rivals), now+int64(n.t.recall)
			r, recalls = a.recall(), 1
		} else if done, more := a.over(r); done && (now < rivals || more && now < end) {
			// Requests of other nodes may have taken the returned money, and not used it.
			r, recalls = a.recall(), recalls+1
		} else if done || now >= end {
			try(true)
			return done || recalls > 1
		}
		asked = 0
		if !n.awaitRecall(k, want, r, end) {
			try(true)
			return false
		}
	}
}

// sources says where more for a hold could come from.
type sources struct {
	left   bool       // in no lease
	others bool       // leased to other nodes
	reach  Nano       // the most it could take if everything free came here
	reason DenialCode // why it could not even then; InsufficientBalance when it could
}

func (a *AccountState) sources(k *Key, want Nano) (f sources) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, u := a.lease, k.use
	var quota money.Parts // of the key, the part that no node has: in the store, or on its way there
	if u.lease != nil {
		quota = s.restsOf(u)
		quota.Add(&u.lease.unleased)
	}
	take, _ := a.allot(k, want, 1, 0)
	rest := want
	for i := range take {
		if rest -= take[i]; rest <= 0 {
			break
		}
		if take[i] == a.avail[i] {
			f.left = f.left || s.unleased[i] > 0 || i == money.InDIEM && s.newDay
			f.others = f.others || s.others[i] > 0
			continue
		}
		if q := u.lease; q != nil {
			f.left = f.left || quota[money.LimitPlace(i)] > 0
			f.others = f.others || q.others[money.LimitPlace(i)] > 0
		}
		if i != money.InDIEM || !a.ledger.keyFallthrough.Load() {
			break
		}
	}
	f.others = f.others || s.handedIn() > 0
	all, diem, usd := a.everywhere(u)
	allDIEM, allUSD := all.ByLimit()
	f.reach = min(allDIEM, diem) + min(allUSD, usd)
	if _, f.reason = a.divide(&all, diem, usd, want, want); f.reason == Admitted {
		f.reason = InsufficientBalance // others need it themselves
	}
	return f
}

// everywhere is the account's free money, here or elsewhere, and the part that the limits
// of a key leave of it. The caller holds the account's mutex.
func (a *AccountState) everywhere(u *keyUse) (all money.Parts, diem, usd Nano) {
	all = a.avail
	diem, usd = u.room()
	s, q := a.lease, u.lease
	if s == nil {
		return all, diem, usd
	}
	all.Add(&s.unleased)
	all.Add(&s.others)
	all[money.InUSD] = money.AddNano(all[money.InUSD], s.handedIn())
	if q != nil {
		rests := s.restsOf(u)
		rests.Add(&q.unleased)
		rests.Add(&q.others)
		diem, usd = money.AddNano(diem, rests[money.InDIEM]), money.AddNano(usd, rests[money.InUSD])
	}
	return all, diem, usd
}

// wait counts the money that requests wait for.
func (a *AccountState) wait(k *Key, want Nano) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.lease
	if s.need += want; s.need == 0 {
		s.freed(a) // fetched money that is too little
	}
	if u := k.use; u.lease != nil {
		u.lease.need += want
		s.limit(u)
	}
}

// errNoAnswer is a store that takes longer than a request should wait. Others do
// not wait until it has answered.
var errNoAnswer = errors.New("no answer in time")

// awaitGrant waits for a grant; false when the store does not answer.
func (n *node) awaitGrant(a *AccountState) bool {
	return n.await(func() {
		if n.t.mono()-a.lease.heardNs >= int64(n.t.poll) {
			n.queue.queueVisit(a) // the known state decides the next question
		}
		n.queue.queueRequest(a)
	}, a)
}

// see waits for a look.
func (n *node) see(a *AccountState) bool {
	return n.await(func() { n.queue.queueVisit(a) }, a)
}

// await queues something and waits for the round that has it.
func (n *node) await(queue func(), a *AccountState) bool {
	if n.away.Load() {
		a.mu.Lock()
		queue() // for when it answers again
		a.mu.Unlock()
		return false
	}
	a.mu.Lock()
	queue()
	a.mu.Unlock()
	n.queue.mu.Lock()
	round := n.queue.round
	n.queue.mu.Unlock()
	n.queue.wake()
	if n.t.manual {
		return n.queue.step() && !n.away.Load() && n.state.Load() == nodeOpen
	}
	timeout := time.NewTimer(n.t.ask)
	defer timeout.Stop()
	select {
	case <-round.tried:
		// Not whether the store is away by now: it may have come back since.
		return round.answered && n.state.Load() == nodeOpen
	case <-timeout.C:
		n.heard(errNoAnswer)
		return false
	case <-n.work.Closing():
		return false
	}
}
