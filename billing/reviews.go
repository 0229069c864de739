package billing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	"farebox/billing/store"
	"farebox/config"
)

// NewReview is what an operator adds to what is said of a character.
type NewReview struct {
	Slug      string    `json:"slug"`
	Account   string    `json:"account,omitempty"` // id or name; empty: somebody without one
	Rating    int       `json:"rating"`
	Locale    string    `json:"locale,omitempty"`
	Message   string    `json:"message,omitempty"`
	CreatedAt time.Time `json:"createdAt,omitzero"` // zero: now
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
	CreatedAt   time.Time `json:"createdAt"`
	HiddenAt    time.Time `json:"hiddenAt,omitzero"`
}

// Mistakes about reviews that a caller may want to tell apart.
var (
	ErrNoReview = errors.New("there is no such review")
	ErrReviewed = errors.New("the account has a review of this character already: hide that one first")
)

const maxReview = 2000 // characters of a message

var localeForm = regexp.MustCompile(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}$`)

// check says what is wrong with a review.
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

func (q AddReview) carryOut(l *Ledger) (ReviewInfo, error) {
	if err := q.check(l.Now()); err != nil {
		return ReviewInfo{}, err
	}
	row := &store.ReviewRow{ID: newUUID(), Slug: q.Slug, Rating: q.Rating, Locale: q.Locale, Message: q.Message,
		CreatedUs: l.now() / 1000}
	if !q.CreatedAt.IsZero() {
		row.CreatedUs = q.CreatedAt.UnixMicro()
	}
	if q.Account != "" {
		a, err := l.store.FindAccount(q.Account, l.Today())
		if errors.Is(err, store.ErrNoRow) {
			err = ErrNoAccount
		}
		if err != nil {
			return ReviewInfo{}, fmt.Errorf("cannot find the account %q: %w", q.Account, err)
		}
		row.Account, row.AccountName = a.No, a.Name
	}
	err := l.store.AddReview(row)
	if errors.Is(err, store.ErrExists) {
		err = ErrReviewed
	}
	if err != nil {
		return ReviewInfo{}, fmt.Errorf("cannot add the review of %s: %w", q.Slug, err)
	}
	l.characters.look()
	return l.characters.info(row), nil
}

// HideReview takes a review out of all lists and sums, or brings it back.
type HideReview struct {
	ID   string `json:"id"`
	Hide bool   `json:"hide"`
}

func (q HideReview) carryOut(l *Ledger) (ReviewInfo, error) {
	row, err := l.store.HideReview(q.ID, q.Hide, l.now()/1000)
	switch {
	case errors.Is(err, store.ErrNoRow):
		err = ErrNoReview
	case errors.Is(err, store.ErrExists):
		err = ErrReviewed
	}
	if err != nil {
		return ReviewInfo{}, fmt.Errorf("cannot change the review %q: %w", q.ID, err)
	}
	l.characters.look()
	return l.characters.info(row), nil
}

// ListReviews lists all reviews of a character, or of all characters with "".
type ListReviews struct {
	Slug string `json:"slug,omitempty"`
}

func (q ListReviews) carryOut(l *Ledger) ([]ReviewInfo, error) {
	rows, err := l.store.Reviews(q.Slug, true)
	if err != nil {
		return nil, fmt.Errorf("cannot list the reviews: %w", err)
	}
	infos := make([]ReviewInfo, len(rows))
	for i, row := range rows {
		infos[i] = l.characters.info(row)
	}
	return infos, nil
}

func (c *Characters) info(r *store.ReviewRow) ReviewInfo {
	return ReviewInfo{ID: r.ID, Slug: r.Slug, AccountName: r.AccountName, Username: c.reviewer(r), Rating: r.Rating,
		Locale: r.Locale, Message: r.Message, CreatedAt: fromMicro(r.CreatedUs), HiddenAt: fromMicro(r.HiddenUs)}
}

// reviewer is the name that clients see of the author of a review. An account has the same
// one everywhere, and nobody can tell from it which account that is.
func (c *Characters) reviewer(r *store.ReviewRow) string {
	who := "account " + strconv.FormatUint(uint64(r.Account), 10)
	if r.Account == 0 {
		who = "review " + r.ID
	}
	return "user-" + c.Pseudonym("reviewers", who)
}

// Pseudonym is a short name for somebody, the same on all nodes, from which nobody can
// tell who it is. Different purposes give different names.
func (c *Characters) Pseudonym(purpose, who string) string {
	mac := hmac.New(sha256.New, c.l.DeriveSecret("pseudonyms of "+purpose))
	mac.Write([]byte(who))
	return hex.EncodeToString(mac.Sum(nil)[:5])
}
