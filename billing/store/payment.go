package store

import (
	"database/sql"
	"errors"
	"fmt"

	"farebox/billing/money"
	"farebox/config/fair"
)

// PaymentState is the state of a wallet's payment. The numbers are stored.
type PaymentState uint8

// The states of a payment. They are named in paymentStates. Nothing leaves the last two.
const (
	PaymentSubmitted PaymentState = 1 + iota // a facilitator may have it; its outcome is unknown
	PaymentRefused                           // its payer got a refusal; it is watched until it cannot be spent
	PaymentCredited                          // the chain has it, not deep enough to be sure for ever
	PaymentFinal                             // and deep enough
	PaymentDead                              // it never will be paid
)

var paymentStates = [...]string{"submitted", "refused", "credited", "final", "dead"}

func (s PaymentState) String() string {
	if s < PaymentSubmitted || s > PaymentDead {
		return "unknown"
	}
	return paymentStates[s-PaymentSubmitted]
}

// Open says that it is not decided whether a payment is credited.
func (s PaymentState) Open() bool { return s == PaymentSubmitted || s == PaymentRefused }

// Paid says that the credit of a payment is in its account.
func (s PaymentState) Paid() bool { return s == PaymentCredited || s == PaymentFinal }

// PaymentRow is a signed payment of a wallet. It is stored before a facilitator gets
// the payment, and stays for ever: the same payment is never credited again.
type PaymentRow struct {
	ID          string       `db:"id"`
	Network     string       `db:"network"`
	Asset       string       `db:"asset"`
	Wallet      string       `db:"wallet"`       // that is credited; where an operator assigned it, the name of an account
	Account     uint32       `db:"account,late"` // that was credited last; 0: none was
	Units       int64        `db:"units"`        // of the asset
	Amount      money.Nano   `db:"amount"`
	Same        [32]byte     `db:"same"`                    // of the signed message
	Order       []byte       `db:"ord,large"`               // to send and find it by; empty once it has ended
	PayUntilUs  int64        `db:"pay_until_us"`            // when the chain does not take it any more; 0: not known
	State       PaymentState `db:"state"`                   //
	Epoch       int64        `db:"epoch,late"`              // counts credits from 1, the one to come included
	Version     int64        `db:"version,late"`            // counts changes from 1; guards updates
	Owner       uint32       `db:"owner"`                   // the node that works on it
	LeaseUs     int64        `db:"lease_us"`                // and until when it is the only one
	Tries       int32        `db:"tries,late"`              // how often a facilitator was asked to settle it
	Looks       int32        `db:"looks,late"`              // how often the chain was asked since its state changed
	NextUs      int64        `db:"next_us"`                 // when it is to be asked again
	GoneUs      int64        `db:"gone_us,late"`            // since when the chain has lost the credited payment; 0: it has it
	Transaction string       `db:"txn,late"`                // on the chain; before the credit as a facilitator named it
	Code        string       `db:"code,late"`               // why it was refused, or died
	Reason      string       `db:"reason,late"`             //
	Resolved    string       `db:"resolved,late"`           // by which operator, and why
	Balance     money.Nano   `db:"balance,late"`            // USD of the account after the credit
	CreatedUs   int64        `db:"created_us"`              //
	CreditedUs  int64        `db:"credited_us,late"`        // 0: it is not
	EndedUs     int64        `db:"ended_us,late"`           // when it became final or died
	Share       fair.Owner   `db:"share_account share_net"` // whose share of the places it takes
}

// PaymentCredit is the credit of a payment.
type PaymentCredit struct {
	ID          string
	Epoch       int64
	Account     uint32  // of the wallet, or that it is linked to; ErrStale if it is another one by now
	Key         *KeyRow // nil: it is credited to an account that does not belong to a wallet
	Transaction string
	Final       bool   // it needs no other look
	Resolved    string // by an operator
	NextUs      int64  // when to look again
	Day         int32
	NowUs       int64
}

// PaymentReversal takes the credit of a payment back that the chain has lost.
type PaymentReversal struct {
	ID     string
	Epoch  int64
	Owed   money.Nano // the part of the amount that becomes debt; a shared store finds it itself
	Day    int32
	NextUs int64
	NowUs  int64
}

// PaymentTally are the payments that are looked after.
type PaymentTally struct {
	States    map[PaymentState]int64
	OldestUs  int64 // creation of the oldest undecided one; 0: all are decided
	OldestFor string
}

// PaymentFilter says which payments are listed; zero fields let all through.
type PaymentFilter struct {
	Wallet       string
	State        PaymentState
	Open         bool // only those that are not decided
	Account      uint32
	FromUs, ToUs int64    // of their creation
	Behind       JobPlace // of the last one before
}

// ErrManyPayments is a wallet, or all of them, with as many undecided payments as may be.
var ErrManyPayments = errors.New("too many payments are without an outcome")

// PaymentStore keeps payments of wallets.
type PaymentStore interface {
	// AddPayment adds a payment, unless there is one of its ID: then that is given. It
	// refuses more undecided ones than most of all wallets, of which the row's owner has a
	// fair share (config/fair), and more than mostOfWallet of its own.
	// The same row may be added again: after an error it is not known whether it is there.
	AddPayment(r *PaymentRow, most, mostOfWallet int) (existing *PaymentRow, err error)
	// Payment gives a payment, or ErrNoRow.
	Payment(id string) (*PaymentRow, error)
	// OpenPayments counts the undecided payments of a wallet.
	OpenPayments(wallet string) (int, error)
	// PaymentFits says whether AddPayment would take a payment of a wallet and an owner.
	PaymentFits(wallet string, share fair.Owner, most, mostOfWallet int) (bool, error)
	// TakePayment makes a node the only one that works on a payment until a time, unless the
	// row has changed, or has ended, or another node works on it. It writes that into r.
	TakePayment(r *PaymentRow, owner uint32, untilUs, nowUs int64) (ok bool, err error)
	// UpdatePayment writes the state of r, without its identity, account and epoch, unless
	// the row has changed since r was read. It does not credit: CreditPayment does. The
	// order of a payment that ends is removed.
	UpdatePayment(r *PaymentRow) (ok bool, err error)
	// DuePayments gives payments that have not ended, that no process works on, and that are
	// due, those that have waited longest first.
	DuePayments(nowUs int64, most int) ([]*PaymentRow, error)
	// FreePayments ends the leases of an earlier process of a node.
	FreePayments(owner uint32, nowUs int64) error
	// TallyPayments counts payments that have not ended.
	TallyPayments() (PaymentTally, error)
	// Payments lists payments, newest first, without their orders. next is where the list goes
	// on; nil: nowhere.
	Payments(f PaymentFilter, most int) (rows []*PaymentRow, next *PaymentRow, err error)
	// CreditPayment credits an undecided payment, once in its epoch: the row, the entry
	// with the reference payment:<id>:<epoch>, the account's money, and the key of its
	// wallet if it has none yet, in one transaction. It gives the row as it is
	// afterwards; applied is false where it was credited before, or cannot be any more.
	CreditPayment(c *PaymentCredit) (row *PaymentRow, applied bool, err error)
	// ReversePayment takes back the booking of CreditPayment in an epoch, once; money that the
	// account does not have becomes debt. The payment is submitted again, in the next
	// epoch.
	ReversePayment(c *PaymentReversal) (row *PaymentRow, applied bool, err error)
}

const (
	// paymentLeft are payments that have not ended, paymentOpen those that are not
	// decided. Indexes are made of both.
	paymentLeft = "state < 4"
	paymentOpen = "state < 3"
)

var (
	payments   = newTable[PaymentRow]("payment")
	addPayment = payments.statement("INSERT INTO payment{INSERT} ON CONFLICT(id) DO NOTHING")
	// updatePayment forgets the order ($1: none) of a payment that ends.
	updatePayment = payments.statement(`UPDATE payment SET {SET state, owner, lease_us, tries, looks, next_us, gone_us, txn,
		code, reason, resolved, ended_us}, ord = CASE WHEN CAST(:state AS {I64}) < 4 THEN ord ELSE $1 END,
		version = version + 1 WHERE id = :id AND version = :version AND ` + paymentLeft)
	creditPayment = payments.statement(`UPDATE payment SET {SET state, account, credited_us, txn, resolved, lease_us,
		next_us, looks, gone_us, code, reason, ended_us, balance}, ord = CASE WHEN CAST(:ended_us AS {I64}) > 0 THEN $1 ELSE ord END,
		version = version + 1 WHERE id = :id`)
	reversePayment = payments.statement(`UPDATE payment SET {SET state, epoch, credited_us, balance, looks, gone_us,
		lease_us, next_us}, version = version + 1 WHERE id = :id`)
)

func (s *sqlStore) OpenPayments(wallet string) (int, error) {
	return value[int](s, "SELECT count(*) FROM payment WHERE "+paymentOpen+" AND wallet = $1", wallet)
}

// paymentFits says whether a wallet may have one more undecided payment. Payments whose
// outcome is unknown, and those that were refused and are still watched, are counted
// apart: payments that a facilitator refused take no place from others.
func (q *Query) paymentFits(wallet string, share fair.Owner, most, mostOfWallet int) (fits bool, err error) {
	fits = true
	ofWallet := int64(0)
	err = each4(q, func(all, account, net, own int64) {
		ofWallet += own
		fits = fits && fair.Fits(share, 1, int64(most), all, account, net)
	}, `SELECT count(*), CAST(coalesce(sum(CASE WHEN share_account = $1 THEN 1 END), 0) AS {I64}),
		CAST(coalesce(sum(CASE WHEN share_account = $1 AND share_net = $2 THEN 1 END), 0) AS {I64}),
		CAST(coalesce(sum(CASE WHEN wallet = $3 THEN 1 END), 0) AS {I64})
		FROM payment WHERE `+paymentOpen+" GROUP BY state", int64(share.Account), int64(share.Net), wallet)
	return fits && ofWallet < int64(mostOfWallet), err
}

func (s *sqlStore) PaymentFits(wallet string, share fair.Owner, most, mostOfWallet int) (bool, error) {
	return ask(s, func(q *Query) (bool, error) { return q.paymentFits(wallet, share, most, mostOfWallet) })
}

func (s *sqlStore) AddPayment(r *PaymentRow, most, mostOfWallet int) (existing *PaymentRow, err error) {
	if r.ID == "" || r.Wallet == "" || r.Amount <= 0 || r.State != PaymentSubmitted {
		return nil, fmt.Errorf("cannot add the payment %q of %s in state %d", r.ID, r.Amount, r.State)
	}
	added := *r
	added.Order = append([]byte{}, r.Order...)
	tried := false // whether an earlier attempt got as far as writing
	err = s.write(func(t *tx) error {
		existing = nil
		found, err := payments.one(&t.Query, "id = $1", r.ID)
		if err == nil {
			if !tried || found.Version != 1 || found.Owner != r.Owner || found.LeaseUs != r.LeaseUs {
				existing = found
			}
			return nil
		}
		if !errors.Is(err, ErrNoRow) {
			return err
		}
		fits, err := t.paymentFits(r.Wallet, r.Share, most, mostOfWallet)
		if err != nil {
			return err
		}
		if !fits {
			return ErrManyPayments
		}
		tried = true
		n, err := addPayment.exec(t, &added)
		if err == nil && n == 0 { // another node was faster, and has committed
			existing, err = payments.one(&t.Query, "id = $1", r.ID)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if existing == nil {
		r.Epoch, r.Version = 1, 1
	}
	return existing, nil
}

func (s *sqlStore) Payment(id string) (*PaymentRow, error) {
	return payments.find(s, "id = $1", id)
}

func (s *sqlStore) TakePayment(r *PaymentRow, owner uint32, untilUs, nowUs int64) (ok bool, err error) {
	n, err := s.affect("UPDATE payment SET owner = $3, lease_us = $4, version = version + 1 WHERE id = $1 AND "+
		"version = $2 AND lease_us <= $5 AND "+paymentLeft, r.ID, r.Version, owner, untilUs, nowUs)
	if err != nil || n == 0 {
		return false, err
	}
	r.Owner, r.LeaseUs = owner, untilUs
	r.Version++
	return true, nil
}

func (s *sqlStore) UpdatePayment(r *PaymentRow) (ok bool, err error) {
	if r.State == PaymentSubmitted && r.CreditedUs != 0 {
		return false, fmt.Errorf("cannot write the payment %q: its credit is not taken back", r.ID)
	}
	text := updatePayment.text
	switch r.State {
	case PaymentCredited, PaymentFinal:
		text += " AND state = 3"
	default:
		text += " AND " + paymentOpen
	}
	n, err := s.affect(text, updatePayment.args(r, []byte{})...)
	if err != nil || n == 0 {
		return false, err
	}
	r.Version++
	return true, nil
}

func (s *sqlStore) DuePayments(nowUs int64, most int) ([]*PaymentRow, error) {
	return payments.search(s, payments.row+paymentLeft+" AND next_us <= $1 AND lease_us <= $1 "+
		"ORDER BY next_us, id LIMIT $2", nowUs, most)
}

func (s *sqlStore) FreePayments(owner uint32, nowUs int64) error {
	_, err := s.affect("UPDATE payment SET lease_us = 0, next_us = $2, version = version + 1 WHERE owner = $1 AND "+
		"lease_us > $2 AND "+paymentLeft, owner, nowUs)
	return err
}

func (s *sqlStore) TallyPayments() (PaymentTally, error) {
	return ask(s, func(q *Query) (PaymentTally, error) {
		t := PaymentTally{States: map[PaymentState]int64{}}
		err := each3(q, func(state PaymentState, n, oldest int64) {
			t.States[state] = n
			if state.Open() && (t.OldestUs == 0 || oldest < t.OldestUs) {
				t.OldestUs = oldest
			}
		}, "SELECT state, count(*), min(created_us) FROM payment WHERE "+paymentLeft+" GROUP BY state")
		if err != nil || t.OldestUs == 0 {
			return t, err
		}
		err = q.Row("SELECT id FROM payment WHERE "+paymentOpen+" AND created_us = $1 ORDER BY id LIMIT 1",
			t.OldestUs).Scan(&t.OldestFor)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil // it was decided meanwhile
		}
		return t, err
	})
}

func (s *sqlStore) Payments(f PaymentFilter, most int) (rows []*PaymentRow, next *PaymentRow, err error) {
	l := listing[PaymentRow]{text: payments.brief, order: "created_us, id", down: true, scan: payments.scan, behind: f.Behind.behind(),
		place: func(r *PaymentRow) []any { return []any{r.CreatedUs, r.ID} }, matches: f.matches}
	switch {
	case f.Wallet != "":
		l.add("wallet = ", f.Wallet, true)
	case f.Account != 0:
		l.add("account = ", f.Account, true)
	case f.Open:
		l.terms = append(l.terms, paymentOpen)
	}
	l.within("created_us", f.FromUs, f.ToUs)
	return l.readPage(s, most)
}

func (f *PaymentFilter) matches(r *PaymentRow) bool {
	return (f.Account == 0 || r.Account == f.Account) && (f.State == 0 || r.State == f.State) && (!f.Open || r.State.Open())
}

// alonePayments keeps other transactions from crediting payments and linking wallets until t ends.
func (t *tx) alonePayments() error {
	var value int64
	return t.Row("SELECT value FROM counter WHERE name = 'wallet' {LOCK}").Scan(&value)
}

// payment reads a row that is about to be changed.
func (t *tx) payment(id string) (*PaymentRow, error) {
	return payments.one(&t.Query, "id = $1 {LOCK}", id)
}

// paymentRef is the reference of the credit of a payment in an epoch; that of its
// reversal has more behind it.
func paymentRef(id string, epoch int64) string { return fmt.Sprintf("payment:%s:%d", id, epoch) }

const paymentBack = ":reversed"

func (s *sqlStore) CreditPayment(c *PaymentCredit) (row *PaymentRow, applied bool, err error) {
	tried := false // whether an earlier attempt got as far as writing
	err = s.write(func(t *tx) error {
		applied = false
		if err := t.alonePayments(); err != nil {
			return err
		}
		if row, err = t.payment(c.ID); err != nil {
			return err
		}
		if !row.State.Open() || row.Epoch != c.Epoch {
			// When only the answer of an earlier attempt was lost, this is its own credit.
			applied = tried && row.State.Paid() && row.Epoch == c.Epoch
			return nil
		}
		applied, tried = true, true
		if err := t.walletHas(row.Wallet, c.Account); err != nil {
			return err
		}
		entry, err := t.entry(&bookEntry{kind: "TOP_UP", ref: paymentRef(c.ID, c.Epoch), memo: c.Transaction,
			reason: "a wallet has paid", nowUs: c.NowUs})
		if err == nil && entry == 0 {
			err = errors.New("its reference is used already")
		}
		if err != nil {
			return err
		}
		t.change(ChangeCredit, c.Account, 0)
		if err := t.grant(entry, "cash", c.Account, money.USD, 0, row.Amount); err != nil {
			return err
		}
		if c.Key != nil {
			if err := t.haveWalletKey(c.Key); err != nil {
				return err
			}
		}
		if err := t.collectNow(c.Account, c.Day, c.NowUs); err != nil {
			return err
		}
		if row.Balance, err = t.walletBalance(c.Account); err != nil {
			return err
		}
		return t.credited(row, c)
	})
	if err != nil {
		return nil, false, err
	}
	return row, applied, nil
}

// credited writes the credit into the row.
func (t *tx) credited(row *PaymentRow, c *PaymentCredit) error {
	row.State, row.Account, row.CreditedUs, row.Transaction = PaymentCredited, c.Account, c.NowUs, c.Transaction
	row.Resolved, row.LeaseUs, row.NextUs, row.Looks, row.GoneUs = c.Resolved, 0, c.NextUs, 0, 0
	row.Code, row.Reason = "", ""
	if c.Final {
		row.State, row.EndedUs, row.Order = PaymentFinal, c.NowUs, []byte{}
	}
	row.Version++
	_, err := creditPayment.exec(t, row, []byte{})
	return err
}

// walletBalance is the balance of an account in USD after its debt.
func (t *tx) walletBalance(account uint32) (n money.Nano, err error) {
	var owed money.Nano
	err = t.Row(`SELECT coalesce((SELECT avail + escrow FROM bucket WHERE account = $1 AND currency = 1 AND day = 0), 0),
		coalesce((SELECT incurred - paid FROM debt WHERE account = $1), 0)`, account).Scan(&n, &owed)
	return max(0, n-owed), err
}

func (s *sqlStore) ReversePayment(c *PaymentReversal) (row *PaymentRow, applied bool, err error) {
	tried := false // whether an earlier attempt got as far as writing
	err = s.write(func(t *tx) error {
		applied = false
		if row, err = t.payment(c.ID); err != nil {
			return err
		}
		if row.State != PaymentCredited || row.Epoch != c.Epoch {
			applied = tried && row.Epoch == c.Epoch+1
			return nil
		}
		done, err := t.debit(&Debit{Account: row.Account, Currency: money.USD, Day: c.Day, Amount: row.Amount, Owed: c.Owed,
			MayOwe: true, Ref: paymentRef(c.ID, c.Epoch) + paymentBack, Memo: row.Transaction,
			Reason: "the chain has lost the payment", NowUs: c.NowUs})
		if err == nil && !done {
			err = errors.New("its reference is used already")
		}
		if err != nil {
			return err
		}
		applied, tried = true, true
		row.State, row.CreditedUs, row.Balance, row.Looks, row.GoneUs = PaymentSubmitted, 0, 0, 0, 0
		row.LeaseUs, row.NextUs = 0, c.NextUs
		row.Epoch++
		row.Version++
		_, err = reversePayment.exec(t, row)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return row, applied, nil
}

// countPayments checks that payments are credited as often as they say, each with its
// amount, and that every credit that is not the last was taken back; and that there are
// no other entries of payments.
func (r *Recount) countPayments(q *Query) error {
	var entries, credits, reversals, backs int64
	err := q.Row(`SELECT count(*), CAST(coalesce(sum(CASE WHEN state IN (3, 4) THEN amount ELSE 0 END), 0) AS {I64}),
		CAST(coalesce(sum(epoch - CASE WHEN state IN (3, 4) THEN 0 ELSE 1 END), 0) AS {I64}),
		CAST(coalesce(sum(epoch - 1), 0) AS {I64}) FROM payment`).Scan(&r.Payments, &r.Credited, &credits, &reversals)
	if err != nil {
		return err
	}
	err = q.Row(`SELECT CAST(coalesce(sum(CASE WHEN kind = 'TOP_UP' THEN 1 ELSE 0 END), 0) AS {I64}),
		CAST(coalesce(sum(CASE WHEN kind = 'ADJUST' THEN 1 ELSE 0 END), 0) AS {I64})
		FROM entry WHERE ref LIKE 'payment:%'`).Scan(&entries, &backs)
	if err != nil {
		return err
	}
	if entries != credits || backs != reversals {
		r.fault("payments say that %d credits were booked and %d of them taken back, there are %d and %d entries",
			credits, reversals, entries, backs)
	}
	err = r.none(q, "the payment %s of %s in epoch %d is credited %s by its entry, and in state %d",
		[]any{new(string), new(money.Nano), new(int64), new(money.Nano), new(PaymentState)}, `
		SELECT p.id, p.amount, p.epoch, coalesce(c.amount, 0), p.state FROM payment p
		LEFT JOIN entry e ON e.ref = 'payment:' || p.id || ':' || CAST(p.epoch AS TEXT)
		LEFT JOIN posting c ON c.entry = e.id AND c.book = 'customer' AND c.account = p.account AND c.currency = 1
		WHERE coalesce(c.amount, 0) <> CASE WHEN p.state IN (3, 4) THEN p.amount ELSE 0 END
			OR p.state NOT IN (3, 4) AND e.id IS NOT NULL`)
	if err != nil {
		return err
	}
	err = r.none(q, "the payment %s of %s was taken back in epoch %d with %s",
		[]any{new(string), new(money.Nano), new(int64), new(money.Nano)}, `
		SELECT p.id, p.amount, p.epoch - 1, CAST(coalesce(sum(c.amount), 0) AS {I64}) FROM payment p
		LEFT JOIN entry e ON e.ref = 'payment:' || p.id || ':' || CAST(p.epoch - 1 AS TEXT) || ':reversed'
		LEFT JOIN posting c ON c.entry = e.id AND c.book = 'corrections'
		WHERE p.epoch > 1 GROUP BY p.id, p.amount, p.epoch HAVING coalesce(sum(c.amount), 0) <> p.amount`)
	if err != nil {
		return err
	}
	return r.none(q, "the payment %s is in state %d, was credited at %d and ended at %d",
		[]any{new(string), new(PaymentState), new(int64), new(int64)}, `
		SELECT id, state, credited_us, ended_us FROM payment WHERE state NOT BETWEEN 1 AND 5
			OR (state IN (3, 4)) <> (credited_us > 0) OR (state >= 4) <> (ended_us > 0) OR epoch < 1`)
}
