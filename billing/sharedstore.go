package billing

import (
	"errors"
	"time"

	"farebox/billing/money"
)

// sharedStore is what a Store can do besides when several nodes work on it.
// The embedded store is no sharedStore. A bucket of money, and a key's limit in
// a period, is divided into what is spent, what each node has leased and what
// is left; a node spends its leases without asking, and Apply takes its
// charges out of them. What a charge finds no lease for, because it was taken
// back meanwhile, comes from what is left, then from the house (late).
// Whatever brings money to an account that owes pays that first: Apply, Grant,
// Return, Credit.
type sharedStore interface {
	// Join finds or makes the node of a ledger directory (id is the random text
	// kept there) and begins its next incarnation: an older process of the node
	// gets errFenced from every call that follows, also from Apply and AddPages.
	// Open leases stay the node's.
	Join(id, name string, ttl time.Duration) (no, inc uint32, err error)
	// Beat renews the session.
	Beat(ttl time.Duration) (beat, error)
	// Now is the store's clock, Unix µs.
	Now() (int64, error)
	// Leave gives back all leases and ends the node, after everything is applied.
	Leave() error

	// Lease operations of a node have the numbers 1, 2, 3 …, one after the other
	// over all its incarnations. An operation that is repeated with its number
	// changes nothing and gives the same granted amounts: its answer may have
	// been lost. Each answer has one funds for each want, in their order.

	// Grant leases what is wanted, as far as there is enough: never below 0.
	Grant(op uint64, wants []want) ([]funds, error)
	// Return gives back unspent rests, at most what is leased.
	Return(op uint64, rests []want) ([]funds, error)
	// LastOp is the number of the last operation.
	LastOp() (uint64, error)
	// Funds gives for each account its money (key 0) with the DIEM of day, and a
	// further funds for every other open lease of this node on it: DIEM of other
	// days and limits of keys. With nil: of all accounts on which this node has
	// an open lease.
	Funds(accounts []uint32, day int32) ([]funds, error)

	// Reclaim takes back the leases of nodes whose session ended longer ago, by
	// the store's clock.
	Reclaim(grace time.Duration) ([]reclaimed, error)
	// ReleaseNode does the same at once for one node.
	ReleaseNode(nameOrID string) error
	Nodes() ([]nodeRow, error)

	// Changes gives what changed after a number, in order and without gaps; a
	// change is there as soon as its transaction has committed.
	Changes(after uint64) ([]change, error)
	// Recall asks all nodes for what they do not need of an account: a change.
	Recall(account uint32) error
}

// errFenced says that another process goes on as this node.
var errFenced = errors.New("another farebox has taken over this node")

// beat is the answer to a heartbeat.
type beat struct {
	nowUs     int64  // the store's clock
	live      int    // nodes, this one included
	feed      uint64 // number of the last change
	reclaimed bool   // the leases were taken back since the last beat
	debt      Nano   // of all accounts
}

// want is an amount that a node asks for or gives back: money of an account,
// or, with a key, part of that key's limits in a period (USD and DIEM).
type want struct {
	account uint32
	key     int64
	day     int32 // whose DIEM, for money
	period  int32 // of the limits
	amounts money.Parts
}

// funds is where the money of an account, or the limits of a key, is.
type funds struct {
	account     uint32
	key         int64
	day, period int32
	granted     money.Parts // moved by this operation
	lease       money.Parts // what this node may still spend
	avail       money.Parts // left: leased to nobody
	others      money.Parts // leased to other nodes
	debt        Nano        // what the account owes; with key 0
}

// reclaimed is a node whose leases were taken back.
type reclaimed struct {
	no     uint32
	name   string
	amount money.Parts
}

// nodeRow is a node for operators.
type nodeRow struct {
	no, inc   uint32
	id, name  string
	expiresUs int64 // of its session
	left      bool  // ended in order
	leased    money.Parts
}

type changeKind uint8

// Kinds of changes. The numbers are stored.
const (
	changeAccount   changeKind = 1 + iota // made or changed
	changeKey                             // made, changed or revoked
	changeCredit                          // money came in
	changeRecall                          // a node needs what others do not
	changeAllowance                       // of DIEM
	changePepper
	changeDebt // the account owes more or less
)

// change is an entry of the feed.
type change struct {
	no      uint64
	kind    changeKind
	account uint32
	key     int64
}
