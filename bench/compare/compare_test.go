package compare

import (
	"bytes"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/bench/load"
)

// measured makes a comparison in which every contender has the same figures
// but CPU and latency.
func measured(cpu map[string]float64, p50 map[string]float64) *Comparison {
	c := &Comparison{Memory: map[string]Memory{}, Aborts: map[string]Abort{}}
	for _, s := range scenarios(true) {
		out := Outcome{Name: s.Name, Title: s.Title, Unit: s.Unit, Figures: map[string]Figures{}}
		for _, name := range Contenders {
			out.Figures[name] = Figures{Runs: 3, PerSecond: 1000, CPUUs: cpu[name], P50Us: p50[name],
				P99Us: 2 * p50[name], FirstP50Us: p50[name], FirstP99Us: p50[name]}
		}
		c.Scenarios = append(c.Scenarios, out)
	}
	return c
}

func goalOf(t *testing.T, c *Comparison, name string) Goal {
	t.Helper()
	for _, g := range c.goals() {
		if strings.Contains(g.Name, name) {
			return g
		}
	}
	t.Fatalf("no goal %q", name)
	return Goal{}
}

func TestGoalsCompareWithNginxAndNotWithTheClock(t *testing.T) {
	c := measured(map[string]float64{"nginx": 20, "farebox": 22, "relay": 19},
		map[string]float64{"direct": 50, "nginx": 150, "farebox": 170})
	if g := goalOf(t, c, "CPU a request, 1 KB"); !g.Known || !g.Met || math.Abs(g.Value-1.1) > 1e-9 {
		t.Errorf("%+v", g)
	}
	if g := goalOf(t, c, "CPU a request, 256 KB"); g.Met || !g.Known {
		t.Errorf("1.1 times nginx does not meet 0.85: %+v", g)
	}
	// nginx adds 100 µs to direct, farebox 120.
	if g := goalOf(t, c, "added latency, p50"); g.Met || math.Abs(g.Value-1.2) > 1e-9 {
		t.Errorf("added latency: %+v", g)
	}
	if g := goalOf(t, c, "added latency, p99"); !g.Met {
		t.Errorf("added p99 of 1.2 is within 1.4: %+v", g)
	}
}

func TestCallsAreComparedWithTheRelayAndThePeers(t *testing.T) {
	c := measured(map[string]float64{"nginx": 20, "farebox": 30, "relay": 19}, map[string]float64{})
	c.Large = map[string]Large{"farebox": {FirstByteMs: 1, GrowthBytes: 3 << 20, SideGrowth: 3 << 20}}
	f := func(name string, value float64, met bool) {
		t.Helper()
		if g := goalOf(t, c, name); !g.Known || g.Met != met || math.Abs(g.Value-value) > 1e-9 {
			t.Errorf("%+v, want %v", g, value)
		}
	}
	f("CPU a JSON-RPC call", 30.0/19, false)
	f("the best peer's 117 µs", 30.0/117, true)
	f("the best peer's 715 µs", 30.0/715, true)
	f("100 MB answer, first byte", 1, true)
	f("100 MB answer, memory growth", 3, false)
	f("8 side by side", 3, true)
}

func TestAnUnmeasuredTargetIsNotMet(t *testing.T) {
	c := measured(map[string]float64{"nginx": 20}, map[string]float64{"direct": 50, "nginx": 150})
	for i := range c.Scenarios {
		delete(c.Scenarios[i].Figures, "farebox")
	}
	for _, g := range c.goals() {
		if g.Known || g.Met {
			t.Errorf("%s is known without a measurement: %+v", g.Name, g)
		}
	}
	if c.Missed() != 0 {
		t.Error("unmeasured goals count as missed")
	}
}

func TestAnAbortThatWasNeverSeenMissesTheGoal(t *testing.T) {
	c := measured(nil, nil)
	c.Aborts["farebox"] = Abort{Tries: 5, StreamSeen: 5, StreamMaxMs: 120, WaitSeen: 3, WaitMaxMs: 10}
	if g := goalOf(t, c, "streaming"); !g.Met {
		t.Errorf("%+v", g)
	}
	if g := goalOf(t, c, "first byte awaited"); g.Met {
		t.Errorf("3 of 5 seen: %+v", g)
	}
}

func TestFiguresAreMediansOfTheRounds(t *testing.T) {
	var runs []*load.Result
	for _, v := range []float64{9, 1, 5} {
		runs = append(runs, &load.Result{PerSecond: v, Process: &load.Usage{PerRequestUs: 10 * v, PerEventUs: v}})
	}
	if f := figures("request", runs); f.PerSecond != 5 || f.CPUUs != 50 {
		t.Errorf("%+v", f)
	}
	if f := figures("event", runs); f.CPUUs != 5 {
		t.Errorf("%+v", f)
	}
	if median([]float64{4, 2}) != 3 || median(nil) != 0 {
		t.Error("median")
	}
}

func TestTableNamesEveryContenderAndMissedGoal(t *testing.T) {
	c := measured(map[string]float64{"nginx": 20, "farebox": 60, "relay": 19},
		map[string]float64{"direct": 50, "nginx": 150, "farebox": 170})
	c.Goals = c.goals()
	var out bytes.Buffer
	c.Print(&out)
	for _, want := range []string{"direct", "relay", "nginx", "farebox", "3.00", "MISSED", "json_1m"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestUnknownNamesAreRefusedWithTheKnownOnes(t *testing.T) {
	if err := (&Options{Only: []string{"json_2k"}}).check(); err == nil || !strings.Contains(err.Error(), "json_1k") {
		t.Errorf("%v", err)
	}
	if err := (&Options{Without: []string{"caddy"}}).check(); err == nil || !strings.Contains(err.Error(), "relay") {
		t.Errorf("%v", err)
	}
}

// A rate at which answers fall behind is not one that is kept up with, however fast the first ones were.
func TestARateIsKeptUpWithWhenItsArrivalsAreAnswered(t *testing.T) {
	f := func(rate, answered float64, saturated bool) Rate {
		t.Helper()
		got := rateOf(&load.Result{Rate: rate, PerSecond: answered, Latency: load.Distribution{P50Us: 5, P99Us: 9}})
		if got.Saturated != saturated || got.P50Us != 5 || got.P99Us != 9 || got.Wanted != rate {
			t.Errorf("%g of %g: %+v", answered, rate, got)
		}
		return got
	}
	list := []Rate{f(1000, 951, false), f(2000, 2010, false), f(4000, 3790, true)}
	if got := kept(list); got.Wanted != 2000 {
		t.Errorf("kept up with %+v", got)
	}
	if got := kept(list[2:]); got.Wanted != 0 {
		t.Errorf("kept up with %+v", got)
	}
	c := &Comparison{Rates: map[string][]Rate{"nginx": list, "farebox": list[2:]}}
	var out bytes.Buffer
	c.Print(&out)
	for _, row := range []string{`(?m)^ *nginx +2000 +5 / 9 `, `(?m)^ *farebox +none `} {
		if !regexp.MustCompile(row).MatchString(out.String()) {
			t.Errorf("no row %s in\n%s", row, out.String())
		}
	}
}

func TestLowRatesTakeTheTimeForAPercentile(t *testing.T) {
	for _, quick := range []bool{false, true} {
		rates, _, measure := ratePlan(quick, true)
		if !slices.IsSorted(rates) || len(rates) < 4 {
			t.Errorf("rates %v", rates)
		}
		for _, rate := range rates {
			if d := rateTime(rate, measure); rate*d.Seconds() < 160 || d > 4*time.Second {
				t.Errorf("%g a second for %v", rate, d)
			}
		}
		if levels, _ := memoryPlan(quick); !slices.IsSorted(levels) || len(levels) < 3 {
			t.Errorf("levels %v", levels)
		}
	}
}

// Rivals are gateways for chat: other scenarios are not theirs.
func TestRivalsTakeChatOnly(t *testing.T) {
	for _, s := range scenarios(true) {
		if chat := s.Path == ""; s.takes("portkey") != chat || !s.takes("farebox") {
			t.Errorf("%s: %v", s.Name, s.takes("portkey"))
		}
	}
	p := &plan{o: Options{With: []string{"portkey"}}, c: &Comparison{Rivals: []*Rival{{Name: "portkey"}}}}
	if list := p.contenders(); !slices.Equal(list, append(slices.Clone(Contenders), "portkey")) {
		t.Errorf("contenders %v", list)
	}
	if list := p.but(p.notLarge()...); slices.Contains(list, "portkey") || !slices.Contains(list, "farebox") {
		t.Errorf("answers of 100 MB: %v", list)
	}
}

func TestNothingIsLeftOfAChildThatFailed(t *testing.T) {
	p, err := spawn("none", t.TempDir(), -1, nil, "/bin/sh", "-c", "echo broken; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.ready("127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("the child's own words are missing: %v", err)
	}
	p.stop()
}
