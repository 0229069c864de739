package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
)

// sdkRow is one call of a method of OpenAI's packages, with an option or with none.
type sdkRow struct{ Method, Option, Result string }

var rxSomeID = regexp.MustCompile(`\bresp_[0-9a-f]{32}\b`)

// Every method of OpenAI's packages for the endpoints of the gateway, with each option that its
// types name, is served or refused in words that say why. tests/clients/sdk.md has the table.
func TestLongMethodsAndOptionsOfThePackages(t *testing.T) {
	s := strict.New(upstream.Options{})
	t.Cleanup(s.Close)
	where, err := s.StartAll()
	if err != nil {
		t.Fatal(err)
	}
	const large = "      vision: true\n      files: true\n      max_images: 10\n    constraints: { temperature"
	replace := []string{large, strings.Replace(large, "vision: true", "vision: true\n      logprobs: true\n      web_search: true", 1)}
	for name, value := range where {
		replace = append(replace, "${"+name+"}", value)
	}
	g := startPublic(t, filepath.Join("config", "demo.yaml"), replace, "FAREBOX_SIM="+where["SIM_URL"])
	var order []sdkRow
	packages := map[sdkRow][]string{}
	for _, suite := range []struct {
		name, dir string
		command   []string
	}{
		{"Python", "python", []string{absolute(t, "bench", "clients", "python", ".venv", "bin", "python"), "-W", "ignore", "inventory.py"}},
		{"Node", "node", []string{"node", "inventory.mjs"}},
	} {
		absolute(t, "bench", "clients", "node", "node_modules", "openai")
		out := g.RunSuite(t, g.environment, filepath.Join("bench", "clients", suite.dir), suite.command...)
		n := 0
		for line := range strings.Lines(string(out)) {
			var row sdkRow
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatalf("%s says %s", suite.name, line)
			}
			row.Result = rxSomeID.ReplaceAllString(row.Result, "resp_…")
			if strings.HasPrefix(row.Result, "5") || strings.HasPrefix(row.Result, "the package") {
				t.Errorf("%s: %s with %s: %s", suite.name, row.Method, row.Option, row.Result)
			}
			if packages[row] == nil {
				order = append(order, row)
			}
			packages[row] = append(packages[row], suite.name)
			n++
		}
		if n < 200 {
			t.Errorf("%s made %d calls", suite.name, n)
		}
	}
	first := map[string]int{}
	for i, row := range order {
		if _, ok := first[row.Method]; !ok {
			first[row.Method] = i
		}
	}
	slices.SortStableFunc(order, func(a, b sdkRow) int { return first[a.Method] - first[b.Method] })
	table := "| Method | Option | Result | Package |\n|---|---|---|---|\n"
	for _, row := range order {
		table += fmt.Sprintf("| %s | %s | %s | %s |\n", row.Method, row.Option, row.Result, strings.Join(packages[row], ", "))
	}
	known, err := os.ReadFile(filepath.Join("tests", "clients", "sdk.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(known), table) {
		t.Errorf("tests/clients/sdk.md has another table:\n%s", table)
	}
	g.Settled()
	g.CLI("verify")
}
