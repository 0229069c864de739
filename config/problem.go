package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"
)

// Problem is one mistake in a config file, or a warning: a value that somebody might mean
// and that is more often a mistake. A file with warnings is good.
type Problem struct {
	File         string
	Line, Column int    // from 1; columns count characters
	Path         string // models[2].price.input; empty for the file as a whole
	Excerpt      string // the line and a caret under the place; secrets are masked
	Message      string // the mistake; the expected value
	Warning      bool
}

// maxProblems ends the list: a file with more mistakes is of another kind.
const maxProblems = 200

// String is the problem as `farebox check` prints it: place, path and message
// on the first line, the excerpt below.
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", p.Place())
	if p.Warning {
		b.WriteString("warning: ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Excerpt != "" {
		b.WriteString("\n" + p.Excerpt)
	}
	return b.String()
}

// Place is file:line:column.
func (p Problem) Place() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// Problems is every mistake of one file, in the order of the file. It is the
// error that Load and Parse return for a file that could be opened.
type Problems struct {
	File     string
	List     []Problem
	Warnings []Problem // not part of the error's text
	more     bool      // the list was cut at maxProblems
}

// Error says how many mistakes there are and prints each.
func (p *Problems) Error() string {
	var b strings.Builder
	count := "1 mistake"
	if n := len(p.List); p.more {
		count = fmt.Sprintf("more than %d mistakes", n)
	} else if n != 1 {
		count = fmt.Sprintf("%d mistakes", n)
	}
	fmt.Fprintf(&b, "%s has %s", p.File, count)
	for _, one := range p.List {
		b.WriteString("\n\n" + one.String())
	}
	return b.String()
}

// LogWarnings logs the warnings that are not among those of before, without excerpts.
func (c *Config) LogWarnings(log zerolog.Logger, before []Problem) {
	for _, one := range c.Warnings {
		if !slices.ContainsFunc(before, func(old Problem) bool { return old.Path == one.Path && old.Message == one.Message }) {
			log.Warn().Str("place", one.Place()).Str("key", one.Path).Msg("config: " + one.Message)
		}
	}
}

// report collects problems while a file is read.
type report struct {
	src    *source
	list   []finding
	doubts []finding // warnings
	more   bool
}

// finding waits for its excerpt until the whole file was read, because a
// secret further down the same line must be known before the line is shown.
type finding struct {
	at            position
	path, message string
}

func (r *report) add(at position, path, format string, args ...any) {
	if len(r.list) >= maxProblems {
		r.more = true
		return
	}
	r.list = append(r.list, finding{at, path, fmt.Sprintf(format, args...)})
}

// warn adds a warning.
func (r *report) warn(at position, path, format string, args ...any) {
	if len(r.doubts) < maxProblems {
		r.doubts = append(r.doubts, finding{at, path, fmt.Sprintf(format, args...)})
	}
}

// err is nil when no mistake was reported.
func (r *report) err() error {
	if len(r.list) == 0 {
		return nil
	}
	return &Problems{File: r.src.name, List: r.problems(r.list, false), Warnings: r.warnings(), more: r.more}
}

func (r *report) warnings() []Problem { return r.problems(r.doubts, true) }

// problems are findings in the order of the file, with their excerpts.
func (r *report) problems(list []finding, warning bool) (problems []Problem) {
	slices.SortStableFunc(list, func(a, b finding) int {
		return cmp.Or(a.at.line-b.at.line, a.at.column-b.at.column, len(a.path)-len(b.path), strings.Compare(a.path, b.path))
	})
	// Models that stand for one entry of the file, such as openai/*, have its findings each.
	list = slices.CompactFunc(list, func(a, b finding) bool { return a.at == b.at && a.message == b.message })
	for _, one := range list {
		problems = append(problems, Problem{
			File: r.src.name, Line: one.at.line, Column: one.at.column, Path: one.path,
			Excerpt: r.src.excerpt(one.at), Message: one.message, Warning: warning,
		})
	}
	return problems
}

// foreign are keys as other gateways and SDKs call them.
var foreign = map[string][]string{
	"addr": {"listen"}, "address": {"listen"}, "port": {"listen"}, "host": {"listen"},
	"api_key": {"key"}, "apikey": {"key"}, "token": {"key"}, "secret": {"key"},
	"url": {"base_url"}, "endpoint": {"base_url"}, "api_base": {"base_url"},
	"provider": {"dialect", "upstream"}, "format": {"dialect"}, "kind": {"type"},
	"providers": {"upstreams"}, "backends": {"upstreams"}, "servers": {"upstreams"},
	"backend": {"upstream"}, "pricing": {"price"}, "prices": {"price"},
	"prompt": {"input"}, "completion": {"output"}, "cache_input": {"cache_read"},
	"cached_input": {"cache_read"}, "context_length": {"context_tokens"},
	"context_window": {"context_tokens"}, "max_tokens": {"max_completion_tokens"},
	"max_output_tokens": {"max_completion_tokens"}, "model_name": {"id"},
	"database": {"store"}, "routes": {"targets"}, "deployments": {"targets"},
	"threshold": {"above"}, "certificate": {"cert"}, "timeout": {"timeouts"},
	"functions": {"tools"}, "function_calling": {"tools"}, "json_schema": {"response_schema"},
}

// suggest finds the key that was probably meant, or "".
func suggest(got string, keys []string) string {
	if len(got) > 40 {
		return ""
	}
	best, least := "", 3
	for _, key := range keys {
		if slices.Contains(foreign[got], key) {
			return key
		}
		if n := distance(got, key); n < least && n*2 < len(key) {
			best, least = key, n
		}
	}
	return best
}

// distance is the number of letters to insert, remove, change or swap with
// their neighbour to make b of a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
