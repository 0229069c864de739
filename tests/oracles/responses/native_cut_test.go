package responses_test

import (
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
	farebox "farebox/providers/chat/responses"
	"farebox/tests/oracles/responsestest"
)

// An answer that farebox ends at its cap reads to OpenAI's packages as one that its model
// ended, wherever the end comes.
func TestResponsesThatAreCutAreWhole(t *testing.T) {
	t.Parallel()
	c := nativeOf(t, request)
	var chunks strings.Builder
	for _, members := range []string{
		`"reasoning_content":"so"`, `"reasoning_content":" be it"`, `"content":"the \"small\""`, `"content":" river"`,
		`"annotations":[{"type":"url_citation","url_citation":{"url":"https://a","title":"A","start_index":0,"end_index":1}}]`,
		`"content":" ends"`, `"refusal":"No."`, `"content":"Yes."`,
		`"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\""}}]`,
		`"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]`,
		`"tool_calls":[{"index":1,"id":"d","function":{"name":"g","arguments":"{}"}}]`,
	} {
		chunks.WriteString(delta(members))
	}
	s := dialect.OpenForm(c)
	events := string(s.Pass([]byte(chunks.String())))
	events += string(s.Finish())
	s.Release()
	list := strings.SplitAfter(events, "\n\n")
	for n := 1; n < len(list)-1; n++ {
		s := farebox.Native{}.Stream(c, targetOf(c, "m"))
		begin := strings.Join(list[:n], "")
		for _, event := range list[:n] {
			s.Pass([]byte(event))
		}
		_, end := s.Cut(nil)
		r, err := responsestest.Check(begin + string(end))
		if err != nil {
			t.Fatalf("after %d events: %v\n%s%s", n, err, begin, end)
		}
		if u := s.Usage(); r.Status != "incomplete" || r.IncompleteDetails.Reason != "max_output_tokens" ||
			r.Usage.OutputTokens != u.Completion || r.Usage.OutputTokensDetails.ReasoningTokens != u.Reasoning {
			t.Errorf("after %d events: %s, usage %+v", n, end, u)
		}
		s.Release()
	}
	of := chatOf(t, formOf(t, spec, request))
	native := farebox.Native{}.Stream(of, targetOf(of, "m"))
	native.Pass([]byte(list[0]))
	if _, end := native.Cut(nil); !strings.HasSuffix(string(end), done) {
		t.Errorf("as the specification has it: %s", end)
	}
	native.Release()
}
