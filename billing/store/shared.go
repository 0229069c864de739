package store

import (
	"errors"
	"time"

	"farebox/billing/money"
)

// Shared is what a Store can do besides when several nodes work on it.
// The embedded store is no sharedStore. A bucket of money, and a key's limit in
// a period, is divided into what is spent, what each node has leased and what
// is left; a node spends its leases without asking, and Apply takes its
// charges out of them. What a charge finds no lease for, because it was taken
// back meanwhile, comes from what is left, then from the house (late).
// Whatever brings money to an account that owes pays that first: Apply, Grant,
// Return, Credit.
type Shared interface {
	// Join finds or makes the node of a ledger directory (id is the random text
	// kept there) and begins its next incarnation: an older process of the node
	// gets errFenced from every call that follows, also from Apply and AddPages.
	// Open leases stay the node's.
	Join(id, name string, ttl time.Duration) (no, inc uint32, err error)
	// Beat renews the session.
	Beat(ttl time.Duration) (Beat, error)
	// Now is the store's clock, Unix µs.
	Now() (int64, error)
	// Leave gives back all leases and ends the node, after everything is applied.
	Leave() error

	// Lease operations of a node have the numbers 1, 2, 3 …, one after the other
	// over all its incarnations. An operation that is repeated with its number
	// changes nothing and gives the same granted amounts: its answer may have
	// been lost. Each answer has one funds for each want, in their order.

	// Grant leases what is wanted, as far as there is enough: never below 0.
	Grant(op uint64, wants []Want) ([]Funds, error)
	// Return gives back unspent rests, at most what is leased, and with that answers
	// recalls, whose numbers it is given: what is free here has come back then.
	Return(op uint64, rests []Want, recalls ...uint64) ([]Funds, error)
	// LastOp is the number of the last operation.
	LastOp() (uint64, error)
	// Funds gives for each account its money (key 0) with the DIEM of day, and a
	// further funds for every other open lease of this node on it: DIEM of other
	// days and limits of keys. With nil: of all accounts on which this node has
	// an open lease.
	Funds(accounts []uint32, day int32) ([]Funds, error)

	// Reclaim takes back the leases of nodes whose session ended longer ago, by
	// the store's clock.
	Reclaim(grace time.Duration) ([]Reclaimed, error)
	// ReleaseNode does the same at once for one node.
	ReleaseNode(nameOrID string) error
	Nodes() ([]NodeRow, error)

	// Changes gives what changed after a number, in order and without gaps; a
	// change is there as soon as its transaction has committed.
	Changes(after uint64) ([]Change, error)
	// Recall asks all nodes but one for what they do not need of accounts: a change
	// for each of them.
	Recall(but uint32, accounts ...uint32) ([]Recall, error)
	// Recalled says what came of recalls, in their order.
	Recalled(list []Recall) ([]Recalled, error)
}

// ErrFenced says that another process goes on as this node.
var ErrFenced = errors.New("another farebox has taken over this node")

// Beat is the answer to a heartbeat.
type Beat struct {
	NowUs     int64      // the store's clock
	Live      int        // nodes, this one included
	Feed      uint64     // number of the last change
	Reclaimed bool       // the leases were taken back since the last beat
	Debt      money.Nano // of all accounts
}

// Want is an amount that a node asks for or gives back: money of an account,
// or, with a key, part of that key's limits in a period (USD and DIEM).
type Want struct {
	Account uint32
	Key     int64
	Day     int32 // whose DIEM, for money
	Period  int32 // of the limits
	Amounts money.Parts
}

// Funds is where the money of an account, or the limits of a key, is.
type Funds struct {
	Account     uint32
	Key         int64
	Day, Period int32
	Granted     money.Parts // moved by this operation
	Lease       money.Parts // what this node may still spend
	Avail       money.Parts // left: leased to nobody
	Others      money.Parts // leased to other nodes
	Debt        money.Nano  // what the account owes; with key 0
}

// Recall is a question to the nodes for what they do not need of an account.
type Recall struct {
	Account uint32
	No      uint64   // of the change
	Nodes   []uint32 // with a session that had leases of the account when they were asked
}

// Recalled is what came of a recall so far.
type Recalled struct {
	Nodes    []uint32 // with a session that have leases of the account now
	Answered []uint32
}

// Reclaimed is a node whose leases were taken back.
type Reclaimed struct {
	No     uint32
	Name   string
	Amount money.Parts
}

// NodeRow is a node for operators.
type NodeRow struct {
	No, Inc   uint32
	ID, Name  string
	ExpiresUs int64 // of its session
	Left      bool  // ended in order
	Leased    money.Parts
}

// ChangeKind is what a change of the shared store is about.
type ChangeKind uint8

// Kinds of changes. The numbers are stored.
const (
	ChangeAccount   ChangeKind = 1 + iota // made or changed
	ChangeKey                             // made, changed or revoked
	ChangeCredit                          // money came in
	ChangeRecall                          // a node, which Key names, needs what others do not
	ChangeAllowance                       // of DIEM
	changePepper
	ChangeDebt     // the account owes more or less
	changeAnswered // a node, which Account names, has answered the recall of the number in Key
)

// Change is an entry of the feed.
type Change struct {
	No      uint64
	Kind    ChangeKind
	Account uint32
	Key     int64
}
