package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// The example config's Gemini models accept requests of chat completions clients: the strict
// generateContent simulator refuses none of them, and the gateway rejects members that this dialect
// cannot express, by name.
func TestExampleGeminiTakesWhatClientsSend(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	g := rig.StartGateway(t, exampleConfig(t, "gemini.yaml", sim))
	g.NewAccount("rich", "1000")
	key := g.Key("rich")
	f := func(members string, status int, want string) {
		t.Helper()
		if !strings.Contains(members, `"messages"`) {
			members += `,"messages":[{"role":"user","content":"hi"}]`
		}
		for _, model := range []string{"gemini-flash", "gemini-pro"} {
			got, _, answer := g.Post("/chat/completions", key, `{"model":"`+model+`",`+members+`}`)
			if got != status || !strings.Contains(string(answer), want) || strings.Contains(string(answer), "gemini-2.5") ||
				strings.Contains(string(answer), "gemini-3") {
				t.Errorf("%s %s\n got %d %s\nwant %d %s", model, members, got, answer, status, want)
			}
		}
	}
	const tool = `,"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"},"strict":true}}]`
	for _, effort := range []string{"none", "minimal", "low", "medium", "high"} {
		f(`"max_completion_tokens":4000,"reasoning_effort":"`+effort+`"`, 200, `"content":"`)
	}
	f(`"reasoning_effort":"high","max_completion_tokens":4000`, 200, `"reasoning_content"`)
	f(`"stream":true,"reasoning_effort":"low"`, 200, `"reasoning_content"`)
	f(`"temperature":0.7,"top_p":0.9,"stop":["\n\n"],"seed":5`, 200, "")
	f(`"max_tokens":20,"response_format":{"type":"json_object"}`, 200, `\"confidence\"`)
	f(`"messages":[{"role":"system","content":"Be brief."}]`, 200, "")
	f(`"messages":[{"role":"assistant","content":"Hello!"},{"role":"user","content":"hi"}]`, 200, "")
	f(`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpg;base64,aGk="}},{"type":"video_url","video_url":{"url":"https://youtu.be/x"}},{"type":"input_audio","input_audio":{"data":"aGk=","format":"wav"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,aGk="}}]}]`,
		200, "")
	f(`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"functions.look:0","type":"function","function":{"name":"look","arguments":"{}"}}]},{"role":"tool","tool_call_id":"functions.look:0","content":"x"}]`+tool, 200, "")
	f(`"tool_choice":"required"`+tool, 200, `"finish_reason":"tool_calls"`)

	f(`"tool_choice":"auto","tools":[{"type":"function","function":{"name":"look"},"googleSearch":{}}],"googleSearch":{}`, 200, "")
	for _, r := range sim.Last() {
		if strings.Contains(string(r.Body), "googleSearch") {
			t.Errorf("an unpaid search was sent: %s", r.Body)
		}
	}
	f(`"tools":[{"type":"google_search"}]`, 400, "tools.0.type")
	f(`"parallel_tool_calls":false`+tool, 200, "")
	f(`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/gif;base64,aGk="}}]}]`, 400, "image/webp")
	f(`"messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"https://generativelanguage.googleapis.com/v1beta/files/x.pdf"}}]}]`, 400, "data URL")
	f(`"messages":[{"role":"user","content":"[[sim status=400]] hi"}]`, 400, "temperature")
}

const geminiConfig = `
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: google, dialect: gemini, base_url: %[1]s, key: %[2]s, retry_safe: true, breaker: { failures: 0 } }
models:
  - id: flash
    tier: unlimited
    context_tokens: 100000
    max_completion_tokens: 8000
    capabilities: &all { tools: true, reasoning: true, reasoning_effort: [none, low, high], logprobs: true }
    price: &price { input: 1, output: 2, cache_read: 0.5 }
    targets: [{ upstream: google, model: gemini-3-flash-preview }]
  - id: older
    tier: unlimited
    context_tokens: 100000
    max_completion_tokens: 8000
    capabilities: *all
    price: *price
    targets: [{ upstream: google, model: gemini-2.5-flash }]
`

// The ledger matches the simulated server's usage, for every request and form of answer; failures
// are free.
func TestGeminiIsChargedToTheToken(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "k"})
	g := rig.StartGateway(t, fmt.Sprintf(geminiConfig, sim.URL, "k"))
	g.NewAccount("a", "10")
	key := g.Key("a")
	const tool = `,"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}]`
	n := 0
	for _, model := range []string{"flash", "older"} {
		for _, stream := range []string{"true", "false"} {
			for _, how := range []string{"", "cached=4", "reasoning=9", "hidden=50 think_ms=5", "hidden=50 hidden_in=total",
				"usage=twice", "usage=afterdone", "split=byte crlf=1", "unicode=1", "tokens=200"} {
				for _, more := range []string{"", `,"reasoning_effort":"high","max_completion_tokens":2000`, tool + `,"tool_choice":"required"`,
					`,"logprobs":true,"top_logprobs":2`} {
					status, _, answer := g.Post("/chat/completions", key, rig.Ask(model, "[[sim "+how+" id=x]] Go",
						`,"stream":`+stream+more))
					if n++; status != 200 || stream == "true" && !strings.HasSuffix(string(answer), "data: [DONE]\n\n") {
						t.Errorf("%s %s %s: %d %s", model, how, more, status, answer)
					}
				}
			}
		}
	}
	tokens, a := sim.Idle(t).Tokens, g.Settled()["a"]
	worth := rig.Money((tokens.PromptTokens-tokens.CachedTokens)*1000 + tokens.CachedTokens*500 + tokens.CompletionTokens*2000)
	if a.Spent != worth || tokens.CachedTokens == 0 || tokens.Requests != int64(n) {
		t.Errorf("charged %s for usage worth %s (%+v)", a.Spent, worth, tokens)
	}
	for how, want := range map[string]int{"kind=policy": 422, "finish=MALFORMED_FUNCTION_CALL": 500, "status=429": 429,
		"status=503": 503, "status=404": 503, "wrong=half": 502, "status=400": 400} {
		status, _, answer := g.Post("/chat/completions", key, rig.Ask("flash", "[[sim "+how+"]] Go", ""))
		if status != want || strings.Contains(string(answer), "gemini") || strings.Contains(string(answer), "simsecret") {
			t.Errorf("%s: %d %s", how, status, answer)
		}
	}
	if after := g.Settled()["a"]; after.Spent != a.Spent {
		t.Errorf("failures cost %s", after.Spent-a.Spent)
	}
	_, _, answer := g.Post("/chat/completions", key, rig.Ask("flash", "[[sim tokens=20 error_event=1 error_after=5]] Go", `,"stream":true`))
	if !strings.Contains(string(answer), `"code":"model_overloaded"`) || !strings.HasSuffix(string(answer), "data: [DONE]\n\n") {
		t.Errorf("an error in mid-stream: %s", answer)
	}
	_, _, answer = g.Post("/chat/completions", key, rig.Ask("flash", "[[sim kind=policy]] Go", `,"stream":true`))
	if !strings.Contains(string(answer), `"code":"content_blocked_by_provider"`) {
		t.Errorf("a blocked stream: %s", answer)
	}
}

// A wrong key is a 400 there, and still the operator's.
func TestAWrongKeyAtGoogleIsNotTheClientsFault(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "right"})
	g := rig.StartGateway(t, fmt.Sprintf(geminiConfig, sim.URL, "wrong"))
	g.NewAccount("a", "1")
	status, _, answer := g.Post("/chat/completions", g.Key("a"), rig.Ask("flash", "Hello", ""))
	if status != 503 || strings.Contains(string(answer), "key") || strings.Contains(string(answer), "API") {
		t.Errorf("%d %s", status, answer)
	}
}

// An agent's loop of calls, as a client keeps it: the signatures that the model
// demands come back with the calls, and where a client lost them it goes on too.
func TestGeminiCallsGoRound(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "k"})
	g := rig.StartGateway(t, fmt.Sprintf(geminiConfig, sim.URL, "k"))
	g.NewAccount("a", "1")
	key := g.Key("a")
	const tool = `,"tools":[{"type":"function","function":{"name":"look"}}]`
	for _, model := range []string{"flash", "older"} {
		for _, loses := range []bool{false, true} {
			messages := `{"role":"user","content":"[[sim tool=1]] look"}`
			for range 3 {
				_, _, answer := g.Post("/chat/completions", key, `{"model":"`+model+`","messages":[`+messages+`]`+tool+`}`)
				var v struct {
					Choices []struct{ Message map[string]json.RawMessage }
				}
				if err := json.Unmarshal(answer, &v); err != nil || len(v.Choices) == 0 || v.Choices[0].Message["tool_calls"] == nil {
					t.Fatalf("%s, loses %v: %s", model, loses, answer)
				}
				m := v.Choices[0].Message
				if loses {
					delete(m, "reasoning_details")
					delete(m, "thought_signature")
				}
				var calls []struct{ ID string }
				_ = json.Unmarshal(m["tool_calls"], &calls)
				kept, _ := json.Marshal(m)
				messages += "," + string(kept) + fmt.Sprintf(`,{"role":"tool","tool_call_id":%q,"content":"{\"seen\":1}"}`, calls[0].ID)
			}
			sent := string(sim.Latest(t).Body)
			if model == "flash" && strings.Contains(sent, "skip_thought_signature_validator") != loses ||
				!strings.Contains(sent, `"response":{"seen":1}`) {
				t.Errorf("%s, loses %v: %s", model, loses, sent)
			}
		}
	}
}
