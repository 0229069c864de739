package openai

import (
	"errors"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
)

// An error behind the choices of a whole answer is judged before anything of it
// goes to the client: it is a failed attempt, not a success that is charged.
func TestAnErrorBehindTheAnswerIsAFailure(t *testing.T) {
	c := chatOf(t, prompt)
	target := targetOf(c.Model, "m", config.Quirks{})
	f := func(more string, failed bool) {
		t.Helper()
		var s dialect.Scratch
		_, _, err := Dialect{}.Answer([]byte(answer("the small", more)), c, target, &s)
		var no *dialect.Failed
		if errors.As(err, &no) != failed || err != nil && !failed {
			t.Errorf("%s: %v", more, err)
		}
	}
	f(`,"usage":`+plainUsage+`,"error":{"message":"out of memory","code":500}`, true)
	f(`,"error":"out of memory"`, true)
	f(`,"error":{"message":"a"},"model":"twice"`, true)
	f(`,"error":null`, false)
	f(`,"error":{}`, false)
	f(`,"error":""`, false)
	f(`,"usage":`+plainUsage, false)
}
