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
func (l *Ledger) AddReview(n NewReview) (ReviewInfo, error) {
	l.operating.Lock()
	defer l.operating.Unlock()
	if err := n.check(l.Now()); err != nil {
		return ReviewInfo{}, err
	}
	row := &store.ReviewRow{ID: newUUID(), Slug: n.Slug, Rating: n.Rating, Locale: n.Locale, Message: n.Message,
		CreatedUs: l.now() / 1000}
	if !n.CreatedAt.IsZero() {
		row.CreatedUs = n.CreatedAt.UnixMicro()
	}
	if n.Account != "" {
		a, err := l.store.FindAccount(n.Account, l.Today())
		if errors.Is(err, store.ErrNoRow) {
			err = ErrNoAccount
		}
		if err != nil {
			return ReviewInfo{}, fmt.Errorf("cannot find the account %q: %w", n.Account, err)
		}
		row.Account, row.AccountName = a.No, a.Name
	}
	err := l.store.AddReview(row)
	if errors.Is(err, store.ErrExists) {
		err = ErrReviewed
	}
	if err != nil {
		return ReviewInfo{}, fmt.Errorf("cannot add the review of %s: %w", n.Slug, err)
	}
	l.characters.look()
	return l.reviewInfo(row), nil
}

// HideReview takes a review out of all lists and sums, or brings it back.
func (l *Ledger) HideReview(id string, hide bool) (ReviewInfo, error) {
	l.operating.Lock()
	defer l.operating.Unlock()
	row, err := l.store.HideReview(id, hide, l.now()/1000)
	switch {
	case errors.Is(err, store.ErrNoRow):
		err = ErrNoReview
	case errors.Is(err, store.ErrExists):
		err = ErrReviewed
	}
	if err != nil {
		return ReviewInfo{}, fmt.Errorf("cannot change the review %q: %w", id, err)
	}
	l.characters.look()
	return l.reviewInfo(row), nil
}

// ReviewList lists all reviews, of one character or, with "", of all of them.
func (l *Ledger) ReviewList(slug string) ([]ReviewInfo, error) {
	rows, err := l.store.Reviews(slug, true)
	if err != nil {
		return nil, fmt.Errorf("cannot list the reviews: %w", err)
	}
	infos := make([]ReviewInfo, len(rows))
	for i, row := range rows {
		infos[i] = l.reviewInfo(row)
	}
	return infos, nil
}

func (l *Ledger) reviewInfo(r *store.ReviewRow) ReviewInfo {
	return ReviewInfo{ID: r.ID, Slug: r.Slug, AccountName: r.AccountName, Username: l.reviewer(r), Rating: r.Rating,
		Locale: r.Locale, Message: r.Message, CreatedAt: fromMicro(r.CreatedUs), HiddenAt: fromMicro(r.HiddenUs)}
}

// reviewer is a name for who wrote a review: the same wherever an account writes, and of
// no use to who would know which account that is.
func (l *Ledger) reviewer(r *store.ReviewRow) string {
	who := "account " + strconv.FormatUint(uint64(r.Account), 10)
	if r.Account == 0 {
		who = "review " + r.ID
	}
	return "user-" + l.Pseudonym("reviewers", who)
}

// Pseudonym is a short name for somebody, the same on all nodes, from which nobody can
// tell who it is. Different purposes give different names.
func (l *Ledger) Pseudonym(purpose, who string) string {
	mac := hmac.New(sha256.New, l.DeriveSecret("pseudonyms of "+purpose))
	mac.Write([]byte(who))
	return hex.EncodeToString(mac.Sum(nil)[:5])
}
