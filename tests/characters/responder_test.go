package characters

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"
)

// responder is an upstream that speaks /responses itself, and echoes its instructions, as
// real ones do.
type responder struct {
	url  string
	last atomic.Value // of string: the last body
}

func startResponder(t *testing.T) *responder {
	t.Helper()
	r := &responder{}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.url = s.URL + "/v1"
	return r
}

func (r *responder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	raw, _ := io.ReadAll(req.Body)
	r.last.Store(string(raw))
	if req.URL.Path == "/v1/chat/completions" {
		quote(w, raw)
		return
	}
	var asked struct {
		Instructions string
		Stream       bool
	}
	if req.URL.Path != "/v1/responses" || json.Unmarshal(raw, &asked) != nil {
		w.WriteHeader(404)
		return
	}
	told, _ := json.Marshal(asked.Instructions)
	response := func(status, output, usage string) string {
		return fmt.Sprintf(`{"id":"resp_1","object":"response","created_at":1,"status":%q,"model":"native",`+
			`"instructions":%s,"output":[%s],"usage":%s}`, status, told, output, usage)
	}
	const message = `{"type":"message","id":"msg_1","status":"completed","role":"assistant",` +
		`"content":[{"type":"output_text","text":"Aye.","annotations":[]}]}`
	const usage = `{"input_tokens":50,"output_tokens":7,"total_tokens":57,"input_tokens_details":{"cached_tokens":0},` +
		`"output_tokens_details":{"reasoning_tokens":0}}`
	if !asked.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, response("completed", message, usage))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	n := 0
	say := func(kind, rest string) {
		_, _ = fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,%s}\n\n", kind, kind, n, rest)
		n++
	}
	say("response.created", `"response":`+response("in_progress", "", "null"))
	say("response.in_progress", `"response":`+response("in_progress", "", "null"))
	say("response.output_text.delta", `"item_id":"msg_1","output_index":0,"content_index":0,"delta":"Aye."`)
	say("response.completed", `"response":`+response("completed", message, usage))
}

// quote refuses a chat with words that repeat all of it, in one of the field's forms, or
// breaks its stream off with them.
func quote(w http.ResponseWriter, raw []byte) {
	text := string(raw)
	if strings.Contains(text, "first message") {
		text = gjson.GetBytes(raw, "messages.0.content").Str
	}
	words, _ := json.Marshal("Invalid input: " + text)
	switch {
	case strings.Contains(text, "in an event"):
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":`+
			`{"content":"Aye"}}]}`+"\n\n")
		_, _ = fmt.Fprintf(w, "data: {\"error\":{\"message\":%s,\"code\":400}}\n\n", words)
	case strings.Contains(text, "in a detail"):
		w.WriteHeader(422)
		_, _ = fmt.Fprintf(w, `{"detail":[{"loc":["body","messages"],"msg":%s,"input":%s}]}`, words, raw)
	default:
		w.WriteHeader(400)
		_, _ = fmt.Fprintf(w, `{"error":{"message":%s,"type":"invalid_request_error"}}`, words)
	}
}
