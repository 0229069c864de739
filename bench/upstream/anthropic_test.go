package upstream

import (
	"strings"
	"testing"
)

const version = "2023-06-01"

func messagesBody(text string, more ...string) string {
	return strings.Replace(chatBody("sim-claude", text, more...), `"messages"`, `"max_tokens":20,"messages"`, 1)
}

func TestMessagesStreamFollowsTheEventOrder(t *testing.T) {
	s, url := start(t, Options{})
	tools := `"tools":[{"name":"get_weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]`
	f := func(want string, tokens int64, more ...string) {
		t.Helper()
		s.Reset()
		r := post(t, url+"/v1/messages", messagesBody("hi", append(more, `"stream":true`)...), "anthropic-version",
			version)
		if r.status != 200 || r.err != nil {
			t.Fatalf("%d %v %s", r.status, r.err, r.body)
		}
		list, _ := events(t, r.body)
		var order []string
		for _, e := range list {
			kind := e.Get("type").Str
			if d := e.Get("delta.type").Str; d != "" {
				kind = d
			} else if b := e.Get("content_block.type").Str; b != "" {
				kind = "start:" + b
			}
			if n := len(order); n == 0 || order[n-1] != kind {
				order = append(order, kind)
			}
		}
		if got := strings.Join(order, " "); got != want {
			t.Errorf("order\n got %s\nwant %s", got, want)
		}
		delta := list[len(list)-2]
		if got := delta.Get("usage.output_tokens").Int(); got != tokens ||
			settled(t, s).Tokens.CompletionTokens != tokens {
			t.Errorf("usage %s, truth %+v, want %d", delta.Raw, s.Stats().Tokens, tokens)
		}
	}
	f("message_start start:text ping text_delta content_block_stop message_delta message_stop", 20)
	f("message_start start:thinking ping thinking_delta signature_delta content_block_stop start:text text_delta "+
		"content_block_stop message_delta message_stop", 20,
		`"thinking":{"type":"adaptive"}`)
	f("message_start start:tool_use ping input_json_delta content_block_stop message_delta message_stop",
		CountText("get_weather")+CountText(`{"city":"river"}`),
		tools, `"tool_choice":{"type":"any"}`)
}

func TestMessagesUsageKeepsCacheClassesApart(t *testing.T) {
	_, url := start(t, Options{})
	body := messagesBody("a long enough prompt for both [[sim cached=4 cache_write=3]]")
	r := post(t, url+"/v1/messages", body, "anthropic-version", version)
	list, _ := events(t, []byte("data: "+string(r.body)+"\n\n"))
	u := list[0].Get("usage")
	sum := u.Get("input_tokens").Int() + u.Get("cache_read_input_tokens").Int() + u.Get("cache_creation_input_tokens").
		Int()
	if sum != CountPrompt([]byte(body)) || u.Get("cache_read_input_tokens").Int() != 4 ||
		u.Get("cache_creation_input_tokens").Int() != 3 {
		t.Errorf("usage %s, prompt %d", u.Raw, CountPrompt([]byte(body)))
	}
}

func TestMessagesRefusesLikeTheRealServer(t *testing.T) {
	_, url := start(t, Options{})
	if r := post(t, url+"/v1/messages", messagesBody("hi")); r.status != 400 ||
		!strings.Contains(string(r.body), "anthropic-version") {
		t.Errorf("no version: %d %s", r.status, r.body)
	}
	r := post(t, url+"/v1/messages", messagesBody("hi [[sim status=529]]"), "anthropic-version", version)
	if r.status != 529 || !strings.Contains(string(r.body), "overloaded_error") {
		t.Errorf("overloaded: %d %s", r.status, r.body)
	}
}
