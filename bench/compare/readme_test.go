package compare

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// `make bench && go generate ./bench/compare` keeps the run in bench/results.json and writes
// the table of speed in README.md.

//go:generate go test -run TestReadmeTellsTheKeptRun -generate .

var generate = flag.Bool("generate", false, "keep the run in bench/out, and write the table of README.md")

const (
	lastRun   = "../out/compare.json"
	keptRun   = "../results.json"
	readme    = "../../README.md"
	tableFrom = "<!-- speed: go generate ./bench/compare -->\n"
	tableTo   = "<!-- end of speed -->\n"
)

// Figures that were not measured, or that were measured of another program, mislead readers.
func TestReadmeTellsTheKeptRun(t *testing.T) {
	if *generate {
		keep(t)
	}
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := bytes.Cut(text, []byte(tableFrom))
	table, after, ended := bytes.Cut(rest, []byte(tableTo))
	if !found || !ended {
		t.Fatalf("README.md has no table between %q and %q", tableFrom, tableTo)
	}
	made := speedTable(read(t, keptRun))
	if *generate {
		table = []byte(made)
		if err := os.WriteFile(readme, bytes.Join([][]byte{before, []byte(tableFrom), table, []byte(tableTo), after}, nil),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	if string(table) != made {
		t.Errorf("README.md has other figures than bench/results.json; run go generate ./bench/compare. Expected:\n%s", made)
	}
}

// keep keeps the last run without its single rounds.
func keep(t *testing.T) {
	c := read(t, lastRun)
	if c.Quick || len(c.Failed) > 0 {
		t.Fatal("README.md tells whole runs without failures only; run make bench")
	}
	for i := range c.Scenarios {
		c.Scenarios[i].Runs = nil
	}
	made, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keptRun, append(made, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) *Comparison {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	c := &Comparison{}
	if err := json.Unmarshal(text, c); err != nil {
		t.Fatal(name, err)
	}
	return c
}

func speedTable(c *Comparison) string {
	var b strings.Builder
	m := &c.Machine
	fmt.Fprintf(&b, "Run of %s, %s, %d processors (%s), %s, %s:\n\n", c.Started.Format("2006-01-02"), m.Farebox, m.CPUs,
		m.Model, m.Nginx, m.Go)
	b.WriteString("| | measured | goal | |\n|---|---|---|---|\n")
	for _, g := range c.Goals {
		if !g.Known {
			continue
		}
		verdict := "missed"
		if g.Met {
			verdict = "met"
		}
		sign := "at most"
		if g.Least {
			sign = "at least"
		}
		fmt.Fprintf(&b, "| %s | %s %s | %s %.3g | %s |\n", g.Name, g.Measured(), g.Unit, sign, g.Limit, verdict)
	}
	return b.String()
}

// "1.5, at most 1.5, missed" cannot be understood.
func TestAMissedValueDiffersFromItsLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		goal Goal
		want string
	}{
		{Goal{Value: 1.5021, Limit: 1.5}, "1.502"},
		{Goal{Value: 1.4999, Limit: 1.5, Met: true}, "1.5"},
		{Goal{Value: 2.2149, Limit: 1.5}, "2.21"},
		{Goal{Value: 35.00001, Limit: 35}, "35"},
	} {
		if got := c.goal.Measured(); got != c.want {
			t.Errorf("%v beside the limit %v is %s, want %s", c.goal.Value, c.goal.Limit, got, c.want)
		}
	}
}
