package anthropic_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// object is JSON as Go reads it.
type object = map[string]any

func parse(t testing.TB, text string) (o object) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	if d.UseNumber(); d.Decode(&o) != nil {
		t.Fatalf("this is not an object: %s", text)
	}
	return o
}

func write(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	if e.SetEscapeHTML(false); e.Encode(v) != nil {
		panic(v)
	}
	return strings.TrimSpace(b.String())
}

// talker makes random conversations.
type talker struct {
	*rand.Rand
	marks, calls int
}

func newTalker(seed uint64) *talker { return &talker{Rand: rand.New(rand.NewPCG(seed, 5))} }

func (r *talker) one(in int) bool { return r.IntN(in) == 0 }

func (r *talker) words() string {
	return []string{"Go on.", "Wie geht es? \u00e9 😀", `a "quote"` + "\nand\tmore \\", "<b>&</b>", "0", "x\u2028y"}[r.IntN(6)]
}

// mark puts a mark for caching on a part, of which there may be four.
func (r *talker) mark(o object) object {
	if r.one(6) && r.marks < 4 {
		r.marks++
		o["cache_control"] = object{"type": "ephemeral"}
	}
	return o
}

func (r *talker) text() object { return r.mark(object{"type": "text", "text": r.words()}) }

func (r *talker) schema() object {
	return object{"type": "object", "properties": object{"a": object{"type": "string", "description": r.words()}}}
}

// list is between one and most things.
func list(r *talker, most int, one func() object) (all []any) {
	for range 1 + r.IntN(most) {
		all = append(all, one())
	}
	return all
}

// body is a random body of Messages, as far as chat completions have words for it.
func (r *talker) body() object {
	b := object{"model": "m", "max_tokens": 100 + r.IntN(900)}
	if r.one(3) {
		b["system"] = list(r, 2, r.text)
	}
	var turns []any
	for range r.IntN(4) {
		turns = append(turns, object{"role": "user", "content": list(r, 3, r.said)})
		answer, results := r.answered()
		if turns = append(turns, object{"role": "assistant", "content": answer}); len(results) > 0 {
			turns = append(turns, object{"role": "user", "content": results}, object{"role": "assistant", "content": []any{r.text()}})
		}
	}
	b["messages"] = append(turns, object{"role": "user", "content": list(r, 3, r.said)})
	if r.one(3) {
		b["stop_sequences"] = []any{"END", r.words()}
	}
	if r.one(3) {
		b["temperature"] = json.Number("0.5")
	}
	if r.one(3) {
		b["stream"] = true
	}
	if r.one(2) {
		b["tools"] = list(r, 2, func() object {
			t := r.mark(object{"name": fmt.Sprint("f", r.IntN(1000)), "input_schema": r.schema()})
			if r.one(2) {
				t["description"] = r.words()
			}
			if r.one(3) {
				t["strict"] = true
			}
			return t
		})
		if choice := r.choice(); choice != nil {
			b["tool_choice"] = choice
		}
	}
	if r.one(4) {
		b["output_config"] = object{"format": object{"type": "json_schema", "schema": r.schema()}}
	}
	return b
}

func (r *talker) choice() object {
	var c object
	switch r.IntN(5) {
	case 0:
		return nil
	case 1:
		return object{"type": "none"}
	case 2:
		c = object{"type": "any"}
	case 3:
		c = object{"type": "auto"}
	default:
		c = object{"type": "tool", "name": "f1"}
	}
	if r.one(3) {
		c["disable_parallel_tool_use"] = true
	}
	return c
}

// said is a block that a user may say.
func (r *talker) said() object {
	switch r.IntN(6) {
	case 0:
		return r.mark(object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": "aGk="}})
	case 1:
		return r.mark(object{"type": "image", "source": object{"type": "url", "url": "https://example.com/a.png"}})
	case 2:
		return r.mark(object{"type": "document", "title": r.words(), "source": object{"type": "base64",
			"media_type": "application/pdf", "data": "aGk="}})
	case 3:
		return r.mark(object{"type": "document", "title": r.words(), "source": object{"type": "text", "media_type": "text/plain",
			"data": r.words()}})
	}
	return r.text()
}

// answered is an assistant's message, and the results of its calls.
func (r *talker) answered() (blocks, results []any) {
	for range r.IntN(2) {
		blocks = append(blocks, object{"type": "thinking", "thinking": r.words(), "signature": fmt.Sprint("s", r.IntN(100))})
		if r.one(3) {
			blocks = append(blocks, object{"type": "redacted_thinking", "data": "ZGF0YQ=="})
		}
	}
	if r.one(2) {
		return append(blocks, list(r, 2, r.text)...), nil
	}
	if r.one(2) {
		blocks = append(blocks, r.text())
	}
	for range 1 + r.IntN(2) {
		r.calls++
		id := fmt.Sprint("toolu_", r.calls)
		blocks = append(blocks, object{"type": "tool_use", "id": id, "name": "f1", "input": object{"a": r.words(), "b": []any{json.Number("1.50"), nil}}})
		results = append(results, r.mark(object{"type": "tool_result", "tool_use_id": id, "content": []any{object{"type": "text", "text": r.words()}}}))
	}
	if r.one(2) {
		results = append(results, r.text())
	}
	return blocks, results
}

// blocks is a content as blocks, however it is written.
func blocksOf(content any) []any {
	if text, ok := content.(string); ok {
		return []any{object{"type": "text", "text": text}}
	}
	all, _ := content.([]any)
	for _, b := range all {
		if b := b.(object); b["type"] == "tool_result" {
			b["content"] = blocksOf(b["content"])
		}
	}
	return all
}

// canonical is a body of Messages in one of the several ways to write it.
func canonical(b object) string {
	b["model"] = "m"
	if b["system"] != nil {
		b["system"] = blocksOf(b["system"])
	}
	for _, m := range b["messages"].([]any) {
		m := m.(object)
		m["content"] = blocksOf(m["content"])
	}
	if b["stream"] == false {
		delete(b, "stream")
	}
	if o, ok := b["output_config"].(object); ok {
		delete(o, "effort")
	}
	return write(b)
}
