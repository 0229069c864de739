package characters

import (
	"math"
	"strconv"

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
func (of *Capability) reviews(c *routes.Call) *routes.Error {
	r, e := of.stage(c).find(c)
	if e != nil {
		return e
	}
	q := c.Query()
	page, size := q.Integer("page"), q.Integer("pageSize")
	if e := q.Refusal(); e != nil {
		return e
	}
	list, err := of.audience.Reviews(r.Slug)
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
	for i, one := range list[from:min(from+size, total)] {
		b = routes.AppendString(append(routes.Comma(b, i), `{"id":`...), one.ID)
		b = routes.AppendString(append(b, `,"characterId":`...), r.ID)
		b = routes.AppendString(append(b, `,"createdAt":`...), moment(one.CreatedAt))
		b = strconv.AppendBool(append(b, `,"isOwner":`...), one.By(c.Key))
		b = appendNullable(append(b, `,"locale":`...), one.Locale)
		b = appendNullable(append(b, `,"message":`...), one.Message)
		b = strconv.AppendInt(append(b, `,"rating":`...), int64(one.Rating), 10)
		b = routes.AppendString(append(b, `,"userAvatarUrl":null,"username":`...), one.Username)
		b = append(b, '}')
	}
	b = strconv.AppendInt(append(b, `],"pagination":{"page":`...), page, 10)
	b = strconv.AppendInt(append(b, `,"pageSize":`...), size, 10)
	b = strconv.AppendInt(append(b, `,"total":`...), total, 10)
	b = strconv.AppendInt(append(b, `,"totalPages":`...), pages, 10)
	b = appendAverage(append(b, `},"summary":{"averageRating":`...), sum, total)
	b = strconv.AppendInt(append(b, `,"totalReviews":`...), total, 10)
	return write(c, append(b, "}}"...))
}

func appendNullable(b []byte, text string) []byte {
	if text == "" {
		return append(b, "null"...)
	}
	return routes.AppendString(b, text)
}
