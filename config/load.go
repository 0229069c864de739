package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
)

// Load reads, expands and checks the file. Mistakes in it are *Problems; a
// file that cannot be read is an ordinary error that wraps the cause.
func Load(path string) (*Config, error) {
	data, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, os.LookupEnv)
}

// Parse is Load for a file that is in memory already. The name is used for
// messages and Source; env answers ${NAME}, nil stands for an empty one.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	src, r := newSource(name, data)
	if err := r.err(); err != nil {
		return nil, err
	}
	root := parseTree(src, r)
	if err := r.err(); root == nil && err != nil {
		return nil, err
	}
	if root == nil || root.isNull() {
		r.add(place{1, 1}, "", "the file is empty; expected at least upstreams: and models: (see config/examples/minimal-openai.yaml)")
		return nil, r.err()
	}
	if root.kind != mappingNode {
		r.add(root.at(), "", "%s stands here; expected keys such as upstreams: and models:", root.describe())
		return nil, r.err()
	}
	c := newConfig()
	c.Source = name
	c.sum = sha256.Sum256(data)
	d := newDecoder(r, env)
	d.value("", root.at(), root, reflect.ValueOf(c).Elem())
	c.complete()
	(&validator{decoder: d, c: c, ids: map[string]int{}}).run()
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// readConfig reads a file, or what comes through a pipe, up to the limit that
// Parse reports.
func readConfig(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the config file: %w; name an existing file with -c", err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the config file: %w; check its permissions", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the config file: %w", err)
	}
	return data, nil
}
