package responses

import (
	"fmt"
	"strings"
	"testing"

	"farebox/providers/chat/responses/responsestest"
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
	s := formOf(t, sdk, request).Stream(c)
	events := string(s.Pass([]byte(chunks.String())))
	events += string(s.Finish())
	s.Release()
	list := strings.SplitAfter(events, "\n\n")
	for n := 1; n < len(list)-1; n++ {
		s := Native{}.Stream(c, targetOf(c, "m"))
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
	native := Native{}.Stream(of, targetOf(of, "m"))
	native.Pass([]byte(list[0]))
	if _, end := native.Cut(nil); !strings.HasSuffix(string(end), done) {
		t.Errorf("as the specification has it: %s", end)
	}
	native.Release()
}

// Thoughts that an open model tells as content end, too. What does not fit what was told
// before has no end of ours.
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
		"what has ended":        {thinks + event("response.output_item.done", `"output_index":0,"item":{"type":"reasoning"}`) + hm, nil},
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
