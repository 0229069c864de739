package search

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"farebox/proxy"
)

// request is the request to u for q.
func (u *Upstream) request(q *Query) proxy.Request {
	limit := strconv.Itoa(min(q.Limit, u.format.Limit))
	r := proxy.Request{Method: u.format.Method, ID: q.ID, Accept: "application/json"}
	if u.format.Method == "GET" {
		words := strings.NewReplacer("{query}", q.Text, "{limit}", limit)
		values := url.Values{}
		for name, value := range u.format.Query {
			values.Set(name, words.Replace(value))
		}
		for name, value := range u.params {
			values.Set(name, value)
		}
		r.Path = []byte(u.format.Path + "?" + values.Encode())
		return r
	}
	r.Path = []byte(u.format.Path)
	text := strings.NewReplacer("{query}", string(gjson.AppendJSONString(nil, q.Text)), "{limit}", limit).
		Replace(u.format.Body)
	for _, name := range slices.Sorted(maps.Keys(u.params)) {
		if set, err := sjson.Set(text, strings.NewReplacer(".", `\.`).Replace(name), u.params[name]); err == nil {
			text = set
		}
	}
	r.Body = []byte(text)
	return r
}
