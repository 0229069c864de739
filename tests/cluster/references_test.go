package cluster

import (
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/tests/rig"
)

// An answer of one node is read, continued and deleted at the other, also after a kill.
func TestNodesFindEachOthersAnswers(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 2)
	first, second := c.Nodes[0], c.Nodes[1]
	first.NewAccount("a", "10")
	first.NewAccount("b", "10")
	key, stranger := first.Key("a"), first.Key("b")
	var answer, other struct{ ID string }
	first.Must(200, "POST", "/responses", key, `{"model":"sim-chat","input":"Hello"}`, &answer)
	first.Must(200, "POST", "/responses", key, `{"model":"sim-chat","input":"Good day"}`, &other)
	ask := fmt.Sprintf(`{"model":"sim-chat","input":"And?","previous_response_id":%q}`, answer.ID)
	second.Must(404, "POST", "/responses", stranger, ask, nil)
	second.Must(404, "GET", "/responses/"+answer.ID, stranger, "", nil)
	second.Must(404, "DELETE", "/responses/"+answer.ID, stranger, "", nil)
	second.Must(200, "DELETE", "/responses/"+other.ID, key, "", nil)
	first.Must(404, "GET", "/responses/"+other.ID, key, "", nil)
	first.Kill()
	second.Must(200, "GET", "/responses/"+answer.ID, key, "", nil)
	second.Must(200, "POST", "/responses", key, ask, nil)
	if said := gjson.GetBytes(c.Sim.Latest(t).Body, "messages.#.content").Array(); len(said) != 3 || said[0].Str != "Hello" {
		t.Errorf("the upstream gets %s", said)
	}
	if a := second.Accounts()["b"]; a.Spent != 0 {
		t.Errorf("%s was charged for a missing answer", a.Spent)
	}
}

// One node answers, the other is asked with references to the items of that answer, also
// after the first was killed.
func TestNodesFindItemsOfEachOthersAnswers(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 2)
	first, second := c.Nodes[0], c.Nodes[1]
	first.NewAccount("a", "10")
	first.NewAccount("b", "10")
	key, stranger := first.Key("a"), first.Key("b")
	var answer struct {
		Output []struct{ ID string }
	}
	first.Must(200, "POST", "/responses", key, `{"model":"sim-chat","input":"Hello"}`, &answer)
	if len(answer.Output) == 0 {
		t.Fatal("the answer has no items")
	}
	id := answer.Output[len(answer.Output)-1].ID
	ask := fmt.Sprintf(`{"model":"sim-chat","input":[{"role":"user","content":"Hello"},{"type":"item_reference","id":%q},`+
		`{"role":"user","content":"And?"}]}`, id)
	for _, g := range c.Nodes {
		g.Must(200, "POST", "/responses", key, ask, nil)
		if said := gjson.GetBytes(c.Sim.Latest(t).Body, "messages.1"); said.Get("role").Str != "assistant" || said.Get("content").Str == "" {
			t.Errorf("the upstream gets %s", said.Raw)
		}
		g.Must(404, "POST", "/responses", stranger, ask, nil)
	}
	first.Kill()
	second.Must(200, "POST", "/responses", key, ask, nil)
	if a := second.Accounts()["b"]; a.Spent != 0 {
		t.Errorf("%s was charged for a missing answer", a.Spent)
	}
}
