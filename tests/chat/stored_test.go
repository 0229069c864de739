package chat

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/tidwall/gjson"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// startKeeping is startResponses with answers that are kept.
func startKeeping(t testing.TB, url, events, more string) *rig.Gateway {
	t.Helper()
	g := rig.StartGateway(t, fmt.Sprintf(responsesConfig, strings.TrimSuffix(url, "/v1"), events)+"responses: { keep: 1h }\n"+more)
	g.NewAccount("a", "100")
	g.NewAccount("b", "100")
	return g
}

// answered is the response that a request of a turn has.
func (u *turn) answered(input, more string) gjson.Result {
	u.g.T.Helper()
	status, answer := u.post(input, more)
	if status != 200 {
		u.g.T.Fatalf("%s: %d %s", u.model, status, answer)
	}
	if !u.stream {
		return gjson.ParseBytes(answer)
	}
	for line := range strings.Lines(string(answer)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok && gjson.Get(data, "response.usage.input_tokens").Int() > 0 {
			return gjson.Get(data, "response")
		}
	}
	u.g.T.Fatalf("%s: no end in %s", u.model, answer)
	return gjson.Result{}
}

// goesOn is the member that names the answer before.
func goesOn(response gjson.Result) string {
	return `,"previous_response_id":` + response.Get("id").Raw
}

// "My client sends previous_response_id, and the model had forgotten everything." Upstreams get the
// same body as if it held the conversation, and the charge is the same.
func TestRequestsGoOnFromKeptAnswers(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	for events, models := range map[string][]string{"sdk": {"own", "openai", "anthropic", "google"}, "spec": {"openai"}} {
		g := startKeeping(t, sim.URL, events, "")
		key := g.Key("a")
		for _, model := range models {
			for _, stream := range []bool{false, events == "sdk"} {
				u := newTurn(g, key, model, stream)
				u.goOn(sim)
			}
		}
		g.CLI("verify")
	}
}

// goOn has three turns, each sent whole and as a continuation.
func (u *turn) goOn(sim *rig.Simulated) {
	t := u.g.T.(*testing.T)
	t.Helper()
	without := strings.NewReplacer(`"store":false,`, "")
	input := strings.Replace(u.user, "tool=weather", "tool=weather rounds=1", 1)
	last := u.answered(input, "")
	for step := range 3 {
		own := fmt.Sprintf(`{"role":"user","content":"And %d?"}`, step)
		if step == 0 {
			own = `{"type":"function_call_output","call_id":` + last.Get(`output.#(type=="function_call").call_id`).Raw + `,"output":"sun"}`
		}
		for _, item := range last.Get("output").Array() {
			input += "," + item.Raw
		}
		input += "," + own
		before := u.g.Settled()["a"].Spent
		u.answered(input, `,"store":false`)
		sent, cost := without.Replace(string(sim.Latest(t).Body)), u.g.Settled()["a"].Spent-before
		next := u.answered(own, goesOn(last))
		got, paid := without.Replace(string(sim.Latest(t).Body)), u.g.Settled()["a"].Spent-before-cost
		if got != sent || paid != cost || paid == 0 {
			t.Errorf("%s, step %d: sent for %s is\n%s\nwith all items for %s\n%s", u.model, step, paid, got, cost, sent)
		}
		if said := next.Get("previous_response_id"); said.Exists() && (said.Str != last.Get("id").Str || !next.Get("store").Bool()) {
			t.Errorf("%s: the answer says it goes on from %s, stored %s", u.model, said.Raw, next.Get("store").Raw)
		}
		last = next
	}
}

// OpenAI's package reads a kept answer and its input, page by page, and deletes it. Other accounts
// cannot, and a deleted answer is gone for conversations, too.
func TestKeptAnswersAreReadAndDeleted(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := startKeeping(t, sim.URL, "sdk", "")
	ctx := context.Background()
	key, stranger := g.Key("a"), g.Key("b")
	client := openai.NewClient(option.WithBaseURL(g.URL), option.WithAPIKey(key), option.WithMaxRetries(0))
	for _, model := range []string{"own", "openai", "anthropic"} {
		u := newTurn(g, key, model, model == "anthropic")
		first := u.answered(`{"role":"user","content":"Hello"}`, "")
		second := u.answered(`{"type":"message","role":"user","content":"And?"},{"role":"user","content":[{"type":"input_text","text":"Well?"}]}`,
			goesOn(first))
		id := second.Get("id").Str
		read, err := client.Responses.Get(ctx, id, responses.ResponseGetParams{})
		if err != nil || read.RawJSON() != second.Raw {
			t.Errorf("%s: read is %s (%v), sent was %s", model, read.RawJSON(), err, second.Raw)
		}
		var all []string
		pages := client.Responses.InputItems.ListAutoPaging(ctx, id, responses.InputItemListParams{
			Order: responses.InputItemListParamsOrderAsc, Limit: openai.Int(2)})
		for pages.Next() {
			all = append(all, pages.Current().ID)
		}
		if want := 3 + len(first.Get("output").Array()); pages.Err() != nil || len(all) != want || all[0] == "" {
			t.Errorf("%s: the input has %q (%v), want %d items", model, all, pages.Err(), want)
		}
		for _, path := range []string{"/responses/" + id, "/responses/" + id + "/input_items"} {
			if status, _, answer := g.Get(path, stranger); status != 404 || !bytes.Contains(answer, []byte("RESPONSE_NOT_FOUND")) {
				t.Errorf("%s: another account reads %d %s", model, status, answer)
			}
		}
		g.Must(404, "DELETE", "/responses/"+id, stranger, "", nil)
		if _, err := client.Responses.Get(ctx, id, responses.ResponseGetParams{}); err != nil {
			t.Errorf("%s: after another account deleted: %v", model, err)
		}
		third := u.answered(`{"role":"user","content":"So?"}`, goesOn(second))
		if err := client.Responses.Delete(ctx, id); err != nil {
			t.Errorf("%s: %v", model, err)
		}
		requests := sim.Idle(t).Requests
		for _, gone := range []gjson.Result{second, third} {
			if status, answer := u.post(`{"role":"user","content":"So?"}`, goesOn(gone)); status != 404 {
				t.Errorf("%s: a deleted answer continues with %d %s", model, status, answer)
			}
		}
		if status, _, _ := g.Get("/responses/"+id, key); status != 404 {
			t.Errorf("%s: a deleted answer is read with %d", model, status)
		}
		item := second.Get("output.@reverse.0.id").Raw
		if status, answer := u.post(`{"role":"user","content":"Hi"},{"type":"item_reference","id":`+item+`}`, ""); status != 404 {
			t.Errorf("%s: an item of a deleted answer is found: %d %s", model, status, answer)
		}
		if n := sim.Idle(t).Requests; n != requests {
			t.Errorf("%s: the upstream had %d requests, not %d", model, n, requests)
		}
		u.answered(`{"role":"user","content":"So?"}`, goesOn(first))
	}
	g.CLI("verify")
}

// store: false keeps nothing, and still continues a kept answer. Without keep an answer is not
// kept, and a header says that previous_response_id has no effect.
func TestAnswersAreKeptOnlyWhereAsked(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := startKeeping(t, sim.URL, "sdk", "")
	key := g.Key("a")
	for _, model := range []string{"own", "openai"} {
		u := newTurn(g, key, model, false)
		kept := u.answered(`{"role":"user","content":"Hello"}`, "")
		not := u.answered(`{"role":"user","content":"And?"}`, goesOn(kept)+`,"store":false`)
		if !strings.Contains(string(sim.Latest(t).Body), "Hello") || not.Get("store").Bool() {
			t.Errorf("%s: sent is %s, answered %s", model, sim.Latest(t).Body, not.Raw)
		}
		before := g.Settled()["a"].Spent
		for _, id := range []string{not.Get("id").Raw, `"resp_1"`, `""`, `"` + strings.Repeat("x", 300) + `"`} {
			status, answer := u.post(`{"role":"user","content":"And?"}`, `,"previous_response_id":`+id)
			if status != 404 || !strings.Contains(string(answer), "previous_response_id") {
				t.Errorf("%s: %s is answered %d %s", model, id, status, answer)
			}
		}
		if status, answer := u.post(`{"role":"user","content":"And?"}`, `,"previous_response_id":7`); status != 400 {
			t.Errorf("%s: a number is answered %d %s", model, status, answer)
		}
		if status, answer := u.post(`{"role":"user","content":[{"type":"input_image","file_id":"x"}]}`, goesOn(kept)); status != 400 ||
			!bytes.Contains(answer, []byte(`"input",0,"content",0`)) {
			t.Errorf("%s: a wrong item of its own is answered %d %s", model, status, answer)
		}
		if spent := g.Settled()["a"].Spent; spent != before {
			t.Errorf("%s: %s was charged for a refused request", model, spent-before)
		}
		if status, _, answer := g.Get("/responses/"+kept.Get("id").Str+"?stream=true", key); status != 400 {
			t.Errorf("%s: a stream of a kept answer is %d %s", model, status, answer)
		}
	}
	off, offKey := startResponses(t, sim.URL, "sdk")
	status, header, answer := off.Post("/responses", offKey, `{"model":"openai","input":"Hi","previous_response_id":"resp_1"}`)
	if status != 200 || header.Get("X-Svc-Left-Out") != "previous_response_id" || gjson.GetBytes(answer, "store").Bool() {
		t.Errorf("without keep: %d, left out %q, %s", status, header.Get("X-Svc-Left-Out"), answer)
	}
	if status, _, answer := off.Get("/responses/"+gjson.GetBytes(answer, "id").Str, offKey); status != 404 {
		t.Errorf("without keep an answer is read with %d %s", status, answer)
	}
	if _, err := os.Stat(filepath.Join(off.Dir, "ledger", "responses")); !os.IsNotExist(err) {
		t.Errorf("answers lie on disk: %v", err)
	}
}

// Large answers and inputs are kept whole. Kept answers survive kill -9, sealed, and an
// account beyond its share keeps nothing more, while others do.
func TestKeptAnswersOutliveAKill(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := startKeeping(t, sim.URL, "sdk", "idempotency: { max_keys: 48 }\n")
	u := newTurn(g, g.Key("a"), "openai", true)
	large := strings.Repeat("farebox ", 80_000)
	first := u.answered(`{"role":"user","content":"[[sim tokens=4]] `+large+`"}`, "")
	g.Kill()
	paths, _ := filepath.Glob(filepath.Join(g.Dir, "*", "responses", "*"))
	if len(paths) == 0 {
		paths, _ = filepath.Glob(filepath.Join(g.Dir, "*", "*", "responses", "*"))
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || bytes.Contains(text, []byte("farebox farebox")) || len(text) < len(large) {
			t.Errorf("%s has %d bytes, and the text in it (%v)", path, len(text), err)
		}
	}
	if len(paths) == 0 {
		t.Error("no answers lie on disk")
	}
	g.Start()
	second := u.answered(`{"role":"user","content":"And?"}`, goesOn(first))
	if !strings.Contains(string(sim.Latest(t).Body), large) {
		t.Error("the upstream does not get the kept answer")
	}
	for range 30 {
		u.answered(`{"role":"user","content":"More"}`, "")
	}
	last := u.answered(`{"role":"user","content":"And?"}`, goesOn(second))
	if status, answer := u.post(`{"role":"user","content":"And?"}`, goesOn(last)); status != 404 {
		t.Errorf("beyond its share an account goes on with %d %s", status, answer)
	}
	other := newTurn(g, g.Key("b"), "openai", false)
	other.answered(`{"role":"user","content":"And?"}`, goesOn(other.answered(`{"role":"user","content":"Hi"}`, "")))
	if n, _ := g.Metric(`farebox_responses_total{outcome="full"}`); n == 0 {
		t.Error("nothing is counted as not kept")
	}
	g.CLI("verify")
}

// An upstream that ends its stream without its items has sent them before. Answers in
// Redis are found, and without Redis the request is refused and free.
func TestStreamsWithoutOutputAreKept(t *testing.T) {
	t.Parallel()
	var last []byte
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"id\":\"msg_1\",\"type\":\"message\","+
			"\"role\":\"assistant\",\"status\":\"completed\",\"content\":[{\"type\":\"output_text\",\"text\":\"tulips\",\"annotations\":[]}]}}\n\n"+
			"data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"status\":\"completed\",\"output\":[],"+
			"\"usage\":{\"input_tokens\":5,\"output_tokens\":3}}}\n\n")
	}))
	t.Cleanup(up.Close)
	redis := servers.StartRedis(t)
	g := startKeeping(t, up.URL, "sdk", "redis: { addresses: [\""+redis.Addr+"\"] }\n")
	u := newTurn(g, g.Key("a"), "own", true)
	u.answered(`{"role":"user","content":"Which flowers?"}`, "")
	u.answered(`{"role":"user","content":"And?"}`, `,"previous_response_id":"resp_1"`)
	if !bytes.Contains(last, []byte("tulips")) || !bytes.Contains(last, []byte("Which flowers?")) {
		t.Errorf("the upstream got %s", last)
	}
	spent := g.Settled()["a"].Spent
	redis.Stop()
	began := time.Now()
	if status, answer := u.post(`{"role":"user","content":"And?"}`, `,"previous_response_id":"resp_1"`); status != 503 {
		t.Errorf("without Redis: %d %s", status, answer)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the refusal took %s", took)
	}
	u.answered(`{"role":"user","content":"Hello?"}`, "")
	if now := g.Settled()["a"].Spent; now <= spent {
		t.Errorf("%s was charged after %s", now, spent)
	}
}
