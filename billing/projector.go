package billing

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"farebox/billing/journal"
	"farebox/billing/store"
	"farebox/config/background"
)

// projector carries the synced part of the journal into the store: balances,
// double entry and daily usage at a steady pace, the detail of the single
// requests when there is time for it. Both have a cursor in the store, so each
// record counts exactly once in each; a segment stays until both have passed.
type projector struct {
	l *Ledger

	mu       sync.Mutex // one projection at a time
	ledger   *journal.Reader
	batch    *store.Batch
	usage    *journal.Reader
	pages    journal.Pages
	sweptDay atomic.Int32

	ledgerSeq atomic.Uint64 // applied
	usageSeq  atomic.Uint64
	failed    atomic.Pointer[error]

	rate     float64 // recent records a second
	lastSeq  uint64
	lastLook time.Time

	soon chan struct{} // see hurry
	work background.Work
}

const (
	// projectEvery is the pace of the projection when it costs little.
	projectEvery = time.Second
	// projectShare bounds what projections take of one core: after one that
	// took t the next comes after projectShare x t, at most projectLatest. With
	// 50,000 requests a second on 100,000 keys one takes about 0.4 s.
	projectShare  = 50
	projectLatest = 10 * time.Second
	// hurryApart is how far apart projections are at least.
	hurryApart = 100 * time.Millisecond
	// maxRollups bounds one transaction.
	maxRollups = 1 << 16
	// detailShare is how many times as long as writing a chunk of detail takes
	// the next one waits, so that catching up never takes more than a fifth of
	// a core from requests; at least detailPause.
	detailShare = 4
	detailPause = 10 * time.Millisecond
	// quietRate is the number of journal records a second below which the
	// detail of single requests is written at once (off peak).
	quietRate  = 1000
	rateWindow = 200 * time.Millisecond
	// maxUsageLag is how many records the detail may be behind before it is
	// written at any rate, so that the journal on disk stays bounded.
	maxUsageLag = 8 << 20
	// usageChunk is how many records of detail go into one transaction. The
	// more, the fewer pages when many accounts take turns: with 10,000 accounts
	// a request costs 8 µs at 1<<15 and 2 µs at 1<<17, which has about 4 MB of
	// pages in memory.
	usageChunk = 1 << 17
)

func newProjector(l *Ledger, refs []journal.Ref, ledgerSeq, usageSeq uint64) (p *projector, err error) {
	p = &projector{l: l, batch: store.NewBatch(), lastSeq: ledgerSeq, lastLook: time.Now(),
		soon: make(chan struct{}, 1)}
	p.ledgerSeq.Store(ledgerSeq)
	p.usageSeq.Store(usageSeq)
	if p.ledger, err = journal.NewReader(l.journalDir(), refs, ledgerSeq, l.store.SoldBefore()); err != nil {
		return nil, err
	}
	if p.usage, err = journal.NewReader(l.journalDir(), refs, usageSeq, l.store.SoldBefore()); err != nil {
		p.ledger.Close()
		return nil, err
	}
	p.batch.Begin(ledgerSeq)
	return p, nil
}

func (p *projector) start() { p.work.Go(p.run) }

func (p *projector) run() {
	wake := time.NewTimer(projectEvery)
	defer wake.Stop()
	lastProject := time.Now()
	nextProject := lastProject.Add(projectEvery)
	var projectErr, detailErr error
	for {
		select {
		case <-p.work.Closing():
			return
		case <-wake.C:
		case <-p.soon:
			if wait := hurryApart - time.Since(lastProject); wait > 0 {
				time.Sleep(wait)
			}
			nextProject = time.Now()
		}
		quiet := p.quiet()
		if began := time.Now(); !began.Before(nextProject) || quiet && began.Sub(lastProject) >= projectEvery {
			projectErr = p.project()
			took := time.Since(began)
			if projectErr == nil {
				projectErr = p.expire()
			}
			lastProject = time.Now()
			nextProject = lastProject.Add(min(max(projectEvery, projectShare*took), projectLatest))
		}
		// When the traffic ends, its last records do not wait for their turn.
		next := min(time.Until(nextProject), projectEvery)
		if p.mayDetail() {
			began := time.Now()
			detailErr = p.detailChunk(p.ledgerSeq.Load())
			next = min(next, max(detailPause, detailShare*time.Since(began)))
		}
		p.note(errors.Join(projectErr, detailErr))
		wake.Reset(next)
	}
}

// hurry lets the next projection come at once: there is something in the journal
// that other nodes need in the store.
func (p *projector) hurry() {
	select {
	case p.soon <- struct{}{}:
	default:
	}
}

// note keeps and logs the error of a projection; traffic continues, the
// journal holds the records that the store does not have yet.
func (p *projector) note(err error) {
	if err == nil {
		if p.failed.Swap(nil) != nil {
			p.l.log.Info().Msg("the store can be written again")
		}
		return
	}
	if p.failed.Swap(&err) == nil {
		p.l.log.Error().Err(err).Msg(
			"cannot write to the store; charges are kept in the journal until it can be written")
	}
}

// project applies synced records to balances, double entry and daily usage.
func (p *projector) project() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := p.l.journal.Synced()
	b := p.batch
	for {
		// A batch that was handed to the store stays as it is until the store has
		// it: when only the answer was lost, the cursor is at its end.
		for !b.Sealed && b.Last < limit && len(b.Rollups) < maxRollups {
			r, err := p.ledger.Next(limit)
			if err != nil {
				return err
			}
			if r == nil {
				return fmt.Errorf("%w: record %d of %d is missing", journal.ErrDamaged, b.Last+1, limit)
			}
			b.Add(r)
		}
		if b.Empty() {
			return nil
		}
		if !b.Sealed {
			b.Sealed, b.NowUs, b.Day = true, p.l.now()/1000, p.l.Today()
		}
		if err := p.l.store.Apply(b); err != nil {
			return err
		}
		b.Applied()
		p.ledgerSeq.Store(b.Last)
		more := b.Last < limit
		b.Begin(b.Last)
		if !more {
			p.release()
			return nil
		}
	}
}

// quiet says whether the recent rate is low.
func (p *projector) quiet() bool {
	now, seq := time.Now(), p.l.journal.Synced()
	if since := now.Sub(p.lastLook); since >= rateWindow {
		p.rate = float64(seq-p.lastSeq) / since.Seconds()
		p.lastSeq, p.lastLook = seq, now
	}
	return p.rate < quietRate
}

// mayDetail says whether there is detail to write and now is the time for it:
// the rate is low, or too much has been put off.
func (p *projector) mayDetail() bool {
	lag := p.ledgerSeq.Load() - p.usageSeq.Load()
	return lag > 0 && (p.quiet() || p.l.detailNow || lag > maxUsageLag)
}

// detailChunk writes the detail of the next records up to limit, which must be
// projected.
func (p *projector) detailChunk(limit uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addDetail(limit)
}

// level writes the detail of all that is projected: then both cursors are at
// the same record, as long as the caller holds mu.
func (p *projector) level() error {
	for limit := p.ledgerSeq.Load(); p.usageSeq.Load() < limit; {
		if err := p.addDetail(limit); err != nil {
			return err
		}
	}
	return nil
}

// addDetail is detailChunk for callers that hold mu.
func (p *projector) addDetail(limit uint64) error {
	if p.usageSeq.Load() >= limit {
		return nil
	}
	if p.pages.First == 0 {
		p.pages.Begin(p.usageSeq.Load())
	}
	for !p.pages.Sealed && p.pages.Last < min(limit, p.pages.First+usageChunk-1) {
		r, err := p.usage.Next(limit)
		if err != nil {
			return err
		}
		if r == nil {
			return fmt.Errorf("%w: record %d of %d is missing", journal.ErrDamaged, p.pages.Last+1, limit)
		}
		p.pages.Add(r)
	}
	p.pages.Sealed = true
	if err := p.l.store.AddPages(p.pages.List(), p.pages.First, p.pages.Last); err != nil {
		return err
	}
	p.usageSeq.Store(p.pages.Last)
	p.pages.Begin(p.pages.Last)
	p.release()
	return nil
}

// release lets go of the segments that both sinks have passed.
func (p *projector) release() {
	p.l.journal.Release(min(p.ledgerSeq.Load(), p.usageSeq.Load()))
}

// catchUp projects everything that was appended before the call to balances
// and daily usage. The journal must still be running.
func (p *projector) catchUp() error {
	p.l.journal.Flush()
	return p.project()
}

// drain projects everything that was appended before the call, detail
// included. The journal must still be running.
func (p *projector) drain() error {
	seq := p.l.journal.Flush()
	if err := p.project(); err != nil {
		return err
	}
	for p.usageSeq.Load() < seq {
		if err := p.detailChunk(seq); err != nil {
			return err
		}
	}
	return nil
}

// expire books the DIEM of past days, once a day. An account that is
// in memory must have gone on to the new day and have no hold on the old one;
// its charges of the old day are then all in the store, since this follows a
// projection of the synced records (and a later charge would need such a hold).
func (p *projector) expire() error {
	day := p.l.Today()
	if p.sweptDay.Load() >= day {
		return nil
	}
	stale, err := p.l.store.StaleDIEM(day)
	if err != nil {
		return err
	}
	done := true
	for _, s := range stale {
		if !p.l.pastDay(s.Account, s.Day, p.ledgerSeq.Load()) {
			done = false
			continue
		}
		if err := p.l.store.ExpireDIEM(s.Account, s.Day, p.l.now()/1000); err != nil {
			return err
		}
	}
	if done {
		p.sweptDay.Store(day)
	}
	return nil
}

func (p *projector) closeReaders() {
	p.ledger.Close()
	p.usage.Close()
}
