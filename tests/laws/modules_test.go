package laws

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is a go.mod as `go mod edit -json` prints it.
type module struct {
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

// moduleIn reads the go.mod of a folder of the project.
func moduleIn(t *testing.T, dir string) (versions, replaced map[string]string) {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = filepath.Join(root(t), dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go mod edit: %v", err)
	}
	var m module
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	versions, replaced = map[string]string{}, map[string]string{}
	for _, r := range m.Require {
		versions[r.Path] = r.Version
	}
	for _, r := range m.Replace {
		to := r.New.Path
		if strings.HasPrefix(to, ".") {
			to = filepath.Join(dir, to)
		}
		replaced[r.Old.Path] = to + "@" + r.New.Version
	}
	return versions, replaced
}

// The tests are built with the modules that the product is built with.
func TestBothModulesHaveTheSameVersions(t *testing.T) {
	product, replaced := moduleIn(t, ".")
	tests, replacedThere := moduleIn(t, "tests")
	for path, version := range product {
		if got := tests[path]; got != version {
			t.Errorf("%s has %s in go.mod and %q in tests/go.mod: run `go mod tidy` in both folders, the product's first", path, version, got)
		}
	}
	delete(replacedThere, "farebox")
	if !maps.Equal(replaced, replacedThere) {
		t.Errorf("go.mod replaces %v, tests/go.mod %v", replaced, replacedThere)
	}
}

// testModules are used by tests and tools alone: the product's go.mod does not have them.
var testModules = []string{
	"github.com/anthropics/anthropic-sdk-go", "github.com/google/go-tdx-guest", "github.com/openai/openai-go/v3",
	"github.com/tiktoken-go/tokenizer", "google.golang.org/genai", "google.golang.org/grpc",
}

// unitTestModules are in the product's go.mod for tests of its packages; the binary must not have them.
var unitTestModules = []string{"github.com/anishathalye/porcupine", "pgregory.net/rapid"}

func TestTheBinaryHasNoModulesOfTests(t *testing.T) {
	product, _ := moduleIn(t, ".")
	for _, path := range testModules {
		if product[path] != "" {
			t.Errorf("%s is in go.mod: its users belong in tests/", path)
		}
	}
	for _, p := range listed(t, "-deps", "farebox") {
		if slices.Contains(testPackages, p.ImportPath) {
			t.Errorf("%s is in the binary", p.ImportPath)
		}
		if p.Module != nil && slices.Contains(append(testModules, unitTestModules...), p.Module.Path) {
			t.Errorf("%s of %s is in the binary", p.ImportPath, p.Module.Path)
		}
		if strings.HasPrefix(p.ImportPath, "farebox/tests/") || strings.HasSuffix(p.ImportPath, "test") && strings.HasPrefix(p.ImportPath, "farebox/") {
			t.Errorf("%s is in the binary", p.ImportPath)
		}
	}
}
