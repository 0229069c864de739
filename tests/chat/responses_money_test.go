package chat

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/oracles/responsestest"
	"farebox/tests/rig"
)

// priced asks for responses one after the other and keeps the expected charge of each.
type priced struct {
	g    *rig.Gateway
	key  string
	sim  *rig.Simulated
	want map[string]wanted // by request id
	n    int
}

type wanted struct {
	what string
	cost int64
}

// ask asks a model under a scenario; the charge must match the upstream's tokens.
func (p *priced) ask(t *testing.T, model, scenario, members string) (status int, answer string) {
	t.Helper()
	p.n++
	id := fmt.Sprint("priced-", p.n)
	res := p.g.Open("POST", "/responses", p.key, fmt.Sprintf(
		`{"model":%q,"input":"[[sim id=%s %s]] How do rivers move?"%s}`, model, id, scenario, members))
	body, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	p.sim.Idle(t)
	made := p.sim.Made(id)
	cost := made.Prompt*1000 + made.Completion*2000
	if res.StatusCode != 200 {
		cost = 0 // nothing was delivered
	}
	p.want[res.Header.Get("x-request-id")] = wanted{model + " " + scenario + members, cost}
	return res.StatusCode, string(body)
}

// check compares the ledger with the generated tokens.
func (p *priced) check(t *testing.T) {
	t.Helper()
	total := int64(0)
	for _, w := range p.want {
		total += w.cost
	}
	spent := p.g.Settled()["a"].Spent
	if int64(spent) == total {
		return
	}
	t.Errorf("charged %s at a cost of %s", spent, rig.Money(total))
	var list struct {
		Data []struct {
			Amount           json.Number
			InferenceDetails struct{ RequestID string }
		}
	}
	p.g.Must(200, "GET", "/billing/usage?limit=500", p.g.Key("a", "--type", "ADMIN"), "", &list)
	charged := map[string]int64{}
	for _, e := range list.Data {
		amount := rig.Exact(t, json.Number(strings.TrimPrefix(e.Amount.String(), "-")))
		charged[e.InferenceDetails.RequestID] += int64(amount)
	}
	for id, w := range p.want {
		if charged[id] != w.cost {
			t.Errorf("%s: charged %d, made for %d", w.what, charged[id], w.cost)
		}
	}
}

// A response costs the tokens that the upstream generated, in every dialect, and whenever, how
// often and where the upstream reports usage.
func TestResponsesCostWhatWasMade(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startResponses(t, sim.URL, "sdk")
	p := &priced{g: g, key: key, sim: sim, want: map[string]wanted{}}
	const tools = `,"tools":[{"type":"function","name":"look","parameters":{"type":"object","properties":{"where":` +
		`{"type":"string"}}}},{"type":"function","name":"tell","parameters":{"type":"object"}}]`
	for _, model := range []string{"own", "openai", "anthropic", "google"} {
		for _, stream := range []string{"", `,"stream":true`} {
			read := func(answer string) (string, error) {
				if stream == "" {
					r, err := responsestest.CheckResponse([]byte(answer))
					if err != nil {
						return "", err
					}
					return string(r.Status), nil
				}
				r, err := responsestest.Check(answer)
				if err != nil {
					return "", err
				}
				return string(r.Status), nil
			}
			for _, c := range []struct{ scenario, members, status string }{
				{"tokens=24", "", "completed"},
				{"tokens=24 split=byte comments=1 usage=late", "", "completed"},
				{"tokens=24 usage=twice", "", ""},
				{"reasoning=6", `,"max_output_tokens":30`, "incomplete"},
				{"tokens=20 hidden=9", `,"reasoning":{"effort":"high"}`, "completed"},
				{"tool=all", tools, "completed"},
				{"tokens=24 usage=none", "", "completed"},
			} {
				status, answer := p.ask(t, model, c.scenario, c.members+stream)
				if status != 200 {
					t.Errorf("%s %s: %d %s", model, c.scenario, status, answer)
				}
				if c.status == "" || strings.Contains(c.scenario, "usage=none") && model == "own" {
					continue // the upstream's own events, which are not in order
				}
				if got, err := read(answer); err != nil || got != c.status {
					t.Errorf("%s %s%s: %s %v\n%s", model, c.scenario, stream, got, err, answer)
				}
			}
			status, answer := p.ask(t, model, "status=500", stream)
			if status < 500 || strings.Contains(answer, "internal.simulated") {
				t.Errorf("%s: a failure is answered %d %s", model, status, answer)
			}
		}
		// When a stream fails midway, the client gets the error and pays for the delivered tokens.
		for _, how := range []string{"error_event=1 error_after=7", "cut=rst cut_after=7", "cut=fin cut_after=7"} {
			status, answer := p.ask(t, model, "tokens=24 gap_ms=3 "+how, `,"stream":true`)
			if status != 200 || !strings.Contains(answer, "event: error\n") || strings.Contains(answer, "response.completed") ||
				strings.Contains(answer, "internal.simulated") || strings.Contains(answer, "127.0.0.1") {
				t.Errorf("%s %s: %d %s", model, how, status, answer)
			}
			if r, err := responsestest.Check(answer); model != "own" && (err != nil || r.Status != "failed") {
				t.Errorf("%s %s: %v\n%s", model, how, err, answer)
			}
		}
	}
	p.check(t)
}

// A client that leaves pays for the generated tokens: an answer with possible hidden thinking is
// read to its end after the client left.
func TestResponsesThatAreLeftArePaid(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startResponses(t, sim.URL, "sdk")
	cost := rig.Money(0)
	for _, model := range []string{"own", "openai", "anthropic", "google"} {
		res := g.Open("POST", "/responses", key, `{"model":"`+model+
			`","input":"[[sim id=left-`+model+` tokens=40 gap_ms=5]] Go","stream":true}`)
		r := bufio.NewReader(res.Body)
		for line := ""; !strings.HasPrefix(line, "event: response.output_text.delta"); {
			var err error
			if line, err = r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		_ = res.Body.Close()
		sim.Idle(t)
		made := sim.Made("left-" + model)
		if made.Completion != 40 {
			t.Errorf("%s: %d tokens were made", model, made.Completion)
		}
		cost += rig.Money(made.Prompt*1000 + made.Completion*2000)
	}
	if got := g.Settled()["a"].Spent; got != cost {
		t.Errorf("charged %s at a cost of %s", got, cost)
	}
}
