package overspend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"farebox/bench/load"
	"farebox/bench/upstream"
)

// Options of a run.
type Options struct {
	URL       string // base address of the gateway's API
	URLs      []string
	Endpoints []Endpoint
	Liars     []Liar
	Leavers   []Leaver
	// Requests of each cell, Concurrency of them at once, Lanes cells at once.
	Requests    int
	Concurrency int
	Lanes       int
	Cap         int // max_completion_tokens of the requests; 0: no cap
	Balance     int64
	Limit       int64 // of a cell's key; 0: no limit
	Crowd       int   // answers that are left before a crowded cell
	Timeout     time.Duration
	CrowdKey    string // key of the crowd; empty: an account of their own
	Rotate      bool   // each liar and leaver meet at one endpoint, in turn, instead of at all
	Prompt      string // the end of the prompts; empty: some words
	Shared      bool   // all cells have one account, and are read one after the other
	Remote      bool   // hosts other than this one are allowed
	Books       Books
	Truth       upstream.Remote // the gateway's only upstream
	Progress    func(done float64, line string)
	Ended       func() // waits until all jobs have ended; may be nil
	Prefix      string // of ids and account names
}

// Books open accounts at the gateway and read them, in 1e-9 USD.
type Books interface {
	// Open makes an account with the run's balance and gives a key of it.
	Open(ctx context.Context, cell string) (key string, err error)
	// Read gives the balance; Known is false where the gateway does not report it.
	Read(ctx context.Context, cell string) (f Funds, err error)
}

// Funds are the balance and the debt of an account.
type Funds struct {
	Known bool
	Open  bool // something is still held
	Left  int64
	Debt  int64
	// Key is the usage of the key, where the gateway reports that: debt that the
	// account paid is not the key's. -1: unknown, and all that left the account
	// counts against the key's limit.
	Key int64
}

// Cell is the outcome of one liar, one leaver and one endpoint.
type Cell struct {
	Endpoint string `json:"endpoint"`
	Liar     string `json:"liar"`
	Leaver   string `json:"leaver"`
	Sent     int64  `json:"sent"`
	Let      int64  `json:"let_through"` // requests that reached the upstream
	Refused  int64  `json:"refused"`     // 402
	Failed   int64  `json:"failed"`      // other statuses, and broken answers
	Errors   int64  `json:"errors"`      // of the failed, those answered with an error status: nothing was delivered
	Left     int64  `json:"left"`
	// In 1e-9 USD at the gateway's prices.
	Real    int64 `json:"made_nano"`
	Capped  int64 `json:"made_within_cap_nano"`
	Known   bool  `json:"charged_known"`
	Charged int64 `json:"charged_nano"`
	Debt    int64 `json:"debt_nano"`
	Lost    int64 `json:"lost_nano"`  // within the cap, neither charged nor owed
	Above   int64 `json:"above_nano"` // charged beyond the real output
	Each    int64 `json:"lost_each_nano"`
	// Unknowable is the cost of tokens that only the upstream can know: hidden ones that no
	// usage reports, and those of answers that were not read on after the client left.
	Unknowable int64         `json:"unknowable_nano"`
	Overdraw   int64         `json:"overdrawn_nano"` // charged beyond the balance or the key's limit
	Made       upstream.Made `json:"made"`
	// Undelivered: every attempt failed without an answer that could be given to
	// a client, translated where it had to be. Those are the operator's.
	Undelivered bool `json:"undelivered,omitempty"`
	// Breaks: the upstream's result was of no use, so that only the operator paid for it.
	Breaks bool   `json:"breaks,omitempty"`
	Note   string `json:"note,omitempty"`

	endpoint *Endpoint
	liar     *Liar
	leaver   *Leaver
	id       string
	before   int64 // a shared account's balance
}

// Result of a run.
type Result struct {
	Started     time.Time `json:"started"`
	URL         string    `json:"url"`
	Seconds     float64   `json:"seconds"`
	Balance     int64     `json:"balance_nano"`
	Limit       int64     `json:"key_limit_nano,omitempty"`
	Concurrency int       `json:"concurrency"`
	Cells       []*Cell   `json:"cells"`
}

const defaultTimeout = 20 * time.Second

// Run runs all cells. A cell's note names the values that cannot be read.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.URL != "" {
		o.URLs = append(o.URLs, o.URL)
	}
	if len(o.URLs) == 0 || o.Requests < 1 || o.Concurrency < 1 || o.Books == nil || o.Truth.URL == "" {
		return nil, errors.New("cannot run: an address, requests, a concurrency, books and a truth are needed")
	}
	var bases []*url.URL
	for _, text := range o.URLs {
		base, err := url.Parse(strings.TrimSuffix(text, "/"))
		if err != nil {
			return nil, err
		}
		if !o.Remote && !Loopback(base.Hostname()) {
			return nil, fmt.Errorf("cannot attack %s: it is not this machine; --remote says that it is yours",
				base.Host)
		}
		bases = append(bases, base)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Shared {
		o.Lanes = 1
	}
	d := &driver{o: &o, bases: bases, result: &Result{Started: time.Now(), URL: o.URLs[0], Balance: o.Balance,
		Limit: o.Limit, Concurrency: o.Concurrency}}
	d.lay()
	if err := d.all(ctx); err != nil {
		return nil, err
	}
	if err := d.idle(ctx); err != nil {
		return nil, err
	}
	if o.Ended != nil {
		o.Ended()
	}
	for _, c := range d.result.Cells {
		if o.Shared {
			break
		}
		if err := d.read(ctx, c); err != nil {
			return nil, err
		}
	}
	d.result.Seconds = time.Since(d.result.Started).Seconds()
	return d.result, nil
}

// Loopback says whether a host is this machine.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

type driver struct {
	o      *Options
	bases  []*url.URL
	result *Result
	done   atomic.Int64
}

// lay makes the cells.
func (d *driver) lay() {
	turn := 0
	for k := range d.o.Liars {
		for m := range d.o.Leavers {
			var doors []*Endpoint
			for i := range d.o.Endpoints {
				if e := &d.o.Endpoints[i]; d.applies(e, &d.o.Liars[k], &d.o.Leavers[m]) {
					doors = append(doors, e)
				}
			}
			if d.o.Rotate && len(doors) > 0 {
				doors = doors[turn%len(doors):][:1]
				turn++
			}
			for _, e := range doors {
				d.result.Cells = append(d.result.Cells, &Cell{
					Endpoint: e.Name, Liar: d.o.Liars[k].Name, Leaver: d.o.Leavers[m].Name, endpoint: e,
					liar: &d.o.Liars[k], leaver: &d.o.Leavers[m],
				})
			}
		}
	}
	slices.SortStableFunc(d.result.Cells, func(a, b *Cell) int {
		return cmp.Compare(d.rank(a.Endpoint), d.rank(b.Endpoint))
	})
	for i, c := range d.result.Cells {
		c.id = fmt.Sprintf("%sc%d", d.o.Prefix, i)
	}
}

// applies says whether a lie and a way to leave exist at an endpoint.
func (d *driver) applies(e *Endpoint, l *Liar, v *Leaver) bool {
	_, lies := l.words(e)
	_, leaves := v.scenario(e)
	return lies && leaves && (!v.crowd || d.o.Crowd > 0)
}

// rank is the place of an endpoint in the options.
func (d *driver) rank(name string) int {
	return slices.IndexFunc(d.o.Endpoints, func(e Endpoint) bool { return e.Name == name })
}

// all runs the cells, some side by side.
func (d *driver) all(ctx context.Context) error {
	failed := make(chan error, len(d.result.Cells)+1)
	load.Each(ctx, len(d.result.Cells), d.o.Lanes, func(_, i int) {
		c := d.result.Cells[i-1]
		if err := d.cell(ctx, c); err != nil {
			failed <- fmt.Errorf("%s, %s, %s: %w", c.Endpoint, c.Liar, c.Leaver, err)
		}
		if n := d.done.Add(1); d.o.Progress != nil {
			d.o.Progress(float64(n)/float64(len(d.result.Cells)), c.Endpoint+" "+c.Liar+" "+c.Leaver)
		}
	})
	failed <- ctx.Err()
	return <-failed
}

func (d *driver) cell(ctx context.Context, c *Cell) error {
	key, err := d.o.Books.Open(ctx, c.id)
	if err != nil {
		return err
	}
	c.before = d.o.Balance
	if d.o.Shared {
		f, err := d.o.Books.Read(ctx, c.id)
		if err != nil {
			return err
		}
		c.before = f.Left
	}
	if c.leaver.crowd {
		if err := d.crowd(ctx, c); err != nil {
			return err
		}
	}
	lie, _ := c.liar.words(c.endpoint)
	slow, _ := c.leaver.scenario(c.endpoint)
	if c.leaver.when == beforeHead && !c.endpoint.Stream {
		lie = without(lie, "think_ms")
	}
	body := c.endpoint.request(c.id, lie+" "+slow, d.o.Cap, d.o.Prompt)
	var mu sync.Mutex
	clients := make([]*client, max(1, d.o.Concurrency))
	for w := range clients {
		clients[w] = &client{base: d.bases[w%len(d.bases)], timeout: d.o.Timeout}
		defer clients[w].close()
	}
	load.Each(ctx, d.o.Requests, d.o.Concurrency, func(w, _ int) {
		e := clients[w].do(c.endpoint, key, body, c.leaver)
		mu.Lock()
		defer mu.Unlock()
		c.book(e)
	})
	if !d.o.Shared {
		return nil
	}
	if err := d.idle(ctx); err != nil {
		return err
	}
	time.Sleep(sharedWait)
	return d.read(ctx, c)
}

// idle waits until the upstream has nothing under way.
func (d *driver) idle(ctx context.Context) error {
	if _, err := d.o.Truth.IdleStats(ctx); err != nil {
		return fmt.Errorf("cannot ask the simulated upstream: %w", err)
	}
	return nil
}

// sharedWait is how long after its last answer a gateway may take to charge.
const sharedWait = 300 * time.Millisecond

func (c *Cell) book(e ending) {
	c.Sent++
	switch {
	case e.left:
		c.Left++
	case e.status == 402:
		c.Refused++
	case e.status != 200 || !e.whole:
		c.Failed++
		if e.status >= 400 {
			c.Errors++
		}
		if c.Note == "" {
			c.Note = fmt.Sprintf("status %d", e.status)
			if e.err != nil {
				c.Note += ", " + e.err.Error()
			}
		}
	}
}

// crowd takes the gateway's places for answers that are read on: slow answers
// of another account, left at once.
func (d *driver) crowd(ctx context.Context, c *Cell) error {
	key := d.o.CrowdKey
	if key == "" {
		var err error
		if key, err = d.o.Books.Open(ctx, c.id+"crowd"); err != nil {
			return err
		}
	}
	gone := &Leaver{when: beforeHead, after: headWait}
	body := c.endpoint.request(c.id+"crowd", "think_ms=2000 delay_ms=2000 tokens=1", d.o.Cap, "")
	var all sync.WaitGroup
	for range d.o.Crowd {
		all.Go(func() {
			cl := &client{base: d.bases[0], timeout: d.o.Timeout}
			cl.do(c.endpoint, key, body, gone)
		})
	}
	all.Wait()
	return nil
}

func without(words, key string) string {
	kept := strings.Fields(words)[:0:0]
	for _, w := range strings.Fields(words) {
		if !strings.HasPrefix(w, key+"=") {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, " ")
}

const (
	settleTime = 10 * time.Second // until nothing of a cell is held
	settleStep = 50 * time.Millisecond
)

// read compares the books with the truth.
func (d *driver) read(ctx context.Context, c *Cell) error {
	var err error
	if c.Made, err = d.o.Truth.Made(ctx, c.id); err != nil {
		return fmt.Errorf("cannot ask the simulated upstream: %w", err)
	}
	c.Let = c.Made.Requests
	c.Real, c.Capped = c.endpoint.cost(&c.Made)
	var f Funds
	for end := time.Now().Add(settleTime); ; time.Sleep(settleStep) {
		if f, err = d.o.Books.Read(ctx, c.id); err != nil {
			return err
		}
		if !f.Open || time.Now().After(end) {
			break
		}
	}
	if c.Known = f.Known; !f.Known {
		return nil
	}
	c.Charged, c.Debt = c.before-f.Left, f.Debt
	c.Lost = max(0, c.Capped-c.Charged-c.Debt)
	c.Above = max(0, c.Charged+c.Debt-c.Real)
	c.Breaks = c.liar.breaks
	translated := !c.endpoint.Stream && (c.endpoint.Dialect == "anthropic" || c.endpoint.Dialect == "gemini")
	c.Undelivered = c.Errors == c.Sent || translated && c.liar.whole != ""
	switch {
	case c.leaver.crowd && c.Left > 0:
		// The answer was not read on: tokens in the moments before the upstream noticed
		// were not counted, and an estimate was charged. An upstream whose whole answer the
		// kernel had taken by then does not even notice.
		c.Unknowable = c.Made.WithinCap * c.endpoint.Price.Completion
	case c.liar.silent:
		c.Unknowable = c.Made.Hidden * c.endpoint.Price.Completion
	}
	c.Each = c.Lost / max(1, c.Let)
	c.Overdraw = max(0, c.Charged-c.before)
	if d.o.Limit > 0 {
		used := f.Key
		if used < 0 {
			used = c.Charged
		}
		c.Overdraw = max(c.Overdraw, used-d.o.Limit)
	}
	return nil
}

// Sum adds up the cells that keep says.
func (r *Result) Sum(keep func(*Cell) bool) Cell {
	sum := Cell{Known: true}
	for _, c := range r.Cells {
		if !keep(c) {
			continue
		}
		sum.Sent += c.Sent
		sum.Let += c.Let
		sum.Refused += c.Refused
		sum.Failed += c.Failed
		sum.Errors += c.Errors
		sum.Left += c.Left
		sum.Real += c.Real
		sum.Capped += c.Capped
		sum.Known = sum.Known && c.Known
		sum.Charged += c.Charged
		sum.Debt += c.Debt
		sum.Lost += c.Lost
		sum.Above += c.Above
		sum.Unknowable += c.Unknowable
		sum.Overdraw += c.Overdraw
		sum.Each = max(sum.Each, c.Each)
		sum.Made.Add(c.Made)
	}
	return sum
}
