package report

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"farebox/billing/money"
)

// Reports reads the store for all accounts.
type Reports struct {
	// Limit is how long a report may take.
	Limit time.Duration

	source    Source
	models    atomic.Pointer[map[uint32]string] // names by number
	anchors   anchors
	analytics cache
}

// Source is the ledger that the reports are of.
type Source interface {
	// Snapshot runs do on one consistent state of the store, until ctx ends.
	Snapshot(ctx context.Context, do func(Queries) error) error
	Now() int64         // Unix ns
	Today() int32       // UTC day, counted from 1970-01-01
	SeveralNodes() bool // other nodes write to the store, too
	// Sign gives what only the nodes of this store can make of a text.
	Sign(text []byte) [sha256.Size]byte
	Floor() money.Nano // an account with less is not admitted
}

// Queries are what a report asks one state of the store.
type Queries struct {
	Row  func(text string, args ...any) *sql.Row
	Each func(scan func(*sql.Rows) error, text string, args ...any) error
	// Entries gives the entries of a page that a currency paid, by its place in
	// spend order, or AnyCurrency.
	Entries func(p *Page, place int) ([]Entry, error)
}

// AnyCurrency stands for a currency's place in spend order.
const AnyCurrency = -1

// Page is the detail of consecutive requests of one account on one node.
type Page struct {
	Account, Node uint32
	First, Last   uint64 // sequences in the node's journal
	Requests      int
	Data          []byte
}

// Account answers questions about one account.
type Account struct {
	*Reports
	No     uint32
	ID     string
	Newest Newest
}

// Newest brings what this node settled last for an account into the store.
type Newest interface {
	// Detailed says whether there is nothing for Detail to do.
	Detailed() bool
	// Detail writes requests with their detail; false when that took too long.
	Detail() bool
	// Days does so for daily usage.
	Days() bool
}

// The ways in which a report fails.
var (
	ErrTimeout = errors.New("the report took too long")
	ErrDamaged = errors.New("a page of usage is damaged")
)

// limit keeps an answer within the 10 seconds of the specification.
const limit = 8 * time.Second

// New makes the reports of a ledger.
func New(s Source) *Reports { return &Reports{Limit: limit, source: s} }

// read reads the store, at most for Limit.
func (r *Reports) read(do func(Queries) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.Limit)
	defer cancel()
	err := r.source.Snapshot(ctx, do)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	return err
}
