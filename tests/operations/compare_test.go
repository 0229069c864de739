package operations

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"farebox/bench/compare"
	"farebox/tests/rig"
)

// "bench compare ends with status 1 on a clean checkout: its own key is blocked."
func TestTheComparisonRunsInSmall(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	cmd := exec.Command(rig.Binary(t), "bench", "compare", "--quick", "--rounds", "1", "--without",
		"direct,relay,nginx,nginx-2m", "--out", out)
	cmd.Dir, cmd.Env = t.TempDir(), rig.Env(t)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	text, err := os.ReadFile(filepath.Join(out, "compare.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c compare.Comparison
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	measured := map[string]bool{"abort": c.Aborts["farebox"].StreamSeen > 0, "memory": c.Memory["farebox"].OpenBytes > 0,
		"rpc_100mb": c.Large["farebox"].Answers > 0}
	for _, s := range c.Scenarios {
		f := s.Figures["farebox"]
		measured[s.Name] = f.PerSecond+f.Events > 0
		if strings.HasPrefix(f.FirstErrors, "status ") {
			t.Errorf("%s: %d requests were refused: %s", s.Name, f.Failed, f.FirstErrors)
		}
	}
	for _, name := range compare.Names() {
		if !measured[name] {
			t.Errorf("%s has no figures", name)
		}
	}
}
