package billing

import (
	"farebox/billing/journal"
	"farebox/billing/window"
)

// Debt is money that an account owes for requests that cost more than could be
// charged. [Hold.Settle] charges the hold, then the account's free money within
// the key's limit; the rest of the cost is debt, so that charge and debt are
// always the whole cost. Debt is outside of every bucket of money
// (bucket.granted), of the limits of keys and of the daily usage: a usage
// listing has the charge of a request at its end, never later payments for it.
//
// It is paid before anything else: from the account's free money when the debt
// comes up, and from a credit, a refund, the DIEM of a new day, the rest that other holds
// give back. Until it is paid, requests that cost something are denied (InDebt).
//
// In the books a debt is one of its own: a charge books revenue against the book
// "debt" of the account (negative: it owes), in USD. A payment is an entry of
// kind DEBT: off the customer's balance, whatever the currency, and onto "debt";
// the part that DIEM or BUNDLED_CREDITS pay moves revenue from USD to that currency. So
// credits = balance + usage + debt paid, and nothing is charged twice.
//
// On an embedded store this process knows the debt, and pays by a record in
// its journal (recPay). On a shared one the store knows: the row of the account
// in the table debt, which nodes read with the account's funds. There a node
// hands in part of its lease by that record, the projection brings it to the
// store, and the store pays, in one transaction, from whatever the account has
// there (tx.collect): two nodes that hand in for the same debt both get back
// the excess, as money of the account.

// maxDebt bounds the debt of an account, so that sums stay in int64. Anything
// beyond a hundred million USD is a mistake in a price.
const maxDebt = Nano(100_000_000_000_000_000)

// debtMark is debt that this node made, or handed something in for (negative),
// and that the store does not have yet.
type debtMark struct {
	seq uint64 // of the record in the journal
	net Nano
}

// owes says whether owed may be more than 0.
func (a *AccountState) owes() bool {
	return a.debt > 0 || a.lease != nil && (a.lease.debt > 0 || len(a.lease.marks) > 0)
}

// owed is the account's debt, as far as this process knows.
func (a *AccountState) owed() Nano {
	s := a.lease
	if s == nil {
		return a.debt
	}
	applied := s.node.applied()
	for len(s.marks) > 0 && s.marks[0].seq <= applied {
		// The store has it now; until the next read, this is the expected debt.
		s.debt = max(0, s.debt+s.marks[0].net)
		s.marks = s.marks[1:]
		s.node.queue.queueVisit(a)
	}
	owed := s.debt
	for _, m := range s.marks {
		owed += m.net
	}
	return max(0, owed)
}

// owe adds the part that the settlement of a record could not charge.
func (a *AccountState) owe(r *journal.Record) {
	l := a.ledger
	if s := a.lease; s != nil {
		s.marks = append(s.marks, debtMark{r.Seq, r.Debt})
		l.project.hurry()
	} else {
		a.debt += r.Debt
		l.debt.Add(int64(r.Debt))
	}
	l.shortfall.Add(int64(r.Debt))
}

// handedIn is the money handed in for debt that the store does not have yet.
// Where another node has paid that, too, it comes back.
func (s *lease) handedIn() (sum Nano) {
	for _, m := range s.marks {
		sum += max(0, -m.net)
	}
	return sum
}

// pay pays the debt from free money, in spend order, and records it.
func (a *AccountState) pay(now window.Instant) {
	free := a.avail
	take := free.Take(a.owed())
	paid := take.Total()
	if paid == 0 {
		return
	}
	if a.ledger.journal == nil {
		return // an operator's, with nodes running
	}
	rec := journal.Record{Kind: journal.Pay, TimeNs: a.ledger.written(now), Account: a.no, Day: a.day, Amounts: take}
	if a.ledger.journal.Append(&rec, 0) != nil {
		return // without room in the journal it stays owed
	}
	a.lastSeq = rec.Seq
	a.avail.Sub(&take)
	if s := a.lease; s != nil {
		s.marks = append(s.marks, debtMark{rec.Seq, -paid})
		a.ledger.project.hurry()
		return
	}
	a.spent.Add(&take)
	a.debt -= paid
	a.ledger.debt.Add(-int64(paid))
}

// Owed is the debt of the key's account for earlier requests. On a shared store it
// is as of a second ago at most while the account is in use.
func (k *Key) Owed() Nano {
	a := k.Account
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.owed()
}
