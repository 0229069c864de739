package published

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"farebox/config/background"
	"farebox/providers/tee/tdx"
)

// Source fetches the collateral of a kind of processor, which ca certified: processor or
// platform.
type Source interface {
	Fetch(ctx context.Context, fmspc [6]byte, ca string) (*tdx.Collateral, error)
}

const (
	// keepMost is how long something is kept without asking again, however long it holds.
	keepMost = 24 * time.Hour
	// retryAfter is the pause after a failure.
	retryAfter = 30 * time.Second
	// fetchLimit is how long one fetch may take.
	fetchLimit = 20 * time.Second
	// maxKinds bounds how many kinds of processors are kept: quotes name theirs, and a
	// host may make them up.
	maxKinds = 64
)

// Store keeps collaterals. Safe for concurrent use.
type Store struct {
	source Source
	root   tdx.Root
	log    zerolog.Logger
	now    func() time.Time

	mu    sync.Mutex
	kinds map[kind]*cachedCollateral
	work  background.Work
}

type kind struct {
	fmspc [6]byte
	ca    string
}

// cachedCollateral is the collateral of a kind, or why it failed.
type cachedCollateral struct {
	c       *tdx.Collateral
	until   time.Time // nil c: when it is asked for again
	refresh time.Time
	err     error
	over    chan struct{} // closed when the fetch that is under way ends; nil: none runs
}

// New makes a Store. now is for tests; nil: the clock.
func New(source Source, root tdx.Root, log zerolog.Logger, now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{source: source, root: root, log: log, now: now, kinds: map[kind]*cachedCollateral{}}
}

// Close ends fetches that are under way.
func (s *Store) Close() { s.work.Close() }

var errManyKinds = errors.New("too many kinds of processors were asked for")

// Collateral gives the current collateral of a kind of processor.
func (s *Store) Collateral(ctx context.Context, fmspc [6]byte, ca string) (*tdx.Collateral, error) {
	k := kind{fmspc, ca}
	s.mu.Lock()
	e := s.kinds[k]
	if e == nil {
		if len(s.kinds) >= maxKinds && !s.forget() {
			s.mu.Unlock()
			return nil, errManyKinds
		}
		e = &cachedCollateral{}
		s.kinds[k] = e
	}
	now := s.now()
	valid := e.c != nil && now.Before(e.until)
	due := now.After(e.refresh) && e.over == nil
	if due {
		over := make(chan struct{})
		e.over = over
		s.work.Go(func() { s.fetch(k, e, over) })
	}
	over := e.over
	s.mu.Unlock()
	if !valid && over != nil {
		select {
		case <-over:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.c != nil && s.now().Before(e.until):
		return e.c, nil
	case e.err != nil:
		return nil, e.err
	}
	return nil, tdx.ErrNoCollateral
}

// forget makes room: a kind of which nothing is kept, or nothing that holds. The caller
// has mu.
func (s *Store) forget() bool {
	for k, e := range s.kinds {
		if e.over == nil && (e.c == nil || !s.now().Before(e.until)) {
			delete(s.kinds, k)
			return true
		}
	}
	return false
}

// fetch asks for a kind, and stores a valid answer.
func (s *Store) fetch(k kind, e *cachedCollateral, over chan struct{}) {
	ctx, cancel := context.WithTimeout(s.work.Context(), fetchLimit)
	defer cancel()
	c, err := s.source.Fetch(ctx, k.fmspc, k.ca)
	var until time.Time
	if err == nil {
		until, err = c.Check(s.root, k.fmspc, s.now())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(over)
	e.over = nil
	now := s.now()
	if err != nil {
		e.err = fmt.Errorf("cannot get the collateral of the processor: %w", err)
		e.refresh = now.Add(retryAfter)
		s.log.Warn().Err(err).Time("holds_until", e.until).Msg("tee: collateral cannot be fetched; the stored one stays valid")
		return
	}
	if e.c != nil && now.Before(e.until) && c.Older(e.c, s.root) {
		s.log.Warn().Time("holds_until", e.until).Msg("tee: the fetched collateral is older than the stored one, which stays")
		c, until = e.c, e.until
	}
	e.c, e.until, e.err = c, until, nil
	e.refresh = now.Add(min(until.Sub(now)/2, keepMost))
}

// Ends is the earliest expiry of the stored collateral, zero if there is no collateral.
func (s *Store) Ends() (first time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.kinds {
		if e.c != nil && (first.IsZero() || e.until.Before(first)) {
			first = e.until
		}
	}
	return first
}

// Folder is a Source of files, <fmspc>.json each.
type Folder string

const maxFile = 4 << 20

// Fetch is Source.
func (f Folder) Fetch(_ context.Context, fmspc [6]byte, _ string) (*tdx.Collateral, error) {
	name := filepath.Join(string(f), hex.EncodeToString(fmspc[:])+".json")
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("there is no file for this processor model: %w", err)
	}
	if info.Size() > maxFile || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", name, maxFile)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the collateral: %w", err)
	}
	return tdx.ParseCollateral(raw)
}
