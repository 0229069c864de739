package operations

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Revenue, shortfall and held money were on the public address, for everyone to read.
func TestMetricsAreNotOnThePublicAddress(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
	res, err := http.Get(g.Origin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 404 {
		t.Errorf("/metrics on the public address is answered %d", res.StatusCode)
	}
	at := g.MetricsURL()
	if !strings.HasPrefix(at, "http://127.0.0.1:") {
		t.Errorf("metrics are at %s", at)
	}
	page, err := rig.Client.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	text := rig.ReadAll(t, page)
	series, types := 0, strings.Count(text, "\n# TYPE ")
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if name, _, _ := strings.Cut(line, "{"); line[0] != '#' && !seen[name] {
			seen[name] = true
			series++
		}
	}
	if types < 40 || !strings.Contains(text, "farebox_held_nano") {
		t.Errorf("%d # TYPE lines for %d names", types, series)
	}

	on := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL)+"server: { metrics_listen: listen }\n")
	if res, err := http.Get(on.Origin + "/metrics"); err != nil || res.StatusCode != 200 {
		t.Errorf("metrics_listen: listen gives %v, %v", res, err)
	} else {
		_ = res.Body.Close()
	}
}

// The first start on a taken port made an account and keys, then failed: the
// keys were never shown.
func TestTakenPortLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	store := filepath.Join(t.TempDir(), "store")
	out, err := exec.Command(rig.Binary(t), "serve", "--listen", taken.Addr().String(), "--store", store).
		CombinedOutput()
	if err == nil || !strings.Contains(string(out), "choose another address with --listen") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(store); !os.IsNotExist(err) {
		t.Errorf("the failed start left %s: %v", store, err)
	}
}

// A second Ctrl-C was ignored while streams were waited for.
func TestSecondSignalEndsAtOnceWithTheChargesOnDisk(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL)+"server: { drain_timeout: 60s }\n")
	g.NewAccount("a", "1")
	res := g.Open("POST", "/chat/completions", g.Key("a"), rig.Ask("sim-chat", "[[sim tokens=50 hold_after=20]] Go",
		`,"stream":true`))
	defer func() { _ = res.Body.Close() }()
	if _, err := io.ReadAtLeast(res.Body, make([]byte, 2000), 2000); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	g.Signal(syscall.SIGINT)
	time.Sleep(2 * time.Second) // two signals to a stalled process are one
	if !g.Running() {
		t.Fatal("it did not wait for the stream")
	}
	g.Signal(syscall.SIGINT)
	select {
	case <-g.Done:
	case <-time.After(45 * time.Second):
		t.Fatal("the second signal is ignored")
	}
	if took := time.Since(began); g.Exit != nil || took > 40*time.Second {
		t.Errorf("it ended with %v after %v", g.Exit, took)
	}
	if a := g.Accounts()["a"]; a.Spent == 0 || a.Held != 0 {
		t.Errorf("the account is %+v", a)
	}
}

// A config that is refused on reload was a line in the log and nothing else.
func TestRefusedReloadIsAMetric(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	good := fmt.Sprintf(rig.PrepaidConfig, sim.URL)
	g := rig.StartGateway(t, good)
	g.WriteConfig(good + "nonsense: 1\n")
	g.MetricIs(`farebox_config_reloads_total{applied="false"}`, func(n float64) bool { return n >= 1 })
	g.WriteConfig(good + "\n# better\n")
	g.MetricIs(`farebox_config_reloads_total{applied="true"}`, func(n float64) bool { return n >= 1 })
}

func TestVersionIsReported(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(rig.Binary(t), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "farebox ") {
		t.Errorf("%v: %s", err, out)
	}
}

// The image kept the ledger of the example config beside its volume: removing
// the container lost every balance.
func TestImageKeepsItsLedgerInTheVolume(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var workdir, volume string
	for line := range strings.Lines(string(raw)) {
		switch fields := strings.Fields(line); {
		case len(fields) > 1 && fields[0] == "FROM":
			workdir, volume = "/", "" // of the last stage
		case len(fields) > 1 && fields[0] == "WORKDIR":
			workdir = fields[1]
		case len(fields) > 1 && fields[0] == "VOLUME":
			volume = fields[1]
		}
	}
	if workdir == "" || volume == "" {
		t.Fatalf("the image has the working directory %q and the volume %q", workdir, volume)
	}
	for _, example := range []string{"minimal-openai", "vllm"} {
		tree := t.TempDir()
		data := filepath.Join(tree, volume)
		if err := errors.Join(os.MkdirAll(filepath.Join(tree, workdir), 0o700), os.MkdirAll(data, 0o700)); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("config/examples/" + example + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(data, "farebox.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(rig.Binary(t), "account", "create", "-c", file, "--name", "a")
		cmd.Dir = filepath.Join(tree, workdir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", example, err, out)
		}
		found := 0
		err = filepath.WalkDir(tree, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && path != file {
				if found++; !strings.HasPrefix(path, data+"/") {
					t.Errorf("%s: %s is outside of the volume", example, strings.TrimPrefix(path, tree))
				}
			}
			return err
		})
		if err != nil || found == 0 {
			t.Errorf("%s: %d files, %v", example, found, err)
		}
	}
}
