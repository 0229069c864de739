package billing

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"farebox/billing/journal"
	"farebox/billing/money"
)

// Store keeps what must outlive the process and is not on the hot path:
// accounts, keys, balances, double entry, usage. The ledger writes charges to
// it in batches, each exactly once under the cursor that the store keeps for
// this node; all else commits before the call returns. There are two: SQLite,
// embedded (sqlite.go), and PostgreSQL, which several nodes can share and which
// is a [sharedStore] besides (postgres.go). They have one schema and one set
// of queries (sql.go).
type Store interface {
	AddAccount(row *accountRow) error
	// Account gives an account; its DIEM are those of day, with the allowance of
	// that day also where nothing has drawn on it yet. So do the next two.
	Account(no uint32, day int32) (*accountRow, error)
	FindAccount(nameOrID string, day int32) (*accountRow, error)
	Accounts(day int32) ([]*accountRow, error)
	Credit(c *credit) (applied bool, err error)
	Debit(d *debit) (applied bool, err error)
	Debited(d *debit) (done bool, err error)
	SetStatus(account uint32, s AccountStatus, nowUs int64) (done bool, err error)

	AddKey(row *keyRow, mostActive int) error
	KeyByDigest(d digest) (*keyRow, error)
	KeyByID(id string) (*keyRow, error)
	Keys(account uint32) ([]*keyRow, error) // 0: of all accounts
	RevokeKey(no int64, nowUs int64) error
	KeyUsed(account uint32, key int64, p Period, day int32) (money.Parts, error)
	keyStore

	// AddModel gives the number of a model, the same on all nodes; a new one gets
	// the next.
	AddModel(id string) (no uint32, err error)
	Models() (map[uint32]string, error)

	// Pepper gives the pepper of a shared store: made by the first node that asks.
	// The embedded store keeps it in a file beside it and gives back fresh.
	Pepper(fresh []byte) ([]byte, error)

	Applied(s sink) (seq uint64, err error)
	Apply(b *batch) error
	AddPages(pages []*journal.Page, first, last uint64) error
	OpenProgress() ([]journal.Record, error)
	ExpireDIEM(account uint32, day int32, nowUs int64) error
	StaleDIEM(before int32) ([]staleDIEM, error)
	// Shortfall is what was delivered and not charged so far, Debt what of it is
	// owed still.
	Shortfall() (Nano, error)
	Debt() (Nano, error)
	// Recount adds everything up as it is at one moment, and calls pinned when that
	// moment is past.
	Recount(pinned func()) (*recount, error)

	// Report runs do on one consistent state of the store, until ctx ends.
	Report(ctx context.Context, do func(*query) error) error
	// SoldBefore is what models sold in records of version 1.
	SoldBefore() journal.SoldBefore

	Close() error
}

// sink is one reader of the journal that keeps its own cursor.
type sink string

const (
	sinkLedger sink = "ledger" // balances, double entry, daily usage
	sinkUsage  sink = "usage"  // the detail of each request
)

var (
	errNoRow  = errors.New("not found")
	errExists = errors.New("exists already")
)

type accountRow struct {
	no        uint32
	id, name  string
	createdUs int64
	diemDaily Nano        // allowance of each UTC day
	lastDIEM  int32       // the latest day that has DIEM in the store; 0: none
	avail     money.Parts // leased to nobody; DIEM: of the asked day
	leased    money.Parts // to nodes, what their open holds set aside included; DIEM: of the asked day
	spent     money.Parts // since the account exists
	debt      Nano        // what it owes
	status    AccountStatus
	statusUs  int64
}

type keyRow struct {
	no                              int64
	id                              string
	account                         uint32
	accountID, accountName          string
	typ                             KeyType
	digest                          digest
	last6, description              string
	period                          Period
	limitUSD, limitDIEM             *Nano
	limitTextUSD, limitTextDIEM     string // as written, where it had to be clamped
	privacy                         ModelPrivacy
	version                         uint64 // counts changes, from 1
	createdUs, expiresUs, revokedUs int64
	lastUsedUs                      int64
}

// credit is money that comes in from outside.
type credit struct {
	account   uint32
	currency  Currency
	day       int32 // whose DIEM
	amount    Nano
	ref, memo string
	refund    bool // of what a request cost: kind REFUND, from the book refunds
	nowUs     int64
}

// staleDIEM are allowances of a day that is over.
type staleDIEM struct {
	account uint32
	day     int32
}

// digest stands for a key's secret everywhere: HMAC-SHA256 under the pepper of
// this store. A copy of the database alone is of no use to a thief.
type digest [sha256.Size]byte

// PepperBytes is how long a pepper is.
const pepperBytes = 32

// MaxActiveKeys is how many live keys an account may have (addendum 3.6).
const maxActiveKeys = 500

// ErrManyKeys is an account with the most live keys that it may have.
var ErrManyKeys = fmt.Errorf("the account has %d live keys, which is the most allowed: revoke one first", maxActiveKeys)
