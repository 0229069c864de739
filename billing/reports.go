package billing

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"farebox/billing/report"
	"farebox/billing/store"
)

// Reports answers questions about an account from the store.
func (l *Ledger) Reports(a *AccountState) report.Account {
	return report.Account{Reports: l.reports, No: a.no, ID: a.ID, Newest: newest{l, a}}
}

// UsageReport adds up what was used. All charges of this process are in it, and
// what other nodes have reported.
func (l *Ledger) UsageReport(q report.SumQuery) ([]report.Sum, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	var account uint32
	if q.Account != "" {
		a, err := l.findAccount(q.Account)
		if err != nil {
			return nil, err
		}
		account = a.no
	}
	if l.journal != nil {
		if err := l.project.catchUp(); err != nil {
			return nil, fmt.Errorf("cannot bring the usage up to date: %w", err)
		}
	}
	return l.reports.Sum(q, account)
}

// reportSource is what reports need of a ledger.
type reportSource struct{ *Ledger }

func (s reportSource) Report(ctx context.Context, do func(*store.Query) error) error {
	return s.store.Report(ctx, do)
}

func (s reportSource) Now() int64 { return s.now() }

func (s reportSource) SeveralNodes() bool { return s.node != nil && s.node.live.Load() > 1 }

func (s reportSource) Sign(text []byte) [sha256.Size]byte { return s.hasher.digest(text) }

func (s reportSource) Floor() Nano { return Nano(s.floor.Load()) }

// newest is what this node settled last for an account.
type newest struct {
	l *Ledger
	a *AccountState
}

// freshener brings the detail of requests into the store ahead of its time,
// for somebody who asks to see it.
type freshener struct {
	recovered uint64        // end of the journal of earlier processes
	turn      chan struct{} // one at a time
	last      time.Time
}

const (
	// freshApart is how often that is done at most, so that a client that asks
	// all the time does not take the processor from requests.
	freshApart = 100 * time.Millisecond
	// freshFor bounds it together with the wait for one's turn. What is behind by
	// more than can be written then is shown later, and the answer says so.
	freshFor = time.Second
)

// Detail sees to it that the account's settled requests of this node are in the
// store with their detail; false when they could not be written in time.
func (n newest) Detail() bool {
	p := n.l.project
	return n.l.show(n.a, n.l.hasDetail, func() error {
		limit := p.ledgerSeq.Load()
		if p.usageSeq.Load() < limit {
			return p.detailChunk(limit)
		}
		return p.project()
	})
}

// Detailed says whether there is nothing for Detail to do.
func (n newest) Detailed() bool { return n.l.hasDetail(n.l.lastSeq(n.a)) }

// lastSeq is up to where the journal can have charges of an account. What an
// earlier process recorded of it is not known by account.
func (l *Ledger) lastSeq(a *AccountState) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(a.lastSeq, l.fresh.recovered)
}

func (l *Ledger) hasDetail(seq uint64) bool { return l.project.usageSeq.Load() >= seq }

// Days is Detail for daily usage.
func (n newest) Days() bool {
	p := n.l.project
	return n.l.show(n.a, func(seq uint64) bool { return p.ledgerSeq.Load() >= seq }, p.project)
}

func (l *Ledger) show(a *AccountState, shown func(seq uint64) bool, write func() error) bool {
	seq := l.lastSeq(a)
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
			l.log.Warn().Err(err).Msg("cannot write usage for a report; the report shows what is there")
			break
		}
	}
	f.last = time.Now()
	return shown(seq)
}
