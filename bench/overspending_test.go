package bench

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"farebox/bench/overspend"
)

func TestOverspendWritesTableJSONAndReport(t *testing.T) {
	t.Parallel()
	dir, url := t.TempDir(), simulated(t)
	jsonFile, htmlFile := filepath.Join(dir, "o.json"), filepath.Join(dir, "o.html")
	run := func(more ...string) (string, error) {
		out, _, err := call(context.Background(), append([]string{
			"overspend", "--url", url, "--truth", url, "--endpoint", "chat_stream=sim-chat", "--price-input", "1",
			"--price-output", "10",
			"--liars", "honest,hidden_total", "--leavers", "stays,head", "--requests", "2", "--concurrency", "2",
			"--json", jsonFile, "--html", htmlFile,
		}, more...)...)
		return out, err
	}
	out, err := run("--account", "echo key-of-$CELL", "--balance", "echo 0.9", "--amount", "1")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "chat_stream hidden_total") || !strings.Contains(out, "0.4") {
		t.Errorf("the table is\n%s", out)
	}
	var r overspend.Result
	text, err := os.ReadFile(jsonFile)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil || len(r.Cells) != 4 || r.Cells[0].Charged != 1e8 || r.Cells[0].Real == 0 {
		t.Errorf("%v %s", err, text)
	}
	if page, err := os.ReadFile(htmlFile); err != nil || !strings.Contains(string(page), "<svg") ||
		!strings.Contains(string(page), "chat_stream honest head") {
		t.Errorf("the report is not whole: %v", err)
	}
	// If the charge is unknown, the table says so.
	if out, err = run("--key", "any"); err != nil || !strings.Contains(out, "unknown") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, wrong := range [][]string{{"--key", ""}, {"--endpoint", "chat"}, {"--amount", "much", "--key", "k"},
		{"--url", "http://192.0.2.1/v1", "--key", "k"}} {
		if _, err := run(wrong...); err == nil {
			t.Errorf("%v was taken", wrong)
		}
	}
}
