package responses

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"farebox/billing/replay"
	form "farebox/providers/chat/responses"
	"farebox/proxy/scan"
	"farebox/routes"
)

const (
	// maxTurns is how many answers a conversation may have.
	maxTurns = 1024
	// pieceSize is the most of a text that is kept under one name.
	pieceSize = replay.MaxValue
	// maxID is the longest id of an answer that is kept.
	maxID = 128
)

// turn is a request and its answer, as they are kept: in pieces whose names are made of
// the answer's id. The text under the id itself lists all turns of the conversation.
type turn struct {
	ID  string `json:"id"`
	In  int    `json:"in"`  // pieces of the input
	Out int    `json:"out"` // pieces of the answer
	At  int64  `json:"at"`  // Unix seconds; when they were kept

	input, answer []byte
}

// conversation holds the earlier turns of a request, and keeps its own.
type conversation struct {
	call    *routes.Call
	turns   []turn
	own     []byte        // items of the request's own input
	missing *routes.Error // why a keyed request cannot be carried out
	window  time.Duration
}

// names are those of a turn's pieces, the input's first.
func (t *turn) names() (names [][]byte) {
	for i := range t.In {
		names = append(names, []byte("in/"+strconv.Itoa(i)+"/"+t.ID))
	}
	for i := range t.Out {
		names = append(names, []byte("out/"+strconv.Itoa(i)+"/"+t.ID))
	}
	return names
}

// unknownResponse is the answer to an id of an answer that was not kept, is no longer, or
// is another account's.
func unknownResponse(id []byte, path string) *routes.Error {
	e := &routes.Error{Status: 404, Code: "RESPONSE_NOT_FOUND", Message: "Unknown response " + routes.Excerpt(id) +
		". Answers of this account are kept for some time, unless store was false or they were deleted."}
	if path != "" {
		e.Message = path + ": unknown response " + routes.Excerpt(id) + "; " +
			"it has expired, was deleted or was not kept, or an earlier one was. Send the items themselves."
		e.Issues = []routes.Issue{{Code: "custom", Path: path, Message: e.Message}}
	}
	return e
}

// listed gives the turns of the conversation that ends with an answer; nil: it is not known.
func listed(call *routes.Call, id []byte, size int) ([]turn, *routes.Error) {
	if len(id) == 0 || len(id) > maxID {
		return nil, nil
	}
	found, e := call.Responses().Find([][]byte{id}, size)
	if e != nil || found[0] == nil {
		return nil, e
	}
	var turns []turn
	if json.Unmarshal(found[0], &turns) != nil || len(turns) == 0 {
		return nil, nil
	}
	return turns, nil
}

// read fills in the texts of turns. It says whether all were known, and the size with them.
func read(call *routes.Call, turns []turn, size int) (known bool, all int, e *routes.Error) {
	var names [][]byte
	for i := range turns {
		names = append(names, turns[i].names()...)
	}
	texts := make([][]byte, 0, len(names))
	for from := 0; from < len(names); from += foundAtOnce {
		found, e := call.Responses().Find(names[from:min(from+foundAtOnce, len(names))], size)
		if e != nil {
			return false, 0, e
		}
		for _, text := range found {
			if text == nil {
				return false, 0, nil
			}
			size += len(text)
		}
		texts = append(texts, found...)
	}
	for i := range turns {
		t := &turns[i]
		t.input = bytes.Join(texts[:t.In], nil)
		t.answer = bytes.Join(texts[t.In:t.In+t.Out], nil)
		texts = texts[t.In+t.Out:]
	}
	return true, size, nil
}

// continued puts the items of earlier turns before those of the body, and reads it again: the
// items are checked, held, priced and sent like the client's own words. Nothing is written.
func continued(call *routes.Call, v *routes.Validator, window time.Duration) (*conversation, int, *routes.Error) {
	if len(v.Issues) > 0 || !call.Responses().On() {
		return nil, 0, nil
	}
	c := &conversation{call: call, window: window, own: form.Own(call.Body, &call.Doc)}
	at := call.Doc.TopIndex(form.TopPreviousResponseID)
	if at < 0 || call.Doc.Fields[at].Kind == scan.Null {
		return c, 0, nil
	}
	if call.Doc.Fields[at].Kind != scan.String {
		return nil, 0, routes.Invalid(routes.Issue{Code: "invalid_type", Path: "previous_response_id", Expected: "string",
			Message: "previous_response_id: expected string."})
	}
	earlier, n, e := c.find(form.Previous(call.Body, &call.Doc))
	if e != nil {
		if !call.Keyed() {
			return nil, 0, e
		}
		c.missing = e
		return c, 0, nil
	}
	body := form.GoOn(call.Body, &call.Doc, earlier, c.own)
	if e := call.UseJSON(body, v.Book.Root); e != nil {
		return nil, 0, e
	}
	recheck(call, v)
	return c, n, nil
}

// find reads the turns up to an answer, and gives their items and how many these are.
func (c *conversation) find(id []byte) (items []byte, n int, e *routes.Error) {
	size := len(c.call.Body)
	if c.turns, e = listed(c.call, id, size); e != nil {
		return nil, 0, e
	}
	known := c.turns != nil
	if len(c.turns) >= maxTurns {
		return nil, 0, routes.Invalid(routes.Issue{Code: "too_big", Path: "previous_response_id", Maximum: strconv.Itoa(maxTurns),
			Message: "previous_response_id: a conversation has at most " + strconv.Itoa(maxTurns) + " answers; begin another one."})
	}
	if known {
		known, _, e = read(c.call, c.turns, size)
	}
	switch {
	case e != nil:
		return nil, 0, e
	case !known:
		return nil, 0, unknownResponse(id, "previous_response_id")
	}
	list := itemsOf(c.turns)
	return bytes.Join(list, []byte(",")), len(list), nil
}

// KeepResponse is form.ResponseKeeper. Earlier turns are kept for as long as the new one.
func (c *conversation) KeepResponse(id, response []byte) {
	if len(id) > maxID || len(c.turns) >= maxTurns {
		return
	}
	now := c.call.Began.Unix()
	next := turn{ID: string(id), At: now, input: c.own, answer: response}
	next.In, next.Out = pieces(next.input), pieces(next.answer)
	turns := append(c.turns, next)
	for i := range turns {
		t := &turns[i]
		if i < len(c.turns) && time.Duration(now-t.At)*time.Second < c.window/2 {
			continue
		}
		t.At = now
		if !c.keep(t) {
			return
		}
	}
	if list, err := json.Marshal(turns); err == nil {
		c.call.Responses().Put(id, list)
	}
}

// keep keeps the pieces of a turn.
func (c *conversation) keep(t *turn) bool {
	names := t.names()
	for i, name := range names {
		text, at := t.input, i
		if i >= t.In {
			text, at = t.answer, i-t.In
		}
		if !c.call.Responses().Put(name, text[at*pieceSize:min((at+1)*pieceSize, len(text))]) {
			return false
		}
	}
	return true
}

// pieces is how many a text has.
func pieces(text []byte) int { return (len(text) + pieceSize - 1) / pieceSize }

// itemsOf are the items of turns, in their order.
func itemsOf(turns []turn) (items [][]byte) {
	for i := range turns {
		items = form.Items(form.Items(items, turns[i].input), form.Output(turns[i].answer))
	}
	return items
}
