package chat

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
	"farebox/tests/rig"
)

// cloudForms are the ways to ask for the same, with how a stream ends that is whole.
var cloudForms = []struct{ path, end, failed, body string }{
	{"/chat/completions", "data: [DONE]\n\n", `data: {"error":`,
		`{"model":"MODEL","max_completion_tokens":200,"messages":[{"role":"user","content":"TEXT"}]MORE}`},
	{"/responses", "event: response.completed\n", "event: error\n",
		`{"model":"MODEL","max_output_tokens":200,"input":"TEXT"MORE}`},
	{"/messages", "event: message_stop\n", "event: error\n",
		`{"model":"MODEL","max_tokens":200,"messages":[ {"role":"user", "content":"TEXT"} ]MORE}`},
}

// In every cloud and format, and however an answer ends, the charge covers the tokens that the
// cloud generated.
func TestCloudsCostTheirTokens(t *testing.T) {
	t.Parallel()
	c := startClouds(t)
	g := rig.StartGateway(t, c.config(""))
	g.NewAccount("rich", "100")
	key := g.Key("rich")
	ids := map[string]bool{}
	for _, model := range cloudModels {
		for _, form := range cloudForms {
			ask := func(more, scenario string) (int, string) {
				t.Helper()
				id := fmt.Sprint("made-", len(ids))
				status, _, answer := g.Post(form.path, key, strings.NewReplacer("MODEL", model, "MORE", more,
					"TEXT", "How do rivers move? [[sim id="+id+" "+scenario+"]]").Replace(form.body))
				ids[id] = status == 200
				return status, string(answer)
			}
			if status, answer := ask("", "tokens=9"); status != 200 || strings.Contains(answer, "some-"+model) {
				t.Errorf("%s by %s: %d %s", form.path, model, status, answer)
			}
			status, answer := ask(`,"stream":true`, "tokens=11")
			if status != 200 || !strings.Contains(answer, form.end) || strings.Contains(answer, form.failed) ||
				strings.Contains(answer, "some-"+model) {
				t.Errorf("%s streams by %s: %d %s", form.path, model, status, answer)
			}
			for _, how := range []string{"error_event=1 error_after=7", "cut=rst cut_after=7"} {
				status, answer := 0, ""
				// A busy gateway may read the first event together with the fault, and answers with a status then.
				for try := 0; status != 200 && try < 5; try++ {
					status, answer = ask(`,"stream":true`, "tokens=20 gap_ms=2 "+how)
				}
				if status != 200 || strings.Count(answer, form.failed) != 1 || strings.Contains(answer, "internal.simulated") ||
					form.path != "/chat/completions" && strings.Contains(answer, form.end) {
					t.Errorf("%s by %s, %s: %d %s", form.path, model, how, status, rig.Last(answer, 400))
				}
			}
			if status, answer := ask("", "status=500"); status < 500 || strings.Contains(answer, "internal.simulated") {
				t.Errorf("%s by %s fails: %d %s", form.path, model, status, answer)
			}
		}
		// A client that leaves pays for the generated tokens.
		id := "left-" + model
		res := g.Open("POST", "/chat/completions", key, cloudAsk(model, `"stream":true,`, "[[sim id="+id+" tokens=20 gap_ms=3]]"))
		for r := bufio.NewReader(res.Body); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, `"content":"`) && !strings.Contains(line, `"content":""`) {
				break
			}
		}
		_ = res.Body.Close()
		ids[id] = true
	}
	c.Idle(t)
	var want rig.Money
	for id, charged := range ids {
		made := c.Made(id)
		if charged && made.Completion == 0 {
			t.Errorf("%s: nothing was made", id)
		}
		if charged {
			want += rig.Money(made.Prompt*1000 + made.Completion*2000)
		}
	}
	if got := g.Settled()["rich"].Spent; got != want {
		t.Errorf("spent %s, the clouds made %s", got, want)
	}
}

// Claude in a cloud gets the bytes of clients that write its own form.
func TestClaudeInACloudGetsTheClientsOwnBytes(t *testing.T) {
	t.Parallel()
	c := startClouds(t)
	g := rig.StartGateway(t, c.config(""))
	g.NewAccount("rich", "100")
	key := g.Key("rich")
	const told = `"max_tokens" : 50,"messages":[ {"role":"user", "content":"hi\u0021"} ],"metadata":{"user_id":"u"}}`
	for model, first := range map[string]string{
		"bedrock-claude": `{ "model": "some-bedrock-claude",`,
		"vertex-claude":  `{ "anthropic_version":"vertex-2023-10-16",`,
	} {
		status, _, answer := g.Post("/messages", key, `{ "model": "`+model+`",`+told)
		if status != 200 || !strings.Contains(string(answer), `"model":"`+model+`"`) {
			t.Errorf("%s: %d %s", model, status, answer)
		}
		if got := string(c.Latest(t).Body); got != first+told {
			t.Errorf("%s got %s", model, got)
		}
	}
}

// A report of Azure's filter about a prompt, in an event without choices, is not billed
// and does no harm; a client whose prompt sets off the filter pays nothing.
func TestReportsOfAzuresFilter(t *testing.T) {
	t.Parallel()
	c := startClouds(t)
	g := rig.StartGateway(t, c.config(""))
	g.NewAccount("rich", "100")
	key := g.Key("rich")
	for _, model := range []string{"azure", "azure-entra"} {
		_, _, answer := g.Post("/chat/completions", key, cloudAsk(model, `"stream":true,`, "hello [[sim tokens=5]]"))
		head, rest, ok := strings.Cut(string(answer), "\n\n")
		if !ok || !strings.Contains(head, `"prompt_filter_results":[{`) || !strings.Contains(head, `"choices":[]`) ||
			!strings.HasSuffix(rest, "data: [DONE]\n\n") || strings.Contains(rest, "prompt_filter") {
			t.Errorf("%s: %s", model, answer)
		}
		for _, stream := range []string{"", `"stream":true,`} {
			status, _, answer := g.Post("/chat/completions", key, cloudAsk(model, stream, "[[sim status=400 kind=policy]]"))
			if status != 422 || strings.Contains(strings.ToLower(string(answer)), "microsoft") {
				t.Errorf("%s: %d %s", model, status, answer)
			}
		}
	}
	made := c.Idle(t).Outcomes[upstream.Complete]
	if got, want := g.Settled()["rich"].Spent, rig.Produced(made); got != want || made.Requests != 2 {
		t.Errorf("spent %s, made %s in %d answers", got, want, made.Requests)
	}
}

// A lying token endpoint gives no token: requests are 503 and cost nothing, the operator reads why,
// and no secret is shown.
func TestALyingTokenEndpointCostsNobodyAnything(t *testing.T) {
	t.Parallel()
	c := startClouds(t)
	c.Identity().Lie(`{"access_token":"stolen-token","expires_in":0}`)
	g := rig.StartGateway(t, c.config("  - { id: two, context_tokens: 1000, price: free, "+
		"targets: [{ upstream: vertex }, { upstream: azure, priority: 1 }] }\n"))
	g.NewAccount("rich", "100")
	key := g.Key("rich")
	refused := func(why string) {
		t.Helper()
		rig.Await(t, "the reason in the log: "+why, func() bool { return strings.Contains(g.Log(), why) })
		status, _, answer := g.Post("/chat/completions", key, cloudAsk("vertex", "", "hello"))
		if status != 503 || strings.Contains(string(answer), "token") {
			t.Errorf("%s: %d %s", why, status, answer)
		}
	}
	refused("expected expires_in")
	c.Identity().Lie(`{"access_token":"` + strings.Repeat("x", 1<<20) + `","expires_in":3600}`)
	refused("too large")
	c.Identity().Fail(302)
	refused("refuses (302)")
	if status, _, answer := g.Post("/chat/completions", key, cloudAsk("two", "", "hello")); status != 200 {
		t.Errorf("another target is not asked: %d %s", status, answer)
	}
	if spent := g.Settled()["rich"].Spent; spent != 0 {
		t.Errorf("spent %s", spent)
	}
	c.Identity().Lie("")
	c.Identity().Fail(0)
	rig.Await(t, "an answer", func() bool {
		status, _, _ := g.Post("/chat/completions", key, cloudAsk("vertex", "", "hello"))
		return status == 200
	})
	res, err := http.Get(g.MetricsURL())
	if err != nil {
		t.Fatal(err)
	}
	metrics, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	for _, secret := range []string{"stolen-token", "ya29.", "xxxxxxxx", "PRIVATE KEY", strict.AWSSecretKey} {
		if strings.Contains(g.Log(), secret) || strings.Contains(string(metrics), secret) {
			t.Errorf("the log or the metrics have %q", secret)
		}
	}
}

// Keys of a role go with a session token, which is signed and sent; without it they are
// worth nothing, and cost nothing.
func TestKeysOfARoleComeWithTheirSession(t *testing.T) {
	t.Parallel()
	c := startClouds(t)
	c.Identity().AddAWS("ASIAROLE", "secret/of+role")
	c.Identity().BindAWS("ASIAROLE", "session//token==")
	c.write(t, c.awsFile, awsProfile("ASIAROLE", "secret/of+role"))
	g := rig.StartGateway(t, c.config(""))
	g.NewAccount("rich", "100")
	key := g.Key("rich")
	ask := func() int {
		status, _, answer := g.Post("/chat/completions", key, cloudAsk("bedrock-claude", "", "hello"))
		if strings.Contains(string(answer), "session") || strings.Contains(string(answer), "security token") {
			t.Errorf("%s", answer)
		}
		return status
	}
	if status := ask(); status != 503 {
		t.Errorf("without the session: %d", status)
	}
	if spent := g.Settled()["rich"].Spent; spent != 0 {
		t.Errorf("spent %s", spent)
	}
	c.write(t, c.awsFile, awsProfile("ASIAROLE", "secret/of+role")+"aws_session_token = session//token==\n")
	rig.Await(t, "the keys with their session", func() bool { return ask() == 200 })
	if strings.Contains(g.Log(), "session//token") || strings.Contains(g.Log(), "secret/of+role") {
		t.Error("the log has a secret")
	}
}
