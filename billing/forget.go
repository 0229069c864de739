package billing

import "slices"

// Keys that nobody gets in with any more leave memory. Requests that were
// admitted with one run on: they have the Key, and with the last of them it is
// gone. A secret that is tried afterwards is read from the store and refused.

// forgetAfter is how long after a key expired it leaves memory, ns: its owner may
// prolong it, and what it has used must be in the store by then.
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

// forget gives back what is leased of the limits of keys that are refused, and
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
