package attack

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

// Customers are what the ordinary customers of one phase experienced.
type Customers struct {
	Sent     int64            `json:"sent"`
	Answered int64            `json:"answered"` // rightly
	Astray   int64            `json:"astray"`   // answered with what was another's
	Share    float64          `json:"answered_share"`
	P50Ms    float64          `json:"p50_ms"`
	P99Ms    float64          `json:"p99_ms"`
	MaxMs    float64          `json:"max_ms"`
	Errors   map[string]int64 `json:"errors,omitempty"`
}

// crowd are the ordinary customers while they are at it.
type crowd struct {
	o       *Options
	clients []*http.Client // each customer has connections of its own

	mu   sync.Mutex
	sum  Customers
	took []time.Duration
}

func newCrowd(o *Options) *crowd {
	c := &crowd{o: o, clients: make([]*http.Client, o.Customers)}
	for i := range c.clients {
		c.clients[i] = &http.Client{Timeout: o.Timeout, Transport: &http.Transport{DisableCompression: true}}
	}
	return c
}

func (c *crowd) leave() {
	for _, client := range c.clients {
		client.CloseIdleConnections()
	}
}

// run lets every customer send at its rate for some time. Latency counts from
// when a request should have been sent, so that one that waits for the last
// answer shows how long it waited.
func (c *crowd) run(ctx context.Context, length time.Duration) Customers {
	c.mu.Lock()
	c.sum, c.took = Customers{Errors: map[string]int64{}}, c.took[:0]
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
	slices.Sort(c.took)
	if n := len(c.took); n > 0 {
		ms := func(at int) float64 { return float64(c.took[min(at, n-1)]) / 1e6 }
		s.P50Ms, s.P99Ms, s.MaxMs = ms(n/2), ms(n*99/100), ms(n-1)
	}
	if s.Sent > 0 {
		s.Share = float64(s.Answered) / float64(s.Sent)
	}
	return s
}

// one sends a request that only this customer sends, and looks for its own
// answer.
func (c *crowd) one(ctx context.Context, customer, n int, due time.Time) {
	mark := fmt.Sprintf("m%dn%dr%d", customer, n, rand.Uint32())
	var said string
	var err error
	switch {
	case c.o.RPC != "" && n%4 == 3:
		said, err = c.rpc(ctx, customer, mark, n/4)
	case n%4 == 1:
		said, err = c.chat(ctx, customer, mark, true, false)
	default:
		said, err = c.chat(ctx, customer, mark, false, n%4 == 2)
	}
	took := time.Since(due)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum.Sent++
	c.took = append(c.took, took)
	switch {
	case err != nil:
		if ctx.Err() != nil {
			c.sum.Sent--
			return
		}
		c.sum.Errors[clipped(err.Error())]++
	case said != mark:
		c.sum.Astray++
		c.sum.Errors[clipped("astray: "+strings.Trim(said, "0123456789"))]++
	default:
		c.sum.Answered++
	}
}

func clipped(s string) string {
	if len(s) > 120 {
		return s[:120]
	}
	return s
}

// longText makes a body of 20 KB, for which servers often take another path.
var longText = strings.Repeat(" the small river moves past old stone houses", 460)

func (c *crowd) chat(ctx context.Context, customer int, mark string, stream, large bool) (string, error) {
	body := chatBody(c.o.Model, "echo="+mark, stream, nil)
	if large {
		body = bytes.Replace(body, []byte("]] hello"), []byte("]] hello"+longText), 1)
	}
	res, err := c.post(ctx, customer, "/chat/completions", body)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	if !stream {
		b, err := io.ReadAll(res.Body)
		return gjson.GetBytes(b, "choices.0.message.content").Str, err
	}
	said, done := "", false
	in := bufio.NewReader(res.Body)
	for {
		line, err := in.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: ")); ok {
			done = done || string(data) == "[DONE]"
			said += gjson.GetBytes(data, "choices.0.delta.content").Str
		}
		if err == io.EOF && done {
			return said, nil
		}
		if err != nil {
			return said, fmt.Errorf("a stream broke off: %w", err)
		}
	}
}

// rpcCalls are ordinary calls of the methods that the rounds aim at.
var rpcCalls = []string{
	`"eth_feeHistory","params":["0x5","latest",[]]`,
	`"debug_traceCall","params":[{"to":"0x1"},"latest",{"tracer":"callTracer"}]`,
	`"eth_call","params":[{"to":"0x1"},"latest"]`,
}

func (c *crowd) rpc(ctx context.Context, customer int, mark string, n int) (string, error) {
	body := `{"jsonrpc":"2.0","id":"` + mark + `","method":` + rpcCalls[n%len(rpcCalls)] + "}"
	res, err := c.post(ctx, customer, "/crypto/rpc/"+c.o.RPC, []byte(body))
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err == nil && !gjson.GetBytes(b, "result").Exists() {
		err = fmt.Errorf("an RPC error: %.80s", gjson.GetBytes(b, "error.message").Str)
	}
	return gjson.GetBytes(b, "id").Str, err
}

// post gives an answer with status 200; its body is the caller's to close.
func (c *crowd) post(ctx context.Context, customer int, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.o.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.o.Keys[customer%len(c.o.Keys)])
	res, err := c.clients[customer].Do(req)
	if err != nil {
		return nil, fmt.Errorf("no answer: %w", unwrapped(err))
	}
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(res.Body, 512))
		_ = res.Body.Close()
		return nil, fmt.Errorf("status %d %s", res.StatusCode, gjson.GetBytes(b, "code").Str)
	}
	return res, nil
}

// unwrapped leaves out the address, so that errors of a kind count together.
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
