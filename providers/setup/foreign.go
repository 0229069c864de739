package setup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

const (
	mostForeign  = 1 << 20 // bytes of a file that is imported
	mostIncludes = 20
	mostEntries  = 5000 // of model_list
)

// group is a mapping of another gateway's file. What is read is taken out, so that the rest can be named as not carried
// over.
type group map[string]any

func (g group) take(key string) any {
	v := g[key]
	delete(g, key)
	return v
}

// text is a value as text; numbers and booleans as YAML writes them.
func (g group) text(key string) string {
	switch v := g.take(key).(type) {
	case nil:
		return ""
	case string:
		return strings.TrimSpace(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool, int, int64, uint64:
		return fmt.Sprint(v)
	}
	return ""
}

// number is a value that is at least 0; 0 for anything else.
func (g group) number(key string) float64 {
	text := strings.ReplaceAll(g.text(key), "_", "")
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 || math.IsInf(n, 0) || math.IsNaN(n) || n > 1e12 {
		return 0
	}
	return n
}

func (g group) whole(key string) int64 { return int64(g.number(key)) }

func (g group) group(key string) group {
	m, _ := g.take(key).(map[string]any)
	return m
}

func (g group) list(key string) []any {
	l, _ := g.take(key).([]any)
	return l
}

// rest are the keys that nothing has read.
func (g group) rest() []string {
	var keys []string
	for key := range g {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// readForeign reads a YAML file of another gateway, and what it includes.
func readForeign(file string) (group, error) {
	whole, err := readYAML(file)
	if err != nil {
		return nil, err
	}
	includes := whole.list("include")
	if len(includes) > mostIncludes {
		return nil, fmt.Errorf("%s includes more than %d files", file, mostIncludes)
	}
	for _, one := range includes {
		name, _ := one.(string)
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(file), name)
		}
		part, err := readYAML(name)
		if err != nil {
			return nil, err
		}
		for key, value := range part {
			if more, ok := value.([]any); ok {
				old, _ := whole[key].([]any)
				value = append(old, more...)
			}
			whole[key] = value
		}
	}
	return whole, nil
}

func readYAML(file string) (g group, err error) {
	defer func() {
		// The YAML library has had panics on broken input.
		if p := recover(); p != nil {
			g, err = nil, fmt.Errorf("%s cannot be read as YAML", file)
		}
	}()
	if s, err := os.Stat(file); err != nil {
		return nil, err
	} else if !s.Mode().IsRegular() || s.Size() > mostForeign {
		return nil, fmt.Errorf("%s is not a file of at most %d KB", file, mostForeign>>10)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if deep(data) {
		return nil, fmt.Errorf("%s is nested deeper than a config", file)
	}
	if err := yaml.Unmarshal(data, &g); err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			return nil, fmt.Errorf("%s:%d: not valid YAML: %s", file, syntax.GetToken().Position.Line, syntax.GetMessage())
		}
		return nil, fmt.Errorf("%s is not a YAML file with keys", file)
	}
	return g, nil
}

// deep guards the recursive parser: no config nests so many brackets, or indents so far.
func deep(data []byte) bool {
	open := 0
	for line := range strings.SplitSeq(string(data), "\n") {
		if len(line)-len(strings.TrimLeft(line, " -")) > 200 {
			return true
		}
		for _, c := range line {
			switch c {
			case '[', '{':
				open++
			case ']', '}':
				open = max(0, open-1)
			}
		}
		if open > 60 {
			return true
		}
	}
	return false
}
