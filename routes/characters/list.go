package characters

import (
	"math"
	"slices"
	"strings"

	"farebox/proxy/jsontext"
	"farebox/routes"
)

var (
	boolRule  = &routes.Rule{Kinds: routes.String, Enum: []string{"true", "false"}}
	labelRule = &routes.Rule{Kinds: routes.String | routes.Array, Items: 20, Characters: 100}
)

// listParams are the filters of the list (addendum 18.1).
var listParams = routes.Params{
	"categories":   labelRule,
	"tags":         labelRule,
	"modelId":      {Kinds: routes.String | routes.Array, Items: 20, Characters: 200},
	"isAdult":      boolRule,
	"isPro":        boolRule,
	"isWebEnabled": boolRule,
	"search":       {Kinds: routes.String, Characters: 200},
	"limit":        {Kinds: routes.Number, Integer: true, Min: 1, Max: 100, Default: 50},
	"offset":       {Kinds: routes.Number, Integer: true, Min: 0, Max: math.Inf(1), Default: 0},
	"sortBy": {Kinds: routes.String, Default: "featured", Enum: []string{"featured", "highestRating", "highlyRated",
		"highlyRatedAndRecent", "imports", "mostRecent", "ratingCount"}},
	"sortOrder": {Kinds: routes.String, Enum: []string{"asc", "desc"}, Default: "desc"},
}

// filter holds the filters of a list. Of the values of one filter any is enough; all filters must
// fit.
type filter struct {
	categories, tags, models []string
	adult, pro, web          *bool
	words, hashtags          []string
}

func readFilter(q *routes.Query) (f filter) {
	f.categories, f.tags, f.models = lowered(q.List("categories")), lowered(q.List("tags")), q.List("modelId")
	for _, s := range []struct {
		name string
		into **bool
	}{{"isAdult", &f.adult}, {"isPro", &f.pro}, {"isWebEnabled", &f.web}} {
		if on, given := q.Switch(s.name); given {
			*s.into = &on
		}
	}
	for _, word := range strings.Fields(strings.ToLower(q.Short("search"))) {
		if tag, ok := strings.CutPrefix(word, "#"); ok && tag != "" {
			f.hashtags = append(f.hashtags, tag)
		} else {
			f.words = append(f.words, word)
		}
	}
	return f
}

// fits says that a character is one that was asked for.
func (f *filter) fits(r *characterView) bool {
	is := func(asked *bool, is bool) bool { return asked == nil || *asked == is }
	return is(f.adult, r.Adult) && is(f.pro, r.Pro) && is(f.web, r.WebEnabled) &&
		anyOf(f.models, []string{r.ModelID}) && anyOf(f.categories, r.categories) && anyOf(f.tags, r.tags) &&
		!slices.ContainsFunc(f.hashtags, func(tag string) bool { return !r.tagged(tag) }) &&
		!slices.ContainsFunc(f.words, func(word string) bool { return !strings.Contains(r.text, word) })
}

// anyOf says that nothing is asked for, or some of it is there.
func anyOf(asked, has []string) bool {
	return len(asked) == 0 || slices.ContainsFunc(has, func(one string) bool { return slices.Contains(asked, one) })
}

// index makes the values that filters compare with.
func (r *characterView) index() {
	r.tags, r.categories = lowered(r.Tags), lowered(r.Categories)
	// A line end between the texts: no word is found across two of them.
	r.text = strings.ToLower(strings.Join(append([]string{r.Name, r.Description}, r.Tags...), "\n"))
}

// tagged says that a tag is there; where it has spaces, as it is written behind a #.
func (r *characterView) tagged(hashtag string) bool {
	return slices.ContainsFunc(r.tags, func(tag string) bool {
		return tag == hashtag || strings.ReplaceAll(tag, " ", "") == hashtag ||
			strings.ReplaceAll(tag, " ", "-") == hashtag || strings.ReplaceAll(tag, " ", "_") == hashtag
	})
}

func lowered(list []string) []string {
	out := make([]string, len(list))
	for i, one := range list {
		out[i] = strings.ToLower(one)
	}
	return out
}

// list answers GET /characters.
func (ca *Capability) list(c *routes.Call) *routes.Error {
	q := c.Query()
	f := readFilter(q)
	limit, offset := q.Integer("limit"), q.Integer("offset")
	by, ascending := q.Choice("sortBy"), q.Choice("sortOrder") == "asc"
	if e := q.Refusal(); e != nil {
		return e
	}
	s := ca.snapshot(c)
	all := s.sorted(by)
	b, n := []byte(`{"object":"list","data":[`), 0
	for i := range all {
		r := all[i]
		if ascending {
			r = all[len(all)-1-i]
		}
		if int64(n) == limit {
			break
		}
		if !f.fits(r) {
			continue
		}
		if offset > 0 {
			offset--
			continue
		}
		b = r.append(jsontext.Comma(b), s.stats.RatedBy(c.Key, r.Slug))
		n++
	}
	return write(c, append(b, "]}"...))
}

// one answers GET /characters/{slug}.
func (ca *Capability) one(c *routes.Call) *routes.Error {
	s := ca.snapshot(c)
	r, e := s.find(c)
	if e != nil {
		return e
	}
	b := r.append([]byte(`{"object":"character","data":`), s.stats.RatedBy(c.Key, r.Slug))
	return write(c, append(b, '}'))
}

// find is the character of the path.
func (s *snapshot) find(c *routes.Call) (*characterView, *routes.Error) {
	slug, _ := c.Ctx.UserValue("slug").(string)
	if r := s.views[slug]; r != nil {
		return r, nil
	}
	return nil, &routes.Error{Status: 404, Code: "CHARACTER_NOT_FOUND", Message: "Unknown character " +
		routes.Excerpt([]byte(slug)) + "; GET " + routes.Prefix + "/characters lists the characters."}
}

// write makes b the answer, which is not the same for another account.
func write(c *routes.Call, b []byte) *routes.Error {
	c.Ctx.Response.Header.Set("Cache-Control", "private, no-cache")
	e := c.WriteJSON(b)
	c.Compress()
	return e
}
