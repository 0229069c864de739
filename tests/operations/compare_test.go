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
func TestLongTheComparisonRunsInSmall(t *testing.T) {
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
	measured := map[string]bool{"abort": c.Aborts["farebox"].StreamSeen > 0, "memory": measuredMemory(t, &c, "farebox"),
		"rpc_100mb": c.Large["farebox"].Answers > 0, "rates": measuredRates(t, &c, "farebox"), "start": measuredStarts(t, &c)}
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
	if !strings.HasPrefix(c.Command, "farebox bench compare --out ") || c.Machine.Farebox == "" || c.Machine.CPUs == 0 || c.Started.IsZero() {
		t.Errorf("made by %q, %+v, %v", c.Command, c.Machine, c.Started)
	}
	page, err := os.ReadFile(filepath.Join(out, "compare.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"RSS over open streams", "p50 over the rate", "p99 over the rate", "prefers-color-scheme:dark",
		"<dd>farebox bench compare --out ", c.Machine.Farebox, "</html>"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// measuredStarts: farebox also started with more keys than one.
func measuredStarts(t *testing.T, c *compare.Comparison) bool {
	t.Helper()
	for _, s := range c.Starts {
		if s.AnswerMs <= 0 || s.CPUMs <= 0 || s.IdleBytes <= 0 {
			t.Errorf("start: %+v", s)
		}
	}
	return len(c.Starts) == 2 && c.Starts[0].Keys == 1 && c.Starts[1].Keys >= 1000
}

// measuredMemory: streams were open at every level, and took memory. A busy machine opens fewer than asked.
func measuredMemory(t *testing.T, c *compare.Comparison, name string) bool {
	t.Helper()
	levels := c.Memory[name].Levels
	for i, at := range levels {
		if at.RSSBytes == 0 || (i > 0 && (at.Streams <= levels[i-1].Streams || at.Open <= 0 || at.Open > int64(at.Streams))) {
			t.Errorf("memory of %s: %+v", name, levels)
			return false
		}
	}
	return len(levels) == 4 && levels[3].RSSBytes > levels[0].RSSBytes && c.Memory[name].KBPerStream > 0
}

// measuredRates: the first rate is the lowest, and no higher one follows a rate that was too high.
func measuredRates(t *testing.T, c *compare.Comparison, name string) bool {
	t.Helper()
	rates := c.Rates[name]
	for i, r := range rates {
		if r.P50Us <= 0 || r.P99Us < r.P50Us || r.Failed > 0 || (r.Saturated && i < len(rates)-1) || (i > 0 && r.Wanted <= rates[i-1].Wanted) {
			t.Errorf("rates of %s: %+v", name, rates)
			return false
		}
	}
	return len(rates) > 0
}

// rival makes a folder with rivals: their programs are shell scripts.
func rival(t *testing.T, programs map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range programs {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name, "run"), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// "I want to see the gateway that we have beside farebox." One serves at the given address, one at its own.
func TestLongRivalsAreMeasuredLikeTheOthers(t *testing.T) {
	t.Parallel()
	relay := "exec " + rig.Binary(t) + ` bench relay --upstream $2 --stream --listen 127.0.0.1:`
	folder := rival(t, map[string]string{
		"told": `[ "$1" != about ] || { echo '{"version": "1.2", "path": "/v1", "key": "k", "headers": ["x-odd: '$2'"], "settings": "odd & even"}'; exit; }
case "$*" in *" bench-1k "*) ;; *) echo "no models: $*"; exit 1;; esac
` + relay + "$3",
		"free": `[ "$1" != about ] || { echo '{"version": "0.1", "settings": "as it likes"}'; exit; }
echo "log: listening"; echo "http://127.0.0.1:$3/v1"
` + relay + "$3",
	})
	out := filepath.Join(t.TempDir(), "out")
	cmd := exec.Command(rig.Binary(t), "bench", "compare", "--quick", "--rounds", "1", "--without", "direct,relay,nginx,nginx-2m,farebox",
		"--with", "told,free", "--rivals", folder, "--only", "json_1k,rpc_single,rates,memory", "--out", out)
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
	for _, name := range []string{"told", "free"} {
		for _, s := range c.Scenarios {
			if f := s.Figures[name]; (f.PerSecond+f.Events > 0) != (s.Name != "rpc_single") || f.Failed > 0 {
				t.Errorf("%s through %s: %+v", s.Name, name, f)
			}
		}
		if !measuredMemory(t, &c, name) || !measuredRates(t, &c, name) || c.Rates[name][0].Wanted >= 1000 {
			t.Errorf("%s: memory %+v, rates %+v", name, c.Memory[name], c.Rates[name])
		}
	}
	page, err := os.ReadFile(filepath.Join(out, "compare.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"told 1.2: odd &amp; even", "free 0.1: as it likes", `<th scope="col">free</th>`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// "It says that there is no such file. What am I to install?"
func TestARivalThatCannotRunSaysWhatToDo(t *testing.T) {
	t.Parallel()
	programs := map[string]string{}
	for _, name := range []string{"litellm", "portkey", "tensorzero"} {
		text, err := os.ReadFile(filepath.Join("bench", "rivals", name, "run"))
		if err != nil {
			t.Fatal(err)
		}
		programs[name] = string(text)
	}
	programs["mute"] = "exit 0"
	folder := rival(t, programs)
	f := func(name, want string) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		cmd := exec.Command(rig.Binary(t), "bench", "compare", "--quick", "--with", name, "--rivals", folder, "--out", out)
		cmd.Dir, cmd.Env = t.TempDir(), rig.Env(t)
		text, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(text), want) {
			t.Errorf("--with %s: %v: %s, want %q", name, err, text, want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("--with %s wrote a report", name)
		}
	}
	for _, name := range []string{"litellm", "portkey", "tensorzero"} {
		f(name, name+" is not installed; run bench/rivals/install "+name)
	}
	f("bifrost", "are: litellm, mute, portkey, tensorzero; --rivals")
	f("mute", "mute/run about prints")
	text, err := exec.Command(filepath.Join("bench", "rivals", "install"), "bifrost").CombinedOutput()
	if want := "there are: litellm portkey tensorzero"; err == nil || !strings.Contains(string(text), want) {
		t.Errorf("install bifrost: %v: %s, want %q", err, text, want)
	}
}
