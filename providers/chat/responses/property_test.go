package responses

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// said is a message of an assistant as chat completions have it.
type said struct {
	Content          any              `json:"content"`
	ReasoningContent string           `json:"reasoning_content,omitempty"`
	ReasoningDetails []map[string]any `json:"reasoning_details,omitempty"`
	ToolCalls        []map[string]any `json:"tool_calls,omitempty"`
}

// words are some text with whatever JSON must escape, or may.
func words(r *rand.Rand) string {
	pieces := []string{"river", " \"", "\\", "\n", "é", "😀", "\x01", "</a>", "東京", " ", "'", "\t", "{}"}
	var b strings.Builder
	for range 1 + r.IntN(6) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return "w" + b.String()
}

func newSaid(r *rand.Rand) *said {
	m := &said{}
	if r.IntN(2) == 0 {
		m.ReasoningContent = words(r)
		if r.IntN(2) == 0 {
			m.ReasoningDetails = append(m.ReasoningDetails, map[string]any{"type": "reasoning.text",
				"text": m.ReasoningContent, "signature": words(r), "format": "anthropic-claude-v1", "index": 0.0})
		}
	}
	if r.IntN(3) == 0 {
		m.ReasoningDetails = append(m.ReasoningDetails, map[string]any{"type": "reasoning.encrypted", "data": words(r),
			"format": "google-gemini-v1", "id": words(r), "index": 1.0})
	}
	for i := range r.IntN(4) {
		m.ToolCalls = append(m.ToolCalls, map[string]any{"id": fmt.Sprint("call_", i, r.IntN(100)), "type": "function",
			"function": map[string]any{"name": fmt.Sprint("f", i), "arguments": words(r)}})
	}
	if len(m.ToolCalls) == 0 || r.IntN(2) == 0 {
		m.Content = words(r)
	}
	return m
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// chunks are the message as a stream of a chat completion, its texts in pieces.
func (m *said) chunks(t testing.TB, r *rand.Rand) string {
	var b strings.Builder
	pieces := func(head, text, tail string) {
		letters := []rune(text)
		for len(letters) > 0 {
			n := 1 + r.IntN(len(letters))
			b.WriteString(delta(head + marshal(t, string(letters[:n])) + tail))
			letters = letters[n:]
		}
	}
	pieces(`"reasoning_content":`, m.ReasoningContent, "")
	if len(m.ReasoningDetails) > 0 {
		b.WriteString(delta(`"reasoning_details":` + marshal(t, m.ReasoningDetails)))
	}
	if text, ok := m.Content.(string); ok {
		pieces(`"content":`, text, "")
	}
	for i, call := range m.ToolCalls {
		function := call["function"].(map[string]any)
		b.WriteString(delta(fmt.Sprintf(`"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,`+
			`"arguments":""}}]`, i, marshal(t, call["id"]), marshal(t, function["name"]))))
		pieces(fmt.Sprintf(`"tool_calls":[{"index":%d,"function":{"arguments":`, i), function["arguments"].(string), "}}]")
	}
	return b.String() + finish("stop") + usageChunk + done
}

// again is the message that a chat is given when a client hands the output back.
func again(t testing.TB, output string, calls []map[string]any) *said {
	t.Helper()
	items := strings.TrimSuffix(strings.TrimPrefix(output, "["), "]")
	for _, call := range calls {
		items += `,{"type":"function_call_output","call_id":` + marshal(t, call["id"]) + `,"output":"1"}`
	}
	f := formOf(t, sdk, `{"model":"m","input":[{"role":"user","content":"q"},`+items+`]}`)
	defer f.Release()
	body := f.Request()
	if len(f.Problems()) > 0 {
		t.Fatalf("%s is refused: %+v", output, f.Problems())
	}
	var chat struct {
		Messages []struct {
			Role string
			said
		}
	}
	if err := json.Unmarshal(body, &chat); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if len(chat.Messages) != 2+len(calls) || chat.Messages[1].Role != "assistant" {
		t.Fatalf("%s\nbecame\n%s", output, body)
	}
	return &chat.Messages[1].said
}

// A model's texts, calls and thoughts come back to it unchanged, through the items of a
// response and a client that hands them back, whole or streamed.
func TestMessagesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 2))
		m := newSaid(r)
		f := formOf(t, sdk, request)
		completion := `{"id":"x","choices":[{"index":0,"message":` + marshal(t, m) + `,"finish_reason":"stop"}]}`
		out, err := wholeAnswer(f, completion, chatOf(t, f))
		if err != nil {
			t.Fatalf("%v: %s", err, marshal(t, m))
		}
		var whole struct{ Output json.RawMessage }
		if err := json.Unmarshal(out, &whole); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		streamed := checkedOnce(t, m.chunks(t, r))
		for how, output := range map[string]string{"whole": string(whole.Output), "streamed": streamed} {
			got, want := again(t, output, m.ToolCalls), *m
			if m.Content == nil {
				want.Content = got.Content
				if got.Content != nil && got.Content != "" {
					t.Fatalf("seed %d, %s: a text of its own: %v", seed, how, got.Content)
				}
			}
			if !reflect.DeepEqual(*got, want) {
				t.Fatalf("seed %d, %s: came back as\n%s, was\n%s\nby\n%s", seed, how, marshal(t, got), marshal(t, want),
					output)
			}
		}
		f.Release()
	}
}

// checkedOnce is the output at the end of a stream.
func checkedOnce(t testing.TB, chunks string) string {
	t.Helper()
	stream := events(t, sdk, request, chunks)
	_, end, ok := strings.Cut(stream, "event: response.completed\ndata: ")
	var last struct {
		Response struct{ Output json.RawMessage }
	}
	if err := json.Unmarshal([]byte(end), &last); err != nil || !ok {
		t.Fatalf("%v\n%s", err, stream)
	}
	return string(last.Response.Output)
}

// asked is a random request: the chat body has every word of it once.
type asked struct {
	r       *rand.Rand
	marks   []string
	input   []string
	members []string
}

func (a *asked) mark() string {
	m := fmt.Sprintf("mark%dx", len(a.marks))
	a.marks = append(a.marks, m)
	return m
}

func (a *asked) item() string {
	part := func(kind string) string {
		switch a.r.IntN(4) {
		case 0:
			return fmt.Sprintf(`{"type":"input_image","image_url":"https://x/%s","detail":"low"}`, a.mark())
		case 1:
			return fmt.Sprintf(`{"type":"input_file","file_data":"data:,%s","filename":"%s"}`, a.mark(), a.mark())
		}
		return fmt.Sprintf(`{"type":%q,"text":"%s"}`, kind, a.mark())
	}
	switch a.r.IntN(6) {
	case 0:
		return fmt.Sprintf(`{"role":"user","content":"%s"}`, a.mark())
	case 1:
		return fmt.Sprintf(`{"type":"message","role":"developer","content":[{"type":"input_text","text":"%s"}]}`, a.mark())
	case 2:
		return fmt.Sprintf(`{"role":"assistant","content":[{"type":"output_text","text":"%s","annotations":[]},`+
			`{"type":"refusal","refusal":"%s"}]}`, a.mark(), a.mark())
	case 3:
		return fmt.Sprintf(`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"%s"}],`+
			`"encrypted_content":"%s"}`, a.mark(), a.mark())
	case 4:
		id := fmt.Sprint("c", len(a.marks))
		return fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":"%s","arguments":"{\"a\":\"%s\"}"},`+
			`{"type":"function_call_output","call_id":%q,"output":"%s"}`, id, a.mark(), a.mark(), id, a.mark())
	}
	return fmt.Sprintf(`{"role":"user","content":[%s,%s]}`, part("input_text"), part("text"))
}

func newAsked(seed uint64) *asked {
	a := &asked{r: rand.New(rand.NewPCG(seed, 3))}
	for range 1 + a.r.IntN(6) {
		a.input = append(a.input, a.item())
	}
	for _, member := range []func() string{
		func() string { return fmt.Sprintf(`"instructions":"%s"`, a.mark()) },
		func() string {
			return fmt.Sprintf(`"tools":[{"type":"function","name":"%s","description":"%s","parameters":{"type":`+
				`"object","properties":{"%s":{}}},"strict":true},{"type":"custom","name":"%s"}],"tool_choice":`+
				`{"type":"function","name":"%s"}`, a.mark(), a.mark(), a.mark(), a.mark(), a.mark())
		},
		func() string {
			return fmt.Sprintf(`"text":{"format":{"type":"json_schema","name":"%s","description":"%s","schema":{"x":"%s"},`+
				`"strict":true},"verbosity":"low"}`, a.mark(), a.mark(), a.mark())
		},
		func() string { return fmt.Sprintf(`"prompt_cache_key":"%s"`, a.mark()) },
		func() string { return `"unknown":{"what no chat body has":[1.0]}` },
		func() string { return fmt.Sprintf(`"fallbacks":[{"model":"%s"}]`, a.mark()) },
	} {
		if a.r.IntN(2) == 0 {
			a.members = append(a.members, member())
		}
	}
	return a
}

func (a *asked) body() string {
	return `{"model":"m","input":[` + strings.Join(a.input, ",") + `],` +
		strings.Join(append(a.members, `"stream":true}`), ",")
}

// The chat body has every word of its request, once.
func TestRequestsLoseNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1500) {
		a := newAsked(seed)
		f := formOf(t, sdk, a.body())
		chat := string(f.Request())
		if len(f.Problems()) > 0 {
			t.Fatalf("%s is refused: %+v", a.body(), f.Problems())
		}
		for _, mark := range a.marks {
			if strings.Count(chat, mark) != 1 || strings.Contains(chat, "unknown") {
				t.Fatalf("seed %d: %s is %d times in\n%s\nof\n%s", seed, mark, strings.Count(chat, mark), chat, a.body())
			}
		}
		chatOf(t, f)
		f.Release()
	}
}

// Members that no chat body can express are rejected by name, wherever they are.
func TestUnsupportedMembersAreNamedAnywhere(t *testing.T) {
	t.Parallel()
	inMessage := func(part string) string {
		return `{"role":"user","content":[{"type":"input_text","text":"x"},` + part + `]}`
	}
	for seed := range uint64(400) {
		a := newAsked(seed)
		at := a.r.IntN(len(a.input) + 1)
		place := fmt.Sprint("input.", at+strings.Count(strings.Join(a.input[:at], ","), `"function_call_output"`))
		item, member, want := "", "", place
		switch a.r.IntN(7) {
		case 0:
			item = `{"type":"item_reference","id":"msg_1"}`
		case 1:
			item, want = `{"type":"computer_call","id":"cu_1"}`, place+".type"
		case 2:
			item, want = inMessage(`{"type":"input_file","file_id":"file-1"}`), place+".content.1.file_id"
		case 3:
			item, want = inMessage(`{"type":"input_hologram"}`), place+".content.1.type"
		case 4:
			item, want = inMessage(`{"type":"input_image"}`), place+".content.1.image_url"
		case 5:
			item = `{"type":"function_call_output","call_id":"c","output":[{"type":"input_audio","data":"x"}]}`
			want = place + ".output"
		case 6:
			member, want = `"prompt":{"id":"pmpt_1"}`, "prompt"
		}
		if item != "" {
			a.input = append(a.input[:at:at], append([]string{item}, a.input[at:]...)...)
		} else {
			a.members = append(a.members, member)
		}
		f := formOf(t, sdk, a.body())
		f.Request()
		named := false
		problems := f.Problems()
		for _, p := range problems {
			named = named || p.Path == want && strings.HasPrefix(p.Text, want)
		}
		if !named {
			t.Fatalf("seed %d: %s does not name %s: %+v", seed, a.body(), want, problems)
		}
		f.Release()
	}
}
