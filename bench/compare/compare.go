package compare

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"farebox/bench/load"
)

// Options of a comparison.
type Options struct {
	Quick    bool
	Only     []string // scenario names, also rates, memory, abort and start; empty: all
	Without  []string // contenders left out
	With     []string // rivals that take part
	Rivals   string   // the folder of their files
	Command  string   // the command line, for the report
	Rounds   int      // 0: the mode's own
	Progress func(done float64, line string)
}

// Comparison is the result of one run.
type Comparison struct {
	Started   time.Time         `json:"started"`
	Seconds   float64           `json:"seconds"`
	Quick     bool              `json:"quick"`
	Command   string            `json:"command"`
	Machine   Machine           `json:"machine"`
	Rivals    []*Rival          `json:"rivals,omitempty"`
	Scenarios []Outcome         `json:"scenarios"`
	Rates     map[string][]Rate `json:"rates"`
	Memory    map[string]Memory `json:"memory"`
	Aborts    map[string]Abort  `json:"aborts"`
	Large     map[string]Large  `json:"large"`
	Starts    []Start           `json:"starts"` // of farebox, with ever more keys
	Goals     []Goal            `json:"goals"`
	Failed    []Failure         `json:"failed"`
	Notes     []string          `json:"notes"`
}

// Failure is a measurement that gave no figures. The others are made all the same.
type Failure struct {
	Scenario  string `json:"scenario"` // empty: the contender did not start
	Contender string `json:"contender"`
	Reason    string `json:"reason"`
}

// Machine describes the machine of the measurements.
type Machine struct {
	Model   string `json:"model"`
	Kernel  string `json:"kernel"`
	CPUs    int    `json:"cpus"`
	Pinned  bool   `json:"pinned"`
	Go      string `json:"go"`
	Nginx   string `json:"nginx"`
	Farebox string `json:"farebox"`
	Commit  string `json:"commit"`
}

// Outcome is one scenario with all its runs.
type Outcome struct {
	Name    string                    `json:"name"`
	Title   string                    `json:"title"`
	Unit    string                    `json:"unit"`
	Figures map[string]Figures        `json:"figures"`
	Runs    map[string][]*load.Result `json:"runs"`
}

// settleTime lets closed connections and late work of one run end before the
// next is measured.
const settleTime = 150 * time.Millisecond

// longest is how long a round may take on a machine that is too busy for a single answer
// within the time meant for it.
const longest = 30 * time.Second

// Run measures everything and gives the comparison, also when ctx ends early
// (with the results until then and ctx's error). Comparison.Failed names the
// measurements that failed.
func Run(ctx context.Context, o Options) (*Comparison, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	c := &Comparison{Started: time.Now(), Quick: o.Quick, Command: o.Command, Memory: map[string]Memory{},
		Aborts: map[string]Abort{}, Large: map[string]Large{}, Rates: map[string][]Rate{}}
	for _, name := range o.With {
		r, err := newRival(o.Rivals, name, "")
		if err != nil {
			return nil, err
		}
		c.Rivals = append(c.Rivals, r)
	}
	l, err := newLab()
	defer l.close()
	if err != nil {
		return nil, err
	}
	l.rivals = c.Rivals
	c.Machine = machine(l)
	if !c.Machine.Pinned {
		c.Notes = append(c.Notes, "Fewer than two processors: nothing was pinned, compare only CPU figures.")
	}
	todo := &plan{o: o, l: l, c: c}
	todo.count()
	err = todo.run(ctx)
	c.Goals = c.goals()
	c.Seconds = time.Since(c.Started).Seconds()
	c.notes()
	return c, err
}

func (o *Options) check() error {
	for _, name := range o.Only {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("cannot run the scenario %q: there are %s", name, strings.Join(Names(), ", "))
		}
	}
	for _, name := range o.Without {
		if starters[name] == nil {
			return fmt.Errorf("cannot leave out %q: the contenders are %s", name, strings.Join(Contenders, ", "))
		}
	}
	return nil
}

// Names are the scenarios that Options.Only takes.
func Names() []string {
	var list []string
	for _, s := range scenarios(true) {
		list = append(list, s.Name)
	}
	return append(list, ratesName, "abort", "memory", "rpc_100mb", startName)
}

const ratesName = "rates"

// Contenders are those of this comparison, measured or not.
func (c *Comparison) Contenders() []string {
	list := slices.Clone(Contenders)
	for _, r := range c.Rivals {
		list = append(list, r.Name)
	}
	return list
}

// plan lists the steps of a comparison and tracks its progress.
type plan struct {
	o    Options
	l    *lab
	c    *Comparison
	list []Scenario
	all  float64 // seconds of everything
	done float64
}

// Durations of the steps without a fixed length, for the progress bar.
const (
	memorySeconds = 24
	abortSeconds  = 4
	largeSeconds  = 8
)

func (p *plan) wants(name string) bool {
	return len(p.o.Only) == 0 || slices.Contains(p.o.Only, name)
}

func (p *plan) contenders() []string { return p.but() }

// but is the contenders of this run without some.
func (p *plan) but(without ...string) []string {
	var list []string
	for _, name := range p.c.Contenders() {
		if !slices.Contains(p.o.Without, name) && !slices.Contains(without, name) {
			list = append(list, name)
		}
	}
	return list
}

func (p *plan) count() {
	for _, s := range scenarios(p.o.Quick) {
		if !p.wants(s.Name) {
			continue
		}
		if p.o.Rounds > 0 {
			s.Rounds = p.o.Rounds
		}
		if s.Body != nil {
			s.Load.Body = s.Body()
		}
		p.list = append(p.list, s)
		part := 0
		for _, name := range p.contenders() {
			if s.takes(name) {
				part++
			}
		}
		p.all += float64(part*s.Rounds) * (s.Warmup + s.Measure + settleTime).Seconds()
	}
	if p.wants(ratesName) {
		rates, warmup, measure := ratePlan(p.o.Quick, len(p.o.With) > 0)
		for _, rate := range rates {
			p.all += float64(len(p.but(bodyContender))) * (warmup + rateTime(rate, measure) + settleTime).Seconds()
		}
	}
	if p.wants("memory") {
		p.all += memorySeconds * float64(len(p.but("direct", bodyContender)))
	}
	if p.wants("abort") {
		p.all += abortSeconds * float64(len(p.but(bodyContender)))
	}
	if p.wants("rpc_100mb") {
		p.all += largeSeconds * float64(len(p.but(p.notLarge()...)))
	}
	if p.wants(startName) && slices.Contains(p.contenders(), contender) {
		for _, keys := range startPlan(p.o.Quick) {
			p.all += startSeconds(keys)
		}
	}
}

func (p *plan) step(seconds float64, line string) {
	p.done += seconds
	if p.o.Progress != nil {
		p.o.Progress(min(1, p.done/p.all), line)
	}
}

func (p *plan) run(ctx context.Context) error {
	gateways := map[string]*gateway{}
	defer func() { stopAll(gateways) }()
	for _, name := range p.contenders() {
		p.step(0, "start: "+name)
		g, err := p.l.start(name)
		if err != nil {
			g.stop()
			if err := p.failed(ctx, "", name, err); err != nil {
				return err
			}
			continue
		}
		gateways[name] = g
	}
	for _, s := range p.list {
		if err := p.scenario(ctx, s, gateways); err != nil {
			return err
		}
	}
	if p.wants(ratesName) {
		if err := p.rates(ctx, gateways); err != nil {
			return err
		}
	}
	if p.wants("abort") {
		if err := p.aborts(ctx, gateways); err != nil {
			return err
		}
	}
	if p.wants("memory") {
		if err := p.memory(ctx, gateways); err != nil {
			return err
		}
	}
	if p.wants("rpc_100mb") {
		if err := p.large(ctx, gateways); err != nil {
			return err
		}
	}
	if p.wants(startName) && slices.Contains(p.contenders(), contender) {
		return p.starts(ctx)
	}
	return nil
}

var errNotStarted = errors.New("it did not start")

// failed notes a measurement that failed, so that the next can be made; it gives ctx's error.
func (p *plan) failed(ctx context.Context, scenario, contender string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.c.Failed = append(p.c.Failed, Failure{Scenario: scenario, Contender: contender, Reason: err.Error()})
	return nil
}

// scenario measures all contenders in turn, round by round. A contender that fails in a
// round has no figures.
func (p *plan) scenario(ctx context.Context, s Scenario, gateways map[string]*gateway) error {
	out := Outcome{Name: s.Name, Title: s.Title, Unit: s.Unit, Figures: map[string]Figures{},
		Runs: map[string][]*load.Result{}}
	for round := range s.Rounds {
		for _, name := range p.contenders() {
			g := gateways[name]
			if !s.takes(name) || p.c.hasFailed(s.Name, name) {
				continue
			}
			p.step(0, fmt.Sprintf("%s, round %d of %d: %s", s.Name, round+1, s.Rounds, name))
			r, err := p.one(ctx, s, g)
			if err == nil {
				out.Runs[name] = append(out.Runs[name], r)
			} else if err := p.failed(ctx, s.Name, name, err); err != nil {
				return err
			} else {
				delete(out.Runs, name)
			}
			p.step((s.Warmup + s.Measure + settleTime).Seconds(), s.Name)
		}
	}
	for name, runs := range out.Runs {
		out.Figures[name] = figures(s.Unit, runs)
	}
	p.c.Scenarios = append(p.c.Scenarios, out)
	return nil
}

func (c *Comparison) hasFailed(scenario, contender string) bool {
	return slices.ContainsFunc(c.Failed, func(f Failure) bool {
		return f.Contender == contender && f.Scenario == scenario
	})
}

func (p *plan) one(ctx context.Context, s Scenario, g *gateway) (*load.Result, error) {
	if g == nil {
		return nil, errNotStarted
	}
	o := g.traffic(s.Load, s.Load.Stream || s.Streams)
	o.Path = g.path(s.Path, s.Ours)
	o.Mates = []int{p.l.upstream.pid()}
	o.Warmup, o.Duration = s.Warmup, s.Measure
	if !o.Stream || o.Rate > 0 { // other streams never end
		o.Least, o.Longest = 1, longest
	}
	r, err := load.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	r.Name = g.name
	if r.Requests == 0 && r.Events == 0 {
		return nil, fmt.Errorf("no request succeeded, errors: %v; its output: %s", r.Errors, g.said())
	}
	time.Sleep(settleTime)
	if g.rival != nil {
		_, _ = p.l.truth.IdleStats(ctx) // some read streams to the end after their client left
	}
	return r, nil
}

func (p *plan) aborts(ctx context.Context, gateways map[string]*gateway) error {
	tries := 20
	if p.o.Quick {
		tries = 5
	}
	for _, name := range p.but(bodyContender) {
		p.step(0, "abort: "+name)
		a, err := p.l.measureAborts(ctx, gateways[name], tries)
		if err == nil {
			p.c.Aborts[name] = a
		} else if err := p.failed(ctx, "abort", name, err); err != nil {
			return err
		}
		p.step(abortSeconds, "abort")
	}
	return nil
}

func (p *plan) memory(ctx context.Context, gateways map[string]*gateway) error {
	levels, settle := memoryPlan(p.o.Quick)
	stopAll(gateways)
	for _, name := range p.but("direct", bodyContender) {
		p.step(0, fmt.Sprintf("memory: up to %d streams through %s", levels[len(levels)-1], name))
		m, err := p.l.measureMemory(ctx, name, levels, settle)
		if err == nil {
			p.c.Memory[name] = m
		} else if err := p.failed(ctx, "memory", name, err); err != nil {
			return err
		}
		p.step(memorySeconds, "memory")
	}
	return nil
}

// stopAll is for steps that need fresh processes: a used gateway keeps memory.
func stopAll(gateways map[string]*gateway) {
	for name, g := range gateways {
		g.stop()
		delete(gateways, name)
	}
}

func (p *plan) large(ctx context.Context, gateways map[string]*gateway) error {
	answers := 10
	if p.o.Quick {
		answers = 3
	}
	stopAll(gateways)
	for _, name := range p.but(p.notLarge()...) {
		p.step(0, "answers of 100 MB: "+name)
		m, err := p.l.measureLarge(ctx, name, answers)
		if err == nil {
			p.c.Large[name] = m
		} else if err := p.failed(ctx, "rpc_100mb", name, err); err != nil {
			return err
		}
		p.step(largeSeconds, "rpc_100mb")
	}
	return nil
}

// notLarge are those without calls of blockchains.
func (p *plan) notLarge() []string { return append(slices.Clone(p.o.With), bodyContender) }

func (g *gateway) said() string {
	if len(g.processes) == 0 {
		return ""
	}
	return g.processes[0].said()
}

func (c *Comparison) figures(scenario, name string) (Figures, bool) {
	for _, s := range c.Scenarios {
		if s.Name == scenario {
			f, ok := s.Figures[name]
			return f, ok
		}
	}
	return Figures{}, false
}

// notes adds the facts that a reader needs to trust the figures.
func (c *Comparison) notes() {
	for _, f := range c.Failed {
		if f.Reason == errNotStarted.Error() {
			continue // the start has its own note
		}
		what := f.Scenario + " through " + f.Contender
		if f.Scenario == "" {
			what = "the start of " + f.Contender
		}
		c.Notes = append(c.Notes, fmt.Sprintf("%s FAILED: %s", what, f.Reason))
	}
	worst := 0.0
	for _, s := range c.Scenarios {
		for name, f := range s.Figures {
			worst = max(worst, f.OtherShare)
			if f.Failed > 0 {
				c.Notes = append(c.Notes, fmt.Sprintf("%s through %s: %d requests failed (%s).", s.Name, name, f.Failed,
					f.FirstErrors))
			}
			if f.Unfinished > 0 {
				c.Notes = append(c.Notes, fmt.Sprintf("%s through %s: %d arrivals found no free connection.", s.Name,
					name, f.Unfinished))
			}
		}
	}
	for name, rates := range c.Rates {
		for _, r := range rates {
			worst = max(worst, r.OtherShare)
			if r.Failed > 0 {
				c.Notes = append(c.Notes, fmt.Sprintf("%s, %g a second through %s: %d requests failed.", ratesName, r.Wanted,
					name, r.Failed))
			}
		}
	}
	c.Notes = append(c.Notes,
		fmt.Sprintf("Other programs used at most %.0f %% of the machine during a run; the ratios of CPU per "+
			"operation hold on a busy machine, rates and latencies do not.", 100*worst))
	c.Notes = append(c.Notes,
		"nginx keeps request bodies up to 64 KB in memory and larger ones in a file, nginx-2m all of them in memory; "+
			"nginx's access log and farebox's request log are off.")
}

func machine(l *lab) Machine {
	m := Machine{Go: runtime.Version(), CPUs: runtime.NumCPU(), Pinned: l.gatewayCPU >= 0, Nginx: nginxVersion(),
		Farebox: fareboxVersion(l.exe), Commit: commit()}
	m.Model, m.Kernel = hardware()
	return m
}
