package responses

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"farebox/proxy/jsontext"
	"farebox/routes"
)

// readParams are those of GET /responses/{id}. The members of answers are decided when they are
// made.
var readParams = routes.Params{"stream": {Kinds: routes.Bool, Enum: []string{"true", "false"}}}

// inputParams are the pages of a response's input items.
var inputParams = routes.Params{
	"limit": {Kinds: routes.Number, Integer: true, Min: 1, Max: 100, Default: 20},
	"order": {Kinds: routes.String, Enum: []string{"asc", "desc"}, Default: "desc"},
	"after": {Kinds: routes.String, Characters: 200},
}

// saved gives the turns up to the answer of the path, with the texts of the last ones.
func saved(c *routes.Call, last int) ([]turn, *routes.Error) {
	if !c.Responses().On() {
		return nil, routes.NoEndpoint(c.Ctx)
	}
	name, _ := c.Ctx.UserValue("id").(string)
	turns, e := listed(c, []byte(name), 0)
	if e != nil {
		return nil, e
	}
	if last > 0 && len(turns) > last {
		turns = turns[len(turns)-last:]
	}
	known := turns != nil
	if known {
		known, _, e = read(c, turns, 0)
	}
	switch {
	case e != nil:
		return nil, e
	case !known:
		return nil, unknownResponse([]byte(name), "")
	}
	return turns, nil
}

// get answers GET /responses/{id}.
func get(c *routes.Call) *routes.Error {
	q := c.Query()
	if on, _ := q.Switch("stream"); on {
		q.Wrong(routes.Issue{Code: "custom", Path: "stream", Message: "stream: a kept answer is not streamed again; leave it out."})
	}
	if e := q.Refusal(); e != nil {
		return e
	}
	turns, e := saved(c, 1)
	if e != nil {
		return e
	}
	return write(c, turns[0].answer)
}

// remove answers DELETE /responses/{id}: the texts of the answer and its input go, and
// with them the conversations that went on from it. References to its items end, too.
func remove(c *routes.Call) *routes.Error {
	turns, e := saved(c, 1)
	if e != nil {
		return e
	}
	t := &turns[0]
	if c.Items().On() {
		var ids [][]byte
		for _, item := range gjson.GetBytes(t.answer, "output.#.id").Array() {
			ids = append(ids, []byte(item.Str))
		}
		if e := c.Items().Drop(ids); e != nil {
			return e
		}
	}
	if e := c.Responses().Drop(append([][]byte{[]byte(t.ID)}, t.names()...)); e != nil {
		return e
	}
	return write(c, append(jsontext.AppendString([]byte(`{"id":`), t.ID), `,"object":"response","deleted":true}`...))
}

// inputs answers GET /responses/{id}/input_items: all that the model was given, also of
// earlier turns.
func inputs(c *routes.Call) *routes.Error {
	q := c.Query()
	limit, order := int(q.Integer("limit")), q.Choice("order")
	after, paged := q.Text("after")
	if e := q.Refusal(); e != nil {
		return e
	}
	turns, e := saved(c, 0)
	if e != nil {
		return e
	}
	last := &turns[len(turns)-1]
	last.answer = nil
	items := itemsOf(turns)
	ids := make([]string, len(items))
	for i := range items {
		items[i], ids[i] = whole(items[i], last.ID, i)
	}
	if order == "desc" {
		slices.Reverse(items)
		slices.Reverse(ids)
	}
	from := 0
	if paged {
		if from = slices.Index(ids, after) + 1; from == 0 {
			return routes.Invalid(routes.Issue{Code: "custom", Path: "after", Message: "after: there is no item " +
				routes.Excerpt([]byte(after)) + " in the input of this response."})
		}
	}
	to := min(from+limit, len(items))
	b := []byte(`{"object":"list","data":[`)
	for _, item := range items[from:to] {
		b = append(jsontext.Comma(b), item...)
	}
	b = append(b, `],"first_id":`...)
	for i, name := range []string{`,"last_id":`, `,"has_more":`} {
		if at := []int{from, to - 1}[i]; from < to {
			b = jsontext.AppendString(b, ids[at])
		} else {
			b = append(b, "null"...)
		}
		b = append(b, name...)
	}
	return write(c, append(strconv.AppendBool(b, to < len(items)), '}'))
}

// whole is an item with the members that OpenAI's packages expect of each: a type, an id and, in
// messages, a list of parts.
func whole(item []byte, response string, place int) (full []byte, id string) {
	r := gjson.ParseBytes(item)
	kind := r.Get("type").Str
	set := func(path string, value any) {
		if with, err := sjson.SetBytes(item, path, value); err == nil {
			item = with
		}
	}
	if kind == "" {
		kind = "message"
		set("type", kind)
	}
	if kind == "message" {
		part := "input_text"
		if r.Get("role").Str == "assistant" {
			part = "output_text"
		}
		if content := r.Get("content"); content.Type == gjson.String {
			text := map[string]any{"type": part, "text": content.Str}
			if part == "output_text" {
				text["annotations"] = []any{}
			}
			set("content", []any{text})
		}
		if !r.Get("status").Exists() {
			set("status", "completed")
		}
	}
	if id = r.Get("id").Str; id == "" {
		sum := sha256.Sum256([]byte(response + "/" + strconv.Itoa(place)))
		id = "item_" + hex.EncodeToString(sum[:16])
		if kind == "message" {
			id = "msg_" + id[5:]
		}
		set("id", id)
	}
	return item, id
}

// write makes b the answer, which belongs to one account.
func write(c *routes.Call, b []byte) *routes.Error {
	c.Ctx.Response.Header.Set("Cache-Control", "private, no-store")
	e := c.WriteJSON(b)
	c.Compress()
	return e
}
