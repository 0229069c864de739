package chat

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// turn is a tool turn as Vercel's AI SDK has it with openai(), which does not send store.
type turn struct {
	g             *rig.Gateway
	key, model    string
	stream        bool
	user, members string
}

func newTurn(g *rig.Gateway, key, model string, stream bool) *turn {
	return &turn{g: g, key: key, model: model, stream: stream,
		user: `{"role":"user","content":[{"type":"input_text","text":"[[sim tool=weather]] The weather?"}]}`,
		members: `"reasoning":{"effort":"low"},"tools":[{"type":"function","name":"weather","parameters":{"type":"object",` +
			`"properties":{"city":{"type":"string"}}}}],"tool_choice":"auto"`}
}

// post sends items as input.
func (u *turn) post(input, more string) (status int, answer []byte) {
	u.g.T.Helper()
	status, _, answer = u.g.Post("/responses", u.key, fmt.Sprintf(`{"model":%q,"stream":%v,%s%s,"input":[%s]}`, u.model, u.stream,
		u.members, more, input))
	return status, answer
}

// items are those of an answer.
func (u *turn) items(input, more string) []gjson.Result {
	u.g.T.Helper()
	status, answer := u.post(input, more)
	if status != 200 {
		u.g.T.Fatalf("%s: %d %s", u.model, status, answer)
	}
	if u.stream {
		return codexItems(u.g.T.(*testing.T), answer)
	}
	return gjson.GetBytes(answer, "output").Array()
}

// next is the input of the second step, with the items or with references to them. As SDK
// 6 sends it calls go in full; other clients send ids alone.
func (u *turn) next(items []gjson.Result, how string) string {
	input := u.user
	for _, item := range items {
		switch kind := item.Get("type").Str; {
		case how == "inline" || how == "sdk6" && kind == "function_call":
			input += "," + item.Raw
		case how == "ids":
			input += `,{"id":` + item.Get("id").Raw + `}`
		default:
			input += `,{"type":"item_reference","id":` + item.Get("id").Raw + `}`
		}
	}
	for _, item := range items {
		if item.Get("type").Str == "function_call" {
			input += `,{"type":"function_call_output","call_id":` + item.Get("call_id").Raw + `,"output":"sun"}`
		}
	}
	return input
}

// "The second step of every tool turn of the AI SDK was answered 400." Upstreams get the same body
// as if it held the items, and the charge is the same.
func TestReferencesToItemsOfAnswersWork(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	referring(t, sim, "spec", false, "openai", "anthropic", "google")
	referring(t, sim, "sdk", true, "own", "openai", "anthropic", "google")
}

// referring has turns with references in them, also in streams.
func referring(t *testing.T, sim *rig.Simulated, events string, streams bool, models ...string) {
	g, key := startResponses(t, sim.URL, events)
	g.NewAccount("b", "100")
	stranger := g.Key("b")
	for _, model := range models {
		for _, stream := range []bool{false, true}[:1+map[bool]int{true: 1}[streams]] {
			u := newTurn(g, key, model, stream)
			items := u.items(u.user, "")
			kinds := map[string]bool{}
			for _, item := range items {
				kinds[item.Get("type").Str] = true
			}
			if !kinds["function_call"] || !kinds["reasoning"] {
				t.Fatalf("%s: the first step gives %v", model, items)
			}
			var sent string
			var cost rig.Money
			for _, how := range []string{"inline", "sdk5", "sdk6", "ids"} {
				before := g.Settled()["a"].Spent
				if answered := u.items(u.next(items, how), ""); len(answered) == 0 {
					t.Errorf("%s, %s: no answer to the result", model, how)
				}
				got, paid := string(sim.Latest(t).Body), g.Settled()["a"].Spent-before
				if how == "inline" {
					sent, cost = got, paid
				} else if got != sent || paid != cost || paid == 0 {
					t.Errorf("%s, %s: sent for %s is\n%s\nwith the items for %s\n%s", model, how, paid, got, cost, sent)
				}
			}
			requests := sim.Idle(t).Requests
			u.key = stranger
			status, answer := u.post(u.next(items, "sdk6"), "")
			if status == 404 {
				t.Errorf("%s: a thought of another account is %d %s", model, status, answer)
			}
			requests += 1
			status, answer = u.post(u.next(items, "sdk5"), "")
			if status != 404 || !strings.Contains(string(answer), "ITEM_NOT_FOUND") || !bytes.Contains(answer, []byte(`"input",2,"id"`)) {
				t.Errorf("%s: another account is answered %d %s", model, status, answer)
			}
			if n := sim.Idle(t).Requests; n != requests {
				t.Errorf("%s: the upstream had %d requests, not %d", model, n, requests)
			}
		}
	}
	if n, _ := g.Metric(`farebox_items_total{outcome="kept"}`); n < 8 {
		t.Errorf("%v items were kept", n)
	}
	g.CLI("verify")
}

// Unknown items cost nothing and reach no upstream. An unknown thought is dropped and reported; an
// item referred to twice is sent once.
func TestUnknownItemsAreNotFound(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startResponses(t, sim.URL, "sdk")
	many := strings.TrimSuffix(strings.Repeat(`{"type":"item_reference","id":"msg_1"},`, 2049), ",")
	for _, model := range []string{"own", "openai"} {
		u := newTurn(g, key, model, false)
		for input, want := range map[string]int{
			u.user + `,{"type":"item_reference","id":"msg_1"}`: 404, u.user + `,{"id":"fc_1"}`: 404,
			u.user + `,{"type":"item_reference"}`: 400, u.user + `,{"type":"item_reference","id":""}`: 400, many: 400,
		} {
			if status, answer := u.post(input, ""); status != want || !strings.Contains(string(answer), "input") {
				t.Errorf("%s: %.80s is answered %d %s", model, input, status, answer)
			}
		}
		if n := sim.Idle(t).Requests; n != 0 {
			t.Errorf("the upstream had %d requests", n)
		}
		if spent := g.Settled()["a"].Spent; spent != 0 {
			t.Errorf("%s was charged for a refused request", spent)
		}
	}
	for _, model := range []string{"own", "openai", "anthropic", "google"} {
		u := newTurn(g, key, model, false)
		items := u.items(u.user, "")
		input := strings.Replace(u.next(items, "sdk5"), `,{"type":"function_call_output"`,
			`,{"type":"item_reference","id":`+items[len(items)-1].Get("id").Raw+`},{"type":"item_reference","id":"rs_x"}`+
				`,{"type":"function_call_output"`, 1)
		status, header, answer := g.Post("/responses", key, `{"model":"`+model+`",`+u.members+`,"input":[`+input+`]}`)
		if got := header.Get("X-Svc-Left-Out"); status != 200 || !strings.Contains(got, "input.reasoning_reference") {
			t.Errorf("%s: an unknown thought is answered %d %s, left out are %q", model, status, answer, got)
		}
	}
	g.CLI("verify")
}

// Referenced items count like the client's own bytes, in the limit of one body and in that
// of all together. A request gives them back at its end.
func TestItemsCountAsBytesOfTheBody(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(responsesConfig, strings.TrimSuffix(sim.URL, "/v1"), "sdk")+
		"server: { max_body: 6KB, max_in_flight: 6KB }\n")
	g.NewAccount("a", "100")
	key := g.Key("a")
	references := ""
	for _, want := range []int{200, 413} {
		_, _, answer := g.Post("/responses", key, `{"model":"openai","input":"[[sim tokens=700]] Hello"}`)
		item := gjson.GetBytes(answer, `output.#(type=="message")`)
		if n := len(item.Raw); n < 3<<10 || n > 5<<10 {
			t.Fatalf("the item has %d bytes: %s", n, answer)
		}
		references += `{"type":"item_reference","id":` + item.Get("id").Raw + `},`
		for range 4 {
			status, _, answer := g.Post("/responses", key, `{"model":"openai","input":[`+references+`{"role":"user","content":"And?"}]}`)
			if status != want {
				t.Fatalf("%s is answered %d %s, want %d", references, status, answer, want)
			}
		}
	}
}

// store: false keeps nothing, and so does item_references: 0.
func TestNothingIsKeptWithoutStore(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startResponses(t, sim.URL, "sdk")
	for _, model := range []string{"own", "anthropic"} {
		for _, stream := range []bool{false, true} {
			u := newTurn(g, key, model, stream)
			items := u.items(u.user, `,"store":false`)
			if status, answer := u.post(u.next(items, "sdk5"), ""); status != 404 {
				t.Errorf("%s: %d %s", model, status, answer)
			}
		}
	}
	if n, ok := g.Metric(`farebox_items_total{outcome="kept"}`); n != 0 || !ok {
		t.Errorf("%v items were kept", n)
	}
	off := rig.StartGateway(t, fmt.Sprintf(responsesConfig, strings.TrimSuffix(sim.URL, "/v1"), "sdk")+"responses: { item_references: 0 }\n")
	off.NewAccount("a", "100")
	u := newTurn(off, off.Key("a"), "openai", false)
	items := u.items(u.user, "")
	if status, answer := u.post(u.next(items, "sdk5"), ""); status != 400 {
		t.Errorf("without any that are kept: %d %s", status, answer)
	}
	if _, err := os.Stat(filepath.Join(off.Dir, "ledger", "items")); !os.IsNotExist(err) {
		t.Errorf("items lie on disk: %v", err)
	}
}

// itemFiles are the files of kept items.
func itemFiles(t *testing.T, g *rig.Gateway) (paths []string) {
	t.Helper()
	_ = filepath.WalkDir(g.Dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Base(filepath.Dir(path)) == "items" {
			paths = append(paths, path)
		}
		return nil
	})
	if len(paths) == 0 {
		t.Fatal("no items are kept on disk")
	}
	return paths
}

// An id that a client has read is known after kill -9. The disk does not show the conversation, and
// items older than the configured age are not found.
func TestItemsOutliveAKillAndExpire(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startResponses(t, sim.URL, "sdk")
	for _, model := range []string{"own", "openai"} {
		u := newTurn(g, key, model, true)
		items := u.items(u.user, "")
		keyed := fmt.Sprintf(`{"model":%q,%s,"input":[%s]}`, model, u.members, u.next(items, "sdk5"))
		status, _, first := g.WithKey("/responses", key, model, keyed)
		if status != 200 {
			t.Fatalf("%s: %d %s", model, status, first)
		}
		g.Kill()
		for _, path := range itemFiles(t, g) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range []string{"weather", "function_call", items[0].Get("id").Str} {
				if bytes.Contains(text, []byte(word)) {
					t.Errorf("%q is in %s", word, path)
				}
			}
		}
		g.Start()
		u.items(u.next(items, "sdk5"), "")
		if err := g.Stop(); err != nil {
			t.Fatal(err)
		}
		for _, path := range itemFiles(t, g) {
			old := time.Now().Add(-3*time.Hour).Unix() / 3600
			if err := os.Rename(path, filepath.Join(filepath.Dir(path), fmt.Sprintf("%010d.keys", old))); err != nil {
				t.Fatal(err)
			}
		}
		g.Start()
		if status, answer := u.post(u.next(items, "sdk5"), ""); status != 404 {
			t.Errorf("%s: an item that has expired is answered %d %s", model, status, answer)
		}
		// A paid answer is given again, also without the items that it was made of.
		if status, header, again := g.WithKey("/responses", key, model, keyed); status != 200 || again != first ||
			header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: the repeat is answered %d %s, first %s", model, status, again, first)
		}
		if status, _, answer := g.WithKey("/responses", key, model+"-2", keyed); status != 404 {
			t.Errorf("%s: another key is answered %d %s", model, status, answer)
		}
	}
	g.CLI("verify")
}

// The process is killed as soon as a client has read the id of an item, in the middle of
// its stream.
func TestAnItemIsKeptBeforeItsIDIsRead(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startResponses(t, sim.URL, "sdk")
	for _, model := range []string{"own", "openai", "anthropic"} {
		res := g.Open("POST", "/responses", key, `{"model":"`+model+`","stream":true,"reasoning":{"effort":"high"},`+
			`"input":"[[sim tokens=200 gap_ms=20]] Hello"}`)
		item := ""
		for lines := bufio.NewScanner(res.Body); lines.Scan() && item == ""; {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && gjson.Get(data, "type").Str == "response.output_item.done" {
				item = gjson.Get(data, "item.id").Raw
			}
		}
		g.Kill()
		_ = res.Body.Close()
		g.Start()
		status, header, answer := g.Post("/responses", key, `{"model":"openai","input":[{"role":"user","content":"Hello"},`+
			`{"type":"item_reference","id":`+item+`},{"role":"user","content":"And?"}]}`)
		if left := header.Get("X-Svc-Left-Out"); status != 200 || left != "" || item == "" {
			t.Errorf("%s: item %s is answered %d %s, left out are %q", model, item, status, answer, left)
		}
	}
	g.CLI("verify")
}

// Items of an upstream that takes the format itself have members of its own. It gets the same items
// back as if the client had sent them.
func TestItemsOfUpstreamsAreReferredTo(t *testing.T) {
	t.Parallel()
	const output = `{"id":"rs_01","type":"reasoning","summary":[],"content":null,"encrypted_content":"gAAA","status":null},` +
		`{"id":"msg_\u00e91","type":"message","role":"assistant","status":"completed","phase":"commentary","content":[{"type":"output_text",` +
		`"text":"\u00e9 \"x\"","annotations":[],"logprobs":[]}],"novel":{"a":[1.0]}},` +
		`{"id":"fc_01","type":"function_call","call_id":"c1","name":"f","namespace":null,"arguments":"{}","status":"completed"}`
	var last []byte
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last, _ = io.ReadAll(r.Body)
		if !gjson.GetBytes(last, "stream").Bool() {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"resp_1","status":"completed","model":"m","output":[`+output+`],"usage":{"input_tokens":5,"output_tokens":3}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i, item := range gjson.Parse("[" + output + "]").Array() {
			_, _ = fmt.Fprintf(w, "data: {\"type\":\"response.output_item.done\",\"output_index\":%d,\"item\":%s}\n\n", i, item.Raw)
		}
		_, _ = io.WriteString(w, "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"status\":\"completed\","+
			"\"output\":[],\"usage\":{\"input_tokens\":5,\"output_tokens\":3}}}\n\n")
	}))
	t.Cleanup(up.Close)
	g, key := startResponses(t, up.URL, "sdk")
	ask := func(stream bool, input string) {
		t.Helper()
		body := fmt.Sprintf(`{"model":"own","stream":%v,"max_output_tokens":9,"input":[{"role":"user","content":"Hi"}%s]}`, stream, input)
		if status, _, answer := g.Post("/responses", key, body); status != 200 {
			t.Fatalf("%s is answered %d %s", body, status, answer)
		}
	}
	for _, stream := range []bool{false, true} {
		ask(stream, "")
		const result = `,{"type":"function_call_output","call_id":"c1","output":"1"}`
		ask(false, ","+output+result)
		want := string(last)
		ask(false, `,{"type":"item_reference","id":"rs_01"},{"type":"item_reference","id":"msg_\u00e91"},{"id":"fc_01"}`+result)
		if string(last) != want || !strings.Contains(want, "gAAA") {
			t.Errorf("the upstream got\n%s, want\n%s", last, want)
		}
	}
}

// Answers go on where nothing can be kept: an account that has its share, and a Redis that
// is away. Others keep theirs.
func TestAnswersGoOnWhereNoItemIsKept(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	config := fmt.Sprintf(responsesConfig, strings.TrimSuffix(sim.URL, "/v1"), "sdk")
	g := rig.StartGateway(t, config+"idempotency: { max_keys: 32 }\n")
	g.NewAccount("a", "100")
	g.NewAccount("b", "100")
	greedy := newTurn(g, g.Key("a"), "openai", false)
	var last []gjson.Result
	for range 30 {
		last = greedy.items(greedy.user, "")
	}
	if status, answer := greedy.post(greedy.next(last, "sdk5"), ""); status != 404 {
		t.Errorf("beyond its share an account has %d %s", status, answer)
	}
	other := newTurn(g, g.Key("b"), "openai", false)
	other.items(other.next(other.items(other.user, ""), "sdk5"), "")
	if n, _ := g.Metric(`farebox_items_total{outcome="full"}`); n == 0 {
		t.Error("nothing is counted as not kept")
	}

	redis := servers.StartRedis(t)
	g = rig.StartGateway(t, config+"redis: { addresses: [\""+redis.Addr+"\"] }\n")
	g.NewAccount("a", "100")
	u := newTurn(g, g.Key("a"), "openai", true)
	items := u.items(u.user, "")
	u.items(u.next(items, "sdk5"), "")
	redis.Stop()
	began := time.Now()
	for range 3 {
		u.items(u.user, "")
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("three answers took %s without Redis", took)
	}
	if status, answer := u.post(u.next(items, "sdk5"), ""); status != 503 {
		t.Errorf("a reference without Redis is answered %d %s", status, answer)
	}
	if n, _ := g.Metric(`farebox_items_total{outcome="away"}`); n == 0 {
		t.Error("nothing is counted as not kept")
	}
}
