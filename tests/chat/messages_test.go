package chat

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// exampleConfig is an example config as it is shipped, with the simulated
// upstream in the place of every vendor's address.
func exampleConfig(t *testing.T, name string, sim *rig.Simulated) string {
	t.Helper()
	data, err := os.ReadFile("config/examples/" + name)
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^(listen|store):.*$`).ReplaceAllString(string(data), "")
	text = regexp.MustCompile(`base_url: .*`).ReplaceAllString(text, "base_url: "+sim.URL)
	return regexp.MustCompile(`\$\{[A-Z_]+\}`).ReplaceAllString(text, "upstream-key")
}

// The example config's Claude accepts requests of chat completions clients: the strict Messages API
// simulator refuses none of them, and the gateway rejects members that this dialect cannot express,
// by name.
func TestExampleClaudeTakesRequestsOfClients(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	g := rig.StartGateway(t, exampleConfig(t, "failover.yaml", sim))
	g.NewAccount("rich", "100")
	key := g.Key("rich")
	f := func(members string, status int, want string) {
		t.Helper()
		if !strings.Contains(members, `"messages"`) {
			members += `,"messages":[{"role":"user","content":"hi"}]`
		}
		got, _, answer := g.Post("/chat/completions", key, `{"model":"claude",`+members+`}`)
		if got != status || !strings.Contains(string(answer), want) {
			t.Errorf("%s\n got %d %s\nwant %d %s", members, got, answer, status, want)
		}
	}
	for _, effort := range []string{"low", "medium", "high"} {
		f(`"max_completion_tokens":4000,"reasoning_effort":"`+effort+`"`, 200, `"reasoning_content"`)
	}
	f(`"temperature":0.7,"top_p":1`, 200, "")
	f(`"temperature":1.4`, 200, "")
	f(`"messages":[{"role":"system","content":"Be brief."}]`, 200, "")
	f(`"messages":[{"role":"assistant","content":"Hello!"},{"role":"user","content":"hi"}]`, 200, "")
	f(`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpg;base64,aGk="}}]}]`,
		200, "")
	f(`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"functions.look:0","type":"function","function":{"name":"look","arguments":"{}"}}]},{"role":"tool","tool_call_id":"functions.look:0","content":"x"}],"reasoning_effort":"high","tools":[{"type":"function","function":{"name":"look"}}]`, 200, "")

	f(`"n":2`, 400, `"n"`)
	f(`"response_format":{"type":"json_object"}`, 200, "")
	f(`"stop":["\n"]`, 400, `"stop"`)
	f(`"temperature":0.5,"top_p":0.5`, 400, `"top_p"`)
	f(`"temperature":0.5,"reasoning_effort":"high","max_completion_tokens":4000`, 400, `"temperature"`)
	for outcome, tally := range sim.Stats().Outcomes {
		if outcome == upstream.Refused && tally.Requests > 0 {
			t.Errorf("the Messages API refused %d requests", tally.Requests)
		}
	}
}
