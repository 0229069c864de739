package store

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
// is [Shared] besides (postgres.go). They have one schema and one set
// of queries (sql.go).
type Store interface {
	AddAccount(row *AccountRow) error
	// Account gives an account; its DIEM are those of day, with the allowance of
	// that day also where nothing has drawn on it yet. So do the next two.
	Account(no uint32, day int32) (*AccountRow, error)
	FindAccount(nameOrID string, day int32) (*AccountRow, error)
	Accounts(day int32) ([]*AccountRow, error)
	Credit(c *Credit) (applied bool, err error)
	Debit(d *Debit) (applied bool, err error)
	Debited(d *Debit) (done bool, err error)
	SetStatus(account uint32, s AccountStatus, nowUs int64) (done bool, err error)

	AddKey(row *KeyRow, mostActive int) error
	KeyByDigest(d Digest) (*KeyRow, error)
	KeyByID(id string) (*KeyRow, error)
	Keys(account uint32) ([]*KeyRow, error) // 0: of all accounts
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

	// AddModel gives the number of a model, the same on all nodes; a new one gets
	// the next.
	AddModel(id string) (no uint32, err error)
	Models() (map[uint32]string, error)

	// Pepper gives the pepper of a shared store: made by the first node that asks.
	// The embedded store keeps it in a file beside it and gives back fresh.
	Pepper(fresh []byte) ([]byte, error)

	Applied(s Sink) (seq uint64, err error)
	Apply(b *Batch) error
	AddPages(pages []*journal.Page, first, last uint64) error
	OpenProgress() ([]journal.Record, error)
	ExpireDIEM(account uint32, day int32, nowUs int64) error
	StaleDIEM(before int32) ([]StaleDIEM, error)
	// Shortfall is what was delivered and not charged so far, Debt what of it is
	// owed still.
	Shortfall() (money.Nano, error)
	Debt() (money.Nano, error)
	// Recount adds everything up as it is at one moment, and calls pinned when that
	// moment is past.
	Recount(pinned func()) (*Recount, error)

	// Report runs do on one consistent state of the store, until ctx ends.
	Report(ctx context.Context, do func(*Query) error) error
	// SoldBefore is what models sold in records of version 1.
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
	Avail     money.Parts // leased to nobody; DIEM: of the asked day
	Leased    money.Parts // to nodes, what their open holds set aside included; DIEM: of the asked day
	Spent     money.Parts // since the account exists
	Refunded  money.Nano  // of that, in all currencies
	Debt      money.Nano  // what it owes
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
	Refund    bool            // of what a request cost: kind REFUND, from the book refunds
	Charge    *journal.Record // of that request; nil: it is not known
	NowUs     int64
}

// StaleDIEM are allowances of a day that is over.
type StaleDIEM struct {
	Account uint32
	Day     int32
}

// Digest stands for a key's secret everywhere: HMAC-SHA256 under the pepper of
// this store. A copy of the database alone is of no use to a thief.
type Digest [sha256.Size]byte

// PepperBytes is how long a pepper is.
const PepperBytes = 32

// MaxActiveKeys is how many live keys an account may have (addendum 3.6).
const MaxActiveKeys = 500

// ErrManyKeys is an account with the most live keys that it may have.
var ErrManyKeys = fmt.Errorf("the account has %d live keys, which is the most allowed: revoke one first", MaxActiveKeys)
