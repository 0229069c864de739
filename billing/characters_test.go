package billing

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/store"
)

// onBothStores runs a test on an embedded store and on a node of a shared one.
func onBothStores(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, openLedger(t))
	})
	t.Run("shared", func(t *testing.T) {
		t.Parallel()
		test(t, openLedger(t, func(o *Options) { o.Shared, o.Clock = servers.Database(t), nil }))
	})
}

func TestReviewsAreAddedUpAndHidden(t *testing.T) {
	onBothStores(t, func(t *testing.T, f *fixture) {
		f.account("a", usd)
		f.account("b", usd)
		mine, _ := f.key("a")
		other, _ := f.key("b")
		f.Characters().ServeCharacters()
		add := func(n NewReview) ReviewInfo {
			t.Helper()
			r, err := f.AddReview(n)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		is := func(ratings, sum int64, rated int) {
			t.Helper()
			s := f.Characters().CharacterStats()
			if got := s.Of("ada"); got.Ratings != ratings || got.RatingSum != sum || s.RatedBy(mine, "ada") != rated {
				t.Errorf("the sums are %+v, rated %d; expected %d %d %d", got, s.RatedBy(mine, "ada"), ratings, sum, rated)
			}
			list, err := f.Characters().Reviews("ada")
			if err != nil || int64(len(list)) != ratings {
				t.Errorf("%d reviews are listed (%v), expected %d", len(list), err, ratings)
			}
		}
		is(0, 0, 0)
		first := add(NewReview{Slug: "ada", Account: "a", Rating: 5, Message: "good", Locale: "pt-BR"})
		second := add(NewReview{Slug: "ada", Account: "b", Rating: 2,
			CreatedAt: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)})
		add(NewReview{Slug: "ada", Rating: 1})
		elsewhere := add(NewReview{Slug: "bo", Account: "a", Rating: 3})
		is(3, 8, 5)
		if first.Username != elsewhere.Username || first.Username == second.Username ||
			strings.Contains(first.Username, mine.Account.ID[:5]) {
			t.Errorf("names are %q %q %q", first.Username, second.Username, elsewhere.Username)
		}
		list, err := f.Characters().Reviews("ada")
		if err != nil || list[2].ID != second.ID || !list[2].CreatedAt.Equal(second.CreatedAt) || !list[2].By(other) ||
			list[2].By(mine) || list[0].By(mine) && list[1].By(mine) {
			t.Errorf("%+v (%v)", list, err)
		}
		if _, err := f.AddReview(NewReview{Slug: "ada", Account: "a", Rating: 1}); !errors.Is(err, ErrReviewed) {
			t.Errorf("a second review of one account: %v", err)
		}
		for range 2 {
			if r, err := f.HideReview(first.ID, true); err != nil || r.HiddenAt.IsZero() {
				t.Errorf("%+v %v", r, err)
			}
		}
		is(2, 3, 0)
		if all, err := f.listReviews("ada"); err != nil || len(all) != 3 {
			t.Errorf("the operator sees %+v (%v)", all, err)
		}
		again := add(NewReview{Slug: "ada", Account: "a", Rating: 4})
		is(3, 7, 4)
		if _, err := f.HideReview(first.ID, false); !errors.Is(err, ErrReviewed) {
			t.Errorf("two reviews of one account: %v", err)
		}
		if _, err := f.HideReview(again.ID, true); err != nil {
			t.Error(err)
		}
		if _, err := f.HideReview(first.ID, false); err != nil {
			t.Error(err)
		}
		is(3, 8, 5)
		if _, err := f.HideReview("none", true); !errors.Is(err, ErrNoReview) {
			t.Errorf("no such review: %v", err)
		}
		f.reopen()
		f.Characters().ServeCharacters()
		if got := f.Characters().CharacterStats().Of("ada"); got.Ratings != 3 || got.RatingSum != 8 {
			t.Errorf("after a restart: %+v", got)
		}
	})
}

func TestWrongReviewsAreRefused(t *testing.T) {
	f := openLedger(t)
	for want, n := range map[string]NewReview{
		"cannot be the slug":       {Slug: "../x", Rating: 1},
		"expected 1 to 5":          {Slug: "a", Rating: 6},
		"rating 0":                 {Slug: "a"},
		"expected one such as":     {Slug: "a", Rating: 1, Locale: "english!"},
		"at most 2000":             {Slug: "a", Rating: 1, Message: strings.Repeat("ä", 2001)},
		"control characters":       {Slug: "a", Rating: 1, Message: "\x1b[2J"},
		"from 2000 on":             {Slug: "a", Rating: 1, CreatedAt: f.Now().Add(time.Hour)},
		"there is no such account": {Slug: "a", Rating: 1, Account: "nobody"},
	} {
		if _, err := f.AddReview(n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", n, err)
		}
	}
	if list, err := f.listReviews(""); err != nil || len(list) != 0 {
		t.Errorf("%+v (%v)", list, err)
	}
}

// "One customer chatted all night, and the character had ten thousand friends."
func TestAnAccountImportsACharacterOnce(t *testing.T) {
	onBothStores(t, func(t *testing.T, f *fixture) {
		f.account("a", usd)
		f.account("b", usd)
		a, _ := f.key("a")
		a2, _ := f.key("a")
		b, _ := f.key("b")
		f.Characters().ServeCharacters()
		for range 100 {
			f.Characters().NoteCharacter(a, "ada")
			f.Characters().NoteCharacter(a2, "ada")
			f.Characters().NoteCharacter(b, "ada")
			f.Characters().NoteCharacter(b, "bo")
		}
		is := func() bool {
			s := f.Characters().CharacterStats()
			return s.Of("ada").Imports == 2 && s.Of("bo").Imports == 1
		}
		eventually(t, "two accounts with ada and one with bo", time.Minute, is)
		f.reopen()
		f.Characters().ServeCharacters()
		a = f.find(secretOf(t, f, "a"))
		f.Characters().NoteCharacter(a, "ada")
		if err := f.characters.flush(); err != nil {
			t.Error(err)
		}
		f.characters.readNews()
		if !is() {
			t.Errorf("after a restart: %+v %+v", f.Characters().CharacterStats().Of("ada"), f.Characters().CharacterStats().Of("bo"))
		}
	})
}

func secretOf(t *testing.T, f *fixture, account string) string {
	t.Helper()
	_, secret, err := f.CreateKey(NewKey{Account: account, Type: store.Inference, Period: store.Epoch})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// "What one node was told, the other one never showed."
func TestNodesSeeReviewsOfEachOther(t *testing.T) {
	address := servers.Database(t)
	nodes := nodesOn(t, address, 2, func(int, *Options) {})
	for _, n := range nodes {
		n.Characters().ServeCharacters()
	}
	op, err := OperateShared(address, "svc")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = op.Close() }()
	if _, err := op.AddReview(NewReview{Slug: "ada", Rating: 4}); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		eventually(t, fmt.Sprintf("the review on node %d", i), time.Minute, func() bool {
			n.characters.readNews()
			return n.Characters().CharacterStats().Of("ada").Ratings == 1
		})
		if list, err := n.Characters().Reviews("ada"); err != nil || len(list) != 1 {
			t.Errorf("%+v %v", list, err)
		}
	}
}

// readCounter counts how often reviews are read from the store.
type readCounter struct {
	store.Store
	reviews int
}

func (c *readCounter) Reviews(slug string, hidden bool) ([]*store.ReviewRow, error) {
	c.reviews++
	return c.Store.Reviews(slug, hidden)
}

// "Every look at the reviews was a query."
func TestReviewsAreReadOncePerChange(t *testing.T) {
	c := &readCounter{}
	f := openLedger(t, func(o *Options) {
		o.wrapStore = func(s store.Store) store.Store {
			c.Store = s
			return c
		}
	})
	f.Characters().ServeCharacters()
	for round := 1; round <= 3; round++ {
		if _, err := f.AddReview(NewReview{Slug: "ada", Rating: round}); err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if list, err := f.Characters().Reviews("ada"); err != nil || len(list) != round {
				t.Fatal(list, err)
			}
			if list, err := f.Characters().Reviews("nobody"); err != nil || len(list) != 0 {
				t.Fatal(list, err)
			}
		}
		if c.reviews != round {
			t.Errorf("round %d: %d reads", round, c.reviews)
		}
	}
}
