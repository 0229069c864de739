package responses

import (
	"fmt"
	"strings"
	"testing"
)

// Thoughts that an open model sends as content end, too. Events that do not fit the
// earlier ones get no end of ours.
func TestOddResponsesThatAreCut(t *testing.T) {
	t.Parallel()
	event := func(kind, members string) string {
		return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":1,%s}\n\n", kind, kind, members)
	}
	const place = `"item_id":"r","output_index":0,"content_index":0,`
	created := event("response.created", `"response":{"id":"gen-1","created_at":5,"status":"in_progress","output":[]}`)
	thinks := created + event("response.output_item.added", `"output_index":0,"item":{"type":"reasoning","id":"r"}`)
	part := event("response.reasoning_part.added", place+`"part":{"type":"reasoning_text","text":""}`)
	hm := event("response.reasoning_text.delta", place+`"delta":"hm"`)
	said := event("response.output_text.delta", place+`"delta":"hm"`)
	for name, c := range map[string]struct {
		events string
		want   []string // in the end; none: there is no end
	}{
		"thoughts": {thinks + part + hm + hm, []string{`"id":"gen-1","object":"response","created_at":5`,
			`event: response.reasoning_text.done`, `"summary":[],"content":[{"type":"reasoning_text","text":"hmhm"}]`}},
		"a search": {created + event("response.output_item.added", `"output_index":0,"item":{"type":"odd_call","id":"s","a":[1]}`),
			[]string{`"output":[{"type":"odd_call","id":"s","a":[1]}]`}},
		"no beginning":          {strings.TrimPrefix(thinks, created) + part + hm, nil},
		"no item":               {created + said, nil},
		"no part":               {thinks + said, nil},
		"an item out of turn":   {created + event("response.output_item.added", `"output_index":1,"item":{"type":"message"}`), nil},
		"a part out of turn":    {thinks + part + part, nil},
		"an ended item":         {thinks + event("response.output_item.done", `"output_index":0,"item":{"type":"reasoning"}`) + hm, nil},
		"the end of the answer": {created + event("response.completed", `"response":{"id":"gen-1","output":[]}`), nil},
	} {
		chat := nativeOf(t, request)
		s := Native{}.Stream(chat, targetOf(chat, "m"))
		s.Pass([]byte(c.events))
		_, end := s.Cut(nil)
		if (end == nil) != (c.want == nil) {
			t.Errorf("%s: %s", name, end)
		}
		for _, want := range c.want {
			if !strings.Contains(string(end), want) {
				t.Errorf("%s: %s lacks %s", name, end, want)
			}
		}
		s.Release()
	}
}
