package media

import (
	"context"
	"math/rand/v2"
	"time"

	"farebox/config/background"
)

// Verdict is the state of a file's job.
type Verdict uint8

const (
	Wanted   Verdict = iota // it stays
	Unwanted                // a job has it no more
	Unknown                 // no job ever had it, as far as is known
)

const (
	// sweepFirst bounds the time from a start to the first sweep.
	sweepFirst = time.Minute
	// Grace is how long a file of an unknown job stays after its last write: its job's row
	// may name it in a moment. It must be longer than the download of a result.
	Grace = time.Hour
	// doubtful is the number of unknown files from which on, if they are the greater part,
	// another service's store is more likely than so many accidents.
	doubtful = 20
)

// Sums are the counts of a sweep.
type Sums struct {
	Began                 time.Time
	Files, Bytes          int64 // that stay
	Removed, RemovedBytes int64
	Refused               int64 // that were unknown and left, since they were too many
}

// Sweeper removes files that belong to no job any more: left by a process that died between
// two steps.
type Sweeper struct {
	store Store
	judge func(id string) (Verdict, error)
	tell  func(s Sums, listed map[string]bool, err error)
	every time.Duration

	work background.Work
}

// NewSweeper makes a Sweeper that asks judge of every file that is older than [Grace],
// and calls tell for every sweep with the ids that it saw.
func NewSweeper(store Store, every time.Duration, judge func(string) (Verdict, error),
	tell func(Sums, map[string]bool, error)) *Sweeper {
	return &Sweeper{store: store, judge: judge, tell: tell, every: every}
}

// Start sweeps now and then until Close. Nodes that share a store sweep at different times.
func (s *Sweeper) Start() {
	s.work.Go(func() {
		ctx := s.work.Context()
		for wait := min(sweepFirst, s.every); s.work.Sleep(wait); wait = s.every - rand.N(s.every/5) {
			sums, listed, err := s.Sweep(ctx, time.Now())
			if ctx.Err() == nil {
				s.tell(sums, listed, err)
			}
		}
	})
}

// Close ends a sweep that is under way and waits for it.
func (s *Sweeper) Close() { s.work.Close() }

// Sweep checks all files of the store once.
func (s *Sweeper) Sweep(ctx context.Context, now time.Time) (sums Sums, listed map[string]bool, err error) {
	sums.Began, listed = now, map[string]bool{}
	var unknown []File
	var failed error
	remove := func(f File) {
		if failed = s.store.Delete(ctx, f.ID); failed == nil {
			sums.Removed, sums.RemovedBytes = sums.Removed+1, sums.RemovedBytes+f.Size
			delete(listed, f.ID)
		}
	}
	keep := func(f File) {
		sums.Files, sums.Bytes = sums.Files+1, sums.Bytes+f.Size
	}
	err = s.store.List(ctx, func(f File) bool {
		listed[f.ID] = true
		if now.Sub(f.Changed) < Grace {
			keep(f)
			return true
		}
		var v Verdict
		if v, failed = s.judge(f.ID); failed != nil {
			return false
		}
		switch v {
		case Unwanted:
			remove(f)
		case Unknown:
			unknown = append(unknown, f)
		default:
			keep(f)
		}
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return sums, listed, err
	}
	if n := int64(len(unknown)); n >= doubtful && n > sums.Files {
		sums.Refused = n
		for _, f := range unknown {
			keep(f)
		}
		return sums, listed, nil
	}
	for _, f := range unknown {
		if remove(f); failed != nil {
			return sums, listed, failed
		}
	}
	return sums, listed, nil
}
