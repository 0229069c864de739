package image

import (
	"fmt"
	"net"
	"testing"

	"farebox/tests/rig"
)

// Pictures are treated alike: if an answer is not a picture, the next target makes it.
func TestBrokenPicturesGoToTheStandby(t *testing.T) {
	t.Parallel()
	answers := map[string]func(net.Conn, string){
		"no-picture": rig.Sends(rig.HTTPAnswer(200, "application/json", `{"data":[{"b64_json":"aGVsbG8="}]}`)),
		"cut-off": rig.Sends(rig.HTTPAnswer(200, "application/json", `{"data":[{"b64_json":"iVBORw0KGgo`,
			"Content-Length: 9000\r\n")),
		"reset": rig.Resets(rig.HTTPAnswer(200, "application/json", `{"data":[{"b64_json":"iVBORw0KGgo`,
			"Content-Length: 9000\r\n")),
		"html":         rig.Sends(rig.HTTPAnswer(200, "text/html", "<html></html>")),
		"empty":        rig.Sends(rig.HTTPAnswer(200, "application/json", "")),
		"error-object": rig.Sends(rig.HTTPAnswer(200, "application/json", `{"error":{"message":"worker died"}}`)),
		"none":         rig.Sends(rig.HTTPAnswer(200, "application/json", `{"data":[]}`)),
	}
	good := startEasel(t)
	text := "log: { level: warn, format: json }\nlimits: { failed_requests: { count: 0 } }\nbilling: { " +
		"minimum_balance: 0 }\nupstreams:\n  - { name: good, base_url: " + good.URL + " }\n"
	models, faulty := "models:\n", map[string]*rig.RawUpstream{}
	for name, answer := range answers {
		faulty[name] = rig.StartRaw(t, answer)
		text += fmt.Sprintf("  - { name: %s, base_url: %q, breaker: { failures: 3, open_for: 60s } }\n", name,
			faulty[name].URL)
		models += fmt.Sprintf("  - { id: m-%[1]s, type: image, tier: unlimited, constraints: { prompt_characters: 99 "+
			"}, price: { generation: 0.01 }, targets: [{ upstream: %[1]s }, { upstream: good, priority: 1 }] }\n", name)
	}
	g := rig.StartGateway(t, text+models)
	g.NewAccount("a", "10")
	key := g.Key("a")
	const n = 8
	for name := range answers {
		for range n {
			if status, _, answer := g.Post("/image/generate", key,
				`{"model":"m-`+name+`","prompt":"a boat","format":"png"}`); status != 200 {
				t.Errorf("%s: %d %.200s", name, status, answer)
			}
		}
		if asked := faulty[name].Asked.Load(); asked > 5 {
			t.Errorf("%s: the faulty target was asked %d times", name, asked)
		}
	}
	if a := g.Settled()["a"]; a.Spent != rig.Money(n*len(answers))*10_000_000 {
		t.Errorf("charged %s for %d pictures", a.Spent, n*len(answers))
	}
}
