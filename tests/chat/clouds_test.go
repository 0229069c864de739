package chat

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
	"farebox/tests/rig"
)

// clouds are a simulated upstream's doors of Azure, Bedrock and Vertex, with the
// files that prove who asks.
type clouds struct {
	*rig.Simulated
	root, tokenFile, keyFile, awsFile string
}

func startClouds(t *testing.T) *clouds {
	t.Helper()
	sim := rig.StartUpstream(t, upstream.Options{Key: "upstream-key", Keep: 200})
	dir := t.TempDir()
	c := &clouds{Simulated: sim, root: strings.TrimSuffix(sim.URL, "/v1"), tokenFile: filepath.Join(dir, "token"),
		keyFile: filepath.Join(dir, "google.json"), awsFile: filepath.Join(dir, "credentials")}
	c.write(t, c.tokenFile, sim.Identity().EntraToken(time.Hour))
	c.write(t, c.keyFile, string(sim.Identity().ServiceAccount("https://oauth2.googleapis.com/token")))
	c.write(t, c.awsFile, awsProfile(strict.AWSAccessKey, strict.AWSSecretKey))
	return c
}

func awsProfile(access, secret string) string {
	return "[default]\naws_access_key_id = " + access + "\naws_secret_access_key = " + secret + "\n"
}

// write replaces a file in one step.
func (c *clouds) write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// config has one model for each way to a cloud; a token costs 1000 or 2000 nano.
func (c *clouds) config(more string) string {
	text := `
compat: { accept_max_tokens: true, responses_events: sdk }
limits: { tiers: { M: { rpm: 1000000, tpm: 1000000000 } } }
upstreams:
  - { name: azure, dialect: azure, base_url: ROOT/azure, key: upstream-key, azure: { api_version: 2024-10-21 } }
  - { name: azure-entra, dialect: azure, base_url: ROOT/azure, token_file: TOKEN }
  - { name: bedrock, dialect: bedrock, base_url: ROOT/bedrock, key: upstream-key }
  - { name: bedrock-signed, dialect: bedrock, base_url: ROOT/bedrock,
      aws: { region: us-east-1, access_key: ` + strict.AWSAccessKey + `, secret_key: "` + strict.AWSSecretKey + `" } }
  - { name: bedrock-claude, dialect: bedrock, base_url: ROOT/bedrock,
      aws: { region: us-east-1, api: anthropic, credentials_file: AWS } }
  - { name: vertex, dialect: vertex, base_url: ROOT/vertex,
      google: { project: simulated-project, key_file: KEY, token_url: ROOT/vertex/token } }
  - { name: vertex-claude, dialect: vertex, base_url: ROOT/vertex,
      google: { project: simulated-project, location: us-east5, publisher: anthropic, key_file: KEY, token_url: ROOT/vertex/token } }
models:
`
	for _, name := range cloudModels {
		text += fmt.Sprintf("  - { id: %s, context_tokens: 100000, max_completion_tokens: 1000, capabilities: { tools: true }, "+
			"price: { input: 1, output: 2 }, targets: [{ upstream: %s, model: some-%s }] }\n", name, name, name)
	}
	return strings.NewReplacer("ROOT", c.root, "TOKEN", c.tokenFile, "KEY", c.keyFile, "AWS", c.awsFile).Replace(text) + more
}

var cloudModels = []string{"azure", "azure-entra", "bedrock", "bedrock-signed", "bedrock-claude", "vertex", "vertex-claude"}

func cloudAsk(model, more, text string) string {
	return `{"model":"` + model + `",` + more + `"max_completion_tokens":200,"messages":[{"role":"user","content":"` + text + `"}]}`
}

// Each cloud's simulator checks its vendor's documented interface: paths, versions, queries,
// bodies, keys, signatures and tokens. The charge is exact to the token.
func TestCloudsAreAskedAsTheirVendorsSay(t *testing.T) {
	t.Parallel()
	c := startClouds(t)
	g := rig.StartGateway(t, c.config(""))
	g.NewAccount("rich", "100")
	key := g.Key("rich")
	for _, model := range cloudModels {
		status, _, answer := g.Post("/chat/completions", key, cloudAsk(model, "", "hello [[sim tokens=7]]"))
		if status != 200 || !strings.Contains(string(answer), `"finish_reason":"stop"`) {
			t.Errorf("%s: %d %s", model, status, answer)
		}
		status, _, answer = g.Post("/chat/completions", key, cloudAsk(model, `"stream":true,`, "hello [[sim tokens=9]]"))
		if status != 200 || !strings.HasSuffix(string(answer), "data: [DONE]\n\n") ||
			strings.Contains(string(answer), "some-") {
			t.Errorf("%s streams: %d %s", model, status, answer)
		}
	}
	made := c.Idle(t).Tokens
	if made.Requests != int64(2*len(cloudModels)) && made.CompletionTokens == 0 {
		t.Errorf("%+v", made)
	}
	want := rig.Money(made.PromptTokens*1000 + made.CompletionTokens*2000)
	if got := g.Settled()["rich"].Spent; got != want {
		t.Errorf("spent %s, the upstreams made %s", got, want)
	}
	secrets := []string{strict.AWSSecretKey, "upstream-key", "ya29.", "BEGIN PRIVATE"}
	for _, s := range secrets {
		if strings.Contains(g.Log(), s) {
			t.Errorf("the log has %q", s)
		}
	}
}

// The shipped examples, with the simulated clouds in the place of real ones.
func TestExamplesOfCloudsAreServed(t *testing.T) {
	t.Parallel()
	c := startClouds(t)
	for name, models := range map[string][]string{
		"azure": {"gpt-4.1"}, "bedrock": {"gpt-oss-120b", "claude"}, "vertex": {"gemini-2.5-flash", "claude"},
	} {
		data, err := os.ReadFile("config/examples/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		text := regexp.MustCompile(`(?m)^(listen|store):.*$`).ReplaceAllString(string(data), "")
		text = regexp.MustCompile(`base_url: .*`).ReplaceAllString(text, "base_url: "+c.root+"/azure")
		text = regexp.MustCompile(`    dialect: (bedrock|vertex)`).ReplaceAllString(text, "    dialect: $1\n    base_url: "+c.root+"/$1")
		text = strings.NewReplacer("${AWS_ACCESS_KEY_ID}", strict.AWSAccessKey, "${AWS_SECRET_ACCESS_KEY}",
			strict.AWSSecretKey, "${AZURE_API_KEY}", "upstream-key", "${BEDROCK_API_KEY}", "upstream-key",
			"/run/secrets/azure-token", c.tokenFile,
			"/run/secrets/google.json", c.keyFile+"\n      token_url: "+c.root+"/vertex/token").Replace(text)
		g := rig.StartGateway(t, text)
		g.NewAccount("rich", "100")
		key := g.Key("rich")
		for _, model := range models {
			for range 3 {
				if status, _, answer := g.Post("/chat/completions", key, cloudAsk(model, "", "hello")); status != 200 {
					t.Errorf("%s of %s: %d %s", model, name, status, answer)
				}
			}
		}
	}
}

// Tokens change under load, the old ones are taken back at once, and no request
// fails.
func TestTokensAreRotatedUnderLoad(t *testing.T) {
	t.Parallel()
	c := startClouds(t)
	c.Identity().Life(3 * time.Second)
	g := rig.StartGateway(t, c.config(""))
	g.NewAccount("rich", "100")
	key := g.Key("rich")
	var failed, served atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(4 * time.Second)
	for i := range 6 {
		model := []string{"azure-entra", "vertex-claude", "bedrock-claude"}[i%3]
		wg.Go(func() {
			for time.Now().Before(end) {
				status, _, answer := g.Post("/chat/completions", key, cloudAsk(model, "", "hello"))
				served.Add(1)
				if status != 200 && failed.Add(1) < 5 {
					t.Errorf("%s: %d %s", model, status, answer)
				}
			}
		})
	}
	for i := 0; time.Now().Before(end.Add(-300 * time.Millisecond)); i++ {
		old, err := os.ReadFile(c.tokenFile)
		if err != nil {
			t.Fatal(err)
		}
		// Renewing a token leaves the old one valid for some time, but not always until
		// all requests have read the new one.
		c.write(t, c.tokenFile, c.Identity().EntraToken(time.Hour))
		c.Identity().AddAWS(fmt.Sprint("AKID", i), "secret")
		c.write(t, c.awsFile, awsProfile(fmt.Sprint("AKID", i), "secret"))
		time.Sleep(300 * time.Millisecond)
		c.Identity().Revoke(string(old))
		c.Identity().RevokeAWS(fmt.Sprint("AKID", i-1))
		time.Sleep(2100 * time.Millisecond)
	}
	wg.Wait()
	if failed.Load() > 0 || served.Load() < 50 {
		t.Errorf("%d of %d requests failed", failed.Load(), served.Load())
	}
}

// A token that is revoked is renewed once; the target is not put to rest.
func TestARevokedTokenCostsNoRequest(t *testing.T) {
	t.Parallel()
	c := startClouds(t)
	g := rig.StartGateway(t, c.config(""))
	g.NewAccount("rich", "100")
	key := g.Key("rich")
	ask := func(want int) string {
		t.Helper()
		status, _, answer := g.Post("/chat/completions", key, cloudAsk("vertex-claude", "", "hello"))
		if status != want {
			t.Errorf("%d %s", status, answer)
		}
		return string(answer)
	}
	ask(200)
	before := c.Identity().Asked()
	c.Identity().Revoke()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { ask(200) })
	}
	wg.Wait()
	if n := c.Identity().Asked() - before; n != 1 {
		t.Errorf("%d tokens were got for one refusal", n)
	}
}

// While the token endpoint is away the last token is used until it expires; then requests are 503,
// without a vendor's name, and succeed again when it is back.
func TestATokenEndpointThatIsAway(t *testing.T) {
	t.Parallel()
	c := startClouds(t)
	c.Identity().Life(3 * time.Second)
	g := rig.StartGateway(t, c.config(""))
	g.NewAccount("rich", "100")
	key := g.Key("rich")
	ask := func() (int, string) {
		status, _, answer := g.Post("/chat/completions", key, cloudAsk("vertex-claude", "", "hello"))
		return status, string(answer)
	}
	began := time.Now()
	if status, answer := ask(); status != 200 {
		t.Fatal(status, answer)
	}
	c.Identity().Fail(500)
	good := 0
	status, answer := ask()
	for ; status == 200 && time.Since(began) < 20*time.Second; status, answer = ask() {
		good++
		time.Sleep(20 * time.Millisecond)
	}
	early := time.Since(began) < 2*time.Second
	if status != 503 || !strings.Contains(answer, "MODEL_OFFLINE") || strings.Contains(answer, "token") || early {
		t.Errorf("after %d good ones: %d %s", good, status, answer)
	}
	if !strings.Contains(g.Log(), "cannot renew the token of the upstream") {
		t.Error("the log does not warn the operator")
	}
	c.Identity().Fail(0)
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if status, answer = ask(); status == 200 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it is back: %d %s", status, answer)
		}
	}
}

// This machine's clock is an hour behind, and signatures with it: the operator reads by how much.
func TestAWrongClockIsInTheLog(t *testing.T) {
	t.Parallel()
	c := startClouds(t)
	c.Identity().Skew(time.Hour)
	g := rig.StartGateway(t, c.config(""))
	g.NewAccount("rich", "100")
	key := g.Key("rich")
	for _, model := range []string{"bedrock-signed", "bedrock-claude"} {
		status, _, answer := g.Post("/chat/completions", key, cloudAsk(model, "", "hello"))
		if status != 503 || !strings.Contains(string(answer), "MODEL_OFFLINE") || strings.Contains(string(answer), "clock") {
			t.Errorf("%s: %d %s", model, status, answer)
		}
	}
	if log := g.Log(); !regexp.MustCompile(`whose clock is (1h0m\d|59m5\d)s behind AWS's: set the clock`).MatchString(log) {
		t.Error("the log does not say how wrong the clock is")
	}
}

func TestErrorsOfCloudsNameNothingOfTheOperators(t *testing.T) {
	t.Parallel()
	c := startClouds(t)
	text := c.config("")
	for _, model := range []string{"azure", "vertex-claude"} {
		text += "  - { id: missing-" + model + ", context_tokens: 100000, price: free, targets: [{ upstream: " + model + ", model: missing-secret }] }\n"
	}
	text = strings.ReplaceAll(text, "key: upstream-key }", "key: wrong-key-1 }") // of bedrock
	g := rig.StartGateway(t, text)
	g.NewAccount("rich", "100")
	key := g.Key("rich")
	f := func(model, words string, want int, code string) {
		t.Helper()
		status, header, answer := g.Post("/chat/completions", key, cloudAsk(model, "", words))
		if status != want || !strings.Contains(string(answer), code) {
			t.Errorf("%s: %d %s", model, status, answer)
		}
		for _, secret := range []string{"simsecret", "missing-secret", "azure", "microsoft", "deployment", "google", "127.0.0.1", "wrong-key"} {
			if strings.Contains(strings.ReplaceAll(strings.ToLower(string(answer))+fmt.Sprint(header), model, ""), secret) {
				t.Errorf("%s: the answer shows %q: %s", model, secret, answer)
			}
		}
	}
	f("azure", "[[sim status=400 kind=policy]]", 422, "CONTENT_POLICY_VIOLATION")
	f("missing-azure", "hello", 503, "MODEL_OFFLINE")
	f("missing-vertex-claude", "hello", 503, "MODEL_OFFLINE")
	f("bedrock", "hello", 503, "MODEL_OFFLINE")
	if strings.Contains(g.Log(), "wrong-key") {
		t.Error("the log has a key")
	}
}

func TestStreamsOfCloudsThatFailEndWithTheErrorEvent(t *testing.T) {
	t.Parallel()
	c := startClouds(t)
	g := rig.StartGateway(t, c.config(""))
	g.NewAccount("rich", "100")
	key := g.Key("rich")
	for _, model := range cloudModels {
		for _, how := range []string{"error_event=1 error_after=20", "cut=rst cut_after=20"} {
			status, _, answer := g.Post("/chat/completions", key,
				cloudAsk(model, `"stream":true,`, "hello [[sim tokens=50 gap_ms=1 "+how+"]]"))
			if status != 200 || strings.Count(string(answer), `data: {"error":{"message":`) != 1 ||
				!strings.HasSuffix(string(answer), "data: [DONE]\n\n") {
				t.Errorf("%s %s: %d %s", model, how, status, rig.Last(string(answer), 300))
			}
		}
	}
}

// A reload that leaves a credential alone gets no new token, one that changes it does.
func TestReloadsKeepTokens(t *testing.T) {
	t.Parallel()
	c := startClouds(t)
	g := rig.StartGateway(t, c.config(""))
	g.NewAccount("rich", "100")
	key := g.Key("rich")
	ask := func(model string) int {
		status, _, _ := g.Post("/chat/completions", key, cloudAsk(model, "", "hello"))
		return status
	}
	if ask("vertex-claude") != 200 || ask("vertex") != 200 {
		t.Fatal("it does not answer")
	}
	if n := c.Identity().Asked(); n != 2 {
		t.Fatalf("%d tokens for two upstreams", n)
	}
	reload := func(text, id string) {
		t.Helper()
		g.WriteConfig(text + "  - { id: " + id + ", context_tokens: 1000, price: free, targets: [{ upstream: vertex-claude, model: x }] }\n")
		for end := time.Now().Add(time.Minute); ask(id) != 200; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the config was not reloaded")
			}
		}
	}
	// Other limits of its connections, the same credential.
	reload(strings.ReplaceAll(c.config(""), "location: us-east5,", "location: us-east1,"), "one")
	if n := c.Identity().Asked(); n != 2 {
		t.Errorf("%d tokens after a reload", n)
	}
	c.write(t, c.keyFile+".2", string(c.Identity().ServiceAccount("https://oauth2.googleapis.com/token")))
	reload(strings.ReplaceAll(c.config(""), c.keyFile, c.keyFile+".2"), "two")
	if n := c.Identity().Asked(); n != 4 {
		t.Errorf("%d tokens after a reload with another key file", n)
	}
}
