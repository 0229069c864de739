package setup

import (
	"bufio"
	"bytes"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"farebox/config"
	"farebox/config/prices"
)

// On a terminal each choice is asked, and an empty answer takes the default.
func TestInitAsks(t *testing.T) {
	for _, v := range prices.Vendors {
		for _, name := range append(append([]string{}, v.Keys...), v.Bases...) {
			t.Setenv(name, "")
		}
	}
	t.Setenv("OPENAI_API_KEY", "sk-hunter2")
	for _, c := range []struct {
		name, answers string
		want          []string
		refused       string
	}{
		{name: "all defaults", answers: "\n\n\n\n\n\n", want: []string{"key: ${OPENAI_API_KEY}", "times 1.2", "listen: \"127.0.0.1:8080\""}},
		{name: "no answers", answers: "", want: []string{"id: gpt-5.4-mini"}},
		{name: "other values", answers: "openai,anthropic\n\n50\nno-such-model\ngpt-5.4-m*, gpt-6-sol\nMY_CLAUDE\nclaude-sonnet-5\n0.0.0.0:9000\n/var/lib/farebox\n",
			want: []string{"key: ${MY_CLAUDE}", "times 1.5", "id: gpt-5.4-mini\n", "id: gpt-6-sol\n", "id: claude-sonnet-5\n", "listen: \"0.0.0.0:9000\"", "store: /var/lib/farebox"}},
		{name: "a key as a name", answers: "anthropic\n\n\nsk-ant-hunter2\n", refused: "not the name of an environment variable"},
		{name: "an unknown provider", answers: "openay\n\n\n", refused: `no provider "openay"`},
		{name: "none", answers: "none\n\n", refused: "no provider is known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "farebox.yaml")
			var said bytes.Buffer
			choice := choices{out: file, listen: "127.0.0.1:8080", store: "./farebox-data", margin: "20", own: "0.10/0.40", offline: true}
			q := &questions{in: bufio.NewScanner(strings.NewReader(c.answers)), out: &said}
			err := choice.run(q, func(string) bool { return false })
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%v\n%s", err, said.String())
				}
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, said.String())
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("%q is not in\n%s", want, text)
				}
			}
			if strings.Contains(string(text)+said.String(), "hunter2") {
				t.Error("a key is written or said")
			}
			if _, err := config.Load(file); err != nil && !strings.Contains(err.Error(), "MY_CLAUDE") {
				t.Error(err)
			}
		})
	}
}

func TestTextsAreWrittenAsYAML(t *testing.T) {
	for text, want := range map[string]string{
		"gpt-5": "gpt-5", "a:b": "a:b", "0.0.0.0:80": `"0.0.0.0:80"`, "true": `"true"`, "x: y": `"x: y"`, "${A}": "${A}", "": `""`,
		"a\nb": `"a\nb"`, "# x": `"# x"`, "https://host/v1": "https://host/v1", "1e6": `"1e6"`, "a#b": `"a#b"`, "https:": `"https:"`,
	} {
		if got := scalar(text); got != want {
			t.Errorf("%q is written %s", text, got)
		}
	}
	if got := list([]string{"none", "a,b"}); got != `[none, "a,b"]` {
		t.Error(got)
	}
}

// A list of prices and the name of a file come from elsewhere: they write no lines of the config.
func TestCommentsStayOnTheirLine(t *testing.T) {
	d := &draft{head: []string{"from a\nlisten: b"}, source: "x\nmodels: y", margin: big.NewRat(1, 1), listen: "a:1", store: "s",
		models: []model{{id: "m", known: prices.Model{Context: 1, Price: prices.Price{Input: big.NewRat(1, 1), Output: big.NewRat(1, 1)}},
			comment: []string{"names z\r\n  - id: evil"}}}}
	text := d.String()
	for _, line := range []string{"\nlisten: b", "\nmodels: y", "\n  - id: evil"} {
		if strings.Contains(text, line) {
			t.Errorf("%q is in\n%s", line, text)
		}
	}
}
