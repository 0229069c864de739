package characters

import (
	"math"
	"strconv"

	"farebox/proxy/jsontext"
	"farebox/routes"
)

// reviewParams are the pages of reviews (interface.md, Characters; addendum 18.3).
var reviewParams = routes.Params{
	"page":     {Kinds: routes.Number, Integer: true, Min: 1, Max: math.Inf(1), Default: 1},
	"pageSize": {Kinds: routes.Number, Integer: true, Min: 1, Max: 100, Default: 20},
}

// pageHeaders tell where a page stands.
var pageHeaders = [][]byte{[]byte("X-Pagination-Limit"), []byte("X-Pagination-Page"), []byte("X-Pagination-Total"),
	[]byte("X-Pagination-Total-Pages")}

// reviews answers GET /characters/{slug}/reviews.
func (ca *Capability) reviews(c *routes.Call) *routes.Error {
	r, e := ca.snapshot(c).find(c)
	if e != nil {
		return e
	}
	q := c.Query()
	page, size := q.Integer("page"), q.Integer("pageSize")
	if e := q.Refusal(); e != nil {
		return e
	}
	list, err := ca.audience.Reviews(r.Slug)
	if err != nil {
		c.Logger().Error().Err(err).Msg("cannot read the reviews of a character")
		return &routes.Error{Status: 503, Message: "The reviews cannot be read right now; please retry.",
			RetryAfter: routes.RetrySoon}
	}
	total := int64(len(list))
	pages := (total + size - 1) / size
	h := &c.Ctx.Response.Header
	for i, n := range []int64{size, page, total, pages} {
		h.SetCanonical(pageHeaders[i], strconv.AppendInt(nil, n, 10))
	}
	from := total
	if page <= pages {
		from = (page - 1) * size
	}
	b, sum := []byte(`{"object":"list","data":[`), int64(0)
	for i := range list {
		sum += int64(list[i].Rating)
	}
	for _, one := range list[from:min(from+size, total)] {
		b = jsontext.Object(append(jsontext.Comma(b), '{')).Text("id", one.ID).Text("characterId", r.ID).
			Text("createdAt", moment(one.CreatedAt)).Bool("isOwner", one.By(c.Key))
		b = appendNullable(append(b, `,"locale":`...), one.Locale)
		b = appendNullable(append(b, `,"message":`...), one.Message)
		b = jsontext.Object(b).Int("rating", int64(one.Rating))
		b = jsontext.AppendString(append(b, `,"userAvatarUrl":null,"username":`...), one.Username)
		b = append(b, '}')
	}
	b = strconv.AppendInt(append(b, `],"pagination":{"page":`...), page, 10)
	b = jsontext.Object(b).Int("pageSize", size).Int("total", total).Int("totalPages", pages)
	b = appendAverage(append(b, `},"summary":{"averageRating":`...), sum, total)
	b = jsontext.Object(b).Int("totalReviews", total)
	return write(c, append(b, "}}"...))
}

func appendNullable(b []byte, text string) []byte {
	if text == "" {
		return append(b, "null"...)
	}
	return jsontext.AppendString(b, text)
}
