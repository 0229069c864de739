package bench

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The upstream itself is a gateway without any guard: attacks are seen to
// arrive, and ordinary customers to be answered beside them.
func TestAttackWritesTableJSONAndReport(t *testing.T) {
	t.Parallel()
	dir, url := t.TempDir(), simulated(t)
	jsonFile, htmlFile := filepath.Join(dir, "a.json"), filepath.Join(dir, "a.html")
	out, errs, err := call(context.Background(), "attack", "--url", url, "--key", "any", "--model", "sim-chat",
		"--customers", "5", "--rate", "5", "--duration", "1s",
		"--recovery", "10ms", "--together", "--round", "random_keys=20", "--round", "users=10", "--round",
		"announced=5", "--round", "odd_heads", "--round", "stopped_readers",
		"--pid", pid(), "--json", jsonFile, "--html", htmlFile)
	if err != nil {
		t.Fatal(err, errs)
	}
	for _, want := range []string{"quiet", "random_keys + users", "100.00 %", "after", "400: ", "held: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, file := range []string{jsonFile, htmlFile} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "stopped_readers") {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, wrong := range [][]string{{"--model", ""}, {"--round", "nothing"}, {"--round", "users=0"},
		{"--round", "rpc_texts"}, {"--round", "hostile_sound"}, {"--round", "unseen_jobs"}, {"--url", "http://192.0.2.1:80/v1"}, {"--customers", "0"}, {"--duration", "1h"}} {
		if _, _, err := call(context.Background(), append([]string{"attack", "--url", url, "--key", "any", "--model",
			"sim-chat", "--duration", "50ms"}, wrong...)...); err == nil {
			t.Errorf("%v was taken", wrong)
		}
	}
}

func pid() string { return strconv.Itoa(os.Getpid()) }
