package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"farebox/billing/journal"
	"farebox/billing/money"
)

// Store keeps the state that outlives the process and is not on the hot path:
// accounts, keys, balances, double entry, usage. The ledger writes charges to
// it in batches, each exactly once under the cursor that the store keeps for
// this node; all else commits before the call returns. There are two: SQLite,
// embedded (sqlite.go), and PostgreSQL, which several nodes can share and which
// is [Shared] besides (postgres.go). They have one schema and one set
// of queries (sql.go).
type Store interface {
	AddAccount(row *AccountRow) error
	// Account gives an account; its DIEM are those of day, with the allowance of
	// that day also where nothing has drawn on it yet. So do the next two.
	Account(no uint32, day int32) (*AccountRow, error)
	FindAccount(nameOrID string, day int32) (*AccountRow, error)
	Accounts(day int32) ([]*AccountRow, error)
	AccountsOf(f AccountFilter, day int32, most int) (rows []*AccountRow, next *AccountRow, err error)
	Profile(no uint32) (*ProfileRow, error)
	Profiles(first, last uint32) ([]*ProfileRow, error)
	ChangeProfile(r *ProfileRow, version int64) error
	Erase(account uint32, nowUs int64, removed *Erased) error
	MoneyIn(f MoneyFilter, most int) (rows []*Booking, next *Booking, err error)
	Liability(first, last int32) ([]LiabilityDay, error)
	Spent(account uint32, first, last int32) (map[int32]money.Nano, error)
	Credit(c *Credit) (applied bool, err error)
	Debit(d *Debit) (applied bool, err error)
	Debited(d *Debit) (done bool, err error)
	SetStatus(account uint32, s AccountStatus, nowUs int64) (done bool, err error)

	AddKey(row *KeyRow, mostActive int) error
	RotateKey(old, next *KeyRow, endsUs, nowUs int64, mostActive int) error
	KeyByDigest(d Digest) (*KeyRow, error)
	KeyByID(id string) (*KeyRow, error)
	Keys(account uint32) ([]*KeyRow, error) // 0: of all accounts
	KeysOf(f KeyFilter, most int) (rows []*KeyRow, next *KeyRow, err error)
	RevokeKey(no int64, nowUs int64) error
	KeyUsed(account uint32, key int64, p Period, day int32) (money.Parts, error)
	keyStore
	reviewStore
	JobStore
	refundStore
	VoiceStore
	EnclaveStore
	PaymentStore
	WalletStore
	OperatorStore
	RequestStore

	// AddModel gives the number of a model, the same on all nodes; a new one gets
	// the next.
	AddModel(id string) (no uint32, err error)
	Models() (map[uint32]string, error)
	// AddUpstream and Upstreams are the same for upstreams.
	AddUpstream(id string) (no uint32, err error)
	Upstreams() (map[uint32]string, error)

	// Pepper gives the pepper of a shared store: made by the first node that asks.
	// The embedded store keeps it in a file beside it and gives back fresh.
	Pepper(fresh []byte) ([]byte, error)

	Applied(s Sink) (seq uint64, err error)
	Apply(b *Batch) error
	AddPages(pages []*journal.Page, first, last uint64) error
	PruneStore
	OpenProgress() ([]journal.Record, error)
	ExpireDIEM(account uint32, day int32, nowUs int64) error
	StaleDIEM(before int32) ([]StaleDIEM, error)
	// Shortfall is the cost delivered and not charged so far, Debt the part of it that is
	// owed still.
	Shortfall() (money.Nano, error)
	Debt() (money.Nano, error)
	// Recount adds everything up as it is at one moment, and calls pinned when that
	// moment is past.
	Recount(pinned func()) (*Recount, error)
	// Recounted says how many single requests the running recount has counted, and how many there are.
	Recounted() (done, all int64)

	// Report runs do on one consistent state of the store, until ctx ends.
	Report(ctx context.Context, do func(*Query) error) error
	// SoldBefore has the kinds that models sold in records of version 1.
	SoldBefore() journal.SoldBefore

	Close() error
}

// Sink is one reader of the journal that keeps its own cursor.
type Sink string

const (
	ToLedger Sink = "ledger" // balances, double entry, daily usage
	ToUsage  Sink = "usage"  // the detail of each request
)

// Errors about rows.
var (
	ErrNoRow  = errors.New("not found")
	ErrExists = errors.New("exists already")
)

// AccountRow is an account as it is stored.
type AccountRow struct {
	No        uint32
	ID, Name  string
	CreatedUs int64
	DIEMDaily money.Nano  // allowance of each UTC day
	LastDIEM  int32       // the latest day that has DIEM in the store; 0: none
	Avail     money.Parts // in no lease; DIEM: of the asked day
	Leased    money.Parts // to nodes, the money in their open holds included; DIEM: of the asked day
	Spent     money.Parts // since the account exists
	Refunded  money.Nano  // of that, in all currencies
	Debt      money.Nano  // of the account, still unpaid
	Profile   *ProfileRow // of a new account; nil: none
	Paid      bool        // it was ever credited, in any currency, or has an allowance
	Status    AccountStatus
	StatusUs  int64
}

// KeyRow is an API key as it is stored.
type KeyRow struct {
	No            int64        `db:"no,late"`
	ID            string       `db:"id"`
	Account       uint32       `db:"account"`
	AccountID     string       `db:"account_id" from:"a.id"`
	AccountName   string       `db:"account_name" from:"a.name"`
	Type          KeyType      `db:"type"`
	Digest        Digest       `db:"secret_mac"`
	Last6         string       `db:"last6"`
	Description   string       `db:"description"`
	Period        Period       `db:"limit_period"`
	LimitUSD      *money.Nano  `db:"limit_usd"`
	LimitDIEM     *money.Nano  `db:"limit_diem"`
	CreatedUs     int64        `db:"created_us"`
	ExpiresUs     int64        `db:"expires_us"`
	RevokedUs     int64        `db:"revoked_us"`
	LimitTextUSD  string       `db:"limit_text_usd"` // as written, where it had to be clamped
	LimitTextDIEM string       `db:"limit_text_diem"`
	Privacy       ModelPrivacy `db:"privacy"`
	Version       uint64       `db:"version,late"` // counts changes, from 1
	LastUsedUs    int64        `db:"last_used_us,late"`
}

// Credit is money that comes in from outside.
type Credit struct {
	Account   uint32
	Currency  money.Currency
	Day       int32 // whose DIEM
	Amount    money.Nano
	Ref, Memo string
	Refund    bool            // of the cost of a request: kind REFUND, from the book refunds
	Charge    *journal.Record // of that request; nil: it is not known
	NowUs     int64
	Booked    *Booking // the booking by Credit, now or before
}

// StaleDIEM are allowances of a past day.
type StaleDIEM struct {
	Account uint32
	Day     int32
}

// Digest replaces a key's secret everywhere: HMAC-SHA256 under the pepper of
// this store. A copy of the database alone is of no use to a thief.
type Digest [sha256.Size]byte

// PepperBytes is how long a pepper is.
const PepperBytes = 32

// MaxActiveKeys is how many live keys an account may have (addendum 3.6).
const MaxActiveKeys = 500

// ErrManyKeys is an account with the most live keys that it may have.
var ErrManyKeys = fmt.Errorf("the account has %d live keys, which is the most allowed: revoke one first", MaxActiveKeys)

// Shared is a Store that several nodes work on.
// The embedded store is not a sharedStore. A bucket of money, and a key's limit in
// a period, is divided into the spent part, each node's lease and the part that
// is left; a node spends its leases without asking, and Apply takes its
// charges out of them. The part that no lease covers, because it was taken
// back meanwhile, comes from the rest, then from the house (late).
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

	// Grant leases the wanted amounts, as far as there is enough: never below 0.
	Grant(op uint64, wants []Want) ([]Funds, error)
	// Return gives back unspent rests, at most the leased amounts, and with that answers
	// recalls, whose numbers it is given: the free money here has come back then.
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

	// Changes returns the changes after a number, in order and without gaps; a
	// change is there as soon as its transaction has committed.
	Changes(after uint64) ([]Change, error)
	// Recall asks all nodes but one for money of accounts that they do not need: a change
	// for each of them.
	Recall(but uint32, accounts ...uint32) ([]Recall, error)
	// Recalled gives the results of recalls, in their order.
	Recalled(list []Recall) ([]Recalled, error)
}

// ErrFenced says that another process has become this node.
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
	Lease       money.Parts // money that this node may still spend
	Avail       money.Parts // left: in no lease
	Others      money.Parts // leased to other nodes
	Debt        money.Nano  // of the account; with key 0
}

// Recall asks the nodes for money of an account that they do not need.
type Recall struct {
	Account uint32
	No      uint64   // of the change
	Nodes   []uint32 // with a session that had leases of the account when they were asked
}

// Recalled is the result of a recall so far.
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

// ChangeKind is the subject of a change of the shared store.
type ChangeKind uint8

// Kinds of changes. The numbers are stored.
const (
	ChangeAccount   ChangeKind = 1 + iota // made or changed
	ChangeKey                             // made, changed or revoked
	ChangeCredit                          // money came in
	ChangeRecall                          // a node, which Key names, needs money that others do not need
	ChangeAllowance                       // of DIEM
	changePepper
	ChangeDebt     // the account owes more or less
	changeAnswered // a node, which Account names, has answered the recall of the number in Key
	ChangeQuestion // a node asks the node that Account names, 0: all others; the question has the number in Key
	ChangeSteering // operators drained an upstream, or brought it back
)

// Change is an entry of the feed.
type Change struct {
	No      uint64
	Kind    ChangeKind
	Account uint32
	Key     int64
}
