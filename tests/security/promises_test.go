package security

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A promise counts only if its test exists.
func TestSecurityNamesTestsAndFilesThatExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".venv" || d.Name() == ".git"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			there[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(page, -1)
	if len(named) < 50 {
		t.Errorf("SECURITY.md names %d tests", len(named))
	}
	for _, m := range named {
		if name := string(m[1]); !there[name] {
			t.Errorf("SECURITY.md names %s, which is not a test", name)
		}
	}
	for _, m := range regexp.MustCompile("`((?:billing|proxy|providers|routes|config)/[\\w/]+\\.go)`").
		FindAllSubmatch(page, -1) {
		if _, err := os.Stat(string(m[1])); err != nil {
			t.Errorf("SECURITY.md names a file that is not there: %v", err)
		}
	}
}
