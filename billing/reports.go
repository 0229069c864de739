package billing

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"farebox/billing/journal"
	"farebox/billing/report"
	"farebox/billing/store"
	"farebox/config/fair"
)

// Reports answers questions about an account from the store.
func (l *Ledger) Reports(a *AccountState) report.Account {
	return report.Account{Reports: l.reports, No: a.no, ID: a.ID, Newest: newest{l, a}}
}

// ReportUsage adds up the usage of accounts. All charges of this process are in it, and
// all that other nodes have reported.
type ReportUsage struct{ report.SumQuery }

func (r ReportUsage) carryOut(l *Ledger, c *call) ([]report.Sum, error) {
	if r.To.IsZero() {
		r.To = l.clock()
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	var account uint32
	if r.Account != "" {
		a, err := l.findAccount(r.Account)
		if err != nil {
			return nil, err
		}
		account = a.no
	}
	if err := l.catchUp(); err != nil {
		return nil, err
	}
	return l.reports.Sum(r.SumQuery, account)
}

// catchUp brings the charges of this process into the store.
func (l *Ledger) catchUp() error {
	if l.journal == nil {
		return nil
	}
	if err := l.project.catchUp(); err != nil {
		return fmt.Errorf("cannot bring the usage up to date: %w", err)
	}
	return nil
}

// ReadStatement lists a part of the movements of an account's balance, in the order of the
// store's books. All charges of this process are in it.
type ReadStatement struct{ report.StatementQuery }

func (r ReadStatement) carryOut(l *Ledger, c *call) (*report.Statement, error) {
	a, err := l.findAccount(r.Account)
	if err != nil {
		return nil, err
	}
	if r.After == 0 {
		if err := l.catchUp(); err != nil {
			return nil, err
		}
	}
	return l.Reports(a).For(fair.Operator).Statement(r.StatementQuery)
}

// chargeNamed is the charge of the request whose id a reference begins with; nil: not found.
func (a *AccountState) chargeNamed(ref string) (r *journal.Record, err error) {
	l := a.ledger
	id, ok := store.RequestOf(ref)
	if !ok {
		return nil, nil
	}
	if err := l.catchUp(); err != nil {
		return nil, err
	}
	err = l.store.Report(context.Background(), func(q *store.Query) (err error) {
		r, err = q.Charge(a.no, id)
		return err
	})
	return r, err
}

// reportSource is the part of a ledger that reports need.
type reportSource struct{ *Ledger }

func (s reportSource) Report(ctx context.Context, do func(*store.Query) error) error {
	return s.store.Report(ctx, do)
}

func (s reportSource) Now() int64 { return s.now() }

func (s reportSource) SeveralNodes() bool { return s.node != nil && s.node.live.Load() > 1 }

func (s reportSource) Sign(text []byte) [sha256.Size]byte { return s.hasher.digest(text) }

func (s reportSource) Floor() Nano { return Nano(s.floor.Load()) }

// newest is this node's latest settlement for an account.
type newest struct {
	l *Ledger
	a *AccountState
}

// freshener brings the detail of requests into the store ahead of its time,
// for a client that asks for it.
type freshener struct {
	recovered uint64        // end of the journal of earlier processes
	turn      chan struct{} // one at a time
	last      time.Time
}

const (
	// freshApart is how often that is done at most, so that a client that asks
	// all the time does not take the processor from requests.
	freshApart = 100 * time.Millisecond
	// freshFor bounds it together with the wait for one's turn. A backlog of
	// more than can be written in that time is shown later, and the answer says so.
	freshFor = time.Second
)

// Detail ensures that the account's settled requests of this node are in the
// store with their detail; false when they could not be written in time.
func (n newest) Detail() bool {
	p := n.l.project
	return n.show(n.hasDetail, func() error {
		limit := p.ledgerSeq.Load()
		if p.usageSeq.Load() < limit {
			return p.detailChunk(limit)
		}
		return p.project()
	})
}

// Detailed says whether there is nothing for Detail to do.
func (n newest) Detailed() bool { return n.hasDetail(n.lastSeq()) }

// lastSeq is up to where the journal can have charges of an account. Charges that an
// earlier process recorded are not known by account.
func (n newest) lastSeq() uint64 {
	n.a.mu.Lock()
	defer n.a.mu.Unlock()
	return max(n.a.lastSeq, n.l.fresh.recovered)
}

func (n newest) hasDetail(seq uint64) bool { return n.l.project.usageSeq.Load() >= seq }

// Days is Detail for daily usage.
func (n newest) Days() bool {
	p := n.l.project
	return n.show(func(seq uint64) bool { return p.ledgerSeq.Load() >= seq }, p.project)
}

// show writes until the settled requests of the account are shown; false: not in time.
func (n newest) show(shown func(seq uint64) bool, write func() error) bool {
	l, seq := n.l, n.lastSeq()
	if shown(seq) {
		return true
	}
	f := &l.fresh
	end := time.Now().Add(freshFor)
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-time.After(freshFor):
		return shown(seq)
	}
	if shown(seq) {
		return true
	}
	time.Sleep(time.Until(f.last.Add(freshApart)))
	l.journal.Wait(seq)
	for !shown(seq) && time.Now().Before(end) {
		if err := write(); err != nil {
			l.log.Warn().Err(err).Msg("cannot write recent usage for a report; the report may omit it")
			break
		}
	}
	f.last = time.Now()
	return shown(seq)
}
