package responses

import (
	"encoding/json"
	"strings"
	"testing"
)

// With compat.responses_events: spec answers are those of addendum 6.3 and 6.4, to the
// member.
func TestAnswersOfTheSpecification(t *testing.T) {
	t.Parallel()
	const id = testID
	same(t, "whole", answered(t, spec, request, completion(`"content":"a","reasoning_content":"hm",
		"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}}]`, "stop")),
		`{"id":"resp_`+id+`","object":"response","created_at":1700000000,"status":"completed","model":"m","output":[
		{"id":"rs_`+id+`000","type":"reasoning","summary":["hm"]},
		{"id":"fc_`+id+`001","status":"completed","call_id":"c1","name":"f","type":"function_call","arguments":"{}"},
		{"id":"msg_`+id+`002","status":"completed","type":"message","role":"assistant","content":[
		{"type":"output_text","text":"a","annotations":[]}]}],"usage":{"input_tokens":9,"input_tokens_details":
		{"cached_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":14}}`)

	stream := events(t, spec, request, strings.Replace(delta(`"role":"assistant","content":""`), `{"id"`, `{`+searched+`,"id"`, 1)+
		delta(`"reasoning_content":"hm"`)+delta(`"content":"a"`)+delta(`"content":"b"`)+
		delta(`"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]`)+finish("stop")+usageChunk+done)
	want := []string{
		`{"type":"response.created","sequence_number":0,"response":{"id":"resp_` + id + `","object":"response",
			"created_at":1700000000,"status":"in_progress","model":"m","output":[],"usage":null}}`,
		`{"type":"web_search_call","id":"ws_` + id + `000","status":"completed","results":[
			{"index":0,"url":"https://x","title":"T","snippet":"c"},{"index":1,"url":"https://y","title":"U","snippet":""}]}`,
		`{"type":"response.output_item.added","sequence_number":1,"output_index":0,
			"item":{"id":"ws_` + id + `000","status":"in_progress","type":"web_search_call"}}`,
		`{"type":"response.output_item.done","sequence_number":2,"output_index":0,
			"item":{"id":"ws_` + id + `000","status":"completed","type":"web_search_call"}}`,
		`{"type":"response.output_item.added","sequence_number":3,"output_index":1,
			"item":{"id":"rs_` + id + `001","type":"reasoning","summary":[]}}`,
		`{"type":"response.reasoning.delta","sequence_number":4,"delta":"hm"}`,
		`{"type":"response.output_item.done","sequence_number":5,"output_index":1,
			"item":{"id":"rs_` + id + `001","type":"reasoning","summary":["hm"]}}`,
		`{"type":"response.output_item.added","sequence_number":6,"output_index":2,
			"item":{"id":"msg_` + id + `002","status":"in_progress","type":"message","role":"assistant","content":[]}}`,
		`{"type":"response.content_part.added","sequence_number":7,"item_id":"msg_` + id + `002","content_index":0,
			"part":{"type":"output_text","text":"","annotations":[]}}`,
		`{"type":"response.output_text.delta","sequence_number":8,"delta":"a"}`,
		`{"type":"response.output_text.delta","sequence_number":9,"delta":"b"}`,
		`{"type":"response.content_part.done","sequence_number":10,"part":{"type":"output_text","text":"ab","annotations":[]}}`,
		`{"type":"response.output_item.done","sequence_number":11,"output_index":2,"item":{"id":"msg_` + id + `002",
			"status":"completed","type":"message","role":"assistant","content":[{"type":"output_text","text":"ab","annotations":[]}]}}`,
		`{"type":"response.output_item.added","sequence_number":12,"output_index":3,"item":{"id":"fc_` + id + `003",
			"status":"in_progress","call_id":"c1","name":"f","type":"function_call","arguments":""}}`,
		`{"type":"response.function_call_arguments.delta","sequence_number":13,"delta":"{}"}`,
		`{"type":"response.output_item.done","sequence_number":14,"output_index":3,"item":{"id":"fc_` + id + `003",
			"status":"completed","call_id":"c1","name":"f","type":"function_call","arguments":"{}"}}`,
		"response.completed", "[DONE]",
	}
	frames := strings.Split(strings.TrimSuffix(stream, "\n\n"), "\n\n")
	if len(frames) != len(want) {
		t.Fatalf("%d frames, expected %d:\n%s", len(frames), len(want), stream)
	}
	for i, frame := range frames {
		name, data, named := strings.Cut(frame, "\ndata: ")
		switch {
		case !named:
			if frame != "data: "+want[i] {
				t.Error(frame)
			}
			continue
		case i == 1 && name != "event: response.web_search.done":
			t.Error(frame)
		case i == len(frames)-2:
			var e struct {
				Type     string
				Number   int `json:"sequence_number"`
				Response struct {
					Status string
					Output []any
					Usage  struct {
						Total int64 `json:"total_tokens"`
					}
				}
			}
			if err := json.Unmarshal([]byte(data), &e); err != nil || e.Type != want[i] || e.Number != 15 ||
				e.Response.Status != "completed" || len(e.Response.Output) != 4 || e.Response.Usage.Total != 14 {
				t.Errorf("%v %s", err, frame)
			}
			continue
		}
		same(t, name, data, want[i])
	}

	stream = events(t, spec, request, delta(`"content":"a"`)+`data: {"error":{"message":"no","code":"upstream_error"}}`+"\n\n")
	if !strings.Contains(stream, `"status":"failed","error":{"code":"server_error","message":"no"}`) ||
		!strings.HasSuffix(stream, "\n\ndata: [DONE]\n\n") || strings.Contains(stream, "event: error") {
		t.Error(stream)
	}
}
