package characters

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"farebox/billing"
	"farebox/config"
)

// snapshot is all characters with their statistics at one moment. It never changes, but for its
// orders, which are made when they are first asked for.
type snapshot struct {
	set   *config.CharacterSet
	stats *billing.CharacterStats
	made  time.Time
	views map[string]*characterView
	all   []*characterView // by slug
	mean  float64          // of all ratings
	order map[string]*order
}

type order struct {
	once sync.Once
	list []*characterView
}

// staleAfter is when an order by age is made anew.
const staleAfter = time.Hour

// holds says that a snapshot is still current.
func (s *snapshot) holds(set *config.CharacterSet, stats *billing.CharacterStats, now time.Time) bool {
	return s.set == set && s.stats == stats && now.Sub(s.made) < staleAfter
}

// newSnapshot reuses the views that the one before has of files that have not changed.
func newSnapshot(ca *Capability, v *view, before *snapshot, set *config.CharacterSet, stats *billing.CharacterStats,
	now time.Time) *snapshot {
	s := &snapshot{set: set, stats: stats, made: now, views: map[string]*characterView{}, order: map[string]*order{}}
	var sum, n int64
	for _, c := range set.List {
		r := &characterView{}
		if old := before.views[c.Slug]; old != nil && old.Character == c {
			*r = *old
		} else {
			r = newView(ca, v, c)
		}
		r.sum = stats.Of(c.Slug)
		sum, n = sum+r.sum.RatingSum, n+r.sum.Ratings
		s.views[c.Slug] = r
		s.all = append(s.all, r)
	}
	s.mean = mean(sum, n)
	for name := range orders {
		s.order[name] = &order{}
	}
	return s
}

func mean(sum, n int64) float64 {
	if n == 0 {
		return 0
	}
	return float64(sum) / float64(n)
}

// The values of sortBy (addendum 18.1), each with the first character when sortOrder is desc.
// Equal ones are in order of slug.
var orders = map[string]func(s *snapshot, a, b *characterView) int{
	"featured": func(s *snapshot, a, b *characterView) int {
		return cmp.Or(first(a.Featured, b.Featured), cmp.Compare(s.weightedRating(b), s.weightedRating(a)))
	},
	"highestRating": func(_ *snapshot, a, b *characterView) int {
		return cmp.Compare(mean(b.sum.RatingSum, b.sum.Ratings), mean(a.sum.RatingSum, a.sum.Ratings))
	},
	"highlyRated": func(s *snapshot, a, b *characterView) int {
		return cmp.Compare(s.weightedRating(b), s.weightedRating(a))
	},
	"highlyRatedAndRecent": func(s *snapshot, a, b *characterView) int {
		return cmp.Or(first(s.recent(a), s.recent(b)), cmp.Compare(s.weightedRating(b), s.weightedRating(a)))
	},
	"imports":     func(_ *snapshot, a, b *characterView) int { return cmp.Compare(b.sum.Imports, a.sum.Imports) },
	"mostRecent":  func(_ *snapshot, a, b *characterView) int { return b.CreatedAt.Compare(a.CreatedAt) },
	"ratingCount": func(_ *snapshot, a, b *characterView) int { return cmp.Compare(b.sum.Ratings, a.sum.Ratings) },
}

const (
	// trust is how many average ratings are added to those of a character in
	// highlyRated, so that one 5 is not more than a hundred of 4.8.
	trust = 5
	// recently is how old a character may be that is recent.
	recently = 30 * 24 * time.Hour
)

// weightedRating is the rating of a character, as far as it is borne out by several.
func (s *snapshot) weightedRating(r *characterView) float64 {
	return (float64(r.sum.RatingSum) + trust*s.mean) / float64(r.sum.Ratings+trust)
}

func (s *snapshot) recent(r *characterView) bool { return s.made.Sub(r.CreatedAt) < recently }

func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// sorted is all of them in an order.
func (s *snapshot) sorted(by string) []*characterView {
	o := s.order[by]
	if o == nil {
		return nil // there are none
	}
	o.once.Do(func() {
		before := orders[by]
		o.list = slices.Clone(s.all)
		slices.SortStableFunc(o.list, func(a, b *characterView) int {
			return cmp.Or(before(s, a, b), strings.Compare(a.Slug, b.Slug))
		})
	})
	return o.list
}
