package billing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/singleflight"

	"farebox/billing/store"
	"farebox/config"
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

// CharacterStats has the sums of all characters at one moment. It never changes.
type CharacterStats struct {
	version store.CharacterVersions
	sums    map[string]*CharacterSum
	rated   map[use]int
}

// CharacterSum has the sums of a character.
type CharacterSum struct {
	Imports   int64 // accounts that it has answered
	Ratings   int64 // reviews that are shown
	RatingSum int64
}

// Of gives the sums of a character.
func (s *CharacterStats) Of(slug string) CharacterSum {
	if sum := s.sums[slug]; sum != nil {
		return *sum
	}
	return CharacterSum{}
}

// RatedBy is the rating that the account of a key gave a character; 0: none.
func (s *CharacterStats) RatedBy(k *Key, slug string) int { return s.rated[use{k.Account.no, slug}] }

// Review is a review of a character, as clients see it.
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
		c.readNews()
	}
}

// CharacterStats are at most a second old, two on the other nodes of a shared store.
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

// flush writes some of the waiting uses. Those that cannot be written wait on.
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

// readNews reads news, and logs the first of a row of failures.
func (c *Characters) readNews() {
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

// refresh reads the changes.
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

// NewReview is a review that an operator adds.
type NewReview struct {
	Slug      string    `json:"slug"`
	Account   string    `json:"account,omitempty"` // id or name; empty: a client without one
	Rating    int       `json:"rating"`
	Locale    string    `json:"locale,omitempty"`
	Message   string    `json:"message,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"` // zero: now
}

// ReviewInfo is a review as operators see it.
type ReviewInfo struct {
	ID          string    `json:"id"`
	Slug        string    `json:"slug"`
	AccountName string    `json:"account,omitempty"`
	Username    string    `json:"username"` // that clients see
	Rating      int       `json:"rating"`
	Locale      string    `json:"locale,omitempty"`
	Message     string    `json:"message,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
	HiddenAt    time.Time `json:"hidden_at,omitzero"`
}

// Mistakes about reviews that a caller may want to tell apart.
var (
	ErrNoReview = errors.New("there is no such review")
	ErrReviewed = errors.New("the account has a review of this character already: hide that one first")
)

const maxReview = 2000 // characters of a message

var localeForm = regexp.MustCompile(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}$`)

// check finds mistakes in a review.
func (n *NewReview) check(now time.Time) error {
	switch {
	case !config.ValidSlug(n.Slug):
		return fmt.Errorf("cannot review %q: this cannot be the slug of a character", n.Slug)
	case n.Rating < 1 || n.Rating > 5:
		return fmt.Errorf("cannot take the rating %d: expected 1 to 5", n.Rating)
	case n.Locale != "" && !localeForm.MatchString(n.Locale):
		return fmt.Errorf("cannot take the locale %q: expected one such as en or pt-BR", n.Locale)
	case utf8.RuneCountInString(n.Message) > maxReview:
		return fmt.Errorf("cannot take a message of %d characters: expected at most %d",
			utf8.RuneCountInString(n.Message), maxReview)
	case n.CreatedAt.After(now) || !n.CreatedAt.IsZero() && n.CreatedAt.Year() < 2000:
		return fmt.Errorf("cannot take the time %s: expected one from 2000 on that is past",
			n.CreatedAt.Format(time.RFC3339))
	}
	return checkText("message", n.Message)
}

// AddReview adds a review of a character. It shows within a second here, and within two
// on all nodes.
type AddReview struct{ NewReview }

func (ar AddReview) carryOut(l *Ledger, c *call) (ReviewInfo, error) {
	if err := ar.check(l.Now()); err != nil {
		return ReviewInfo{}, err
	}
	row := &store.ReviewRow{ID: newUUID(), Slug: ar.Slug, Rating: ar.Rating, Locale: ar.Locale, Message: ar.Message,
		CreatedUs: l.now() / 1000}
	if !ar.CreatedAt.IsZero() {
		row.CreatedUs = ar.CreatedAt.UnixMicro()
	}
	if ar.Account != "" {
		a, err := l.store.FindAccount(ar.Account, l.Today())
		if errors.Is(err, store.ErrNoRow) {
			err = ErrNoAccount
		}
		if err != nil {
			return ReviewInfo{}, fmt.Errorf("cannot find the account %q: %w", ar.Account, err)
		}
		row.Account, row.AccountName = a.No, a.Name
	}
	c.entry.Account, c.entry.Subject = row.Account, row.ID
	c.answers(fixed(l.characters.info(row)))
	err := c.store.AddReview(row)
	if errors.Is(err, store.ErrExists) {
		err = ErrReviewed
	}
	if err != nil {
		return ReviewInfo{}, fmt.Errorf("cannot add the review of %s: %w", ar.Slug, err)
	}
	l.characters.readNews()
	return l.characters.info(row), nil
}

// HideReview takes a review out of all lists and sums, or brings it back.
type HideReview struct {
	ID   string `json:"id"`
	Hide bool   `json:"hide"`
}

func (h HideReview) carryOut(l *Ledger, c *call) (ReviewInfo, error) {
	c.entry.Subject = h.ID
	row, err := c.store.HideReview(h.ID, h.Hide, l.now()/1000)
	switch {
	case errors.Is(err, store.ErrNoRow):
		err = ErrNoReview
	case errors.Is(err, store.ErrExists):
		err = ErrReviewed
	}
	if err != nil {
		return ReviewInfo{}, fmt.Errorf("cannot change the review %q: %w", h.ID, err)
	}
	l.characters.readNews()
	return l.characters.info(row), nil
}

// ListReviews lists all reviews of a character, or of all characters with "".
type ListReviews struct {
	Page
	Slug string `json:"slug,omitempty"`
}

func (lr ListReviews) carryOut(l *Ledger, _ *call) (list List[ReviewInfo], err error) {
	var behind store.JobPlace
	var rows []*store.ReviewRow
	var next *store.ReviewRow
	if err = lr.after(&behind.CreatedUs, &behind.ID); err == nil {
		rows, next, err = l.store.FindReviews(lr.Slug, behind, lr.most())
	}
	if err != nil {
		return list, fmt.Errorf("cannot list the reviews: %w", err)
	}
	return page(rows, next, func(r *store.ReviewRow) string { return cursorAt(r.CreatedUs, r.ID) },
		func(rows []*store.ReviewRow) (list []ReviewInfo, err error) {
			for _, row := range rows {
				list = append(list, l.characters.info(row))
			}
			return list, nil
		})
}

func (c *Characters) info(r *store.ReviewRow) ReviewInfo {
	return ReviewInfo{ID: r.ID, Slug: r.Slug, AccountName: r.AccountName, Username: c.reviewer(r), Rating: r.Rating,
		Locale: r.Locale, Message: r.Message, CreatedAt: fromMicro(r.CreatedUs), HiddenAt: fromMicro(r.HiddenUs)}
}

// reviewer is the name that clients see of the author of a review. An account has the same
// one everywhere, which does not reveal the account.
func (c *Characters) reviewer(r *store.ReviewRow) string {
	who := "account " + strconv.FormatUint(uint64(r.Account), 10)
	if r.Account == 0 {
		who = "review " + r.ID
	}
	return "user-" + c.Pseudonym("reviewers", who)
}

// Pseudonym is a short name for a person, the same on all nodes, which does not reveal
// the person. Different purposes give different names.
func (c *Characters) Pseudonym(purpose, who string) string {
	mac := hmac.New(sha256.New, c.l.DeriveSecret("pseudonyms of "+purpose))
	mac.Write([]byte(who))
	return hex.EncodeToString(mac.Sum(nil)[:5])
}
