package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// reviewStore keeps the reviews of characters, and which accounts each has answered.
// Characters themselves are files (config.Characters). The reviews of one whose file is gone
// stay, and show again when the file is back.
type reviewStore interface {
	// AddReview gives ErrExists where the account has one of the character already that
	// is shown, and ErrManyReviews.
	AddReview(r *ReviewRow) error
	// HideReview hides a review, or shows it again. It gives ErrNoRow, and ErrExists
	// where the account has written another meanwhile.
	FindReviews(slug string, behind JobPlace, most int) (rows []*ReviewRow, next *ReviewRow, err error)
	HideReview(id string, hide bool, nowUs int64) (*ReviewRow, error)
	// Reviews are those of a character, newest first; with hidden, the hidden ones, too.
	// An empty slug means all characters.
	Reviews(slug string, hidden bool) ([]*ReviewRow, error)
	// Ratings are those of all reviews that are shown.
	Ratings() ([]Rating, error)
	// AddUses notes that accounts were answered by characters, each once for good.
	AddUses(list []CharacterUse) error
	// CharacterUses is how many accounts each character has answered.
	CharacterUses() (map[string]int64, error)
	// CharacterVersions count the changes of reviews and of uses.
	CharacterVersions() (v CharacterVersions, err error)
}

// ReviewRow is a review of a character.
type ReviewRow struct {
	ID          string `db:"id"`
	Slug        string `db:"slug"`
	Account     uint32 `db:"account"` // 0: a client without one
	AccountName string `db:"name" from:"coalesce(a.name, '')"`
	Rating      int    `db:"rating"`
	Locale      string `db:"locale"` // empty: none
	Message     string `db:"message"`
	CreatedUs   int64  `db:"created_us"`
	HiddenUs    int64  `db:"hidden_us,late"` // 0: it is shown
}

// Rating is the part of a review that sums need.
type Rating struct {
	Slug    string
	Account uint32
	Rating  int
}

// CharacterUse is an account that was answered by a character.
type CharacterUse struct {
	Slug    string
	Account uint32
	FirstUs int64
}

// CharacterVersions are numbers that grow with every change.
type CharacterVersions struct{ Reviews, Uses int64 }

// MaxReviews is how many reviews a store may have, since all ratings are in the memory
// of every node.
const MaxReviews = 100_000

// ErrManyReviews is a store with the most reviews that it may have.
var ErrManyReviews = fmt.Errorf("there are %d reviews, which is the most", MaxReviews)

func (t *tx) bump(name string) error {
	_, err := t.exec("UPDATE counter SET value = value + 1 WHERE name = $1", name)
	return err
}

func (s *sqlStore) AddReview(r *ReviewRow) error {
	return s.unique(s.write(func(t *tx) error {
		var n int64
		if err := t.Row("SELECT count(*) FROM review").Scan(&n); err != nil {
			return err
		}
		if n >= MaxReviews {
			return ErrManyReviews
		}
		if _, err := addReview.exec(t, r); err != nil {
			return err
		}
		return t.bump("review")
	}))
}

var (
	reviews   = newTable[ReviewRow]("review r LEFT JOIN account a ON a.no = r.account")
	addReview = reviews.statement("INSERT INTO review{INSERT}")
)

func (s *sqlStore) HideReview(id string, hide bool, nowUs int64) (r *ReviewRow, err error) {
	err = s.unique(s.write(func(t *tx) error {
		if r, err = reviews.one(&t.Query, "r.id = $1", id); err != nil || hide == (r.HiddenUs != 0) {
			return err
		}
		if r.HiddenUs = 0; hide {
			r.HiddenUs = nowUs
		}
		if _, err := t.exec("UPDATE review SET hidden_us = $2 WHERE id = $1", id, r.HiddenUs); err != nil {
			return err
		}
		return t.bump("review")
	}))
	return r, err
}

func (s *sqlStore) Reviews(slug string, hidden bool) ([]*ReviewRow, error) {
	where, args := "true", []any{}
	if slug != "" {
		where, args = "r.slug = $1", []any{slug}
	}
	if !hidden {
		where += " AND r.hidden_us = 0"
	}
	return reviews.list(s, where+" ORDER BY r.created_us DESC, r.no DESC", args...)
}

func (s *sqlStore) Ratings() ([]Rating, error) {
	return ask(s, func(q *Query) ([]Rating, error) {
		return list(q, func(r *Rating) []any { return []any{&r.Slug, &r.Account, &r.Rating} },
			"SELECT slug, account, rating FROM review WHERE hidden_us = 0")
	})
}

func (s *sqlStore) AddUses(uses []CharacterUse) error {
	if len(uses) == 0 {
		return nil
	}
	uses = slices.Clone(uses) // in one order, so that nodes do not wait for each other in a circle
	slices.SortFunc(uses, func(a, b CharacterUse) int {
		return cmp.Or(strings.Compare(a.Slug, b.Slug), cmp.Compare(a.Account, b.Account))
	})
	return s.write(func(t *tx) error {
		more, slugs := map[string]int64{}, []string{}
		for _, u := range uses {
			n, err := t.affect(`INSERT INTO character_use(slug, account, first_us) VALUES($1, $2, $3)
				ON CONFLICT(slug, account) DO NOTHING`, u.Slug, u.Account, u.FirstUs)
			if err != nil {
				return err
			}
			if n > 0 && more[u.Slug] == 0 {
				slugs = append(slugs, u.Slug)
			}
			more[u.Slug] += n
		}
		for _, slug := range slugs {
			if _, err := t.exec(`INSERT INTO character_sum(slug, imports) VALUES($1, $2)
				ON CONFLICT(slug) DO UPDATE SET imports = character_sum.imports + excluded.imports`, slug,
				more[slug]); err != nil {
				return err
			}
		}
		if len(slugs) == 0 {
			return nil
		}
		return t.bump("character")
	})
}

func (s *sqlStore) CharacterUses() (map[string]int64, error) {
	return ask(s, func(q *Query) (map[string]int64, error) {
		all := map[string]int64{}
		err := each2(q, func(slug string, n int64) {
			all[slug] = n
		}, "SELECT slug, imports FROM character_sum")
		return all, err
	})
}

func (s *sqlStore) CharacterVersions() (v CharacterVersions, err error) {
	return ask(s, func(q *Query) (v CharacterVersions, err error) {
		err = q.Row(`SELECT (SELECT value FROM counter WHERE name = 'review'),
			(SELECT value FROM counter WHERE name = 'character')`).Scan(&v.Reviews, &v.Uses)
		return v, err
	})
}
