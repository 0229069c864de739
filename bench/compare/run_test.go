package compare

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/bench/relay"
	"farebox/bench/upstream"
)

// The comparison starts its own program as upstream and relay. Here that
// program is the test binary, which plays both.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "bench" {
		if err := play(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func play(role string, args []string) error {
	flags := map[string]string{}
	for i := 0; i < len(args); i++ {
		if i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
			flags[args[i]] = args[i+1]
			i++
		} else {
			flags[args[i]] = "true"
		}
	}
	ln, err := net.Listen("tcp", flags["--listen"])
	if err != nil {
		return err
	}
	if role == "upstream" {
		return upstream.New(upstream.Options{}).Serve(ln)
	}
	s, err := relay.New(flags["--upstream"], flags["--stream"] == "true")
	if err != nil {
		return err
	}
	return s.Serve(ln)
}

func TestLongRunMeasuresEveryContenderInEveryRound(t *testing.T) {
	var steps []float64
	c, err := Run(context.Background(), Options{
		Quick: true, Rounds: 2, Only: []string{"json_1k", "sse_burst", "rpc_single", "rpc_100mb", "memory", "abort", "rates"},
		Without:  []string{"nginx", "nginx-2m", "farebox"},
		Progress: func(done float64, _ string) { steps = append(steps, done) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Scenarios) != 3 {
		t.Fatalf("%d scenarios", len(c.Scenarios))
	}
	for _, s := range c.Scenarios {
		for _, name := range []string{"direct", "relay"} {
			f := s.Figures[name]
			// How much it was is not looked at: a busy machine measures little, but all of it.
			if f.Runs != 2 || f.Failed > 0 || (s.Unit == "request" && f.PerSecond <= 0) ||
				(s.Unit == "event" && f.Events <= 0) {
				t.Errorf("%s through %s: %+v", s.Name, name, f)
			}
			if cpu := f.CPUUs > 0; cpu != (name == "relay") {
				t.Errorf("%s through %s: CPU %v µs", s.Name, name, f.CPUUs)
			}
		}
	}
	if m := c.Memory["relay"]; m.KBPerStream < 5 || m.KBPerStream > 200 || m.Failed > 0 || len(m.Levels) != 4 ||
		m.Levels[3].Open != 1000 || m.Levels[3].RSSBytes <= m.Levels[1].RSSBytes || m.Levels[3].PSSBytes <= m.Levels[0].PSSBytes {
		t.Errorf("memory %+v", m)
	}
	for _, name := range []string{"direct", "relay"} {
		if list := c.Rates[name]; len(list) == 0 || list[0].Wanted != 100 || list[0].P50Us <= 0 || list[0].P99Us < list[0].P50Us {
			t.Errorf("rates of %s: %+v", name, list)
		}
	}
	for _, name := range []string{"direct", "relay"} {
		m := c.Large[name]
		if m.Answers < 1 || m.Failed > 0 || m.FirstByteMs <= 0 || m.TookMs < m.FirstByteMs || m.GrowthBytes > 64<<20 ||
			(m.CPUMs > 0) != (name == "relay") {
			t.Errorf("large answers through %s: %+v", name, m)
		}
	}
	if a := c.Aborts["direct"]; a.StreamSeen != a.Tries || a.WaitSeen != a.Tries || a.StreamMaxMs > 1000 {
		t.Errorf("aborts %+v", a)
	}
	if last := steps[len(steps)-1]; last < 0.9 || last > 1 {
		t.Errorf("the progress ends at %v", last)
	}
}

func TestNoProcessOfOursIsLeft(t *testing.T) {
	l, err := newLab()
	if err != nil {
		t.Fatal(err)
	}
	g, err := startRelay(l)
	if err != nil {
		t.Fatal(err)
	}
	dir := l.dir
	g.stop()
	l.close()
	for _, p := range append(g.processes, l.upstream) {
		select {
		case <-p.done:
		case <-time.After(time.Minute):
			t.Errorf("%s still runs", p.name)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there", dir)
	}
}

// A contender that answers nothing, and one that does not start, cost the others no figure.
func TestAMeasurementThatFailsIsMarkedAndTheRestGoesOn(t *testing.T) {
	silent, dead := starters["nginx"], starters["nginx-2m"]
	t.Cleanup(func() { starters["nginx"], starters["nginx-2m"] = silent, dead })
	starters["nginx"] = func(*lab) (*gateway, error) {
		addr, err := freeAddress()
		return &gateway{name: "nginx", url: "http://" + addr}, err
	}
	starters["nginx-2m"] = func(*lab) (*gateway, error) { return nil, errors.New("there is no such program") }
	c, err := Run(context.Background(), Options{Quick: true, Rounds: 2, Only: []string{"json_1k", "json_256k", "abort"},
		Without: []string{"farebox"}})
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, f := range c.Failed {
		failed = append(failed, f.Scenario+" "+f.Contender)
		if f.Reason == "" {
			t.Errorf("%+v has no reason", f)
		}
	}
	want := []string{" nginx-2m", "json_1k nginx", "json_256k nginx", "json_256k nginx-2m", "abort nginx"}
	if !slices.Equal(failed, want) {
		t.Errorf("failed: %q, want %q", failed, want)
	}
	for _, s := range c.Scenarios {
		if s.Figures["relay"].Runs != 2 || s.Figures["nginx"].Runs != 0 {
			t.Errorf("%s: %+v", s.Name, s.Figures)
		}
	}
	if c.Aborts["direct"].StreamSeen == 0 || len(c.Scenarios) != 2 {
		t.Errorf("%d scenarios, aborts %+v", len(c.Scenarios), c.Aborts)
	}
	var b strings.Builder
	c.Print(&b)
	for _, line := range []string{"the start of nginx-2m FAILED: there is no such program", "json_1k through nginx FAILED: "} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("no %q in\n%s", line, b.String())
		}
	}
	if n := len(regexp.MustCompile(`(?m)^ *nginx +FAILED *$`).FindAllString(b.String(), -1)); n != 3 {
		t.Errorf("%d rows are marked as failed:\n%s", n, b.String())
	}
}
