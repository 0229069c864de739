package operations

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// A first run needs no file: it prints keys once and a curl line that works as
// it is; a second start finds the same account and money.
func TestFirstRunAndSecondStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	addr := rig.FreeAddr(t)
	start := func() (*exec.Cmd, *rig.Output) {
		cmd := exec.Command(rig.Binary(t), "serve", "--listen", addr)
		cmd.Dir, cmd.Env = dir, rig.Env(t)
		out := &rig.Output{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(rig.StartLimit); !strings.Contains(out.String(),
			"first call:"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				_ = cmd.Process.Kill()
				t.Fatalf("no banner within %s:\n%s", rig.StartLimit, out)
			}
		}
		time.Sleep(50 * time.Millisecond)
		return cmd, out
	}
	stop := func(cmd *exec.Cmd) {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("farebox did not stop with status 0: %v", err)
		}
	}
	cmd, out := start()
	banner := out.String()
	for _, want := range []string{"SIMULATED", "100 USD", "SVC_ADMIN_KEY_", "SVC_INFERENCE_KEY_", "http://" + addr + "/api/v1", "farebox demo"} {
		if !strings.Contains(strings.ReplaceAll(banner, rig.Binary(t), "farebox"), want) {
			t.Errorf("the banner does not say %q:\n%s", want, banner)
		}
	}
	said := regexp.MustCompile(`(?s)farebox [0-9].*more: .*?\n`).FindString(banner)
	if n := strings.Count(said, "\n"); n == 0 || n > 11 {
		t.Errorf("the banner has %d lines:\n%s", n, banner)
	}
	more, err := rig.RunIn(t, dir, "demo")
	if err != nil {
		t.Error(err)
	}
	curl := regexp.MustCompile(`(?m)^\s*(curl .*)$`)
	curls := append(curl.FindAllStringSubmatch(banner, -1), curl.FindAllStringSubmatch(more, -1)...)
	wants := []string{`"chat.completion"`, `"chat.completion.chunk"`, `"chat.completion"`, `"format":"markdown"`, `"queue_id"`, `"testRoot":true`,
		`"amountCredited":5,"newBalance":5`}
	if len(curls) != len(wants) {
		t.Fatalf("%d calls are shown:\n%s%s", len(curls), banner, more)
	}
	key := regexp.MustCompile(`SVC_INFERENCE_KEY_[A-Za-z0-9_-]+`).FindString(banner)
	for i, want := range wants {
		answer, err := exec.Command("sh", "-c", "KEY="+key+"; "+curls[i][1]+" -sS").CombinedOutput()
		if err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("the pasted line gave %v: %s", err, answer)
		}
	}
	operators := regexp.MustCompile(`operators +(curl http://127\.0\.0\.1:[0-9]+/operator/v1/.*)`).FindStringSubmatch(banner)
	if operators == nil {
		t.Fatalf("no call of an operator is shown:\n%s", banner)
	}
	if answer, err := exec.Command("sh", "-c", operators[1]+" -sS").CombinedOutput(); err != nil || !strings.Contains(string(answer), `"name":"demo"`) {
		t.Errorf("the pasted line of operators gave %v: %s", err, answer)
	}
	list, err := rig.RunIn(t, dir, "account", "list")
	if err != nil || !strings.Contains(list, "demo") || strings.Contains(list, " 100 ") {
		t.Errorf("after one call the accounts are (%v):\n%s", err, list)
	}
	stop(cmd)

	cmd, out = start()
	if strings.Contains(strings.ReplaceAll(out.String(), "<API key>", ""), "SVC_INFERENCE_KEY_") {
		t.Error("the second start shows a secret again")
	}
	again, err := rig.RunIn(t, dir, "account", "list")
	if err != nil || again != list {
		t.Errorf("after a restart the accounts are (%v):\n%s\nbefore:\n%s", err, again, list)
	}
	models, err := http.Get("http://" + addr + "/api/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	_ = models.Body.Close()
	if models.StatusCode != 401 { // a newcomer who forgot the header reads its name
		t.Errorf("the catalog without a key is answered %d", models.StatusCode)
	}
	stop(cmd)
}

// check names every mistake with line, column and the expected value, and fails.
func TestCheckSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	text := "brand: svc\nlisten: 127.0.0.1:8080\nmodles: []\nupstreams:\n  - name: a\n    base_url: ftp://x\n"
	if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := rig.RunIn(t, dir, "check", "-c", bad)
	if rig.ExitCode(err) != 1 {
		t.Errorf("check of a bad file exits %d", rig.ExitCode(err))
	}
	for _, want := range []string{"bad.yaml:3:1", "modles", "models", "bad.yaml:6:", "ftp"} {
		if !strings.Contains(out, want) {
			t.Errorf("check does not mention %q:\n%s", want, out)
		}
	}
}

// A saved file changes models without dropping a request; a bad one is
// reported and changes nothing.
func TestReloadUnderTraffic(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	text := fmt.Sprintf(rig.PrepaidConfig, sim.URL)
	g := rig.StartGateway(t, strings.Replace(text, "level: warn", "level: info", 1))
	g.NewAccount("a", "10")
	key := g.Key("a")

	var failed atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if status, _, answer := g.Post("/chat/completions", key, rig.Ask("sim-chat", "Hello", "")); status !=
					200 {
					failed.Add(1)
					t.Logf("%d %s", status, answer)
				}
			}
		}()
	}
	status := func(model string) int {
		s, _, _ := g.Post("/chat/completions", key, rig.Ask(model, "Hello", ""))
		return s
	}
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s did not happen; log:\n%s", what, g.Log())
			}
		}
	}
	added := strings.Replace(text, "  - id: sim-free",
		"  - id: sim-added\n    context_tokens: 8192\n    tier: unlimited\n    price: free\n    targets: [{ "+
			"upstream: only, model: sim-chat }]\n  - id: sim-free", 1)
	g.WriteConfig(added)
	eventually("the added model", func() bool { return status("sim-added") == 200 })
	g.WriteConfig("models: [")
	eventually("the report of the bad file", func() bool { return strings.Contains(g.Log(), `"level":"error"`) })
	if s := status("sim-added"); s != 200 {
		t.Errorf("after a bad file the added model answers %d", s)
	}
	g.WriteConfig(strings.Replace(text, "level: warn", "level: info", 1))
	g.Signal(syscall.SIGHUP)
	eventually("the removal", func() bool { return status("sim-added") == 404 })
	close(stop)
	wg.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d requests failed during reloads", n)
	}
}

// SIGTERM refuses new work, lets streams finish and ends with status 0.
func TestDrainLetsStreamsFinish(t *testing.T) {
	t.Parallel()
	sim, g := rig.StartPrepaid(t, "10")
	key := g.Key("a")
	const streams = 20
	var wg sync.WaitGroup
	whole := atomic.Int64{}
	opened := make(chan struct{}, streams)
	for range streams {
		wg.Add(1)
		go func() {
			defer wg.Done()
			res := g.Open("POST", "/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=30 gap_ms=50]] x",
				`,"stream":true`))
			defer func() { _ = res.Body.Close() }()
			opened <- struct{}{}
			if raw, err := io.ReadAll(res.Body); err == nil && strings.HasSuffix(string(raw), "data: [DONE]\n\n") {
				whole.Add(1)
			}
		}()
	}
	for range streams {
		<-opened
	}
	err := g.Stop()
	wg.Wait()
	if code := rig.ExitCode(err); code != 0 {
		t.Errorf("the drain ended with status %d: %v", code, err)
	}
	if whole.Load() != streams {
		t.Errorf("%d of %d streams finished", whole.Load(), streams)
	}
	a := g.Accounts()["a"]
	tokens := sim.Idle(t).Tokens
	if want := rig.Money(tokens.PromptTokens*1000 + tokens.CompletionTokens*2000); a.Spent != want || a.Held != 0 {
		t.Errorf("after the drain %s is charged and %s held; %s was produced", a.Spent, a.Held, want)
	}
}

// A revoked key is refused from that moment on.
func TestRevokedKeyIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "10")
	id, key := g.NewKey("a")
	if status, _, _ := g.Post("/chat/completions", key, rig.Ask("sim-free", "Hello", "")); status != 200 {
		t.Fatalf("a fresh key is answered %d", status)
	}
	g.CLI("key", "revoke", id)
	if status, _, answer := g.Post("/chat/completions", key, rig.Ask("sim-free", "Hello", "")); status != 401 ||
		!strings.Contains(string(answer), "AUTHENTICATION_FAILED") {
		t.Errorf("a revoked key is answered %d %s", status, answer)
	}
}

// Credits with one reference count once.
func TestCreditWithOneReferenceCountsOnce(t *testing.T) {
	t.Parallel()
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, "http://127.0.0.1:9"))
	g.NewAccount("a", "")
	for range 3 {
		g.Credit("a", "5", "--ref", "invoice-1")
	}
	if a := g.Accounts()["a"]; a.USD != 5_000_000_000 {
		t.Errorf("three credits of 5 with one reference give %s", a.USD)
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	g.Credit("a", "5", "--ref", "invoice-1") // without a server, on the store itself
	g.Credit("a", "1", "--ref", "invoice-2")
	if a := g.Accounts()["a"]; a.USD != 6_000_000_000 {
		t.Errorf("beside a stopped server the balance is %s", a.USD)
	}
}

// Neither keys nor prompts nor answers reach the log, the metrics or an error.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	const upstreamKey, prompt = "sk-upstream-canary-1234567890", "canary-prompt-zebra"
	sim := rig.StartUpstream(t, upstream.Options{Key: upstreamKey})
	text := strings.Replace(fmt.Sprintf(rig.PrepaidConfig, sim.URL), "name: only,", "name: only, key: "+upstreamKey+",",
		1)
	text = strings.Replace(text, "level: warn", "level: debug, sample_above: 0", 1)
	g := rig.StartGateway(t, text)
	g.NewAccount("a", "10")
	key := g.Key("a")
	var seen strings.Builder
	for _, more := range []string{"", "[[sim status=500]]", "[[sim status=401]]", "[[sim status=400]]",
		"[[sim garbage=1]]", "[[sim truncate=1]]"} {
		_, header, answer := g.Post("/chat/completions", key, rig.Ask("sim-chat", prompt+" "+more, ""))
		if more != "" {
			seen.Write(answer)
		}
		fmt.Fprint(&seen, header)
	}
	raw, err := http.Post(g.URL+"/chat/completions", "application/json", strings.NewReader(`{"`+prompt+`":`))
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Body.Close()
	metrics, err := http.Get(g.MetricsURL())
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(metrics.Body)
	_ = metrics.Body.Close()
	if err != nil || !strings.Contains(string(page), "gen_ai_server_request_duration_seconds") {
		t.Errorf("/metrics (%v) is:\n%s", err, rig.Last(string(page), 2000))
	}
	seen.Write(page)
	seen.WriteString(g.Log())
	for _, secret := range []string{upstreamKey, prompt, key} {
		if strings.Contains(seen.String(), secret) {
			t.Errorf("%q was shown", secret)
		}
	}
	if !strings.Contains(g.Log(), `"request_id"`) {
		t.Error("the log has no request line")
	}
}
