package attack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"farebox/bench/load"
	"farebox/bench/overspend"
)

// Options of a run.
type Options struct {
	URL       string   // base address of the gateway's API
	Keys      []string // of ordinary customers
	Attacker  string   // key of the attacker, also a customer
	Model     string
	RPC       string // network for JSON-RPC; may be empty
	Voice     string // model for speech; may be empty
	Ear       string // model for transcriptions; may be empty
	Song      string // model for music; may be empty
	Strict    string // chat model whose answers the gateway checks against their schema; may be empty
	Documents bool   // the gateway reads documents
	// Pages says that the gateway fetches pages from 127.0.0.0/8, where they are served.
	Pages bool
	// Unpaid are keys of accounts that were never credited.
	Unpaid []string
	// Forwarded says that the gateway takes X-Forwarded-For from here.
	Forwarded bool
	// Operator is the address of the operators' API, OperatorToken an owner's token for it, and
	// OperatorAccount an account that may be credited less than a cent.
	Operator, OperatorToken, OperatorAccount string

	Customers int
	Rate      float64 // requests a second of each customer
	Rounds    []Round
	Together  bool          // all rounds at once, instead of one after the other
	Duration  time.Duration // of each round
	Quiet     time.Duration // of the phase before them, and of the one after; default: as Duration
	Recovery  time.Duration // after the last round; then memory is read again
	Timeout   time.Duration
	Remote    bool
	PIDs      []int // of the gateway, whose memory is read
	Progress  func(done float64, line string)
}

const (
	maxRate        = 5000
	maxCustomers   = 5000
	maxDuration    = 10 * time.Minute
	defaultTimeout = 10 * time.Second
	memoryStep     = 200 * time.Millisecond
)

// Phase is some time with or without attacks.
type Phase struct {
	Name      string    `json:"name"`
	Seconds   float64   `json:"seconds"`
	Customers Customers `json:"customers"`
	Attacks   []Assault `json:"attacks,omitempty"`
	// PeakBytes is the gateway's resident memory at its highest; 0: not read.
	PeakBytes int64 `json:"peak_rss_bytes,omitempty"`
}

// Result of a run; the first phase is the quiet one, the last the recovery.
type Result struct {
	Started    time.Time `json:"started"`
	URL        string    `json:"url"`
	Customers  int       `json:"customers"`
	Rate       float64   `json:"rate_each"`
	Phases     []Phase   `json:"phases"`
	QuietBytes int64     `json:"quiet_rss_bytes,omitempty"` // at the end of the quiet phase
	AfterBytes int64     `json:"after_rss_bytes,omitempty"` // at the end of the recovery
}

// arena is the attackers' knowledge of the gateway.
type arena struct {
	o        *Options
	base     *url.URL
	operator *url.URL // the operators' API; nil: it is not attacked
	address  string
	started  time.Time
	// sites are addresses of pages: those of attacks, and those of ordinary customers.
	sites [2]string
}

func (o *Options) check() (*arena, error) {
	switch {
	case o.URL == "" || o.Model == "" || len(o.Keys) == 0:
		return nil, errors.New("cannot attack: an address, a model and a customer's key are needed (--url, " +
			"--model, --key)")
	case o.Customers < 1 || o.Customers > maxCustomers || o.Rate <= 0 || o.Rate*float64(o.Customers) > maxRate:
		return nil, fmt.Errorf("cannot send %d customers' requests at %g a second each: 1 to %d customers and at "+
			"most %d requests a second together are needed", o.Customers, o.Rate, maxCustomers, maxRate)
	case o.Duration <= 0 || o.Duration > maxDuration || o.Recovery < 0 || o.Recovery > maxDuration:
		return nil, fmt.Errorf("cannot attack for %v: above 0 and at most %v is needed", o.Duration, maxDuration)
	}
	if o.Attacker == "" {
		o.Attacker = o.Keys[0]
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Quiet == 0 {
		o.Quiet = o.Duration
	}
	o.URL = strings.TrimSuffix(o.URL, "/")
	base, err := url.Parse(o.URL)
	if err != nil || base.Scheme != "http" || base.Port() == "" {
		return nil, fmt.Errorf("cannot attack %s: write http://host:port/path", o.URL)
	}
	if !o.Remote && !overspend.Loopback(base.Hostname()) {
		return nil, fmt.Errorf("cannot attack %s: it is not this machine; --remote says that it is yours", base.Host)
	}
	a := &arena{o: o, base: base, address: net.JoinHostPort(base.Hostname(), base.Port()), started: time.Now()}
	if o.Operator != "" {
		a.operator, err = url.Parse(strings.TrimSuffix(o.Operator, "/"))
		if err != nil || a.operator.Scheme != "http" || a.operator.Port() == "" || !o.Remote && !overspend.Loopback(a.operator.Hostname()) {
			return nil, fmt.Errorf("cannot attack the operators' API at %s: write http://host:port/operator/v1 of this machine", o.Operator)
		}
	}
	return a, nil
}

// Run runs the phases.
func Run(ctx context.Context, o Options) (*Result, error) {
	a, err := o.check()
	if err != nil {
		return nil, err
	}
	closeSites, err := a.serve()
	if err != nil {
		return nil, err
	}
	defer closeSites()
	r := &Result{Started: a.started, URL: o.URL, Customers: o.Customers, Rate: o.Rate}
	c := newCrowd(a)
	defer c.stop()
	groups := [][]Round{nil}
	if o.Together {
		groups = append(groups, o.Rounds)
	} else {
		for _, round := range o.Rounds {
			groups = append(groups, []Round{round})
		}
	}
	for i, group := range groups {
		if o.Progress != nil {
			o.Progress(float64(i)/float64(len(groups)), phaseName(group))
		}
		p := a.phase(ctx, c, group)
		if r.Phases = append(r.Phases, p); ctx.Err() != nil {
			return r, ctx.Err()
		}
		if i == 0 {
			r.QuietBytes = a.memory()
			if p.Customers.Answered == 0 {
				return r, fmt.Errorf("cannot compare: without any attack none of %d ordinary requests was answered: %v",
					p.Customers.Sent, p.Customers.Errors)
			}
		}
	}
	if o.Recovery > 0 {
		wait(ctx, o.Recovery)
		r.AfterBytes = a.memory()
		p := a.phase(ctx, c, nil)
		p.Name = "after"
		r.Phases = append(r.Phases, p)
	}
	return r, ctx.Err()
}

func (a *arena) memory() int64 {
	if len(a.o.PIDs) == 0 {
		return 0
	}
	return load.RSS(a.o.PIDs...)
}

func phaseName(rounds []Round) string {
	names := make([]string, len(rounds))
	for i := range rounds {
		names[i] = rounds[i].Name
	}
	if len(names) == 0 {
		return "quiet"
	}
	return strings.Join(names, " + ")
}

// phase runs rounds beside the customers.
func (a *arena) phase(ctx context.Context, c *crowd, rounds []Round) Phase {
	began := time.Now()
	p := Phase{Name: phaseName(rounds), Attacks: make([]Assault, len(rounds))}
	until, stop := context.WithCancel(ctx)
	var attacks sync.WaitGroup
	for i := range rounds {
		attacks.Go(func() {
			p.Attacks[i] = (&attacker{arena: a, round: rounds[i]}).run(until)
		})
	}
	peak := make(chan int64)
	go func() { peak <- a.watch(until) }()
	length := a.o.Duration
	if len(rounds) == 0 {
		length = a.o.Quiet
	}
	p.Customers = c.run(ctx, length)
	stop()
	attacks.Wait()
	p.PeakBytes = <-peak
	p.Seconds = time.Since(began).Seconds()
	return p
}

// watch gives the highest memory until ctx ends.
func (a *arena) watch(ctx context.Context) (peak int64) {
	for ctx.Err() == nil {
		peak = max(peak, a.memory())
		wait(ctx, memoryStep)
	}
	return peak
}
