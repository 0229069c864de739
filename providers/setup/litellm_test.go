package setup

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/config"
)

var update = flag.Bool("update", false, "write the expected files anew")

// imported converts a file at the prices of the list and a fifth.
func imported(t testing.TB, file string) (*litellm, error) {
	t.Helper()
	whole, err := readForeign(file)
	if err != nil {
		return nil, err
	}
	l, err := openList("")
	if err != nil {
		t.Fatal(err)
	}
	factor, err := readMargin("20%")
	if err != nil {
		t.Fatal(err)
	}
	c := &litellm{list: l, unknown: "1.00/5.00", now: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC), draft: draft{source: named(l), margin: factor, listen: "127.0.0.1:8080", store: "./farebox-data"}}
	return c, c.convert(filepath.Base(file), whole)
}

// Each documented form of LiteLLM's config becomes a valid config, and the notes list the parts left out.
func TestConfigsOfLiteLLMAreCarriedOver(t *testing.T) {
	files, err := filepath.Glob("testdata/*.litellm.yaml")
	if err != nil || len(files) < 6 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".litellm.yaml"), func(t *testing.T) {
			c, err := imported(t, file)
			if err != nil {
				t.Fatal(err)
			}
			text := c.String()
			if _, err := config.Parse("farebox.yaml", []byte(text), anything); err != nil {
				t.Error(err)
			}
			got := text + "\n# Notes:\n# - " + strings.Join(append(c.notes, c.commands...), "\n# - ") + "\n"
			want := strings.TrimSuffix(file, ".litellm.yaml") + ".want"
			if *update {
				if err := os.WriteFile(want, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			known, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(known) {
				t.Errorf("%s is different:\n%s", want, got)
			}
			if strings.Contains(got, "hunter2") {
				t.Error("a secret is in the output")
			}
		})
	}
}

// A file that is not LiteLLM's is refused in words.
func TestOtherFilesAreNotImported(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"farebox":    {"listen: :8080\nmodels: []\n", "has no model_list"},
		"a list":     {"- a\n- b\n", "has no keys"},
		"broken":     {"model_list: [{\n", "not valid YAML"},
		"deep":       {"a: " + strings.Repeat("[", 100), "nested deeper"},
		"a model":    {"model_list: [1]\n", "is not a group of keys"},
		"no models":  {"model_list: [{model_name: a, litellm_params: {model: cohere/x}}]\n", "none of the models"},
		"no include": {"include: [nowhere.yaml]\nmodel_list: []\n", "nowhere.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := imported(t, file); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// Whatever the file, the result is a valid config or an error, and no line of it can be injected by the file.
func FuzzImport(f *testing.F) {
	files, err := filepath.Glob("testdata/*.litellm.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("model_list: [{model_name: \"a\\nlisten: x\", litellm_params: {model: \"openai/gpt-5.4-mini\\n- x\", api_key: \"k\\n  b: c\", api_base: \"http://a\\n b\"}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), "include") {
			return
		}
		file := filepath.Join(t.TempDir(), "in.yaml")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := imported(t, file)
		if err != nil {
			return
		}
		text := c.String()
		if strings.Count(text, "\nlisten:") != 1 || strings.Count(text, "\nmodels:") != 1 || strings.Count(text, "\nupstreams:") != 1 {
			t.Errorf("the file has written keys:\n%s", text)
		}
		_ = save(filepath.Join(t.TempDir(), "out.yaml"), text, false)
	})
}
