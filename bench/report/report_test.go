package report

import (
	"encoding/xml"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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

// wellFormed reads a page with all elements closed, and demands that each chart has its figures in a table below it.
func wellFormed(t *testing.T, page string) (pictures int) {
	t.Helper()
	dec := xml.NewDecoder(strings.NewReader(page))
	inside, last, columns, begun := map[string]int{}, "", 0, 0
	for {
		token, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v after %q in %s", err, last, page)
		}
		switch e := token.(type) {
		case xml.StartElement:
			switch last = e.Name.Local; last {
			case "table":
				columns = 0
			case "tr":
				begun = inside["th"] + inside["td"]
			}
			inside[last]++
			for _, a := range e.Attr {
				if slices.Contains([]string{"src", "href", "srcset", "data", "action", "poster"}, a.Name.Local) {
					t.Errorf("the page reaches out: %s %s=%q", last, a.Name.Local, a.Value)
				}
			}
			if last == "script" || last == "link" || last == "iframe" {
				t.Errorf("the page has an element %s", last)
			}
		case xml.EndElement:
			if row := inside["th"] + inside["td"] - begun; e.Name.Local == "tr" && columns == 0 {
				columns = row
			} else if e.Name.Local == "tr" && row != columns {
				t.Errorf("a row has %d cells, and the head %d", row, columns)
			}
			if e.Name.Local == "figure" {
				pictures++
				if inside["figcaption"] != pictures || inside["details"] != pictures || inside["summary"] != pictures {
					t.Errorf("chart %d: %v", pictures, inside)
				}
			}
		}
	}
	if n := strings.Count(page, `role="img"`); n != pictures || n > strings.Count(page, "<tbody>") {
		t.Errorf("%d pictures, %d charts, %d tables", n, pictures, strings.Count(page, "<tbody>"))
	}
	if plain := strings.Count(page, "<th>"); plain > 0 || inside["table"] != strings.Count(page, `tabindex="0"`) {
		t.Errorf("%d heads without a scope; %d tables, %d to scroll with the keyboard", plain, inside["table"],
			strings.Count(page, `tabindex="0"`))
	}
	if inside["h1"] != 1 || inside["main"] != 1 {
		t.Errorf("%d headings, %d main parts", inside["h1"], inside["main"])
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("a plot has an invalid number")
	}
	return pictures
}

// chart is the figure of a page with a title.
func chart(t *testing.T, page, title string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "<figcaption>"+title)
	figure, _, ended := strings.Cut(rest, "</figure>")
	if !found || !ended {
		t.Fatalf("no chart %q", title)
	}
	return figure
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

// compared is a comparison with a rival in which every contender has figures.
func compared() *compare.Comparison {
	c := &compare.Comparison{Command: "farebox bench compare --only 'a&b'", Started: time.Unix(1700000000, 0).UTC(),
		Machine: compare.Machine{Model: "EPYC <7>", Kernel: "6.1", CPUs: 2, Farebox: "farebox version 20260101.000000",
			Commit: "0123abcd with changes", Nginx: "nginx/1.22.1"},
		Rivals: []*compare.Rival{{Name: "rival", Version: "1.2.3", Settings: "one worker"}},
		Memory: map[string]compare.Memory{}, Rates: map[string][]compare.Rate{},
		Aborts: map[string]compare.Abort{"nginx": {Tries: 5, StreamSeen: 5}}}
	out := compare.Outcome{Name: "json_1k", Title: "chat", Unit: "request", Figures: map[string]compare.Figures{},
		Runs: map[string][]*load.Result{}}
	for _, name := range c.Contenders() {
		out.Figures[name] = compare.Figures{PerSecond: 100, CPUUs: 20}
		out.Runs[name] = []*load.Result{sample(name), sample(name), sample(name)}
		c.Memory[name] = compare.Memory{Streams: 4000, Open: 4000, KBPerStream: 30, Levels: []compare.MemoryLevel{
			{RSSBytes: 50 << 20, PSSBytes: 40 << 20}, {Streams: 1000, Open: 987, RSSBytes: 81 << 20, PSSBytes: 71 << 20},
			{Streams: 4000, Open: 4000, RSSBytes: 173 << 20, PSSBytes: 163 << 20}}}
		c.Rates[name] = []compare.Rate{{Wanted: 1000, PerSecond: 1000, P50Us: 111, P99Us: 444, CPUShare: 0.125},
			{Wanted: 16000, PerSecond: 9000, P50Us: 210000, P99Us: 450000, CPUShare: 0.99, Saturated: true}}
	}
	c.Rates["direct"] = append(c.Rates["direct"], compare.Rate{Wanted: 32000, PerSecond: 32000, P50Us: 60, P99Us: 90})
	c.Scenarios = []compare.Outcome{out}
	c.Goals = []compare.Goal{{Name: "CPU", Value: 2, Limit: 1.15, Known: true, Unit: "x nginx"},
		{Name: "rps", Value: 1, Limit: 0.85, Least: true, Known: true, Met: true}}
	return c
}

func TestComparisonShowsGoalsAndAllContenders(t *testing.T) {
	page := OfComparison(compared()).HTML()
	if wellFormed(t, page) < 10 {
		t.Error("plots are missing")
	}
	for _, want := range append([]string{`class="bad">missed`, `class="good">met`, "x nginx"}, compare.Contenders...) {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
}

// "Which machine was that, and how do I get this page myself?"
func TestThePageDescribesItsRun(t *testing.T) {
	page := OfComparison(compared()).HTML()
	for _, want := range []string{"<dd>farebox bench compare --only &#39;a&amp;b&#39;</dd>", "2023-11-14 22:13 UTC",
		"farebox version 20260101.000000", "0123abcd with changes", "nginx/1.22.1", "EPYC &lt;7&gt;, 2 processors, kernel 6.1",
		"rival 1.2.3: one worker"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
}

// "The charts say nothing to my screen reader."
func TestEveryChartHasItsPointsAndItsTable(t *testing.T) {
	c := compared()
	page := OfComparison(c).HTML()
	f := func(title string, points int, rows ...string) {
		t.Helper()
		figure := chart(t, page, title)
		want := points * len(c.Contenders())
		if strings.HasSuffix(title, "rate") {
			want++ // direct has one more
		}
		if n := strings.Count(figure, "<circle"); n != want {
			t.Errorf("%s: %d points, want %d", title, n, want)
		}
		for _, name := range c.Contenders() {
			if !strings.Contains(figure, `<th scope="col">`+name+"</th>") {
				t.Errorf("%s: no column %s", title, name)
			}
		}
		for _, row := range rows {
			if !strings.Contains(figure, row) {
				t.Errorf("%s: no %s in %s", title, row, figure)
			}
		}
	}
	f("RSS over open streams", 3, `<th scope="row">0</th><td>50.0</td>`, `<th scope="row">987</th><td>81.0</td>`,
		`<th scope="row">4000</th><td>173</td>`)
	f("PSS over open streams", 3, `<th scope="row">987</th><td>71.0</td>`)
	f("p50 over the rate", 2, `<th scope="row">1000</th><td>111</td>`, `<th scope="row">16000</th><td>210000</td>`,
		`<th scope="row">32000</th><td>60.0</td><td>-</td>`, ">10 k</text>")
	f("p99 over the rate", 2, `<th scope="row">1000</th><td>444</td>`)
	f("Answers over the rate", 2, `<th scope="row">16000</th><td>9000</td>`)
	f("Processor time over the rate", 2, `<th scope="row">1000</th><td>12.5</td>`)
	if bars := chart(t, page, "CPU per request or event"); !strings.Contains(bars, `<th scope="row">json_1k</th><td>1.00</td>`) {
		t.Errorf("the bars have no table: %s", bars)
	}
}

// "At night I cannot read the grey on grey." The colours of text and lines stand out from both backgrounds.
func TestColoursHaveContrastInLightAndDark(t *testing.T) {
	light, dark, found := strings.Cut(style, "prefers-color-scheme:dark")
	dark, _, _ = strings.Cut(dark, "\nbody{")
	if !found {
		t.Fatal("no dark colours")
	}
	of := func(css string) map[string]float64 {
		list := map[string]float64{}
		for _, m := range regexp.MustCompile(`--(\w+):#([0-9a-f]+)`).FindAllStringSubmatch(css, -1) {
			list[m[1]] = luminance(t, m[2])
		}
		return list
	}
	known := of(light)
	for mode, list := range map[string]map[string]float64{"light": known, "dark": of(dark)} {
		if len(list) != len(known) || len(list) != 6+colors+1 {
			t.Errorf("%s has %d colours, light %d", mode, len(list), len(known))
		}
		for name, l := range list {
			for _, back := range []string{"bg", "card"} {
				ratio := (max(l, list[back]) + 0.05) / (min(l, list[back]) + 0.05)
				if name != "bg" && name != "card" && name != "line" && ratio < 4.5 {
					t.Errorf("%s: --%s on --%s has a contrast of %.2f", mode, name, back, ratio)
				}
			}
		}
	}
}

// luminance is that of WCAG for a colour such as 1b1f24 or fff.
func luminance(t *testing.T, hex string) (sum float64) {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	rgb, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	for i, part := range []float64{0.2126, 0.7152, 0.0722} {
		v := float64(rgb>>(16-8*i)&0xff) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += part * v
	}
	return sum
}

func TestEmptyResultsStillMakeAPage(t *testing.T) {
	wellFormed(t, OfRuns("none", nil).HTML())
	wellFormed(t, OfRuns("one", []*load.Result{{}}).HTML())
	wellFormed(t, OfComparison(&compare.Comparison{}).HTML())
}

// "I ran two scenarios, and the page has ten headings with nothing below them."
func TestAPageHasNoEmptySections(t *testing.T) {
	page := OfComparison(&compare.Comparison{Notes: []string{"quiet"}}).HTML()
	for _, title := range []string{"Latency over the rate", "Memory over open streams", "Client gone", "Processor time"} {
		if strings.Contains(page, "<h2>"+title) {
			t.Errorf("%s is empty", title)
		}
	}
	if !strings.Contains(page, "<h2>Notes</h2>\n<p>quiet</p>") {
		t.Error("no notes")
	}
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
