package report

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"farebox/bench/compare"
	"farebox/bench/load"
)

func sample(name string) *load.Result {
	curve := [][2]float64{{0, 40}, {50, 90}, {90, 150}, {99, 400}, {99.9, 900}, {99.999, 1200}, {100, 1500}}
	d := load.Distribution{Count: 5000, P50Us: 90, P99Us: 400, P999Us: 900, MaxUs: 1500, Curve: curve}
	return &load.Result{
		Name: name, Model: "<script>alert(1)</script>", Started: time.Unix(1700000000, 0), Stream: true, Requests: 5000,
		PerSecond: 2500, Failed: 2,
		Errors: map[string]int64{"status 429": 2}, Latency: d, First: d, Gap: d, Delay: d,
		Series: []load.Second{{At: 0, Requests: 2400, MeanUs: 100, MaxUs: 700},
			{At: 1, Requests: 2600, MeanUs: 95, MaxUs: 1500}},
		Process: &load.Usage{PerThousand: 0.021, PeakBytes: 30 << 20},
	}
}

// wellFormed reads every picture of a page as XML.
func wellFormed(t *testing.T, page string) (pictures int) {
	t.Helper()
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1) {
		pictures++
		dec := xml.NewDecoder(strings.NewReader(svg))
		for {
			_, err := dec.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%v in %s", err, svg)
			}
		}
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("a plot holds a number that is none")
	}
	return pictures
}

func TestReportIsOneFileThatNeedsNothingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "report.html")
	if err := Write(path, OfRuns("A & B", []*load.Result{sample("one"), sample("two")})); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	if n := wellFormed(t, page); n < 6 {
		t.Errorf("%d plots", n)
	}
	for _, bad := range []string{"http://", "https://", "<script", "src=", "url(", "@import"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page reaches out or runs code: %s", bad)
		}
	}
	for _, want := range []string{"A &amp; B", "status 429", "p99.9", "Gap between events"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestComparisonShowsGoalsAndAllContenders(t *testing.T) {
	c := &compare.Comparison{Memory: map[string]compare.Memory{"farebox": {Streams: 10, KBPerStream: 30}},
		Aborts: map[string]compare.Abort{"nginx": {Tries: 5, StreamSeen: 5}}}
	out := compare.Outcome{Name: "json_1k", Title: "chat", Unit: "request", Figures: map[string]compare.Figures{},
		Runs: map[string][]*load.Result{}}
	for _, name := range compare.Contenders {
		out.Figures[name] = compare.Figures{PerSecond: 100, CPUUs: 20}
		out.Runs[name] = []*load.Result{sample(name), sample(name), sample(name)}
	}
	c.Scenarios = []compare.Outcome{out}
	c.Goals = []compare.Goal{{Name: "CPU", Value: 2, Limit: 1.15, Known: true, Unit: "x nginx"},
		{Name: "rps", Value: 1, Limit: 0.85, Least: true, Known: true, Met: true}}
	page := OfComparison(c).HTML()
	if wellFormed(t, page) < 5 {
		t.Error("plots are missing")
	}
	for _, want := range append([]string{`class="bad">missed`, `class="good">met`, "x nginx"}, compare.Contenders...) {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestEmptyResultsStillMakeAPage(t *testing.T) {
	wellFormed(t, OfRuns("none", nil).HTML())
	wellFormed(t, OfRuns("one", []*load.Result{{}}).HTML())
	wellFormed(t, OfComparison(&compare.Comparison{}).HTML())
}

func TestHighPercentilesNeedTheSamplesForThem(t *testing.T) {
	points := atLeast(load.Distribution{Count: 50, Curve: [][2]float64{{50, 1}, {90, 2}, {99, 3}, {99.9, 4}, {100, 5}}})
	for _, p := range points {
		if p[0] == 99 || p[0] == 99.9 {
			t.Errorf("50 samples do not have a percentile of %g", p[0])
		}
	}
	if last := points[len(points)-1]; last[1] != 5 {
		t.Error("the highest value is missing")
	}
}
