package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
)

// call runs the command line and gives both outputs.
func call(ctx context.Context, args ...string) (out, errs string, err error) {
	var o, e bytes.Buffer
	cmd := Command()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	err = cmd.ExecuteContext(ctx)
	return o.String(), e.String(), err
}

func simulated(t *testing.T) string {
	t.Helper()
	s := upstream.New(upstream.Options{})
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return url
}

func TestLoadRunWritesTableJSONAndReport(t *testing.T) {
	dir := t.TempDir()
	jsonFile, htmlFile := filepath.Join(dir, "r.json"), filepath.Join(dir, "r.html")
	out, errs, err := call(context.Background(), "--url", simulated(t), "--model", "bench-sse-short", "--stream",
		"--rate", "100", "--duration", "400ms", "--warmup", "50ms", "--key", "SECRET",
		"--json", jsonFile, "--html", htmlFile)
	if err != nil {
		t.Fatal(err, errs)
	}
	for _, want := range []string{"latency", "first event", "events", "0 failed"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.ContainsAny(errs+out, "\r\x1b") {
		t.Error("control characters where there is no terminal")
	}
	b, err := os.ReadFile(jsonFile)
	if err != nil || !json.Valid(b) {
		t.Errorf("JSON: %v", err)
	}
	page, err := os.ReadFile(htmlFile)
	if err != nil || !bytes.Contains(page, []byte("<svg")) {
		t.Errorf("report: %v", err)
	}
	if !bytes.Contains(page, []byte(" --duration 400ms ")) || !bytes.Contains(page, []byte(" --key … ")) || bytes.Contains(page, []byte("SECRET")) {
		t.Errorf("the report has not the command, or the key: %.2000s", page[bytes.Index(page, []byte("<dl>")):])
	}
}

// "I copied the command out of the report, and the shell took it apart."
func TestTheCommandOfAReportCanBeCopied(t *testing.T) {
	cmd := compareCommand()
	if err := cmd.ParseFlags([]string{"--quick", "--only", "json_1k", "--only", "rates,memory", "--out", "my $o'r", "--strict=false"}); err != nil {
		t.Fatal(err)
	}
	want := `compare --only json_1k,rates,memory --out 'my $o'\''r' --quick --strict=false`
	if got := commandLine(cmd); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestWrongFlagsSayWhatToDo(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		if _, _, err := call(context.Background(), args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	f("leave one of them out", "--closed", "--rate", "5", "--model", "m")
	f("--closed to send", "--rate", "0", "--model", "m")
	f("--model", "--rate", "5")
	f("no such process", "--model", "m", "--pid", "999999999")
	f("0.02:status=500", "upstream", "--fault", "often")
	f("known keys are", "upstream", "--scenario", "speed=9")
	f("http://127.0.0.1:9000", "relay", "--upstream", "nowhere")
	f("json_1k", "compare", "--only", "nothing")
	f("--model", "mixed")
	f("--listen", "upstream", "--listen", "256.0.0.1:1")
}

func TestUpstreamCommandServesUntilItIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, _, err := call(ctx, "upstream", "--listen", "127.0.0.1:0")
		done <- err
	}()
	time.Sleep(50 * time.Millisecond)
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it did not end")
	}
}

func TestMixedCommandComparesTheBooks(t *testing.T) {
	url := simulated(t)
	args := []string{"mixed", "--url", url, "--model", "sim-chat", "--embedding-model", "sim-embedding", "--requests",
		"200", "--concurrency", "8", "--truth", url}
	out, errs, err := call(context.Background(), args...)
	if err != nil || !strings.Contains(errs, "agree to the token") || !strings.Contains(out, "stream_abort") {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	// The upstream now remembers twice as much as the second run sent.
	if _, _, err := call(context.Background(), args...); err == nil || !strings.Contains(err.Error(), "differ") {
		t.Errorf("differing books: %v", err)
	}
}
