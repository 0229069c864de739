package billing

import (
	"errors"
	"fmt"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/store"
	"farebox/config"
	"farebox/config/background"
)

// retention prunes single requests that are older than the config keeps them, in small steps
// during traffic. On a shared store one node does it at a time.
type retention struct {
	l       *Ledger
	work    background.Work
	kept    int32 // the first day that is kept; all before are pruned
	failing bool
}

const (
	pruneEvery = time.Minute
	// pruneFor is how long a node is the one that prunes after its last step.
	pruneFor = 10 * time.Minute
	// pruneMost is after how many requests a step ends.
	pruneMost = 2048
	// pruneShare is how many times as long as a step takes the next one waits, so that pruning
	// never takes more than a fifth of a core; at least prunePause.
	pruneShare = 4
	prunePause = 10 * time.Millisecond
)

// errStopped ends pruning when the ledger closes.
var errStopped = errors.New("farebox stops")

func startRetention(l *Ledger) *retention {
	r := &retention{l: l}
	r.work.Every(pruneEvery, func() { r.note(r.prune()) })
	return r
}

// note logs the first of a row of failures.
func (r *retention) note(err error) {
	if errors.Is(err, errStopped) || errors.Is(err, store.ErrPrunes) {
		return
	}
	if err != nil && !r.failing {
		r.l.log.Error().Err(err).Msg("cannot prune old requests; farebox tries again each minute")
	}
	r.failing = err != nil
}

// pause waits as long as a step may cost; false: the ledger closes.
func (r *retention) pause(began time.Time) error {
	if !r.work.Sleep(max(prunePause, pruneShare*time.Since(began))) {
		return errStopped
	}
	return nil
}

// prune prunes all days that are over the time of the config, the oldest first.
func (r *retention) prune() error {
	usage := r.l.usage.Load()
	if usage == nil || usage.Keep == 0 || r.l.idle {
		return nil
	}
	first := r.l.Today() - int32(usage.Keep)
	if first <= r.kept {
		return nil
	}
	if err := r.l.store.TakePruning(r.until(0), r.until(pruneFor)); err != nil {
		return err
	}
	for {
		day, found, err := r.l.store.OldestUsage(first)
		if err != nil {
			return err
		}
		if !found {
			r.kept = first
			return nil
		}
		if err := r.day(day, usage); err != nil {
			return fmt.Errorf("usage of %s: %w", calendar.DateText(day), err)
		}
	}
}

// until is a time from now in Unix µs.
func (r *retention) until(d time.Duration) int64 { return r.l.now()/1000 + d.Microseconds() }

// day prunes the requests of a day.
func (r *retention) day(day int32, usage *config.Usage) error {
	var file *store.ExportRow
	var bounds map[uint32]uint64
	to, err := r.exportsTo(r.work.Context(), usage)
	if err != nil {
		return err
	}
	if to != nil {
		if file, err = r.export(day, to); err != nil {
			return err
		}
		bounds = file.Bounds
	}
	if err := r.l.store.BeginPrune(day); err != nil {
		return err
	}
	requests, err := r.steps(day, bounds)
	if err != nil {
		return err
	}
	if file != nil {
		if err := r.l.store.EndExport(file); err != nil {
			return err
		}
	}
	r.l.log.Info().Str("day", calendar.DateText(day)).Int("requests", requests).Msg("pruned old requests")
	return nil
}

// steps prunes the requests of a day up to a record of each node.
func (r *retention) steps(day int32, bounds map[uint32]uint64) (requests int, err error) {
	for after := uint32(0); ; {
		accounts, err := r.l.store.PruneAccounts(day, after)
		if err != nil || len(accounts) == 0 {
			return requests, err
		}
		after = accounts[len(accounts)-1]
		for len(accounts) > 0 {
			began := time.Now()
			done, n, err := r.l.store.PruneStep(day, accounts, bounds, pruneMost, r.until(pruneFor))
			if err == nil {
				err = r.pause(began)
			}
			if err != nil {
				return requests, err
			}
			accounts = accounts[done:]
			requests += n
		}
	}
}
