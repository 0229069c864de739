package billing

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"farebox/billing/store"
)

// Characters has the reviews and uses of characters in memory. Requests wait for the store
// only for the first list of reviews after some review has changed. The keeper asks the
// store for news every second.
type Characters struct {
	l      *Ledger
	served atomic.Bool // some are served: the keeper looks for news
	stats  atomic.Pointer[CharacterStats]

	looking sync.Mutex // held by one refresh at a time, never by a request
	failing bool

	mu      sync.Mutex
	seen    map[use]bool // that were noted, as far as is remembered
	waiting []store.CharacterUse
	lists   map[string]*reviewList
	listed  int // bytes of lists
	flight  singleflight.Group
}

// use is an account that was answered by a character.
type use struct {
	account uint32
	slug    string
}

const (
	// mostSeen is how many uses are remembered. One that is forgotten is noted again,
	// which changes nothing in the store.
	mostSeen = 200_000
	// mostWaiting is how many uses may wait to be written; of those beyond, the next
	// request tells again. flushUses is how many a flush writes.
	mostWaiting = 20_000
	flushUses   = 1000
	// mostListed is how many bytes of reviews are kept in memory.
	mostListed = 64 << 20
)

// CharacterStats is what is known of all characters at one moment. It never changes.
type CharacterStats struct {
	version store.CharacterVersions
	sums    map[string]*CharacterSum
	rated   map[use]int
}

// CharacterSum is what is known of a character.
type CharacterSum struct {
	Imports   int64 // accounts that it has answered
	Ratings   int64 // reviews that are shown
	RatingSum int64
}

// Of is what is known of a character.
func (s *CharacterStats) Of(slug string) CharacterSum {
	if sum := s.sums[slug]; sum != nil {
		return *sum
	}
	return CharacterSum{}
}

// RatedBy is the rating that the account of a key gave a character; 0: none.
func (s *CharacterStats) RatedBy(k *Key, slug string) int { return s.rated[use{k.Account.no, slug}] }

// Review is what somebody said of a character.
type Review struct {
	ID, Username, Locale, Message string
	Rating                        int
	CreatedAt                     time.Time
	account                       uint32
}

// By says that a review was written by the account of a key.
func (r *Review) By(k *Key) bool { return r.account != 0 && r.account == k.Account.no }

// reviewList are the reviews of a character that are shown, newest first.
type reviewList struct {
	version int64
	list    []Review
	bytes   int
}

// Characters are the reviews and uses of characters.
func (l *Ledger) Characters() *Characters { return &l.characters }

// ServeCharacters begins to read reviews and uses now and then.
func (c *Characters) ServeCharacters() {
	if !c.served.Swap(true) {
		c.look()
	}
}

// CharacterStats is what was known a second ago at most, two on the other nodes of a
// shared store.
func (c *Characters) CharacterStats() *CharacterStats { return c.stats.Load() }

// NoteCharacter notes that the account of a key was answered by a character. The first
// time counts.
func (c *Characters) NoteCharacter(k *Key, slug string) {
	u := use{k.Account.no, slug}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[u] || len(c.waiting) >= mostWaiting {
		return
	}
	if len(c.seen) >= mostSeen || c.seen == nil {
		c.seen = map[use]bool{}
	}
	c.seen[u] = true
	c.waiting = append(c.waiting, store.CharacterUse{Slug: slug, Account: u.account, FirstUs: c.l.now() / 1000})
}

// flush writes some of what waits. What cannot be written waits on.
func (c *Characters) flush() error {
	c.mu.Lock()
	list := c.waiting[:min(len(c.waiting), flushUses)]
	c.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	if err := c.l.store.AddUses(list); err != nil {
		return err
	}
	c.mu.Lock()
	c.waiting = append([]store.CharacterUse(nil), c.waiting[len(list):]...)
	c.mu.Unlock()
	return nil
}

// look refreshes what is known, and logs the first of a row of failures.
func (c *Characters) look() {
	if !c.served.Load() {
		return
	}
	c.looking.Lock()
	defer c.looking.Unlock()
	err := c.refresh()
	if err != nil && !c.failing {
		c.l.log.Warn().Err(err).Msg("cannot read reviews of characters; clients get the earlier ones")
	}
	c.failing = err != nil
}

// refresh reads what has changed.
func (c *Characters) refresh() error {
	version, err := c.l.store.CharacterVersions()
	old := c.stats.Load()
	if err != nil || version == old.version && old.sums != nil {
		return err
	}
	next := &CharacterStats{version: version, sums: map[string]*CharacterSum{}, rated: old.rated}
	uses, err := c.l.store.CharacterUses()
	if err != nil {
		return err
	}
	sum := func(slug string) *CharacterSum {
		if next.sums[slug] == nil {
			next.sums[slug] = &CharacterSum{}
		}
		return next.sums[slug]
	}
	for slug, n := range uses {
		sum(slug).Imports = n
	}
	if version.Reviews == old.version.Reviews && old.sums != nil {
		for slug, known := range old.sums {
			s := sum(slug)
			s.Ratings, s.RatingSum = known.Ratings, known.RatingSum
		}
		c.stats.Store(next)
		return nil
	}
	ratings, err := c.l.store.Ratings()
	if err != nil {
		return err
	}
	next.rated = map[use]int{}
	for i := range ratings {
		r := &ratings[i]
		s := sum(r.Slug)
		s.Ratings++
		s.RatingSum += int64(r.Rating)
		if r.Account != 0 {
			next.rated[use{r.Account, r.Slug}] = r.Rating
		}
	}
	c.stats.Store(next)
	return nil
}

// Reviews are those of a character that are shown, newest first. The caller must not
// change them.
func (c *Characters) Reviews(slug string) ([]Review, error) {
	version := c.CharacterStats().version.Reviews
	if c.CharacterStats().Of(slug).Ratings == 0 {
		return nil, nil
	}
	c.mu.Lock()
	known := c.lists[slug]
	c.mu.Unlock()
	if known != nil && known.version == version {
		return known.list, nil
	}
	read, err, _ := c.flight.Do(slug, func() (any, error) { return c.read(slug, version) })
	if err != nil {
		return nil, err
	}
	return read.(*reviewList).list, nil
}

// read reads the reviews of a character, and keeps them where there is room.
func (c *Characters) read(slug string, version int64) (*reviewList, error) {
	rows, err := c.l.store.Reviews(slug, false)
	if err != nil {
		return nil, err
	}
	const each = 200 // bytes of a review without its texts
	next := &reviewList{version: version, list: make([]Review, len(rows)), bytes: each * len(rows)}
	for i, row := range rows {
		next.list[i] = Review{ID: row.ID, Username: c.reviewer(row), Locale: row.Locale, Message: row.Message,
			Rating: row.Rating, CreatedAt: fromMicro(row.CreatedUs), account: row.Account}
		next.bytes += len(row.Message)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.lists[slug]; old != nil {
		c.listed -= old.bytes
		delete(c.lists, slug)
	}
	if c.lists == nil || c.listed+next.bytes > mostListed {
		c.lists, c.listed = map[string]*reviewList{}, 0
	}
	c.lists[slug] = next
	c.listed += next.bytes
	return next, nil
}
