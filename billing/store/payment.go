package store

import (
	"errors"

	"farebox/billing/money"
	"farebox/config/fair"
)

// PaymentState is where a payment of a wallet stands. The numbers are stored.
type PaymentState uint8

// The states of a payment. They are named in paymentStates. Nothing leaves the last two.
const (
	PaymentSubmitted PaymentState = 1 + iota // a facilitator may have it; nobody knows what became of it
	PaymentRefused                           // its payer was told so; it is watched until it cannot be spent
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

// PaymentRow is a signed payment of a wallet. It is there before anybody else hears of
// the payment, and stays for ever: who pays with the same once more is not credited
// again.
type PaymentRow struct {
	ID          string       `db:"id"`
	Network     string       `db:"network"`
	Asset       string       `db:"asset"`
	Wallet      string       `db:"wallet"`       // whom it is for; where an operator assigned it, the name of an account
	Account     uint32       `db:"account,late"` // that was credited last; 0: none was
	Units       int64        `db:"units"`        // of the asset
	Amount      money.Nano   `db:"amount"`
	Same        [32]byte     `db:"same"`                    // of the whole of what was signed
	Order       []byte       `db:"ord,large"`               // what it can be sent and found by; empty once it has ended
	PayUntilUs  int64        `db:"pay_until_us"`            // when the chain does not take it any more; 0: not known
	State       PaymentState `db:"state"`                   //
	Epoch       int64        `db:"epoch,late"`              // counts credits from 1, the one to come included
	Version     int64        `db:"version,late"`            // counts changes from 1: an update of an older one changes nothing
	Owner       uint32       `db:"owner"`                   // the node that works on it
	LeaseUs     int64        `db:"lease_us"`                // and until when nobody else may
	Tries       int32        `db:"tries,late"`              // how often a facilitator was asked to settle it
	Looks       int32        `db:"looks,late"`              // how often the chain was asked since its state changed
	NextUs      int64        `db:"next_us"`                 // when it is to be asked again
	GoneUs      int64        `db:"gone_us,late"`            // since when the chain does not have what was credited; 0: it has
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
	Key         *KeyRow // nil: it is credited to an account that is no wallet's
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
	Owed   money.Nano // of the amount, what becomes debt; on a shared store the store finds it
	Day    int32
	NextUs int64
	NowUs  int64
}

// PaymentTally are the payments that are looked after.
type PaymentTally struct {
	States    map[PaymentState]int64
	OldestUs  int64 // when the oldest was made that is not decided; 0: there is none
	OldestFor string
}

// PaymentFilter says which payments are listed; zero fields let all through.
type PaymentFilter struct {
	Wallet string
	State  PaymentState
	Open   bool // only those that are not decided
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
	// TakePayment makes a node the only one that is at a payment until a time, unless the
	// row has changed, or has ended, or somebody else is at it. It writes that into r.
	TakePayment(r *PaymentRow, owner uint32, untilUs, nowUs int64) (ok bool, err error)
	// UpdatePayment writes what r says besides what the payment is, its account and its
	// epoch, unless the row has changed since r was read. Neither does it credit: that is
	// CreditPayment. Of a payment that ends the order is forgotten.
	UpdatePayment(r *PaymentRow) (ok bool, err error)
	// DuePayments gives payments that have not ended, at which nobody is, and which are
	// to be looked at, those that have waited longest first.
	DuePayments(nowUs int64, most int) ([]*PaymentRow, error)
	// FreePayments ends what a process before this one was at on a node.
	FreePayments(owner uint32, nowUs int64) error
	// TallyPayments counts payments that have not ended.
	TallyPayments() (PaymentTally, error)
	// Payments lists payments, newest first, without their orders.
	Payments(f PaymentFilter, most int) ([]*PaymentRow, error)
	// CreditPayment credits an undecided payment, once in its epoch: the row, the entry
	// with the reference payment:<id>:<epoch>, the account's money, and the key of its
	// wallet where there is none, in one transaction. It gives the row as it is
	// afterwards; applied is false where it was credited before, or cannot be any more.
	CreditPayment(c *PaymentCredit) (row *PaymentRow, applied bool, err error)
	// ReversePayment takes back what CreditPayment booked in an epoch, once; what the
	// account does not have becomes debt. The payment is submitted again, in the next
	// epoch.
	ReversePayment(c *PaymentReversal) (row *PaymentRow, applied bool, err error)
}
