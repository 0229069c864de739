package anthropic_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"farebox/providers/chat/anthropic"
	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
	"farebox/proxy/jsontext"
	"farebox/tests/oracles/messagestest"
)

// asChat is a body of Messages as a chat.
func asChat(t testing.TB, body string) (*messages.Form, *dialect.Chat) {
	t.Helper()
	doc := newDoc()
	if err := doc.SkimStrict([]byte(body), messages.Shape); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	f, chat, wrong := messages.Read([]byte(body), doc, false)
	if len(wrong) > 0 || f.Untold() != nil {
		t.Fatalf("%s: %v %v", body, wrong, f.Untold())
	}
	c := chatOf(t, string(chat))
	c.Form, c.Told, c.ToldDoc = f, []byte(body), doc
	if i := c.Doc.TopIndex(dialect.ChatMaxCompletionTokens); i >= 0 {
		c.AskedCompletion, _ = jsontext.ReadCount(c.Raw(i))
	}
	return f, c
}

// Whatever is said in Messages and has a word in chat completions comes out of the
// dialect as it went in.
func TestMessagesThroughChatLoseNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		body := newTalker(seed).body()
		want := canonical(parse(t, write(body)))
		_, c := asChat(t, write(body))
		got, err := sent(t, c)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, want, err)
		}
		if got = canonical(parse(t, got)); got != want {
			t.Fatalf("seed %d\n got %s\nwant %s\nchat %s", seed, got, want, c.Body)
		}
	}
}

// A chat body made from Messages survives the way back: the dialect writes it as
// Messages, and reading that as a client's request gives the same chat.
func TestChatsThroughMessagesLoseNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		_, c := asChat(t, write(newTalker(seed+10_000).body()))
		sentBody, err := sent(t, c)
		if err != nil {
			t.Fatal(err)
		}
		_, again := asChat(t, sentBody)
		got, want := parse(t, string(again.Body)), parse(t, string(c.Body))
		got["model"] = want["model"]
		if write(got) != write(want) {
			t.Fatalf("seed %d\n got %s\nwant %s\nsent %s", seed, write(got), write(want), sentBody)
		}
	}
}

// Parts that chat completions cannot express, and members that change the price or a tool's
// powers, are rejected by name, anywhere in a conversation.
func TestWhatIsNotCarriedIsNamed(t *testing.T) {
	t.Parallel()
	blocks := map[string]object{
		"type":             {"type": "search_result", "source": "https://x", "title": "X", "content": []any{object{"type": "text", "text": "x"}}},
		"novelty":          {"type": "text", "text": "x", "novelty": 1},
		"type ":            {"type": "container_upload", "file_id": "f"},
		"source.type":      {"type": "image", "source": object{"type": "file", "file_id": "f"}},
		"source.novelty":   {"type": "image", "source": object{"type": "url", "url": "https://x", "novelty": 1}},
		"source.content.0": {"type": "document", "source": object{"type": "content", "content": []any{object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": "aGk="}}}}},
		"type  ":           {"type": "mcp_tool_result", "tool_use_id": "x"},
	}
	tops := map[string]any{
		"container": "c", "mcp_servers": []any{object{}}, "inference_geo": "us", "speed": "fast", "novelty": 1, "service_tier": "priority",
		"stop_sequences": []any{"1", "2", "3", "4", "5"}, "diagnostics": object{},
	}
	named := func(seed uint64, body object, name string) {
		t.Helper()
		text := write(body)
		doc := newDoc()
		if err := doc.SkimStrict([]byte(text), messages.Shape); err != nil {
			t.Fatal(err)
		}
		f, _, wrong := messages.Read([]byte(text), doc, false)
		if u := f.Untold(); u != nil {
			wrong = append(wrong, *u)
		}
		if !slices.ContainsFunc(wrong, func(u dialect.Unsupported) bool { return u.Path == name && strings.HasPrefix(u.Text, name+": ") }) {
			t.Errorf("seed %d: %s is not named: %v\n%s", seed, name, wrong, text)
		}
	}
	seed := uint64(50_000)
	for range 20 {
		for member, block := range blocks {
			seed++
			body := newTalker(seed).body()
			turns := body["messages"].([]any)
			last := turns[len(turns)-1].(object)
			said := last["content"].([]any)
			last["content"] = append(said, block)
			named(seed, body, fmt.Sprintf("messages.%d.content.%d.%s", len(turns)-1, len(said), strings.TrimSpace(member)))
		}
		for name, value := range tops {
			seed++
			body := newTalker(seed).body()
			member, _, _ := strings.Cut(name, ".")
			body[member] = value
			named(seed, body, name)
		}
	}
}

// message is a random answer.
func (r *talker) message() object {
	blocks, results := r.answered()
	for i, b := range blocks {
		b := b.(object)
		delete(b, "cache_control")
		if b["type"] == "tool_use" {
			b["caller"] = object{"type": "direct"}
		}
		blocks[i] = b
	}
	// Chat completions have one text.
	var kept []any
	for _, b := range blocks {
		if n := len(kept); n > 0 && kept[n-1].(object)["type"] == "text" && b.(object)["type"] == "text" {
			continue
		}
		kept = append(kept, b)
	}
	stop := "end_turn"
	switch {
	case len(results) > 0:
		stop = "tool_use"
	case r.one(3):
		stop = "max_tokens"
	}
	return object{"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-there", "content": kept, "stop_reason": stop,
		"stop_sequence": nil, "usage": object{"input_tokens": 50, "cache_read_input_tokens": r.IntN(9), "cache_creation_input_tokens": r.IntN(9),
			"output_tokens": 400, "output_tokens_details": object{"thinking_tokens": r.IntN(9)}}}
}

// events are those of a message, whose texts come in pieces.
func (r *talker) events(t testing.TB, m object) string {
	var out strings.Builder
	send := func(name string, data object) {
		data["type"] = name
		if r.one(9) {
			out.WriteString(ping)
		}
		out.WriteString(event(name, write(data)))
	}
	pieces := func(text string) (list []string) {
		for rest := []rune(text); len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			list, rest = append(list, string(rest[:n])), rest[n:]
		}
		return list
	}
	usage := m["usage"].(object)
	begin := parse(t, write(m))
	begin["content"], begin["stop_reason"] = []any{}, nil
	begin["usage"].(object)["output_tokens"] = 1
	send("message_start", object{"message": begin})
	for i, b := range m["content"].([]any) {
		b := b.(object)
		add := func(kind, member, text string) {
			send("content_block_delta", object{"index": i, "delta": object{"type": kind, member: text}})
		}
		switch b["type"] {
		case "text":
			send("content_block_start", object{"index": i, "content_block": object{"type": "text", "text": ""}})
			for _, p := range pieces(b["text"].(string)) {
				add("text_delta", "text", p)
			}
		case "thinking":
			send("content_block_start", object{"index": i, "content_block": object{"type": "thinking", "thinking": "", "signature": ""}})
			for _, p := range pieces(b["thinking"].(string)) {
				add("thinking_delta", "thinking", p)
			}
			add("signature_delta", "signature", b["signature"].(string))
		case "tool_use":
			send("content_block_start", object{"index": i, "content_block": object{"type": "tool_use", "id": b["id"], "name": b["name"], "input": object{}}})
			for _, p := range pieces(write(b["input"])) {
				add("input_json_delta", "partial_json", p)
			}
		default:
			send("content_block_start", object{"index": i, "content_block": b})
		}
		send("content_block_stop", object{"index": i})
	}
	send("message_delta", object{"delta": object{"stop_reason": m["stop_reason"], "stop_sequence": nil}, "usage": usage})
	send("message_stop", object{})
	return out.String()
}

// An answer comes through chat completions unchanged, whole and in a stream that was cut
// anywhere, and Anthropic's package can read its events.
func TestAnswersThroughChatLoseNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := newTalker(seed)
		m := r.message()
		f, c := asChat(t, `{"model":"m","max_tokens":900,"stream":true,"thinking":{"type":"adaptive"},"messages":[{"role":"user","content":"hi"}]}`)
		c.Form, c.Said = f, &dialect.Completion{}
		if _, _, err := (anthropic.Dialect{}).Answer([]byte(write(m)), c, target(c), &dialect.Scratch{}); err != nil {
			t.Fatal(err)
		}
		whole, err := f.Answer(c.Said, c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := messagestest.CheckMessage(whole); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, whole)
		}
		same := func(what string, got object) {
			t.Helper()
			for _, member := range []string{"content", "stop_reason"} {
				if write(got[member]) != write(m[member]) {
					t.Fatalf("seed %d: %s: %s\n got %s\nwant %s", seed, what, member, write(got[member]), write(m[member]))
				}
			}
			for name, n := range m["usage"].(object) {
				if write(got["usage"].(object)[name]) != write(n) {
					t.Fatalf("seed %d: %s: usage %s, want %s", seed, what, write(got["usage"]), write(m["usage"]))
				}
			}
		}
		same("whole", parse(t, string(whole)))

		c.Client = dialect.OpenForm(c)
		in, back := anthropic.Dialect{}.Stream(c, target(c)), c.Client
		var events strings.Builder
		for rest := []byte(r.events(t, m)); len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			events.Write(back.Pass(in.Pass(bytes.Clone(rest[:n]))))
			rest = rest[n:]
		}
		events.Write(back.Pass(in.Finish(true)))
		events.Write(back.Finish())
		in.Release()
		back.Release()
		if _, failed, err := messagestest.Check(events.String()); err != nil || failed {
			t.Fatalf("seed %d: failed %v, %v\n%s", seed, failed, err, events.String())
		}
		same("streamed", added(t, events.String()))
	}
}

// added is the message that events add up to.
func added(t testing.TB, events string) (m object) {
	t.Helper()
	var content []any
	input := ""
	for e := range strings.SplitSeq(strings.TrimSuffix(events, "\n\n"), "\n\n") {
		_, data, _ := strings.Cut(e, "\ndata: ")
		v := parse(t, data)
		switch v["type"] {
		case "message_start":
			m = v["message"].(object)
		case "content_block_start":
			content = append(content, v["content_block"])
			input = ""
		case "content_block_delta":
			b := content[len(content)-1].(object)
			for member, piece := range v["delta"].(object) {
				switch member {
				case "text", "thinking", "signature":
					b[member] = b[member].(string) + piece.(string)
				case "partial_json":
					input += piece.(string)
				}
			}
		case "content_block_stop":
			if b := content[len(content)-1].(object); b["type"] == "tool_use" {
				b["input"] = parse(t, input)
			}
		case "message_delta":
			m["stop_reason"], m["usage"] = v["delta"].(object)["stop_reason"], v["usage"]
		}
	}
	m["content"] = content
	return m
}
