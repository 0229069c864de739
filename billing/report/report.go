package report

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/config/fair"
)

// Reports reads the store for all accounts.
type Reports struct {
	// Limit is how long a report may take.
	Limit time.Duration

	source    Source
	turns     *fair.Turns
	models    atomic.Pointer[map[uint32]string] // names by number
	anchors   anchors
	analytics cache
}

// Source is the ledger that the reports are of.
type Source interface {
	// Report runs do on one consistent state of the store, until ctx ends.
	Report(ctx context.Context, do func(*store.Query) error) error
	Now() int64         // Unix ns
	Today() int32       // UTC day, counted from 1970-01-01
	SeveralNodes() bool // other nodes write to the store, too
	// Sign returns a signature of a text that only the nodes of this store can make.
	Sign(text []byte) [sha256.Size]byte
	Floor() money.Nano // an account with less is not admitted
}

// Account answers questions about one account.
type Account struct {
	*Reports
	No     uint32
	ID     string
	Newest Newest

	owner fair.Owner
}

// Newest brings this node's latest settlements of an account into the store.
type Newest interface {
	// Detailed says whether there is nothing for Detail to do.
	Detailed() bool
	// Detail writes requests with their detail; false when that took too long.
	Detail() bool
	// Days does so for daily usage.
	Days() bool
}

// ErrTimeout is a report that took too long.
var ErrTimeout = errors.New("the report took too long")

// limit keeps an answer within the 10 seconds of the specification.
const limit = 8 * time.Second

const (
	// readsAtOnce is how many connections an embedded store has for reports. PostgreSQL has
	// twice as many, and the others are for keys.
	readsAtOnce  = 2
	readsWaiting = 256
)

// New makes the reports of a ledger.
func New(s Source) *Reports {
	return &Reports{Limit: limit, source: s, turns: fair.NewTurns(readsAtOnce, readsWaiting)}
}

// For is the account for an owner, whose turn its reports wait for.
func (a Account) For(o fair.Owner) Account {
	a.owner = o
	return a
}

func (a Account) read(do func(*store.Query) error) error { return a.readFor(a.owner, do) }

// readFor reads the store in the turn of an owner. Limit bounds both. [fair.ErrFull]: too many wait.
func (r *Reports) readFor(o fair.Owner, do func(*store.Query) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.Limit)
	defer cancel()
	place, err := r.turns.Take(ctx, o)
	if err == nil {
		defer place.Done()
		err = r.source.Report(ctx, do)
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	return err
}
