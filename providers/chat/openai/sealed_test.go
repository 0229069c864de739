package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/providers/tee/seal"
)

// sealedText looks like a text of so many bytes that is sealed to a client.
func sealedText(bytes int) string { return strings.Repeat("0a", seal.Overhead+bytes) }

const marker = "FAREBOX-PLAIN"

// sealedChat is one whose answer must be sealed.
func sealedChat(t testing.TB) *dialect.Chat {
	c := chatOf(t, prompt)
	c.Verbatim, c.Sealed = true, true
	return c
}

// guarded is the client's side of a sealed stream.
func guarded(t testing.TB, input string, complete bool, cuts ...int) (out string, s *stream) {
	t.Helper()
	c := sealedChat(t)
	s = Dialect{}.Stream(c, targetOf(c.Model, "theirs", config.Quirks{})).(*stream)
	return run(s, input, complete, cuts...), s
}

// choice is an event with these members in its one choice.
func choice(members string) string {
	return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"theirs",` +
		`"choices":[{"index":0,` + members + "}]}\n\n"
}

func sealedDelta(members string) string {
	return choice(`"delta":{` + members + `},"logprobs":null,"finish_reason":null`)
}

// answers of the kinds of enclaves that there are.
func sealedAnswer() string {
	return sealedDelta(`"role":"assistant","content":""`) + sealedDelta(`"reasoning_content":"`+sealedText(9)+`"`) +
		sealedDelta(`"reasoning":"`+sealedText(7)+`","reasoning_content":"`+sealedText(7)+`"`) +
		sealedDelta(`"content":"`+sealedText(5)+`"`) + sealedDelta(`"content":"`+strings.ToUpper(sealedText(0))+`"`) +
		sealedDelta(`"content":"`+sealedText(11)+`","tool_calls":[],"function_call":null,"refusal":null`) +
		": keep-alive\n\n" + "event: message\nid: 7\nretry: 10\n" + sealedDelta(`"content":"`+sealedText(3)+`"`) +
		choice(`"delta":{},"finish_reason":"stop","stop_reason":"\n\nUser:","token_ids":null`) +
		`data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}` +
		"\n\n" + done
}

// "The enclave's signature does not fit the answer that I got": not a byte is changed, and
// the usage is read all the same.
func TestSealedStreamsReachClientsAsTheyCame(t *testing.T) {
	t.Parallel()
	for _, input := range []string{sealedAnswer(), strings.ReplaceAll(sealedAnswer(), "\n", "\r\n"),
		strings.TrimSuffix(sealedAnswer(), "\n\n"), strings.TrimSuffix(sealedAnswer(), done)} {
		out, s := guarded(t, input, true)
		if out != input || s.Unsealed() || s.Failed() || !s.Done() || string(s.ID()) != "chatcmpl-1" {
			t.Errorf("%q\nbecame\n%q", input, out)
		}
		if u := s.Usage(); u.Prompt != 11 || u.Completion != 7 || u.Estimated {
			t.Errorf("%+v", u)
		}
		s.Release()
	}
}

// Ten thousand ways in which a network may cut a stream.
func TestTenThousandCutsOfASealedStream(t *testing.T) {
	t.Parallel()
	input := sealedAnswer()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 10_000 {
		if i == 5_000 {
			input = strings.ReplaceAll(input, "\n", "\r\n")
		}
		cuts := make([]int, r.IntN(40))
		for k := range cuts {
			cuts[k] = r.IntN(len(input))
		}
		slices.Sort(cuts)
		out, s := guarded(t, input, true, cuts...)
		if out != input || s.Unsealed() {
			t.Fatalf("cut at %v:\n%q", cuts, out)
		}
		s.Release()
	}
}

// The client asked not to see the usage, its model has another name here, and the server
// forgot the end: all the same to an answer that is signed for.
func TestVerbatimStreamsAreNotRewritten(t *testing.T) {
	t.Parallel()
	input := roleChunk + chunk("the <think>x</think>") + chunk(" small") + finishChunk + usageChunk
	c := chatOf(t, prompt)
	hidden := false
	c.Verbatim, c.IncludeUsage, c.DropThinking = true, &hidden, true
	target := targetOf(modelOf("ours"), "m", config.Quirks{})
	s := Dialect{}.Stream(c, target)
	defer s.Release()
	if out := run(s, input, true); out != input || !s.Done() {
		t.Errorf("%q", out)
	}
	if u := s.Usage(); u.Prompt != 11 || u.Completion != 7 {
		t.Errorf("%+v", u)
	}
	body := []byte(answer("<think>x</think>y", ""))
	var scratch dialect.Scratch
	out, u, err := Dialect{}.Answer(body, c, target, &scratch)
	if err != nil || !bytes.Equal(out, body) || u.Completion == 0 {
		t.Errorf("%s, %+v, %v", out, u, err)
	}
	m := NewBodyMeter(c, target)
	defer m.Release()
	if out := run(m, string(body), true, 7, 100); out != string(body) {
		t.Errorf("a large one: %s", out)
	}
}

// plainEvents hold an unsealed text, each in another way.
func plainEvents() map[string]string {
	const text = `"` + marker + ` is in the clear"`
	long := `"` + strings.Repeat(marker, 30) + `"`
	events := map[string]string{
		"content":          sealedDelta(`"content":` + text),
		"one letter":       sealedDelta(`"content":"F"`),
		"odd digits":       sealedDelta(`"content":"` + sealedText(0) + `0"`),
		"few digits":       sealedDelta(`"content":"` + sealedText(0)[2:] + `"`),
		"no digit":         sealedDelta(`"content":"` + sealedText(0) + `0g"`),
		"escaped digits":   sealedDelta(`"content":"` + sealedText(0) + `\u0061a"`),
		"reasoning":        sealedDelta(`"reasoning":` + text),
		"reasoning_text":   sealedDelta(`"reasoning_content":` + text),
		"refusal":          sealedDelta(`"content":"","refusal":` + text),
		"text":             sealedDelta(`"text":` + text),
		"text of a choice": choice(`"text":` + text),
		"message":          choice(`"message":{"role":"assistant","content":` + text + `}`),
		"tool call":        sealedDelta(`"tool_calls":[{"index":0,"function":{"name":"f","arguments":` + text + `}}]`),
		"a call's id":      sealedDelta(`"tool_calls":[{"index":0,"id":"FAREBOX-PLAIN"}]`),
		"sealed call":      sealedDelta(`"tool_calls":[{"index":0,"function":{"arguments":"` + sealedText(3) + `"}}]`),
		"function call":    sealedDelta(`"function_call":{"name":"f"}`),
		"parts":            sealedDelta(`"content":[{"type":"text","text":` + text + `}]`),
		"a list of texts":  sealedDelta(`"content":[` + text + `]`),
		"a list of words":  sealedDelta(`"role":["FAREBOX-PLAIN"]`),
		"details":          sealedDelta(`"reasoning_details":[{"type":"reasoning.text","text":` + text + `}]`),
		"unknown member":   sealedDelta(`"words":` + text),
		"transcript":       sealedDelta(`"audio":{"transcript":` + text + `}`),
		"probabilities": choice(`"delta":{"content":"` + sealedText(2) +
			`"},"logprobs":{"content":[{"token":"FAREBOX-PLAIN"}]}`),
		"bytes of tokens":    choice(`"delta":{},"logprobs":{"content":[{"bytes":[70,65]}]}`),
		"token numbers":      choice(`"delta":{},"token_ids":[70,65,82]`),
		"twice":              sealedDelta(`"content":"` + sealedText(2) + `","content":"` + sealedText(2) + `"`),
		"twice, one plain":   sealedDelta(`"content":` + text + `,"content":"` + sealedText(2) + `"`),
		"two deltas":         choice(`"delta":{"content":"` + sealedText(2) + `"},"delta":{}`),
		"escaped name":       sealedDelta(`"c\u006fntent":"` + sealedText(2) + `"`),
		"another case":       sealedDelta(`"Content":` + text),
		"a number":           sealedDelta(`"content":42`),
		"a number below":     sealedDelta(`"content": -4.2e1`),
		"a number, capital":  sealedDelta(`"Content":42`),
		"a truth":            sealedDelta(`"content":true`),
		"a numbered thought": sealedDelta(`"reasoning":42`),
		"a choice's number":  choice(`"text":42`),
		"a number beside":    "data: {\"choices\":[],\"content\":42}\n\n",
		"a falsehood beside": "data: {\"choices\":[],\"output_text\":false}\n\n",
		"a word as reason":   choice(`"delta":{},"finish_reason":` + text),
		"second choice": `data: {"choices":[{"index":0,"delta":{"content":"` + sealedText(2) +
			`"}},{"index":1,"delta":{"content":` + text + "}}]}\n\n",
		"two lists of choices":  `data: {"choices":[],"choices":[{"delta":{"content":"` + sealedText(2) + "\"}}]}\n\n",
		"choices in capitals":   `data: {"Choices":[{"delta":{"content":` + text + "}}]}\n\n",
		"choices with a long s": `data: {"choice` + "\u017f" + `":[{"delta":{"content":` + text + "}}]}\n\n",
		"choices, escaped":      `data: {"\u0063hoices":[{"delta":{"content":` + text + "}}]}\n\n",
		"beside the choices":    `data: {"choices":[],"content":"` + marker + "\"}\n\n",
		"a message beside":      `data: {"choices":[],"message":{"content":` + text + "}}\n\n",
		"a long text beside":    `data: {"choices":[],"obfuscation":` + long + "}\n\n",
		"an object beside":      `data: {"choices":[],"x_more":{"words":` + text + "}}\n\n",
		"words in the usage":    `data: {"choices":[],"usage":{"prompt_tokens":1,"note":` + text + "}}\n\n",
		"no JSON":               "data: " + marker + "\n\n",
		"a text":                "data: " + text + "\n\n",
		"a list":                "data: [" + text + "]\n\n",
		"two values":            `data: {"choices":[]} {"choices":[{"delta":{"content":` + text + "}}]}\n\n",
		"cut off":               `data: {"choices":[{"delta":{"content":` + text + "\n\n",
		"deep":                  `data: {"choices":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}\n\n",
		"two lines":             "data: {\"choices\":\ndata: [{\"delta\":{\"content\":" + text + "}}]}\n\n",
		"two lines, sealed": strings.Replace(sealedDelta(`"content":"`+sealedText(2)+`"`), `,"choices"`,
			",\ndata: \"choices\"", 1),
		"a line with a space": " data: {\"choices\":[{\"delta\":{\"content\":" + text + "}}]}\n\n",
		"a line in capitals":  "DATA: {\"choices\":[{\"delta\":{\"content\":" + text + "}}]}\n\n",
		"behind a line":       "data: {\"choices\":[]}\n data: {\"choices\":[{\"delta\":{\"content\":" + text + "}}]}\n\n",
		"a comment":           ": {\"choices\":[{\"delta\":{\"content\":" + text + "}}]}\n\n",
		"a long comment":      ": " + strings.Repeat(marker+" ", 30) + "\n\n",
		"an event's name":     "event: {\"content\":" + text + "}\ndata: {\"choices\":[]}\n\n",
		"a bare object":       "{\"choices\":[{\"delta\":{\"content\":" + text + "}}]}\n\n",
		"before the end":      "data: [DONE]\n data: {\"choices\":[{\"delta\":{\"content\":" + text + "}}]}\n\n",
		"a mark":              "\xef\xbb\xbfdata: {\"choices\":[{\"delta\":{\"content\":" + text + "}}]}\n\n",
		"too large":           "data: {\"choices\":[],\"x\":" + strings.Repeat(" ", maxSealedEvent),
	}
	return events
}

// contents are those of them whose content is in the clear. Some parameter of a client's
// may have caused any other, which must not take the enclave from other clients.
var contents = map[string]bool{"content": true, "one letter": true, "odd digits": true, "few digits": true,
	"no digit": true, "escaped digits": true, "message": true, "a number": true, "a number below": true, "a truth": true,
	"twice, one plain": true, "second choice": true}

// "Half of the answer came in the clear." Nothing of an event that is not sealed is passed
// on, and nothing behind it.
func TestNoPlainEventReachesTheClient(t *testing.T) {
	t.Parallel()
	first := sealedDelta(`"role":"assistant","content":""`) + sealedDelta(`"content":"`+sealedText(5)+`"`)
	for name, event := range plainEvents() {
		for _, before := range []string{first, first + sealedDelta(`"content":"`+sealedText(5)+`"`), ""} {
			input := before + event + sealedAnswer()
			out, s := guarded(t, input, true)
			if name == "cut off" && !s.Unsealed() {
				t.Error("cut off: it is taken for sealed")
			}
			if out != before || !s.Unsealed() {
				t.Errorf("%s: %q, betrayed %v", name, out, s.Unsealed())
			}
			if u := s.Usage(); u.Completion > int64(len(before))/2 || before != "" && u.Completion == 0 || !u.Estimated {
				t.Errorf("%s: %+v is charged", name, u)
			}
			s.Release()
			r := rand.New(rand.NewPCG(3, uint64(len(event))))
			for range 20 {
				a, b := r.IntN(len(input)), r.IntN(len(input))
				if out, s := guarded(t, input, true, min(a, b), max(a, b)); out != before || !s.Unsealed() {
					t.Errorf("%s, cut at %d and %d: %q", name, a, b, out)
				}
			}
		}
		if _, s := guarded(t, first+event, true); s.Betrayed() != contents[name] {
			t.Errorf("%s: betrayed %v", name, s.Betrayed())
		}
		out, s := guarded(t, first+strings.TrimRight(event, "\n"), true)
		if out != first && !strings.HasPrefix(name, "too") || strings.Contains(out, marker) {
			t.Errorf("%s, without its empty line: %q, betrayed %v", name, out, s.Unsealed())
		}
	}
}

// An upstream's error may quote the opened text.
func TestFailuresInSealedStreamsAreOurs(t *testing.T) {
	t.Parallel()
	first := sealedDelta(`"content":"` + sealedText(5) + `"`)
	for _, event := range []string{`data: {"error":{"message":"` + marker + `"}}` + "\n\n",
		`data: {"error":"` + marker + `","choices":[]}` + "\n\n", "event: error\ndata: {\"x\":\"" + marker + "\"}\n\n",
		choice(`"delta":{},"finish_reason":"error"`)} {
		out, s := guarded(t, first+event, true)
		if !s.Failed() || s.Unsealed() || strings.Contains(out, marker) ||
			!strings.HasPrefix(out, first+`data: {"error":{`) || !strings.HasSuffix(out, done) {
			t.Errorf("%q became %q", event, out)
		}
	}
}

// "I was charged for the number of pieces": the charge counts the bytes in them.
func TestSealedTextsAreChargedByTheirBytes(t *testing.T) {
	t.Parallel()
	for _, piece := range []int{1, 4, 40, 400} {
		input := sealedDelta(`"role":"assistant","content":""`)
		for range 400 / piece {
			input += sealedDelta(`"content":"` + sealedText(piece) + `"`)
		}
		input += sealedDelta(`"reasoning_content":"`+sealedText(40)+`"`) + choice(`"delta":{},"finish_reason":"stop"`) + done
		_, s := guarded(t, input, true)
		if u := s.Usage(); u.Completion != 110 || u.Reasoning != 10 || !u.Estimated || u.Seen {
			t.Errorf("in pieces of %d: %+v", piece, u)
		}
		s.Release()
	}
}

// A report below half of the sent bytes is not believed, a larger one is bounded by the cap.
func TestUsageOfSealedStreamsIsBelievedWithinReason(t *testing.T) {
	t.Parallel()
	for reported, want := range map[int]int64{1000: 1000, 800: 800, 700: 1500, 1: 1500, 0: 1500, 100_000: 2000} {
		input := sealedDelta(`"content":"`+sealedText(6000)+`"`) + choice(`"delta":{},"finish_reason":"stop"`) +
			fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":%d}}`, reported) + "\n\n" + done
		c := sealedChat(t)
		c.Cap = 2000
		s := Dialect{}.Stream(c, targetOf(c.Model, "m", config.Quirks{}))
		run(s, input, true)
		if u := s.Usage(); u.Completion != want {
			t.Errorf("%d are reported: %+v", reported, u)
		}
		s.Release()
	}
}

// FuzzGuard reads the passed events with readers that are less exact than the guard: one
// that takes the first of two members, one that takes the last and minds no case, and one
// that takes any line for data.
func FuzzGuard(f *testing.F) {
	f.Add([]byte(sealedAnswer()), uint16(37))
	f.Add([]byte(strings.ReplaceAll(sealedAnswer(), "\n", "\r\n")), uint16(1))
	for _, event := range plainEvents() {
		f.Add([]byte(sealedDelta(`"content":"`+sealedText(1)+`"`)+event[:min(len(event), 4096)]), uint16(11))
	}
	f.Fuzz(func(t *testing.T, input []byte, piece uint16) {
		out, s := guarded(t, string(input), true)
		failed, betrayed := s.Failed(), s.Unsealed()
		usage := s.Usage()
		s.Release()
		var cuts []int
		for at := int(piece)%97 + 1; at < len(input); at += int(piece)%97 + 1 {
			cuts = append(cuts, at)
		}
		again, p := guarded(t, string(input), true, cuts...)
		if again != out || p.Unsealed() != betrayed || p.Failed() != failed || p.Usage() != usage {
			t.Fatalf("%q\nin pieces %q\nat once %q", input, again, out)
		}
		p.Release()
		if !failed && !strings.HasPrefix(string(input), out) {
			t.Fatalf("%q became %q", input, out)
		}
		if usage.Completion < 0 || usage.Completion > int64(len(input)) {
			t.Fatalf("impossible usage %+v", usage)
		}
		for _, line := range strings.FieldsFunc(out, func(r rune) bool { return r == '\n' || r == '\r' }) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "\xef\xbb\xbf")
			if len(line) >= 5 && strings.EqualFold(line[:5], "data:") {
				line = line[5:]
			}
			lookAt(t, strings.TrimSpace(line))
		}
	})
}

// lookAt fails where some reader finds a text in an event that is not sealed.
func lookAt(t *testing.T, data string) {
	t.Helper()
	open := func(how, text string) {
		if text != "" && !seal.Sealed([]byte(text)) {
			t.Fatalf("%s reads %q of %q", how, text, data)
		}
	}
	type texts struct {
		Content          any
		ReasoningContent any `json:"reasoning_content"`
		Reasoning        any
		Refusal, Text    any
		ToolCalls        []struct{ Function struct{ Name, Arguments any } } `json:"tool_calls"`
	}
	var last struct {
		Choices []struct {
			Delta, Message texts
			Text           any
		}
	}
	see := func(v any) {
		switch text := v.(type) {
		case nil:
		case string:
			open("the last", text)
		case float64, bool:
			t.Fatalf("the last reads %v of %q", text, data)
		default:
			raw, _ := json.Marshal(v)
			for _, text := range textsIn(gjson.ParseBytes(raw)) {
				open("the last, below,", text)
			}
		}
	}
	if json.Unmarshal([]byte(data), &last) == nil {
		for _, c := range last.Choices {
			see(c.Text)
			for _, m := range []texts{c.Delta, c.Message} {
				for _, v := range []any{m.Content, m.ReasoningContent, m.Reasoning, m.Refusal, m.Text} {
					see(v)
				}
				for _, call := range m.ToolCalls {
					see(call.Function.Name)
					see(call.Function.Arguments)
				}
			}
		}
	}
	for _, path := range []string{"choices.#.delta.content", "choices.#.delta.reasoning_content",
		"choices.#.delta.reasoning", "choices.#.delta.refusal",
		"choices.#.delta.text", "choices.#.text", "choices.#.message.content",
		"choices.#.delta.tool_calls.#.function.arguments"} {
		for _, text := range textsIn(gjson.Get(data, path)) {
			open("the first", text)
		}
	}
}

// textsIn are all texts in a value but the kinds of parts.
func textsIn(v gjson.Result) (list []string) {
	if v.Type == gjson.String {
		return []string{v.Str}
	}
	if !v.IsObject() && !v.IsArray() {
		return nil
	}
	v.ForEach(func(name, value gjson.Result) bool {
		if name.Str != "type" && name.Str != "id" && name.Str != "role" {
			list = append(list, textsIn(value)...)
		}
		return true
	})
	return list
}
