package chat

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openai/openai-go/v3/responses"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/oracles/responsestest"
	"farebox/tests/rig"
)

// conversation is a random request of POST /responses, and its outcome.
type conversation struct {
	id, model, body string
	stream, breaks  bool
	status          string // empty: the upstream decides
}

// newConversation makes the request of a seed. An upstream that breaks off, or does not report its
// usage, is asked in few words whose tokens can be counted.
func newConversation(seed uint64) *conversation {
	r := rand.New(rand.NewPCG(seed, 1))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	c := &conversation{
		id: fmt.Sprint("random-", seed), model: pick("own", "openai", "anthropic", "google"), stream: r.IntN(4) > 0,
		status: "completed",
	}
	directive := fmt.Sprintf("id=%s tokens=%d ", c.id, 2+r.IntN(10)) +
		pick("", "", "split=byte", "split=utf8", "split=crlf crlf=1", "split=frame", "chunk=3", "chunk=7",
			"events_per_write=5", "comments=1", "crlf=1 comments=1")
	more := pick("", `,"reasoning":{"effort":"high"}`, `,"include":["reasoning.encrypted_content"]`, `,"temperature":1`)
	if c.stream {
		more += `,"stream":true`
	}
	input := ""
	switch r.IntN(4) {
	case 0: // usage that is late, missing or there twice
		directive += pick(" usage=none", " usage=twice", " usage=every", " usage=top", " usage=zerofirst", " usage=choices0")
		if r.IntN(20) == 0 {
			directive += " usage=late"
		}
		if c.model == "own" {
			c.status = "" // as the upstream sends it
		}
	case 1: // a failure in the middle
		if c.breaks = c.stream; c.breaks {
			directive += fmt.Sprintf(" gap_ms=1 "+pick("error_event=1 error_after=%d", "cut=fin cut_after=%d",
				"cut=rst cut_after=%d"), 1+r.IntN(2))
		}
	default:
		directive += pick("", " reasoning=3", " hidden=5", " tool=all", " tool=1", " cached=2", " unicode=1",
			" said_in=refusal")
		if strings.Contains(directive, "said_in") && c.model != "own" && c.model != "openai" {
			directive = strings.ReplaceAll(directive, " said_in=refusal", "")
		}
		if r.IntN(5) == 0 && !strings.Contains(directive, "tool=") {
			c.status, more = "incomplete", more+`,"max_output_tokens":16`
			directive = strings.Replace(directive, "tokens=", "tokens=9", 1)
		}
		input = history(r)
	}
	words := "[[sim " + directive + "]] Go"
	if input == "" {
		input = fmt.Sprintf("%q", words)
	} else {
		input = fmt.Sprintf(`[%s{"role":"user","content":[{"type":"input_text","text":%q}]}]`, input, words)
	}
	c.body = `{"model":"` + c.model + `","input":` + input + more + `,"tools":[` +
		`{"type":"function","name":"look","strict":false,"parameters":{"type":"object","properties":{"where":` +
		`{"type":"string"},"how":{"type":"integer"}}}},{"type":"function","name":"tell","parameters":{"type":"object"}}]}`
	return c
}

// history is a client's copy of earlier turns, with a comma after each item.
func history(r *rand.Rand) string {
	var b strings.Builder
	for turn := range r.IntN(4) {
		fmt.Fprintf(&b, `{"role":"user","content":"turn %d, \u00e9 \"and\" 😀"},`, turn)
		if r.IntN(2) == 0 {
			b.WriteString(`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"I wonder"}]},`)
		}
		if r.IntN(2) == 0 {
			calls := 1 + r.IntN(2)
			for call := range calls {
				fmt.Fprintf(&b, `{"type":"function_call","id":"fc_1","call_id":"call_%d%d","name":"look","arguments":`+
					`"{\"where\":\"here\"}","status":"completed"},`, turn, call)
			}
			for call := range calls {
				fmt.Fprintf(&b, `{"type":"function_call_output","call_id":"call_%d%d","output":"found it"},`, turn, call)
			}
		}
		b.WriteString(`{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[` +
			`{"type":"output_text","text":"so be it","annotations":[]}]},`)
	}
	return b.String()
}

// In 10,000 random conversations, whatever the upstream's faults, OpenAI's packages know every
// event with all its members, and the ledger has the generated tokens.
func TestLongRandomResponses(t *testing.T) {
	const workers = 24
	conversations := uint64(servers.Campaign(3_000))
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startResponses(t, sim.URL, "sdk")
	g.NewAccount("broken", "100")
	brokenKey := g.Key("broken")
	var next, wrong, cost, brokenCost atomic.Int64
	ended := map[string]int{}
	var mu sync.Mutex
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for seed := uint64(next.Add(1)); seed <= conversations && wrong.Load() < 5; seed = uint64(next.Add(1)) {
				c := newConversation(seed)
				key, cost := key, &cost
				if c.breaks {
					key, cost = brokenKey, &brokenCost
				}
				status, _, answer, err := rig.Try(rig.Client, g.URL+"/responses", key, c.body)
				if err != nil {
					t.Errorf("%s: %v", c.body, err)
					wrong.Add(1)
					continue
				}
				how, err := c.judge(status, answer)
				if err != nil {
					t.Errorf("%v\n%s\n%d %s", err, c.body, status, answer)
					wrong.Add(1)
				}
				mu.Lock()
				ended[how]++
				mu.Unlock()
				if status == 200 {
					made := sim.Made(c.id)
					for end := time.Now().Add(5 * time.Second); made.Requests == 0 && time.Now().Before(end); {
						time.Sleep(time.Millisecond)
						made = sim.Made(c.id)
					}
					cost.Add(made.Prompt*1000 + made.Completion*2000)
				}
			}
		})
	}
	work.Wait()
	t.Log(ended)
	accounts := g.Settled()
	if got := accounts["a"].Spent; got != rig.Money(cost.Load()) {
		t.Errorf("charged %s at a cost of %s", got, rig.Money(cost.Load()))
	}
	// Bytes that were on their way when a connection was reset have not arrived.
	const arrives = 0.95
	got, made := accounts["broken"].Spent, rig.Money(brokenCost.Load())
	if got > made || float64(got) < arrives*float64(made) {
		t.Errorf("charged %s for broken answers at a cost of %s", got, made)
	}
}

// judge says how a conversation ended.
func (c *conversation) judge(status int, answer string) (string, error) {
	if c.breaks && status >= 429 {
		return "failed at once", nil
	}
	if status != 200 {
		return "", fmt.Errorf("status %d", status)
	}
	if c.model == "own" && c.breaks {
		if strings.Contains(answer, "event: error\n") && !strings.Contains(answer, "response.completed") {
			return "failed", nil
		}
		return "", fmt.Errorf("there is no error")
	}
	if c.model == "own" && c.status == "" {
		return "as told", nil
	}
	read := responsestest.CheckResponse
	if c.stream {
		read = func(body []byte) (*responses.Response, error) {
			return responsestest.Check(strings.ReplaceAll(string(body), "\r\n", "\n"))
		}
	}
	r, err := read([]byte(answer))
	if err != nil {
		return "", err
	}
	want := c.status
	if c.breaks {
		want = "failed"
	}
	if string(r.Status) != want || r.Model != c.model {
		return "", fmt.Errorf("model %s ended %s, expected %s", r.Model, r.Status, want)
	}
	return want, nil
}
