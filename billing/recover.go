package billing

import (
	"fmt"
	"slices"

	"farebox/billing/journal"
	"farebox/billing/replay"
	"farebox/billing/store"
	"farebox/config"
)

// openReplay opens the records of requests with an idempotency key, and the items of
// answers that requests may refer to.
func (l *Ledger) openReplay(o *Options) (err error) {
	// All nodes of a store have its pepper, and no other store has.
	store := l.hasher.digest([]byte("idempotency"))
	node := uint32(1)
	if l.node != nil {
		node = l.node.no
	}
	r := replay.Options{
		Config: o.Idempotency, Dir: l.dir, Power: o.Durability == "power", Idle: o.idle,
		Redis: o.Redis, Prefix: fmt.Sprintf("%s:keys:%x:", o.Brand, store[:6]), Node: node, Log: l.log, Now: l.now,
	}
	if r.Config == (config.Idempotency{}) {
		r.Config = config.Default[config.Idempotency]()
	}
	if l.keyed, err = replay.Open(r); err != nil {
		return err
	}
	items, responses := r, r
	items.Config.Window, items.Folder, items.Prefix = o.Responses.ItemReferences, "items", fmt.Sprintf("%s:items:%x:", o.Brand, store[:6])
	responses.Config.Window, responses.Folder, responses.Prefix = o.Responses.Keep, "responses",
		fmt.Sprintf("%s:responses:%x:", o.Brand, store[:6])
	if o.idle {
		l.unopened = []replay.Options{items, responses}
		return nil
	}
	if l.items, err = replay.OpenValues(items, l.DeriveSecret("items of answers")); err != nil {
		return err
	}
	l.responses, err = replay.OpenValues(responses, l.DeriveSecret("responses"))
	return err
}

// openJournal surveys the last process's journal and continues behind it.
func (l *Ledger) openJournal(o *Options) error {
	refs, last, err := journal.Survey(l.journalDir())
	if err != nil {
		return err
	}
	ledgerSeq, err := l.store.Applied(store.ToLedger)
	if err != nil {
		return err
	}
	usageSeq, err := l.store.Applied(store.ToUsage)
	if err != nil {
		return err
	}
	applied := min(ledgerSeq, usageSeq)
	if len(refs) > 0 && refs[0].First > applied+1 || len(refs) == 0 && ledgerSeq != usageSeq {
		return fmt.Errorf("%w: the store has records up to %d, what follows it is missing in %s", journal.ErrDamaged,
			applied, l.journalDir())
	}
	// A journal that ends below the cursor lost only records that are in the store. Its
	// numbers must not come again.
	end := max(last, ledgerSeq, usageSeq)
	l.journal = journal.New(l.journalDir(), o.segmentSize, o.Durability == "power", end, refs, l.log)
	l.project, err = newProjector(l, refs, ledgerSeq, usageSeq)
	return err
}

// recoverHolds applies the records of the last process and then settles the
// requests that were under way when it died: at their last progress, or, when
// they had made none, not at all. One with an idempotency key is charged if and
// only if its answer was kept, one that sold a job if and only if that is there.
func (l *Ledger) recoverHolds() error {
	p := l.project
	open, err := l.store.OpenProgress()
	if err != nil {
		return err
	}
	for _, r := range open {
		p.batch.Known[r.Hold] = true
	}
	if err := p.project(); err != nil {
		return fmt.Errorf("cannot apply the journal: %w", err)
	}
	if open, err = l.store.OpenProgress(); err != nil {
		return err
	}
	if l.idle {
		// Where their answers are kept only the server's config says.
		open = slices.DeleteFunc(open, func(r journal.Record) bool {
			return r.Flags&(journal.FlagKeyed|journal.FlagJob) == journal.FlagKeyed
		})
	}
	j := l.journal
	j.Adopt(len(open))
	for i := range open {
		r := &open[i]
		r.Kind, r.Flags = journal.Settle, r.Flags|journal.FlagRecovered
		charged, err := l.decided(r)
		if err != nil {
			return fmt.Errorf("cannot decide about a request of the last process: %w", err)
		}
		if !charged {
			*r = journal.Record{Kind: journal.Void, TimeNs: r.TimeNs, Hold: r.Hold, Account: r.Account}
		}
		if err := j.Append(r, 0); err != nil {
			return fmt.Errorf("cannot settle a request of the last process: %w", err)
		}
	}
	if len(open) > 0 {
		l.log.Warn().Int("requests", len(open)).
			Msg("requests were under way when the last process died; they are charged at their last progress, with " +
				"an idempotency key if their answer was kept, for a job if it was sold")
		j.Flush()
		if err := p.project(); err != nil {
			return fmt.Errorf("cannot apply the journal: %w", err)
		}
	}
	shortfall, err := l.store.Shortfall()
	if err != nil {
		return err
	}
	owed, err := l.store.Debt()
	l.shortfall.Store(int64(shortfall))
	l.debt.Store(int64(owed))
	return err
}

// decided says whether a request is charged whose process died while its charge was
// prepared.
func (l *Ledger) decided(r *journal.Record) (charged bool, err error) {
	switch {
	case r.Flags&journal.FlagJob != 0:
		return l.store.JobSold(l.NodeNo(), r.Hold)
	case r.Flags&journal.FlagKeyed != 0:
		return l.keyed.Kept(r.RequestID, r.Hold), nil
	}
	return true, nil
}
