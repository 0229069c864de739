package billing

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Answers did not report their cost, the parameters in effect, or the upstream. With
// compat.answer_extras they do, to the last digit of the charge; the rest of the answer
// is as without.
func TestAnswersDidNotReportTheirCost(t *testing.T) {
	t.Parallel()
	type answer struct {
		Model      string
		Choices    []json.RawMessage
		Usage      map[string]any
		Cost       *struct{ USD, DIEM json.Number }
		Parameters map[string]any `json:"svc_parameters"`
	}
	for _, on := range []bool{true, false} {
		s := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
		text := fmt.Sprintf(rig.ClientsConfig, s.URL, s.URL)
		if on {
			text = strings.Replace(text+"compat: { answer_extras: true }\n", "    dialect: anthropic\n",
				"    dialect: anthropic\n    router: north\n", 1)
		}
		g := rig.StartGateway(t, text)
		g.NewAccount("a", "10")
		key := g.Key("a")
		spent := rig.Money(0)
		for _, model := range []string{"sim-chat", "sim-claude"} {
			for _, stream := range []bool{false, true} {
				for _, scenario := range []string{"tokens=30", "tokens=30 usage=none", "tokens=30 usage=late"} {
					name := fmt.Sprintf("extras %v, %s, stream %v, %s", on, model, stream, scenario)
					status, header, body := g.Post("/chat/completions", key, fmt.Sprintf(
						`{"model":%q,"stream":%v,"svc_parameters":{"strip_thinking_response":true},"messages":[{"role":"user","content":"Hello. [[sim %s]]"}]}`, model, stream, scenario))
					if status != 200 {
						t.Fatalf("%s: %d %s", name, status, body)
					}
					if got, want := header.Get("x-svc-model-router"), map[bool]string{true: "north"}[on &&
						model == "sim-claude"]; got != want {
						t.Errorf("%s: the router is %q, want %q", name, got, want)
					}
					var last answer
					if stream {
						events := strings.Split(strings.TrimSpace(string(body)), "\n\n")
						if len(events) < 3 || events[len(events)-1] != "data: [DONE]" {
							t.Fatalf("%s: %s", name, body)
						}
						body = []byte(strings.TrimPrefix(events[len(events)-2], "data: "))
					}
					if err := json.Unmarshal(body, &last); err != nil || last.Usage == nil {
						t.Fatalf("%s: %v, %s", name, err, body)
					}
					now := g.Settled()["a"].Spent
					charged := now - spent
					spent = now
					switch {
					case !on:
						if last.Cost != nil || last.Parameters != nil ||
							strings.Contains(string(body), "svc_parameters") {
							t.Errorf("%s: %s", name, body)
						}
					case last.Cost == nil || last.Cost.USD.String() != charged.String() ||
						last.Cost.DIEM.String() != "0":
						t.Errorf("%s: %+v, charged %s", name, last.Cost, charged)
					case !stream && (last.Parameters["strip_thinking_response"] != true ||
						last.Parameters["enable_web_search"] != "off" ||
						last.Parameters["include_svc_system_prompt"] != true):
						t.Errorf("%s: %v", name, last.Parameters)
					}
				}
			}
		}
	}
}
