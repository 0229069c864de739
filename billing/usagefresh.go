package billing

import "time"

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

// showDetail sees to it that the account's settled requests of this node are in
// the store with their detail; false when they could not be written in time.
func (l *Ledger) showDetail(a *AccountState) bool {
	p := l.project
	return l.show(a, l.hasDetail, func() error {
		limit := p.ledgerSeq.Load()
		if p.usageSeq.Load() < limit {
			return p.detailChunk(limit)
		}
		return p.project()
	})
}

// detailed says whether there is nothing for showDetail to do.
func (l *Ledger) detailed(a *AccountState) bool { return l.hasDetail(l.lastSeq(a)) }

// lastSeq is up to where the journal can have charges of an account. What an
// earlier process recorded of it is not known by account.
func (l *Ledger) lastSeq(a *AccountState) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(a.lastSeq, l.fresh.recovered)
}

func (l *Ledger) hasDetail(seq uint64) bool { return l.project.usageSeq.Load() >= seq }

// showDays is showDetail for daily usage.
func (l *Ledger) showDays(a *AccountState) bool {
	p := l.project
	return l.show(a, func(seq uint64) bool { return p.ledgerSeq.Load() >= seq }, p.project)
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
	l.journal.wait(seq)
	for !shown(seq) && time.Now().Before(end) {
		if err := write(); err != nil {
			l.log.Warn().Err(err).Msg("cannot write usage for a report; the report shows what is there")
			break
		}
	}
	f.last = time.Now()
	return shown(seq)
}
