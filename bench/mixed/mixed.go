package mixed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"farebox/bench/load"
	"farebox/bench/upstream"
)

// Options of a run.
type Options struct {
	URL            string // base address of the gateway's API
	Key            string
	Model          string // chat model served by the simulated upstream
	EmbeddingModel string // empty: no embeddings in the mix
	Requests       int
	Concurrency    int
	Seed           uint64 // the same seed sends the same requests
	Timeout        time.Duration
	Progress       func(done float64, line string)
}

// Tally is requests and the tokens they must be billed.
type Tally struct {
	Requests         int64 `json:"requests"`
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
}

func (t *Tally) add(o Tally) {
	t.Requests += o.Requests
	t.PromptTokens += o.PromptTokens
	t.CompletionTokens += o.CompletionTokens
}

// Truth is the expected cost of the requests of a run.
type Truth struct {
	Sent     int64            `json:"sent"`
	Billable Tally            `json:"billable"` // all requests that must be charged
	Chat     Tally            `json:"chat"`     // the part of the chat model
	Embed    Tally            `json:"embed"`    // the part of the embedding model
	Kinds    map[string]Tally `json:"kinds"`
	// Wrong counts answers that do not fit the request; such a run proves nothing about
	// money. Examples has the faults.
	Wrong    int64    `json:"wrong"`
	Examples []string `json:"examples,omitempty"`
	Seconds  float64  `json:"seconds"`
}

const (
	keptExamples   = 20
	defaultTimeout = 60 * time.Second
)

// Run sends the requests and gives the truth about them. An error means that it had to
// stop; wrong answers are counted in the truth.
func Run(ctx context.Context, o Options) (*Truth, error) {
	switch {
	case o.URL == "" || o.Model == "":
		return nil, errors.New("cannot send mixed requests: an address and a chat model are needed (--url, --model)")
	case o.Requests <= 0 || o.Concurrency <= 0:
		return nil, fmt.Errorf("cannot send %d requests at a concurrency of %d: both must be above 0", o.Requests,
			o.Concurrency)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	o.URL = strings.TrimSuffix(o.URL, "/")
	d := &driver{o: &o, truth: &Truth{Kinds: map[string]Tally{}}}
	d.client.Transport = &http.Transport{
		MaxIdleConns: 2 * o.Concurrency, MaxIdleConnsPerHost: 2 * o.Concurrency, DisableCompression: true,
	}
	defer d.client.CloseIdleConnections()
	start := time.Now()
	stop := d.report()
	load.Each(ctx, o.Requests, o.Concurrency, func(_, n int) { d.one(ctx, n) })
	stop()
	d.truth.Seconds = time.Since(start).Seconds()
	return d.truth, ctx.Err()
}

type driver struct {
	o      *Options
	client http.Client
	mu     sync.Mutex
	truth  *Truth
}

// one sends request n. Each has its own generator, so that the mix does not depend on the order of
// workers.
func (d *driver) one(ctx context.Context, n int) {
	r := rand.New(rand.NewPCG(d.o.Seed, uint64(n)))
	k := choose(r, d.o.EmbeddingModel != "")
	q := k.make(r, d.o)
	err := d.send(ctx, &q)
	d.book(k.name, &q, err)
}

func (d *driver) book(name string, q *request, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.truth
	t.Sent++
	tally := Tally{Requests: 1, PromptTokens: q.prompt, CompletionTokens: q.completion}
	sum := t.Kinds[name]
	sum.add(tally)
	t.Kinds[name] = sum
	if q.status == 200 {
		t.Billable.add(tally)
		if q.embedding {
			t.Embed.add(tally)
		} else {
			t.Chat.add(tally)
		}
	}
	if err != nil {
		t.Wrong++
		if len(t.Examples) < keptExamples {
			t.Examples = append(t.Examples, name+": "+err.Error())
		}
	}
}

// report reports the progress until the returned function is called.
func (d *driver) report() (stop func()) {
	if d.o.Progress == nil {
		return func() {}
	}
	quit := make(chan struct{})
	var done sync.WaitGroup
	done.Add(1)
	go func() {
		defer done.Done()
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				d.mu.Lock()
				sent, wrong := d.truth.Sent, d.truth.Wrong
				d.mu.Unlock()
				d.o.Progress(float64(sent)/float64(d.o.Requests), fmt.Sprintf("%d sent, %d wrong", sent, wrong))
			}
		}
	}()
	return func() {
		close(quit)
		done.Wait()
	}
}

// Differences compares with the upstream's counts for the same requests,
// counted from an empty start; an empty list means that both agree.
func (t *Truth) Differences(s upstream.Stats) []string {
	var list []string
	check := func(what string, want, got int64) {
		if want != got {
			list = append(list, fmt.Sprintf("%s: %d by the requests sent, %d by the upstream (%+d)", what, want, got,
				got-want))
		}
	}
	check("prompt tokens", t.Billable.PromptTokens, s.Tokens.PromptTokens)
	check("completion tokens", t.Billable.CompletionTokens, s.Tokens.CompletionTokens)
	check("streams left by the client", t.Kinds["stream_abort"].Requests, s.Outcomes[upstream.Aborted].Requests)
	check("tokens of streams left by the client", t.Kinds["stream_abort"].CompletionTokens,
		s.Outcomes[upstream.Aborted].CompletionTokens)
	check("streams cut by the upstream", t.Kinds["stream_cut"].Requests, s.Outcomes[upstream.Broken].Requests)
	check("embeddings", t.Embed.Requests, s.Endpoints["embeddings"].Requests)
	slices.Sort(list)
	return list
}
