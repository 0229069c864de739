package operations

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"farebox/tests/rig"
)

// wording is a pattern that plain English does not have, and the better form.
type wording struct {
	pattern *regexp.Regexp
	// fine are last words of matches that are plain English, such as "is no longer". Those of
	// "there is no" always are.
	fine []string
	hint string
}

var wordings = []wording{
	{regexp.MustCompile(`\b(?:[Tt]here (?:is|are)|it is|has|have|had) none\b`), nil, `name the thing: "it has no key"`},
	{regexp.MustCompile(`(?:^|\w+) (?:is|are|was|were) (?:no [a-z]{3,}|nobody\b|none\b)`), []string{"longer", "more", "better",
		"less", "worse", "one", "such", "way", "room", "need", "other", "further", "limit", "default", "error", "loss",
		"reason", "sign", "larger", "older", "different"}, `write "is not a"`},
	{regexp.MustCompile(`\b(?:for|to|of|by|with|from|at|in|on) (?:who|whom|whoever|what)\b`), nil, "name the person or the thing"},
	{regexp.MustCompile(`(?:^|[.;:|] |- )(?:Who|Whoever|What) [a-z]+`), []string{"is", "are", "to"}, "begin with a subject, not with a clause"},
	{regexp.MustCompile(`\b(?:is|are|be|was|were) told\b`), nil, `say who gets what: "the client gets a 400"`},
	{regexp.MustCompile(`\b(?:stands?|stood) (?:behind|beside|before|between|in|at|there)\b`), nil, "use is, has or follows"},
	{regexp.MustCompile(`\bwhom\b|\bbeside [a-z]|\bbecame of\b|\bby (?:its|their) names?\b`), nil, "use who, next to, the outcome of, with its name"},
}

// violations lists the patterns in the prose of a page: its fenced blocks and inline code are left out.
func violations(text string) (list []string) {
	code := regexp.MustCompile("`[^`]*`")
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if fenced {
			continue
		}
		line = code.ReplaceAllString(line, "x")
		for _, w := range wordings {
			for _, found := range w.pattern.FindAllString(line, -1) {
				if w.fine != nil && strings.HasPrefix(strings.ToLower(found), "there ") || slices.Contains(w.fine, last(found)) {
					continue
				}
				list = append(list, fmt.Sprintf("%d: %q: %s", i+1, found, w.hint))
			}
		}
	}
	return list
}

// last is the last word of a match.
func last(found string) string {
	words := strings.Fields(found)
	return words[len(words)-1]
}

// Pages for people are in plain English.
func TestPagesAreInPlainWords(t *testing.T) {
	t.Parallel()
	for _, page := range pages {
		if page == "config/REFERENCE.md" {
			continue // generated from the comments of package config
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range violations(string(text)) {
			t.Errorf("%s:%s", page, v)
		}
	}
}

// So is the help of every command.
func TestHelpIsInPlainWords(t *testing.T) {
	t.Parallel()
	listed := regexp.MustCompile(`(?m)^Available Commands:\n((?:  \S.*\n)+)`)
	var walk func(path ...string)
	walk = func(path ...string) {
		text, err := rig.RunIn(t, t.TempDir(), append(path, "--help")...)
		if err != nil {
			t.Errorf("farebox %s --help: %v", strings.Join(path, " "), err)
		}
		for _, v := range violations(text) {
			t.Errorf("farebox %s --help:%s", strings.Join(path, " "), v)
		}
		if list := listed.FindStringSubmatch(text); list != nil {
			for line := range strings.Lines(list[1]) {
				if name := strings.Fields(line)[0]; name != "help" {
					walk(append(slices.Clone(path), name)...)
				}
			}
		}
	}
	walk()
}

// The patterns find the wordings that they are for, and leave the usual ones alone.
func TestWordingsAreFound(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"`x` is no location", "The limit is none of ours.", "It has none.", "There is none.", "Money for who pays first", "Who leaves early pays.",
		"| What it does |", "The client is told why.", "A cache stands before it.", "What became of it", "It is refused by its name.",
	} {
		if len(violations(bad)) == 0 {
			t.Errorf("%q passes", bad)
		}
	}
	for _, good := range []string{
		"It is no longer used.", "There is no key.", "What to do", "```\nis no key\n```", "`is no key`", "It is not a key.",
		"People who pay get it.",
	} {
		if v := violations(good); len(v) > 0 {
			t.Errorf("%q: %v", good, v)
		}
	}
}
