package gemini

import (
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
)

// A client that takes one call at a time gets the first one, with its signature and with
// the usage of the whole answer.
func TestOneCallAtATime(t *testing.T) {
	const (
		one  = `{"functionCall": {"id": "a","name": "look"},"thoughtSignature": "c2ln"}`
		more = `,{"functionCall": {"id": "b","name": "go"},"thoughtSignature": "bW9yZQ=="},{"text": "so"}`
	)
	for _, members := range []string{"", `"parallel_tool_calls":true,`, `"parallel_tool_calls":false,`} {
		single := strings.Contains(members, "false")
		c := chatOf(t, `{`+members+prompt[1:])
		var s dialect.Scratch
		whole, u, err := Dialect{}.Answer([]byte(`{"candidates": [{"content": {"parts": [`+one+more+`]},"finishReason": "STOP"}],`+
			usage2+tail), c, targetOf(c, newer), &s)
		if err != nil || u.Completion != 9 {
			t.Fatal(err, u)
		}
		stream := Dialect{}.Stream(c, targetOf(c, newer))
		streamed := run(stream, parts(one+more)+last("STOP", ""), true)
		if u := stream.Usage(); u.Completion != 9 {
			t.Errorf("a stream used %+v", u)
		}
		stream.Release()
		for _, out := range []string{string(whole), streamed} {
			for _, call := range []string{`"id":"a"`, "c2ln", `"content":"so"`, `"finish_reason":"tool_calls"`} {
				if !strings.Contains(out, call) {
					t.Errorf("%q: %s is missing in %s", members, call, out)
				}
			}
			for _, call := range []string{`"id":"b"`, "bW9yZQ=="} {
				if strings.Contains(out, call) == single {
					t.Errorf("%q: %s in %s", members, call, out)
				}
			}
		}
	}
}
