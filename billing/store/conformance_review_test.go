package store

import (
	"slices"

	"farebox/billing/money"
)

// Reviews, ratings and uses of characters.
func conformReviews(c *conform) {
	a, b := c.account("a", money.Parts{}), c.account("b", money.Parts{})
	say := func() {
		c.t.Helper()
		v, err := c.CharacterVersions()
		c.must(err)
		uses, err := c.CharacterUses()
		c.must(err)
		ratings, err := c.Ratings()
		c.must(err)
		c.say("versions %+v, uses %v, %d ratings", v, uses, len(ratings))
		for _, hidden := range []bool{false, true} {
			for _, slug := range []string{"", "ada", "bo", "none"} {
				list, err := c.Reviews(slug, hidden)
				c.must(err)
				for _, r := range list {
					c.say("%q %t: %+v", slug, hidden, *r)
				}
			}
		}
	}
	add := func(id, slug string, account uint32, rating int, at int64) {
		c.say("add %s: %s", id, fail(c.AddReview(&ReviewRow{ID: id, Slug: slug, Account: account, Rating: rating,
			Locale: "en", Message: "it's " + id, CreatedUs: at})))
	}
	hide := func(id string, hide bool) {
		r, err := c.HideReview(id, hide, conformUs)
		c.say("hide %s %t: %s", id, hide, fail(err))
		if err == nil {
			c.say("  %+v", *r)
		}
	}
	say()
	add("1", "ada", a, 5, 10)
	add("2", "ada", b, 4, 30)
	add("3", "ada", 0, 3, 20)
	add("4", "ada", 0, 1, 20)
	add("5", "ada", a, 2, 40) // a second one of the same account
	add("1", "bo", a, 2, 40)  // an id that is taken
	add("6", "bo", a, 2, 40)
	say()
	hide("1", true)
	hide("1", true)
	hide("none", true)
	add("7", "ada", a, 2, 50)
	hide("1", false) // there is another one now
	hide("4", true)
	hide("4", false)
	say()
	uses := []CharacterUse{{"bo", b, 1}, {"ada", b, 2}, {"ada", a, 3}, {"ada", a, 4}}
	given := slices.Clone(uses)
	for range 2 {
		c.must(c.AddUses(uses))
	}
	c.must(c.AddUses([]CharacterUse{{"bo", a, 9}}))
	c.must(c.AddUses(nil))
	if !slices.Equal(uses, given) {
		c.t.Error("the caller's list is changed")
	}
	say()
}
