package billing

import "time"

// Stats are figures for dashboards and alarms.
type Stats struct {
	OpenHolds  int
	Held       Nano  // by open holds
	Shortfall  Nano  // delivered and not charged, but owed, since the ledger exists
	Debt       Nano  // the part of it that is owed still
	JournalLag int64 // records that balances in the store do not have yet
	UsageLag   int64 // records whose detail is not written yet
	Twice      int64 // second resolves of a hold, which changed nothing
	Leaked     int64 // holds that were forgotten and voided
	Lost       int64 // settlements that could not be written; must stay 0
	StoreAway  bool  // the store did not answer the last time, or could not be written
	// SessionAge is how long ago the shared store confirmed the session of this
	// node; 0 on an embedded store.
	SessionAge time.Duration
}

// Stats reads the figures.
func (l *Ledger) Stats() Stats {
	open, held, seq := l.journal.Figures()
	s := Stats{OpenHolds: open, Held: held}
	s.JournalLag = int64(seq - l.project.ledgerSeq.Load())
	s.UsageLag = int64(seq - l.project.usageSeq.Load())
	s.StoreAway = l.project.failed.Load() != nil
	s.Debt = Nano(l.debt.Load())
	if n := l.node; n != nil {
		s.Debt = Nano(n.debt.Load())
		s.StoreAway = n.away.Load()
		s.SessionAge = time.Duration(n.t.mono() - n.confirmedNs.Load())
	}
	s.Shortfall, s.Twice, s.Leaked, s.Lost = Nano(l.shortfall.Load()), l.twice.Load(), l.leaked.Load(), l.lost.Load()
	return s
}

// Ready says why new paid requests are refused. A ledger that is not healthy takes them as
// long as its journal has room.
func (l *Ledger) Ready() error {
	if l.node != nil {
		if err := l.node.healthy(); err != nil {
			return err
		}
	}
	return l.journal.Takes()
}

// Healthy says why new paid requests cannot be taken or charges not be booked.
func (l *Ledger) Healthy() error {
	if err := l.journal.Healthy(); err != nil {
		return err
	}
	if l.node != nil {
		// While the store is away a node serves from its leases.
		return l.node.healthy()
	}
	if failed := l.project.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}
