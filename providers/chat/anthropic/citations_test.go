package anthropic

import (
	"encoding/json"
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
)

// Citations have their place in the text of all blocks.
func TestCitationsBecomeAnnotations(t *testing.T) {
	t.Parallel()
	const (
		page   = `{"type":"web_search_result_location","url":"https://a","title":null,"cited_text":"x"}`
		result = `{"type":"search_result_location","source":"https://b","title":"B","cited_text":"y","search_result_index":0}`
		paper  = `{"type":"page_location","document_index":0,"document_title":"D","cited_text":"z","start_page_number":1,"end_page_number":2,"file_id":null}`
	)
	body := `{"id":"msg_1","type":"message","content":[{"type":"text","text":"a\u00ef\ud83d\ude00","citations":[` + page + `]},` +
		`{"type":"text","text":"\n"},{"type":"text","text":"bc","citations":[` + result + `,{"type":"of_tomorrow"},` + paper + `]}],` +
		`"stop_reason":"end_turn","usage":` + startUsage + `}`
	const want = `"annotations":[{"type":"url_citation","url_citation":{"url":"https://a","content":"x","start_index":0,"end_index":3}},` +
		`{"type":"url_citation","url_citation":{"url":"https://b","title":"B","content":"y","start_index":4,"end_index":6}},` +
		`{"type":"file_citation","file_citation":{"index":0,"filename":"D","content":"z","start_index":4,"end_index":6,"start_page_number":1,"end_page_number":2}}]`
	c := chatOf(t, prompt)
	out, _, err := Dialect{}.Answer([]byte(body), c, target(c), &dialect.Scratch{})
	if err != nil || !json.Valid(out) || !strings.Contains(string(out), want) {
		t.Errorf("%v\n got %s\nwant %s", err, out, want)
	}
	whole := open("0", `{"type":"text","text":""}`)
	odd := whole + delta("0", `{"type":"citations_delta","citation":{"type":"of_tomorrow"}}`) + shut("0")
	if got := translate(t, start(startUsage)+odd, true, nil); strings.Contains(got.out, "annotations") {
		t.Error(got.out)
	}
	late := start(startUsage) + whole + delta("0", `{"type":"citations_delta","citation":`+page+`}`) + text("0", "ab") +
		last("end_turn", lastUsage) + stop
	if got := translate(t, late, true, nil); !strings.Contains(got.out, `"start_index":0,"end_index":2`) {
		t.Error(got.out)
	}
}

// Documents are cited from, and prompts are cached as a whole, where the client says so.
func TestDocumentsAndMarksReachTheUpstream(t *testing.T) {
	t.Parallel()
	for media, source := range map[string]string{
		"application/pdf": `{"type":"base64","media_type":"application/pdf","data":"aGk="}`,
		"text/plain":      `{"type":"text","media_type":"text/plain","data":"hi"}`,
	} {
		got, err := sent(t, chatOf(t, `{"model":"m","cache_control":{"type":"ephemeral","ttl":"1h"},"messages":[{"role":"user","content":[`+
			`{"type":"file","file":{"filename":"f","file_data":"data:`+media+`;base64,aGk="},"citations":{"enabled":true},"cache_control":{"type":"ephemeral"}}]}]}`))
		want := `{"type":"document","source":` + source + `,"title":"f","citations":{"enabled":true},"cache_control":{"type":"ephemeral"}}`
		if err != nil || !strings.Contains(got, want) || !strings.HasSuffix(got, `]}],"cache_control":{"type":"ephemeral"}}`) {
			t.Errorf("%v: %s\nwant %s", err, got, want)
		}
	}
}
