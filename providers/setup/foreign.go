package setup

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"farebox/config"
)

const (
	mostForeign  = 1 << 20 // bytes of a file that is imported
	mostIncludes = 20
	mostEntries  = 5000 // of model_list
)

// group is a mapping of another gateway's file. Keys that are read are taken out, so that the rest can be named as
// not carried over.
type group map[string]any

func (g group) take(key string) any {
	v := g[key]
	delete(g, key)
	return v
}

// text is a value as it is written; empty for a group or a list.
func (g group) text(key string) string {
	v, _ := g.take(key).(string)
	return strings.TrimSpace(v)
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

// readForeign reads a YAML file of another gateway, and the files that it includes.
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

func readYAML(file string) (group, error) {
	if s, err := os.Stat(file); err != nil {
		return nil, err
	} else if !s.Mode().IsRegular() || s.Size() > mostForeign {
		return nil, fmt.Errorf("%s is not a file of at most %d KB", file, mostForeign>>10)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return config.Tree(file, data)
}
