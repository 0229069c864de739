package chat

import "testing"

// Only whole events are rewritten: an upstream's large event may come in pieces.
func TestOnlyWholeEventsAreRewritten(t *testing.T) {
	t.Parallel()
	number := func(data []byte) []byte { return insertMember(data, 1, []byte(`"n":1`)) }
	for events, want := range map[string]string{
		"data: {\"a\":1}\n\ndata:{}\r\n\r\ndata: [DONE]\n\n": "data: {\"n\":1,\"a\":1}\n\ndata: {\"n\":1}\n\r\ndata: [DONE]\n\n",
		"data: {\"a\":1}":               "data: {\"n\":1,\"a\":1}",
		"data: {\"a\":{}":               "data: {\"a\":{}",
		"{\"a\":1}\n: {\"a\":1}\nid: {": "{\"a\":1}\n: {\"a\":1}\nid: {",
		"":                              "",
	} {
		if got := string(rewriteEvents([]byte(events), number)); got != want {
			t.Errorf("%q became %q, want %q", events, got, want)
		}
	}
}
