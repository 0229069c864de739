package gemini_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/genai"
	"pgregory.net/rapid"

	"farebox/providers/chat/dialect"
	"farebox/providers/chat/gemini"
)

// answerOf draws a model's parts of one turn, in the model's order.
func answerOf(r *rapid.T) []*genai.Part {
	text := rapid.StringMatching(`[a-zü😀"\\\n<>]{0,12}x`)
	signature := func(name string) []byte {
		if rapid.Bool().Draw(r, name) {
			return []byte("simulated-" + rapid.StringMatching(`[a-z]{1,9}`).Draw(r, "seal"))
		}
		return nil
	}
	var list []*genai.Part
	if rapid.Bool().Draw(r, "thinks") {
		list = append(list, &genai.Part{Text: text.Draw(r, "thought"), Thought: true})
	}
	if rapid.Bool().Draw(r, "speaks") {
		list = append(list, &genai.Part{Text: text.Draw(r, "text"), ThoughtSignature: signature("signed text")})
	}
	for i := range rapid.IntRange(0, 3).Draw(r, "calls") {
		call := &genai.FunctionCall{Name: rapid.SampledFrom([]string{"look", "go.there"}).Draw(r, "name"),
			Args: map[string]any{"a": text.Draw(r, "argument"), "b": []any{1.5, nil, true}}}
		if rapid.Bool().Draw(r, "id") {
			call.ID = fmt.Sprintf("q%d", i)
		}
		p := &genai.Part{FunctionCall: call}
		if i == 0 {
			p.ThoughtSignature = signature("signed call")
		}
		list = append(list, p)
	}
	return list
}

// message is an assistant's message as a client keeps it of a stream: it joins texts and
// collects lists, and does not look at the items.
func message(t testing.TB, out string) string {
	t.Helper()
	m := map[string]any{"role": "assistant", "content": nil}
	for _, e := range strings.Split(out, "\n\n") {
		var v struct {
			Choices []struct{ Delta map[string]any }
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(e, "data: ")), &v) != nil || len(v.Choices) == 0 {
			continue
		}
		for key, value := range v.Choices[0].Delta {
			switch value := value.(type) {
			case string:
				before, _ := m[key].(string)
				if m[key] = before + value; key == "role" {
					m[key] = value
				}
			case []any:
				before, _ := m[key].([]any)
				m[key] = append(before, value...)
			}
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A model's parts of one turn come back to it unchanged in the next: texts, thoughts,
// calls with their ids, arguments and signatures. A client may have read it whole or
// streamed, in pieces of any size.
func TestAModelsPartsComeBackUnchanged(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		said := answerOf(r)
		if len(said) == 0 {
			r.Skip("nothing was said")
		}
		var kept string
		if rapid.Bool().Draw(r, "streamed") {
			input := ""
			for _, p := range said {
				raw, _ := json.Marshal(p)
				input += parts(string(raw))
			}
			input += last("STOP", "")
			var cuts []int
			for at := 0; at < len(input); at += rapid.IntRange(1, 400).Draw(r, "piece") {
				cuts = append(cuts, at)
			}
			kept = message(t, translated(t, input, cuts...))
		} else {
			raw, _ := json.Marshal(genai.GenerateContentResponse{ResponseID: "r1",
				Candidates: []*genai.Candidate{{Content: &genai.Content{Role: "model", Parts: said}, FinishReason: "STOP"}}})
			c := chatOf(t, prompt)
			var s dialect.Scratch
			out, _, err := gemini.Dialect{}.Answer(raw, c, targetOf(c, newer), &s)
			if err != nil {
				r.Fatal(err)
			}
			var v struct {
				Choices []struct{ Message json.RawMessage }
			}
			if err := json.Unmarshal(out, &v); err != nil {
				r.Fatalf("%v: %s", err, out)
			}
			kept = string(v.Choices[0].Message)
		}
		var calls struct {
			List []struct{ ID string } `json:"tool_calls"`
		}
		if err := json.Unmarshal([]byte(kept), &calls); err != nil {
			r.Fatal(err)
		}
		messages := `{"role":"user","content":"hi"},` + kept
		for i := len(calls.List) - 1; i >= 0; i-- {
			messages += fmt.Sprintf(`,{"role":"tool","tool_call_id":%q,"content":"%d"}`, calls.List[i].ID, i)
		}
		got, err := sent(t, chatOf(t, `{"model":"m","messages":[`+messages+`,{"role":"user","content":"x"}]}`), newer)
		if err != nil {
			r.Fatalf("%v: %s", err, messages)
		}
		parse(t, []byte(got))
		var back struct{ Contents []*genai.Content }
		if err := json.Unmarshal([]byte(got), &back); err != nil {
			r.Fatal(err)
		}
		compare(r, said, back.Contents, kept)
	})
}

func compare(r *rapid.T, said []*genai.Part, contents []*genai.Content, kept string) {
	// Thoughts go back with some signature of this dialect only: an unsigned one may be
	// another model's.
	signed := false
	for _, p := range said {
		signed = signed || len(p.ThoughtSignature) > 0
	}
	var want []genai.Part
	calls := 0
	for _, p := range said {
		w := *p
		if p.Thought && !signed && !strings.Contains(kept, `"reasoning_details"`) {
			continue
		}
		if p.FunctionCall != nil {
			call := *p.FunctionCall
			if call.ID == "" {
				call.ID = fmt.Sprintf("call_r1_%d", calls)
			}
			calls++
			w.FunctionCall = &call
		}
		want = append(want, w)
	}
	if len(want) == 0 {
		return
	}
	var got []genai.Part
	for _, p := range contents[1].Parts {
		got = append(got, *p)
	}
	if !reflect.DeepEqual(got, want) {
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		r.Fatalf("came back\n%s\nwas\n%s\nkept %s", a, b, kept)
	}
	if calls == 0 {
		return
	}
	for i, p := range contents[2].Parts {
		if f := p.FunctionResponse; f.Name != want[len(want)-calls+i].FunctionCall.Name ||
			f.ID != want[len(want)-calls+i].FunctionCall.ID || f.Response["output"] != fmt.Sprint(i) {
			r.Fatalf("result %d is %+v", i, f)
		}
	}
}

// Signatures are bytes of any value there and text here.
func TestSignaturesAreCopiedAsTheyStand(t *testing.T) {
	seal := base64.StdEncoding.EncodeToString([]byte{0xff, 0xfe, 0, 0x3e, 0x3f})
	kept := message(t, translated(t, parts(`{"functionCall": {"name": "go"},"thoughtSignature": "`+seal+`"}`)+last("STOP", "")))
	got, err := sent(t, chatOf(t, `{"model":"m","messages":[{"role":"user","content":"x"},`+kept+
		`,{"role":"tool","tool_call_id":"call_r1_0","content":"y"}]}`), newer)
	if err != nil || !strings.Contains(got, `"thoughtSignature":"`+seal+`"`) {
		t.Errorf("%v %s", err, got)
	}
}
