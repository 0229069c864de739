package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// Customers are the results of the ordinary customers in one phase.
type Customers struct {
	Sent     int64            `json:"sent"`
	Answered int64            `json:"answered"` // rightly
	Astray   int64            `json:"astray"`   // answered with another customer's content
	Share    float64          `json:"answered_share"`
	P50Ms    float64          `json:"p50_ms"`
	P99Ms    float64          `json:"p99_ms"`
	MaxMs    float64          `json:"max_ms"`
	Errors   map[string]int64 `json:"errors,omitempty"`
	// Kinds are the same by kind of request.
	Kinds []Kind `json:"kinds,omitempty"`
}

// Kind is the results of one kind of ordinary requests. Its latency counts from when a
// request was sent, so that it never includes the wait of a customer for another kind.
type Kind struct {
	Name     string  `json:"name"`
	Sent     int64   `json:"sent"`
	Answered int64   `json:"answered"`
	Refused  int64   `json:"refused"` // with a status of its own, instead of no answer
	P50Ms    float64 `json:"p50_ms"`
	P99Ms    float64 `json:"p99_ms"`

	took []time.Duration
}

// crowd is the ordinary customers during a phase.
type crowd struct {
	*arena
	kinds   []kind
	clients []*http.Client // each customer has connections of its own

	mu   sync.Mutex
	sum  Customers
	took []time.Duration
}

func newCrowd(a *arena) *crowd {
	c := &crowd{arena: a, clients: make([]*http.Client, a.o.Customers)}
	for _, k := range kinds {
		if k.needs == nil || k.needs(a.o) != "" {
			c.kinds = append(c.kinds, k)
		}
	}
	for i := range c.clients {
		c.clients[i] = &http.Client{Timeout: a.o.Timeout, Transport: &http.Transport{DisableCompression: true}}
	}
	return c
}

func (c *crowd) stop() {
	for _, client := range c.clients {
		client.CloseIdleConnections()
	}
}

// run lets every customer send at its rate for some time. Latency counts from when a
// request should have been sent, so that it includes the wait for the last answer.
func (c *crowd) run(ctx context.Context, length time.Duration) Customers {
	c.mu.Lock()
	c.sum, c.took = Customers{Errors: map[string]int64{}, Kinds: make([]Kind, len(c.kinds))}, c.took[:0]
	c.mu.Unlock()
	every := time.Duration(float64(time.Second) / c.o.Rate)
	begin := time.Now()
	var all sync.WaitGroup
	for i := range c.o.Customers {
		all.Go(func() {
			due := begin.Add(time.Duration(rand.Int64N(int64(every))))
			for n := 0; due.Before(begin.Add(length)) && ctx.Err() == nil; n++ {
				wait(ctx, time.Until(due))
				c.one(ctx, i, n, due)
				due = due.Add(every)
			}
		})
	}
	all.Wait()
	return c.result()
}

func (c *crowd) result() Customers {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sum
	s.P50Ms, s.P99Ms, s.MaxMs = percentiles(c.took)
	for i := range s.Kinds {
		k := &s.Kinds[i]
		k.Name = c.kinds[i].name
		k.P50Ms, k.P99Ms, _ = percentiles(k.took)
	}
	if s.Sent > 0 {
		s.Share = float64(s.Answered) / float64(s.Sent)
	}
	return s
}

func percentiles(took []time.Duration) (p50, p99, most float64) {
	slices.Sort(took)
	n := len(took)
	if n == 0 {
		return 0, 0, 0
	}
	ms := func(at int) float64 { return float64(took[min(at, n-1)]) / 1e6 }
	return ms(n / 2), ms(n * 99 / 100), ms(n - 1)
}

// one sends a request that only this customer sends, and checks that the answer
// is its own.
func (c *crowd) one(ctx context.Context, customer, n int, due time.Time) {
	mark := fmt.Sprintf("m%dn%dr%d", customer, n, rand.Uint32())
	at := (customer + n) % len(c.kinds)
	sent := time.Now()
	said, err := c.kinds[at].do(c, ctx, customer, mark, n)
	alone, took := time.Since(sent), time.Since(due)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && ctx.Err() != nil {
		return
	}
	k := &c.sum.Kinds[at]
	c.sum.Sent++
	k.Sent++
	c.took, k.took = append(c.took, took), append(k.took, alone)
	var refused *refusal
	if errors.As(err, &refused) {
		k.Refused++
	}
	switch {
	case err != nil:
		c.sum.Errors[clipped(err.Error())]++
	case said != mark:
		c.sum.Astray++
		c.sum.Errors[clipped("astray: "+strings.Trim(said, "0123456789"))]++
	default:
		c.sum.Answered++
		k.Answered++
	}
}

func clipped(s string) string {
	if len(s) > 120 {
		return s[:120]
	}
	return s
}

// refusal is an answer with another status than 200.
type refusal struct {
	status int
	code   string
}

func (r *refusal) Error() string { return fmt.Sprintf("status %d %s", r.status, r.code) }

// post gives an answer with status 200; its body is the caller's to close. Further
// headers are names and values.
func (c *crowd) post(ctx context.Context, customer int, path string, body []byte, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.o.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.o.Keys[customer%len(c.o.Keys)])
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.clients[customer].Do(req)
	if err != nil {
		return nil, fmt.Errorf("no answer: %w", unwrapped(err))
	}
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(res.Body, 512))
		_ = res.Body.Close()
		return nil, &refusal{res.StatusCode, gjson.GetBytes(b, "code").Str}
	}
	return res, nil
}

// unwrapped drops the address, so that errors of a kind count together.
func unwrapped(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok || u.Unwrap() == nil {
			return err
		}
		err = u.Unwrap()
	}
}

func chatBody(model, scenario string, stream bool, more map[string]any) []byte {
	body := map[string]any{
		"model": model, "stream": stream, "max_completion_tokens": 64,
		"messages": []map[string]string{{"role": "user", "content": "[[sim " + scenario + "]] hello"}},
	}
	for k, v := range more {
		body[k] = v
	}
	b, err := json.Marshal(body)
	if err != nil {
		panic("attack: a map of strings and numbers is always JSON: " + err.Error())
	}
	return b
}

func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
