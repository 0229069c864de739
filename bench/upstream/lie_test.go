package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// usageOf is the last usage of a whole answer or of a stream.
func usageOf(t *testing.T, body []byte) gjson.Result {
	t.Helper()
	if !bytes.HasPrefix(body, []byte("data: ")) {
		return gjson.GetBytes(body, "usage")
	}
	list, _ := events(t, body)
	var usage gjson.Result
	for _, e := range list {
		if u := e.Get("usage"); u.IsObject() {
			usage = u
		}
	}
	return usage
}

// Whatever usage says about thinking in silence, the truth has it.
func TestHiddenTokensAreInTheTruthWhereverUsageHasThem(t *testing.T) {
	s, url := start(t, Options{Price: Price{Prompt: 1, Completion: 10}})
	for _, want := range []struct {
		in                           string
		completion, reasoning, total int64
	}{
		{"inside", 40, 30, 40}, {"beside", 10, 30, 40}, {"total", 10, 0, 40}, {"nowhere", 10, 0, 10},
	} {
		for _, stream := range []bool{false, true} {
			id := fmt.Sprint(want.in, stream)
			body := chatBody("sim-chat", "[[sim id="+id+" tokens=10 hidden=30 think_ms=1 hidden_in="+want.in+"]] hi",
				fmt.Sprintf(`"stream":%t,"max_completion_tokens":2000,"stream_options":{"include_usage":true}`, stream))
			r := post(t, url+"/v1/chat/completions", body)
			u := usageOf(t, r.body)
			prompt := u.Get("prompt_tokens").Int()
			got := []int64{u.Get("completion_tokens").Int(), u.Get("completion_tokens_details.reasoning_tokens").Int(),
				u.Get("total_tokens").Int() - prompt}
			if got[0] != want.completion || got[1] != want.reasoning || got[2] != want.total {
				t.Errorf("%s: usage says %v: %s", id, got, u.Raw)
			}
			settled(t, s)
			m := s.Made(id)
			if m.Completion != 40 || m.Hidden != 30 || m.Cap != 2000 || m.WithinCap != 40 || m.RealNano != prompt+400 ||
				(m.Truthful == 1) != (want.in != "nowhere") {
				t.Errorf("%s: the truth is %+v", id, m)
			}
		}
	}
}

func TestCapHoldsUnlessItIsIgnored(t *testing.T) {
	s, url := start(t, Options{})
	for scenario, want := range map[string]int64{"tokens=100 hidden=900": 50,
		"tokens=100 hidden=900 ignore_cap=1": 1000, "tokens=100 ignore_cap=1": 100, "tokens=100": 50} {
		id := strings.ReplaceAll(scenario, " ", "")
		id = strings.ReplaceAll(id, "=", "")
		post(t, url+"/v1/chat/completions", chatBody("sim-chat", "[[sim id="+id+" "+scenario+"]] hi",
			`"max_completion_tokens":50`))
		settled(t, s)
		if m := s.Made(id); m.Completion != want || m.WithinCap != 50 {
			t.Errorf("%s: %+v", scenario, m)
		}
	}
}

// Every member that text may hide in is JSON that has all of it.
func TestTextIsWhereTheScenarioPutsIt(t *testing.T) {
	_, url := start(t, Options{})
	at := map[string]string{
		"content": "content", "array": "content.0.text", "function_call": "function_call.arguments",
		"audio": "audio.transcript", "refusal": "refusal", "unknown": "caption.lines.0",
	}
	for in, path := range at {
		for _, stream := range []bool{false, true} {
			r := post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi",
				fmt.Sprintf(`"stream":%t,"max_completion_tokens":12`, stream)), "X-Sim", "said_in="+in)
			text := gjson.GetBytes(r.body, "choices.0.message."+path).Str
			if stream {
				list, _ := events(t, r.body)
				for _, e := range list {
					text += e.Get("choices.0.delta." + path).Str
				}
			} else if !gjson.ValidBytes(r.body) {
				t.Errorf("%s: not JSON: %s", in, r.body)
			}
			if CountText(text) != 12 {
				t.Errorf("%s, stream %t: %q", in, stream, text)
			}
		}
	}
}

func TestUsageLiesAsAsked(t *testing.T) {
	_, url := start(t, Options{})
	for mode, want := range map[string]string{
		"none": "", "afterdone": "12", "early": "1", "less": "1", "twice": "12", "contradict": "1", "over": "120",
		"zero": "0", "negative": "-12", "totalonly": "",
	} {
		r := post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi", `"stream":true,"max_completion_tokens":12`),
			"X-Sim", "usage="+mode)
		u := usageOf(t, r.body)
		if got := u.Get("completion_tokens").Raw; got != want {
			t.Errorf("%s: a stream says %s", mode, u.Raw)
		}
		if mode == "totalonly" && u.Get("total_tokens").Int() <= 12 {
			t.Errorf("totalonly: %s", u.Raw)
		}
		messages := chatBody("claude", "hi", `"stream":true,"max_tokens":12`)
		r = post(t, url+"/v1/messages", messages, "X-Sim", "usage="+mode, "anthropic-version", "2023-06-01")
		if r.err != nil || r.status != 200 || !bytes.Contains(r.body, []byte("message_stop")) {
			t.Errorf("%s: messages: %v %d %s", mode, r.err, r.status, r.body)
		}
	}
}

func TestRedactedThinkingHasNoText(t *testing.T) {
	s, url := start(t, Options{})
	for _, stream := range []bool{false, true} {
		id := fmt.Sprint("redacted", stream)
		body := chatBody("claude", "[[sim id="+id+" thought_as=redacted reasoning=20 tokens=30]] hi",
			fmt.Sprintf(`"stream":%t,"max_tokens":2000`, stream))
		r := post(t, url+"/v1/messages", body, "anthropic-version", "2023-06-01")
		if !bytes.Contains(r.body, []byte(`"redacted_thinking","data":"`)) ||
			bytes.Contains(r.body, []byte(`"thinking_delta"`)) ||
			!bytes.Contains(r.body, []byte(`"output_tokens":30`)) {
			t.Errorf("%s", r.body)
		}
		settled(t, s)
		if m := s.Made(id); m.Completion != 30 || m.Truthful != 1 {
			t.Errorf("%+v", m)
		}
	}
}

// Tokens made before the peer left count; with run_on, all of them.
func TestPeerThatLeavesWhileItThinksPaysForThinking(t *testing.T) {
	s, url := start(t, Options{})
	impatient := &http.Client{Timeout: 150 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, how := range []string{"", " run_on=1"} {
		for _, stream := range []bool{false, true} {
			id := fmt.Sprintf("left-%t-%d", stream, len(how))
			body := chatBody("sim-chat", "[[sim id="+id+" tokens=100 hidden=900 think_ms=600"+how+"]] hi",
				fmt.Sprintf(`"stream":%t`, stream))
			res, err := impatient.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
			settled(t, s)
			m := s.Made(id)
			if how != "" && m.Completion != 1000 || how == "" && (m.Completion < 90 || m.Completion > 900) ||
				m.Prompt == 0 {
				t.Errorf("%s: %+v", id, m)
			}
		}
	}
}

// An echo may have lines and spaces, as an agent reads them from a model's text.
func TestAnEchoIsUnescaped(t *testing.T) {
	_, url := start(t, Options{})
	r := post(t, url+"/v1/chat/completions", chatBody("sim-chat", "[[sim echo=made.txt%0A100%25%20of%20it]] hi"))
	if got := gjson.GetBytes(r.body, "choices.0.message.content").Str; got != "made.txt\n100% of it" {
		t.Errorf("it says %q", got)
	}
}

func TestStrayAnswerFollowsAWholeOne(t *testing.T) {
	_, url := start(t, Options{})
	for _, after := range []string{"0", "1"} {
		nc, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		req, _ := http.NewRequest("POST", url+"/v1/chat/completions",
			strings.NewReader(chatBody("sim-chat", "[[sim echo=mine stray="+after+"]] hi")))
		_ = req.Write(nc)
		_ = nc.SetReadDeadline(time.Now().Add(3 * time.Second))
		b, _ := io.ReadAll(nc)
		if !bytes.Contains(b, []byte(`"content":"mine"`)) || !bytes.Contains(b, []byte(StrayText)) ||
			bytes.Count(b, []byte("HTTP/1.1 200")) != 2 {
			t.Errorf("stray=%s: %s", after, b)
		}
	}
}

func TestTruthIsReadableByID(t *testing.T) {
	s, url := start(t, Options{})
	post(t, url+"/v1/chat/completions", chatBody("sim-chat", "[[sim id=one tokens=7]] hi"))
	post(t, url+"/v1/embeddings", `{"model":"e","input":"[[sim id=two usage=over]] hi"}`)
	settled(t, s)
	for id, completion := range map[string]int64{"one": 7, "two": 0, "nobody": 0} {
		res, err := http.Get(url + "/_sim/made/" + id)
		if err != nil {
			t.Fatal(err)
		}
		var m Made
		if err := json.NewDecoder(res.Body).Decode(&m); err != nil || m.ID != id || m.Completion != completion ||
			(m.Prompt > 0) != (id != "nobody") {
			t.Errorf("%s: %+v %v", id, m, err)
		}
		_ = res.Body.Close()
	}
}
