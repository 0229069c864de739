package billing

import "farebox/billing/store"

// Shortage is the money at the time an account or its key could not pay: the sums of a
// refusal, of all currencies together.
type Shortage struct {
	Had    Nano // the account's spendable money, on all nodes
	Held   Nano // by open requests here; not part of Had
	Needed Nano // the least that the request had to hold, or the account to have
	Left   Nano // of KeyLimitUSD and KeyLimitDIEM: the rest of the limit in its period
	Period store.Period
}

// shortage makes the denial of a request that needs so much. The caller holds the
// account's mutex.
func (a *AccountState) shortage(k *Key, code DenialCode, needed Nano) Denial {
	all, diem, usd := a.everywhere(k.use)
	s := Shortage{Had: all.Total(), Held: a.held.Total(), Needed: needed}
	switch code {
	case KeyLimitUSD:
		s.Left, s.Period = usd, k.use.kind
	case KeyLimitDIEM:
		s.Left, s.Period = diem, k.use.kind
	}
	return Denial{Code: code, Short: s}
}

// Shortage is the denial of more money for a request that is admitted already, and began
// at a time (Unix ns).
func (k *Key) Shortage(needed Nano, nowNs int64) Denial {
	a := k.Account
	a.mu.Lock()
	defer a.mu.Unlock()
	a.roll(a.ledger.day(nowNs))
	d := a.shortage(k, InsufficientBalance, needed)
	if d.Short.Had >= needed {
		d = a.shortage(k, KeyLimitUSD, needed)
	}
	return d
}

// Limiter names the limit that refused for want of money; empty: another cause.
func (d *Denial) Limiter() string {
	switch d.Code {
	case InsufficientBalance:
		return "balance"
	case BelowMinimum:
		return "minimum_balance"
	case InDebt:
		return "debt"
	case KeyLimitUSD:
		return "key_usd"
	case KeyLimitDIEM:
		return "key_diem"
	}
	return ""
}
