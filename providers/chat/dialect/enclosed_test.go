package dialect

import (
	"strings"
	"testing"
)

func TestIDsOfCompletions(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"id":"chatcmpl-1","choices":[]}`: "chatcmpl-1", ` { "choices" : [{"id":"no"}], "id" : "a" }`: "a",
		`{"id":"chatcmpl-1","choices":[{"mess`: "chatcmpl-1", `{"choices":[{"mess`: "", `{"id":7}`: "", `{"id":""}`: "", `{"id":".."}`: "", `{"id":"."}`: "", `{"id":"a/../b"}`: "a/../b",
		`{"id":"a\u0062"}`: "", `{"id":"a b"}`: "", "{\"id\":\"a\nb\"}": "", `{"id":"é"}`: "", `[{"id":"a"}]`: "", ``: "",
		`{"id":"` + strings.Repeat("x", MaxID) + `"}`:   strings.Repeat("x", MaxID),
		`{"id":"` + strings.Repeat("x", MaxID+1) + `"}`: "",
	} {
		if got := string(CompletionID([]byte(data))); got != want {
			t.Errorf("%q: %q, want %q", data, got, want)
		}
	}
}
