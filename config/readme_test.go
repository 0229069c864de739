package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	yamlBlock     = regexp.MustCompile("(?ms)(^<!-- fragment -->\n)?^```yaml\n(.*?)^```$")
	mountedSecret = regexp.MustCompile(`/run/secrets/[a-z.-]+`)
)

// Every block of the manual works as written. A fragment gets the upstream and the model
// that it does not show, and files of secrets exist.
func TestBlocksOfTheManualAreGood(t *testing.T) {
	dir := t.TempDir()
	for _, page := range []string{"README.md", "REFERENCE.md", "../README.md"} {
		blocks := yamlBlock.FindAllStringSubmatch(string(read(t, page)), -1)
		if page == "README.md" && len(blocks) < 12 {
			t.Errorf("%s has only %d blocks", page, len(blocks))
		}
		for _, block := range blocks {
			text := mountedSecret.ReplaceAllStringFunc(block[2], func(name string) string {
				file := filepath.Join(dir, filepath.Base(name))
				if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
					t.Fatal(err)
				}
				return file
			})
			if block[1] != "" {
				text = completed(text)
			}
			c, err := Parse(page, []byte(text), testEnv)
			if err != nil {
				t.Errorf("a block of %s is refused: %v\n%s", page, err, block[2])
				continue
			}
			noWarnings(t, c)
			file := filepath.Join(dir, "block.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := editorSchema(t).Validate(instance(t, file)); err != nil {
				t.Errorf("the schema refuses a block of %s: %v\n%s", page, err, block[2])
			}
		}
	}
}

// completed adds the keys that every config needs to a fragment.
func completed(text string) string {
	if !strings.Contains(text, "upstreams:\n") {
		text += "upstreams: [{ name: main, base_url: \"http://127.0.0.1:8000/v1\" }]\n"
	}
	if !strings.Contains(text, "models:\n") {
		text += "models:\n  - id: chat\n    context_tokens: 8192\n    price: free\n    targets: [{ upstream: main }]\n"
	}
	return text
}

var pageLink = regexp.MustCompile(`\]\(([^):#]*)(?:#([a-z0-9_-]+))?\)`)

// Links lead to existing files and headings.
func TestLinksOfTheManualLeadSomewhere(t *testing.T) {
	for _, page := range []string{"README.md", "REFERENCE.md"} {
		titles := map[string]bool{}
		for line := range strings.Lines(string(read(t, page))) {
			if strings.HasPrefix(line, "## ") && titles[line] {
				t.Errorf("%s has two headings %s", page, line)
			}
			titles[line] = true
		}
		for _, link := range pageLink.FindAllStringSubmatch(string(read(t, page)), -1) {
			file := link[1]
			if file == "" {
				file = page
			} else if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", page, file, err)
				continue
			}
			if link[2] == "" {
				continue
			}
			found := false
			for line := range strings.Lines(string(read(t, file))) {
				title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
				found = found || ok && strings.HasPrefix(line, "#") && anchor(strings.TrimSpace(title)) == link[2]
			}
			if !found {
				t.Errorf("%s links to the heading %s of %s, which is not there", page, link[2], file)
			}
		}
	}
}
