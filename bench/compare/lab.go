package compare

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"farebox/bench/upstream"
)

// lab is the set-up of all measurements: a temporary folder, the simulated upstream, and
// the assignment of processors.
type lab struct {
	exe          string // this program, which is also upstream, relay and farebox
	dir          string
	gatewayCPU   int // -1: not pinned
	loadCPU      int
	upstream     *process
	upstreamAddr string
	truth        upstream.Remote
	rivals       []*Rival
}

// gateway is one contender; direct has no process.
type gateway struct {
	name      string
	url       string
	streamURL string // when streams go elsewhere
	key       string
	processes []*process
	dir       string // of farebox: its config and store
	rival     *Rival // may be nil
}

// starters make contenders afresh; the memory scenario needs unused ones.
var starters = map[string]func(*lab) (*gateway, error){
	"direct":  startDirect,
	"relay":   startRelay,
	"nginx":   startNginx,
	"farebox": startFarebox,

	bodyContender: startNginxAll,
}

// start makes a contender afresh.
func (l *lab) start(name string) (*gateway, error) {
	for _, r := range l.rivals {
		if r.Name == name {
			return r.start(l)
		}
	}
	return starters[name](l)
}

// Contenders of every comparison in their order within a round; rivals follow.
var Contenders = []string{"direct", "relay", "nginx", bodyContender, "farebox"}

// bodyContender is nginx with room for whole bodies in memory; it only takes
// part where bodies are large.
const bodyContender = "nginx-2m"

func startDirect(l *lab) (*gateway, error) {
	return &gateway{name: "direct", url: "http://" + l.upstreamAddr + "/v1"}, nil
}

func (g *gateway) address(stream bool) string {
	if stream && g.streamURL != "" {
		return g.streamURL
	}
	return g.url
}

// path chooses between the upstream's path of an endpoint and farebox's own.
func (g *gateway) path(usual, ours string) string {
	if g.name == contender && ours != "" {
		return ours
	}
	return usual
}

// pids are the processes that work for such a request.
func (g *gateway) pids(stream bool) []int {
	var list []int
	for i, p := range g.processes {
		if g.streamURL == "" || (i == 1) == stream {
			list = append(list, p.pid())
		}
	}
	return list
}

func (g *gateway) stop() { g.end(stopLimit) }

func (g *gateway) end(limit time.Duration) {
	if g == nil {
		return
	}
	for _, p := range g.processes {
		p.end(limit)
	}
}

func newLab() (*lab, error) {
	l := &lab{gatewayCPU: -1, loadCPU: -1}
	var err error
	if l.exe, err = os.Executable(); err != nil {
		return nil, err
	}
	if cpus := processors(); len(cpus) >= 2 {
		l.gatewayCPU, l.loadCPU = cpus[0], cpus[1]
		if err := pinSelf(l.loadCPU); err != nil {
			return nil, fmt.Errorf("cannot pin to processor %d: %w", l.loadCPU, err)
		}
		runtime.GOMAXPROCS(1)
	}
	if l.dir, err = os.MkdirTemp("", "farebox-bench-"); err != nil {
		return nil, err
	}
	if err := os.Chmod(l.dir, 0o755); err != nil {
		return nil, err
	}
	if l.upstreamAddr, err = freeAddress(); err != nil {
		return l, err
	}
	l.truth.URL = "http://" + l.upstreamAddr
	l.upstream, err = spawn("upstream", l.dir, l.loadCPU, []string{"GOMAXPROCS=1"}, l.exe, "bench", "upstream",
		"--listen", l.upstreamAddr)
	if err != nil {
		return l, err
	}
	return l, l.upstream.ready(l.upstreamAddr)
}

func (l *lab) close() {
	if l == nil {
		return
	}
	l.upstream.stop()
	if l.dir != "" {
		_ = os.RemoveAll(l.dir)
	}
}
