package spec

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"farebox/tests/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

var (
	generatePage = flag.Bool("generate", false, "write routes/DIFFERENCES.md")
	only         = flag.String("only", "", "carry out only statements that a pattern finds")
)

// section is a heading of the specification.
type section struct {
	At, Title string
	Without   string // why it has no rows
}

// tally counts statements.
type tally struct{ rows, holds, differs, silent, wrong int }

func (n *tally) String() string {
	return fmt.Sprintf("%d statements in %d rows: %d as specified, %d differ on purpose, %d promised beyond it, %d wrong",
		n.holds+n.differs+n.silent+n.wrong, n.rows, n.holds, n.differs, n.silent, n.wrong)
}

func (n *tally) add(s *statement) {
	switch {
	case s.Wrong != "":
		n.wrong++
	case s.Differs != nil:
		n.differs++
	case s.Silent:
		n.silent++
	default:
		n.holds++
	}
}

// Each statement of the specification holds, or differs as the manual says.
func TestSpecification(t *testing.T) {
	chapters, err := readTables()
	if err != nil {
		t.Fatal(err)
	}
	sections := readSections(t)
	byConfig := map[string][]*statement{}
	total, counts, covered := &tally{}, map[string]*tally{}, map[string]int{}
	var differ []*row
	for _, c := range chapters {
		n := &tally{rows: len(c.Rows)}
		counts[c.name], total.rows = n, total.rows+len(c.Rows)
		for i := range c.Rows {
			r := &c.Rows[i]
			list, err := c.statements(r)
			if err != nil {
				t.Fatal(err)
			}
			at := sectionOf(sections, r.At)
			if at == "" {
				t.Errorf("%s: %q is at %q, which is not in sections.yaml", c.name, r.Says, r.At)
			}
			covered[at] += len(list)
			if at == "2" {
				covered[r.At] += len(list)
			}
			if r.Differs != nil {
				differ = append(differ, r)
			}
			if _, known := variants[r.Config]; !known {
				t.Errorf("%s: %q asks for the config %q", c.name, r.Says, r.Config)
				continue
			}
			for k := range list {
				n.add(&list[k])
				total.add(&list[k])
				byConfig[r.Config] = append(byConfig[r.Config], &list[k])
			}
		}
	}
	if *only == "" {
		coverage(t, sections, covered)
	}
	comparePage(t, page(sections, differ))
	if *generatePage {
		return
	}
	for config, list := range byConfig {
		name := config
		if name == "" {
			name = "usual"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			carryOut(t, config, list)
		})
	}
	for _, c := range chapters {
		t.Logf("%-12s %s", c.name, counts[c.name])
	}
	t.Logf("%-12s %s", "all", total)
	for _, c := range chapters {
		for _, r := range c.Rows {
			if r.Wrong != "" {
				t.Logf("wrong: %s %s: %s", r.At, r.Says, r.Wrong)
			}
		}
	}
}

// atOnce is how many statements of a config are carried out at a time: they wait more than they work.
const atOnce = 16

// slow is when a statement is worth a line.
const slow = 3 * time.Second

// carryOut runs the statements of one config, several at a time.
func carryOut(t *testing.T, config string, list []*statement) {
	t.Helper()
	if *only != "" {
		pattern := regexp.MustCompile(*only)
		list = slices.DeleteFunc(list, func(s *statement) bool { return !pattern.MatchString(s.chapter + ": " + s.At + " " + s.name) })
		if len(list) == 0 {
			return
		}
	}
	w := startWorld(t, config)
	jobs := make(chan int)
	var all sync.WaitGroup
	var mu sync.Mutex
	for range atOnce {
		all.Go(func() {
			for i := range jobs {
				s := list[i]
				r := &runner{world: w, s: s, n: i, me: fmt.Sprintf("mark-%s-%05d-", s.chapter, i), kept: map[string]string{}}
				r.kept["me"] = r.me
				began := time.Now()
				wrong := r.run()
				if took := time.Since(began); took > slow {
					t.Logf("%s: %s: took %s", s.chapter, s.name, took.Round(time.Millisecond))
				}
				if len(wrong) > 0 {
					mu.Lock()
					t.Errorf("%s: %s: %s:\n    %s", s.chapter, s.At, s.name, strings.Join(wrong, "\n    "))
					mu.Unlock()
				}
			}
		})
	}
	for i := range list {
		jobs <- i
	}
	close(jobs)
	all.Wait()
	began := time.Now()
	w.settle(t)
	w.CLI("verify")
	t.Logf("the books took %s", time.Since(began).Round(time.Millisecond))
}

func readSections(t *testing.T) (list []section) {
	t.Helper()
	text, err := fs.ReadFile(tables, "sections.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalWithOptions(text, &list, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return list
}

// sectionOf is the section of a row: D8 is a row of section 2.
func sectionOf(sections []section, at string) string {
	if regexp.MustCompile(`^D\d+$`).MatchString(at) {
		return "2"
	}
	for _, s := range sections {
		if s.At == at {
			return at
		}
	}
	return ""
}

// disagreements are the rows of section 2.
const disagreements = 58

// coverage says which sections have no rows, which each needs a reason.
func coverage(t *testing.T, sections []section, covered map[string]int) {
	t.Helper()
	var b strings.Builder
	for _, s := range sections {
		fmt.Fprintf(&b, "%5d  %s %s\n", covered[s.At], s.At, s.Title)
		if (covered[s.At] == 0) != (s.Without != "") {
			t.Errorf("section %s %s has %d statements, and the reason to have none is %q", s.At, s.Title, covered[s.At], s.Without)
		}
	}
	for n := 1; n <= disagreements; n++ {
		at := fmt.Sprintf("D%d", n)
		if covered[at] == 0 && !slices.ContainsFunc(sections, func(s section) bool { return s.At == at }) {
			t.Errorf("row %d of section 2 has no statement and no reason to have none", n)
		}
	}
	t.Logf("statements by section:\n%s", b.String())
}

const pagePath = "routes/DIFFERENCES.md"

// page is the page of farebox's differences on purpose.
func page(sections []section, rows []*row) string {
	order := func(r *row) (n int) {
		at := sectionOf(sections, r.At)
		return slices.IndexFunc(sections, func(s section) bool { return s.At == at })
	}
	slices.SortStableFunc(rows, func(a, b *row) int { return order(a) - order(b) })
	var b strings.Builder
	b.WriteString(`# Differences from the specification

This page lists each point where farebox differs from the specification on purpose. The specification is interface.md,
which it calls the seed, and an addendum with data files. The first column has a heading of interface.md, a section of
the addendum, or a data file; D8 is row 8 of section 2. The page is generated from the tables of
[tests/spec](../tests/spec/doc.go), which run against the real binary.

| Section | Specification | farebox | Reason | Switch |
|---|---|---|---|---|
`)
	cell := func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(s), "|", `\|`), "\n", " ")
	}
	for _, r := range rows {
		d := r.Differs
		name := ""
		if d.Switch != "" {
			name = "`" + d.Switch + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(r.At), cell(r.Says), cell(d.Does), cell(d.Why), cell(name))
	}
	return b.String()
}

func comparePage(t *testing.T, made string) {
	t.Helper()
	if *generatePage {
		if err := os.WriteFile(pagePath, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(pagePath)
	if err != nil || string(have) != made {
		t.Errorf("%s does not match the tables (%v): run go generate -C tests ./spec", pagePath, err)
	}
}
