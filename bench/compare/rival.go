package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"farebox/bench/load"
	"farebox/bench/upstream"
)

// Rival is another gateway that takes part on demand. Its program is FOLDER/NAME/run:
//
//	run about UPSTREAM               prints this as JSON, or says why it cannot run
//	run serve UPSTREAM PORT MODEL…   serves chat requests for these models of the upstream
type Rival struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Settings string   `json:"settings"`          // for readers of the report
	Path     string   `json:"path"`              // of its API; empty: it prints the address of that
	Key      string   `json:"key,omitempty"`     // of requests
	Headers  []string `json:"headers,omitempty"` // more of them, as "Name: value"
	Prefix   string   `json:"prefix,omitempty"`  // before the names of models

	folder string
}

// rivalLimit is for interpreters that load many files on one core.
const rivalLimit = time.Minute

// newRival asks a rival's program about it.
func newRival(folder, name, upstream string) (*Rival, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	r := &Rival{Name: name, folder: folder}
	if _, err := os.Stat(r.program()); err != nil {
		known, _ := filepath.Glob(filepath.Join(folder, "*", "run"))
		for i, path := range known {
			known[i] = filepath.Base(filepath.Dir(path))
		}
		return nil, fmt.Errorf("cannot measure the rival %q: the rivals in %s are: %s; --rivals names another folder", name, folder,
			strings.Join(known, ", "))
	}
	out, err := tool(".", r.program(), "about", upstream)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(out, r); err != nil {
		return nil, fmt.Errorf("cannot read the JSON that %s about prints: %w", r.program(), err)
	}
	return r, nil
}

func (r *Rival) program() string { return filepath.Join(r.folder, r.Name, "run") }

// start runs the rival on the gateways' processor and waits for its first good answer.
func (r *Rival) start(l *lab) (*gateway, error) {
	root := "http://" + l.upstreamAddr
	r, err := newRival(r.folder, r.Name, root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(l.dir, r.Name)
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	argv := []string{r.program(), "serve", root, addr[strings.LastIndexByte(addr, ':')+1:]}
	p, err := spawn(r.Name, dir, l.gatewayCPU, nil, append(argv, upstream.BenchModels()...)...)
	if err != nil {
		return nil, err
	}
	g := &gateway{name: r.Name, rival: r, key: r.Key, processes: []*process{p}}
	for end := time.Now().Add(rivalLimit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		select {
		case <-p.done:
			return g, fmt.Errorf("cannot use %s: it ended at once: %s", p.name, p.said())
		default:
		}
		if g.url = "http://" + addr + r.Path; r.Path == "" {
			g.url = ""
			for _, word := range strings.Fields(p.said()) {
				if strings.HasPrefix(word, "http://") {
					g.url = word
				}
			}
		}
		if g.answers() == nil {
			return g, nil
		}
	}
	return g, fmt.Errorf("cannot use %s: it answered no chat request well within %v (%v): %s", p.name, rivalLimit,
		g.answers(), p.said())
}

// answers checks that a chat request succeeds.
func (g *gateway) answers() error {
	req, err := g.request(jsonModel, false)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: startLimit}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	return nil
}

// traffic is a load for this gateway. Streams: answers are passed on as they arrive.
func (g *gateway) traffic(o load.Options, streams bool) load.Options {
	o.URL, o.Key, o.PIDs = g.address(streams), g.key, g.pids(streams)
	if g.rival != nil {
		o.Headers, o.Model = g.rival.Headers, g.rival.Prefix+o.Model
	}
	return o
}
