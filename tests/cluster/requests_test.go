package cluster

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/tests/rig"
)

// An operator looks on any node for a request that any node has served: the one that answered, and
// the one that refused.
func TestARequestIsFoundOnAnotherNode(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 2)
	a, b := c.Nodes[0], c.Nodes[1]
	a.NewAccount("rich", "10")
	a.NewAccount("poor", "0.000001")
	rich, poor := a.Key("rich"), a.Key("poor")
	for name, key := range map[string]string{"rich": rich, "poor": poor} {
		status, header, _ := a.Post("/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=9]] Hello", ""))
		r := requestOn(b, header.Get("X-Request-Id"))
		if r.Get("account").Str != name || r.Get("status").Int() != int64(status) {
			t.Errorf("the row %s for the answer %d to %s", r.Raw, status, name)
		}
		switch {
		case name == "rich" && (status != 200 || r.Get("charge.lines.1.units").Int() != 9):
			t.Errorf("answered: %s", r.Raw)
		case name == "poor" && (status != 402 || r.Get("limit").Str != "balance" || r.Get("node").Str != "n1"):
			t.Errorf("refused: %s", r.Raw)
		}
	}
	list := gjson.ParseBytes(b.CLI("operator", "call", "GET", "/refusals?account=poor"))
	if list.Get("data.#").Int() != 1 || list.Get("data.0.needed").Float() <= 0.000001 {
		t.Errorf("refusals on the other node: %s", list.Raw)
	}
}

// requestOn finds a request on a node, within its time to be written.
func requestOn(g *rig.Gateway, id string) gjson.Result {
	g.T.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		out, err := g.TryCLI("operator", "call", "GET", "/requests/"+id)
		if err == nil {
			return gjson.ParseBytes(out)
		}
		if !strings.Contains(err.Error(), http.StatusText(http.StatusNotFound)) || time.Now().After(end) {
			g.T.Fatal(err)
		}
	}
}
