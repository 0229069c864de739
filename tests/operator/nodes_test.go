package operator

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/tests/rig"
)

// nodesOf starts nodes on one PostgreSQL, each with an operators' API.
func nodesOf(t *testing.T, n int, more string) (*rig.Cluster, []*desk) {
	t.Helper()
	c := rig.NewCluster(t)
	var list []*desk
	for i := range n {
		list = append(list, nodeOf(c, fmt.Sprintf("n%d", i+1), more))
	}
	return c, list
}

func nodeOf(c *rig.Cluster, name, more string) *desk {
	c.T.Helper()
	g := c.NewNode(name)
	text, err := os.ReadFile(g.Config)
	if err != nil {
		c.T.Fatal(err)
	}
	addr := rig.FreeAddr(c.T)
	g.WriteConfig(strings.Replace(string(text), "rate: { rpm: 30 }", "rate: { rpm: 60000 }", 1) + more + fmt.Sprintf(settings, addr))
	g.ListenAndStart()
	c.Nodes = append(c.Nodes, g)
	return &desk{g, c.T, "http://" + addr + "/operator/v1"}
}

// nodesIn are the names of the nodes of an answer, each once.
func nodesIn(answer gjson.Result) string {
	var names []string
	for _, row := range answer.Get("data").Array() {
		if name := row.Get("node").Str; len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// One call speaks for all nodes, or for the one that it names.
func TestOneCallSpeaksForAllNodes(t *testing.T) {
	t.Parallel()
	_, d := nodesOf(t, 2, "")
	for _, path := range []string{"/health", "/upstreams", "/models"} {
		if all := d[1].must("GET", path, ""); nodesIn(all) != "n2 n1" || all.Get("missing").Raw != "[]" {
			t.Errorf("%s: %s", path, all)
		}
		for _, name := range []string{"n1", "1"} {
			if one := d[1].must("GET", path+"?node="+name, ""); nodesIn(one) != "n1" {
				t.Errorf("%s of %s: %s", path, name, one)
			}
		}
		if status, _, answer := d[0].as("boss", "GET", path+"?node=n3", ""); status != 404 {
			t.Errorf("%s of no node: %d %s", path, status, answer)
		}
	}
	checked := d[0].must("POST", "/upstreams/only/check", "")
	if nodesIn(checked) != "n1 n2" || checked.Get("data.#(good==false)").Exists() || checked.Get(`data.#(upstream=="only").status`).Int() != 200 {
		t.Errorf("check: %s", checked)
	}
	if status, _, answer := d[0].as("boss", "POST", "/upstreams/none/check", ""); status != 404 {
		t.Errorf("check of no upstream: %d %s", status, answer)
	}
	// Every node reads its own file; the audit log has the order once.
	before := d[0].must("GET", "/audit?operation=reload_config", "").Get("data.#").Int()
	for _, one := range d {
		text, err := os.ReadFile(one.Config)
		if err != nil {
			t.Fatal(err)
		}
		one.WriteConfig(strings.Replace(string(text), "helper: support", "helper: read-only", 1))
	}
	if r := d[0].must("POST", "/config/reload", ""); nodesIn(r) != "n1 n2" || r.Get("data.#(done==false)").Exists() {
		t.Errorf("reload: %s", r)
	}
	for _, one := range d {
		if _, _, answer := one.as("helper", "GET", "/self", ""); !strings.Contains(answer, `"role":"read-only"`) {
			t.Errorf("after the reload: %s", answer)
		}
	}
	if list := d[1].must("GET", "/audit?operation=reload_config", ""); list.Get("data.#").Int() != before+1 || list.Get("data.0.who").Str != "boss" {
		t.Errorf("the audit log: %s", list)
	}
}

// A node that is stopped is named, and costs an operation two seconds.
func TestAStoppedNodeIsMissing(t *testing.T) {
	t.Parallel()
	_, d := nodesOf(t, 2, "")
	d[1].Signal(syscall.SIGSTOP)
	defer d[1].Signal(syscall.SIGCONT)
	began := time.Now()
	var calls sync.WaitGroup
	for _, path := range []string{"/health", "/upstreams"} {
		calls.Go(func() {
			if all := d[0].must("GET", path, ""); nodesIn(all) != "n1" || all.Get("missing").Raw != `["n2"]` {
				t.Errorf("%s: %s", path, all)
			}
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("%s took %v", path, took)
			}
		})
	}
	// An operation that does not need the other node does not wait for it.
	rig.Soon(t, "this node alone", 1500*time.Millisecond, func(int) time.Duration {
		began := time.Now()
		if one := d[0].must("GET", "/health?node=n1", ""); nodesIn(one) != "n1" {
			t.Errorf("%s", one)
		}
		return time.Since(began)
	})
	calls.Wait()
}

// A drain on one node stops new requests on all, and no stream. A restart remembers it.
func TestADrainHoldsOnAllNodes(t *testing.T) {
	t.Parallel()
	c, d := nodesOf(t, 2, "")
	d[0].NewAccount("a", "10")
	key := d[0].Key("a")
	ask := rig.Ask("sim-chat", "[[sim tokens=2]] Hello", "")
	rpc := `{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}`
	served := func(g *desk, path, body string) bool {
		status, _, answer := g.Post(path, key, body)
		if status != 200 && status != 503 && status != 500 { // RPC says 500
			t.Errorf("%s is answered %d %s", path, status, answer)
		}
		return status == 200
	}
	// A turn counts as 100 ms at most, since a busy machine may stall in it.
	within := 2 * time.Second
	if rig.RaceDetector() {
		within = 10 * time.Second
	}
	soon := func(what, path, body string, want bool) {
		t.Helper()
		waited := time.Duration(0)
		for _, g := range d {
			for began := time.Now(); served(g, path, body) != want; began = time.Now() {
				time.Sleep(10 * time.Millisecond)
				if waited += min(time.Since(began), 100*time.Millisecond); waited > within {
					t.Fatalf("%s: on %s it is not so after %v", what, g.base, within)
				}
			}
		}
	}
	soon("at first", "/chat/completions", ask, true)
	var streams sync.WaitGroup
	for _, g := range d {
		streams.Go(func() {
			status, _, answer := g.Post("/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=30 gap_ms=100]] Go", `,"stream":true`))
			if status != 200 || !strings.Contains(string(answer), "[DONE]") {
				t.Errorf("a stream under way ended with %d %.300s", status, answer)
			}
		})
	}
	until(t, "two streams are under way", func() bool {
		list := d[0].must("GET", "/upstreams", "")
		return len(list.Get(`data.#(model=="sim-chat")#|#(requests_under_way>0)#`).Array()) == 2
	})
	if s := d[0].must("POST", "/upstreams/only/drain", `{"model":"sim-chat","reason":"their maintenance"}`); s.Get("state").Str != "drained" ||
		s.Get("by").Str != "boss" || s.Get("reason").Str != "their maintenance" {
		t.Errorf("drain: %s", s)
	}
	soon("drained", "/chat/completions", ask, false)
	if _, _, answer := d[1].Post("/chat/completions", key, ask); !strings.Contains(string(answer), "MODEL_AT_CAPACITY") {
		t.Errorf("a drained model is answered %s", answer)
	}
	streams.Wait()
	if !served(d[1], "/crypto/rpc/ethereum-sepolia", rpc) {
		t.Error("another thing of that upstream is drained, too")
	}
	states := d[1].must("GET", "/upstreams", "").Get(`data.#(model=="sim-chat")#`)
	if states.Get("#(state!=drained)").Exists() || states.Get("#").Int() != 2 || states.Get("0.steering.by").Str != "boss" {
		t.Errorf("states: %s", states)
	}
	// A node that starts and a reload honour it.
	d = append(d, nodeOf(c, "n3", ""))
	if r := d[0].must("POST", "/config/reload", ""); r.Get("data.#").Int() != 3 {
		t.Errorf("reload: %s", r)
	}
	soon("drained, after a start and a reload", "/chat/completions", ask, false)
	if s := d[2].must("POST", "/upstreams/only/resume", `{"model":"sim-chat"}`); s.Get("state").Str != "serving" {
		t.Errorf("resume: %s", s)
	}
	soon("resumed", "/chat/completions", ask, true)
	// The nodes of blockchains are steered alike.
	d[0].must("POST", "/upstreams/only/offline", `{"model":"ethereum-sepolia"}`)
	soon("offline", "/crypto/rpc/ethereum-sepolia", rpc, false)
	d[0].must("POST", "/upstreams/only/resume", "")
	soon("resumed", "/crypto/rpc/ethereum-sepolia", rpc, true)
	if status, _, answer := d[0].as("boss", "POST", "/upstreams/none/drain", ""); status != 404 {
		t.Errorf("drain of no upstream: %d %s", status, answer)
	}
	audit := d[0].must("GET", "/audit?subject=only", "")
	if audit.Get("data.#").Int() != 4 || audit.Get("data.3.operation").Str != "drain_upstream" || audit.Get("data.3.before.state").Str != "serving" ||
		audit.Get("data.3.after.state").Str != "drained" {
		t.Errorf("the audit log: %s", audit)
	}
}

// Health shows the version and state of each node, and warns of faults within one or among them.
func TestHealthWarns(t *testing.T) {
	t.Parallel()
	_, d := nodesOf(t, 2, "")
	codes := func(h gjson.Result) string {
		var list []string
		for _, w := range h.Get("warnings").Array() {
			if w.Get("message").Str == "" {
				t.Errorf("a warning without words: %s", w)
			}
			if code := w.Get("code").Str; code != "disk_low" { // of this machine
				list = append(list, code)
			}
		}
		return strings.Join(list, " ")
	}
	all := d[0].must("GET", "/health", "")
	for _, h := range all.Get("data").Array() {
		if codes(h) != "no_backup" || h.Get("last_backup").Type != gjson.Null || h.Get("store.latency_ms").Float() <= 0 ||
			h.Get("store.size_bytes").Int() <= 0 || h.Get("store.disk").Type != gjson.Null || h.Get("journal.disk.total_bytes").Int() <= 0 ||
			!h.Get("redis.up").Bool() || h.Get("version").Str == "" || h.Get("started_at").Str == "" || len(h.Get("config_digest").Str) != 12 {
			t.Errorf("health: %s", h)
		}
	}
	if all.Get("data.0.config_digest").Str != all.Get("data.1.config_digest").Str {
		t.Errorf("alike but for the node: %s", all)
	}
	if status, _, body := d[1].as("boss", "GET", "/backup", ""); status != 200 || len(body) == 0 {
		t.Fatalf("a backup is answered %d", status)
	}
	until(t, "the backup is noted", func() bool { return d[0].must("GET", "/health?node=n1", "").Get("data.0.last_backup.by").Str == "boss" })
	text, err := os.ReadFile(d[1].Config)
	if err != nil {
		t.Fatal(err)
	}
	d[1].WriteConfig(strings.Replace(string(text), "input: 1,", "input: 1.5,", 1))
	d[0].must("POST", "/config/reload?node=n2", "")
	for _, h := range d[0].must("GET", "/health", "").Get("data").Array() {
		if codes(h) != "config_differs" || h.Get("last_backup.bytes").Int() <= 0 {
			t.Errorf("health: %s", h)
		}
	}
	d[1].must("POST", "/upstreams/only/drain", `{"model":"sim-few"}`)
	d[1].WriteConfig(strings.Replace(string(text), "id: sim-few", "id: sim-fewer", 1))
	d[1].must("POST", "/config/reload?node=n2", "")
	if h := d[0].must("GET", "/health?node=n2", "").Get("data.0"); codes(h) != "steering_unknown" {
		t.Errorf("health: %s", h)
	}
}

// until waits for something to be so.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is not so after a minute: %s", what)
		}
	}
}
