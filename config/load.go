package config

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
)

// Load reads, expands and checks the file. Mistakes in it are *Problems; a
// file that cannot be read is an ordinary error that wraps the cause.
func Load(path string) (*Config, error) {
	f, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	return parseKeys(f, os.LookupEnv, nil)
}

// LoadStore is Load for commands that work on the store and sell nothing: they
// need neither the secrets of upstreams nor a file that is good elsewhere.
func LoadStore(path string) (*Config, error) {
	f, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	return parseKeys(f, os.LookupEnv, storeKeys)
}

// storeKeys are the keys of the store and of its parts.
var storeKeys = []string{"brand", "brand_aliases", "store", "node", "durability", "redis", "idempotency",
	"characters"}

// Parse is Load for a file that is in memory already. The name is used for
// messages and Source; env answers ${NAME}, nil stands for an empty one.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	return parseKeys(file{name: name, data: data}, env, nil)
}

// file is a config file as it was read.
type file struct {
	name string
	data []byte
	mode fs.FileMode // 0: not known
}

// parseKeys reads all of a file, or with only just those of its keys.
func parseKeys(f file, env func(string) (string, bool), only []string) (*Config, error) {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	src, r := newSource(f.name, f.data)
	if err := r.err(); err != nil {
		return nil, err
	}
	if foreignFormat(src, r) {
		return nil, r.err()
	}
	root := parseTree(src, r)
	if err := r.err(); root == nil && err != nil {
		return nil, err
	}
	if root == nil || root.isNull() {
		r.add(position{1, 1}, "", "the file is empty; expected at least upstreams: and models: (see "+
			"config/examples/minimal-openai.yaml)")
		return nil, r.err()
	}
	if root.kind != mappingNode {
		src.hide(root)
		r.add(root.at(), "", "%s stands here; expected keys such as upstreams: and models:", root.describe())
		return nil, r.err()
	}
	if foreignFile(root, r) {
		return nil, r.err()
	}
	if only != nil {
		root.pairs = slices.DeleteFunc(root.pairs, func(p pair) bool { return !slices.Contains(only, p.name) })
	}
	c := newConfig()
	c.Source = f.name
	c.sum = sha256.Sum256(f.data)
	d := newDecoder(r, env)
	d.value("", root.at(), root, reflect.ValueOf(c).Elem())
	d.wildcards(root, c)
	c.complete()
	if v := newValidator(d, c); only == nil {
		v.run()
		v.doubts(f.mode)
	} else {
		v.tags("", reflect.ValueOf(c).Elem())
		v.identity()
		v.redis()
		v.characters()
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	c.Warnings, c.text = r.warnings(), src.whole()
	return c, nil
}

// readConfig reads a file or a pipe, up to the limit that Parse reports.
func readConfig(path string) (file, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return file{}, fmt.Errorf("cannot read the config file: %w; name an existing file with -c", err)
	}
	if err != nil {
		return file{}, fmt.Errorf("cannot read the config file: %w; check its permissions", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return file{}, fmt.Errorf("cannot read the config file: %w", err)
	}
	read := file{name: path, data: data}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		read.mode = info.Mode().Perm()
	}
	return read, nil
}

//go:embed demo.yaml
var demoFile []byte

// demoFolder has the characters of the demonstration and their pictures.
//
//go:embed demo
var demoFolder embed.FS

// Demo is the built-in config of `make run`: simulated models, so that everything can be
// tried without an account anywhere. where has the variables of demo.yaml: SIM_URL and
// SIM_ENCLAVE, both http://host:port without a path, and the files SIM_ACCOUNT, the key of
// the service account that the simulated Google knows, and SIM_INTEL_ROOT and
// SIM_NVIDIA_ROOT, who vouch for the enclave.
//
// It panics when an address is not usable, since both come with the program.
func Demo(where map[string]string) *Config {
	c, err := Parse("demo.yaml", demoFile, func(name string) (string, bool) {
		value, ok := where[name]
		return value, ok
	})
	if err != nil {
		panic(fmt.Sprintf("config: the built-in config cannot be used with %s: %v", where["SIM_URL"], err))
	}
	c.Source = ""
	c.Simulated, c.SimulatedAt = true, where["SIM_URL"]
	c.Operator.Listen = "127.0.0.1:0"
	c.Characters = CharactersIn("")
	if c.Characters.files, err = fs.Sub(demoFolder, "demo"); err != nil {
		panic(fmt.Sprintf("config: the characters of the demonstration are not there: %v", err))
	}
	return c
}
