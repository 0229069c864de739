package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
)

// Tally counts requests and the tokens that were really produced for them.
type Tally struct {
	Requests         int64 `json:"requests"`
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	ReasoningTokens  int64 `json:"reasoning_tokens"`
	CachedTokens     int64 `json:"cached_tokens"`
	WrittenTokens    int64 `json:"cache_write_tokens"`
	Characters       int64 `json:"characters,omitempty"` // that were spoken
}

func (t *Tally) add(o Tally) {
	t.Requests += o.Requests
	t.PromptTokens += o.PromptTokens
	t.CompletionTokens += o.CompletionTokens
	t.ReasoningTokens += o.ReasoningTokens
	t.CachedTokens += o.CachedTokens
	t.WrittenTokens += o.WrittenTokens
	t.Characters += o.Characters
}

// Outcome is how an answer ended.
type Outcome string

const (
	Complete Outcome = "complete" // sent to its proper end
	Aborted  Outcome = "aborted"  // the peer left before the end
	Broken   Outcome = "broken"   // ended improperly on purpose: cut, truncated, error event, garbage
	Refused  Outcome = "refused"  // answered with an error status; no tokens
)

// Stats is the truth about all requests since the start or the last reset.
type Stats struct {
	Requests int64             `json:"requests"`
	Open     int64             `json:"open"` // being answered now
	Accepted int64             `json:"connections_accepted"`
	Tokens   Tally             `json:"tokens"` // all outcomes
	Outcomes map[Outcome]Tally `json:"outcomes"`
	// chat, chat_stream, messages, messages_stream, responses, responses_stream, generate, generate_stream, embeddings, models, other
	Endpoints map[string]Tally `json:"endpoints"`
	Faults    map[string]Tally `json:"faults"` // by kind of misbehaviour
	Aborts    []Abort          `json:"aborts"` // the last ones, oldest first
}

// Abort is one answer whose peer left before the end.
type Abort struct {
	ID        string `json:"id,omitempty"` // the scenario's id
	NoticedNs int64  `json:"noticed_unix_ns"`
	Tokens    int64  `json:"completion_tokens"` // written by then
	FirstByte bool   `json:"first_byte"`        // some byte had been written
	OpenedNs  int64  `json:"opened_unix_ns"`
}

// Received is one recorded request, byte for byte.
type Received struct {
	Head      string `json:"head"`
	Body      []byte `json:"body"`
	BodyBytes int    `json:"body_bytes"` // Body is cut at 4 MB
	Path      string `json:"path"`
	Status    int    `json:"status"`
}

const (
	keptAborts   = 4096
	keptBodySize = 4 << 20
)

// truth is written by all connections. The measured path only touches the
// atomic counters.
type truth struct {
	accepted atomic.Int64
	open     atomic.Int64

	bench       atomic.Int64 // requests of bench- models that completed, without a stream
	benchTokens atomic.Int64

	mu        sync.Mutex
	outcomes  map[Outcome]Tally
	endpoints map[string]Tally
	faults    map[string]Tally
	aborts    []Abort
	last      []Received
	keep      int
	byID      map[string]*Made
}

func (t *truth) init(keep int) {
	t.keep = keep
	t.reset()
}

func (t *truth) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes, t.endpoints, t.faults = map[Outcome]Tally{}, map[string]Tally{}, map[string]Tally{}
	t.aborts, t.last = nil, nil
	t.byID = map[string]*Made{}
	t.bench.Store(0)
	t.benchTokens.Store(0)
	t.accepted.Store(0)
}

func (t *truth) record(outcome Outcome, endpoint, fault string, tally Tally) {
	tally.Requests = 1
	t.mu.Lock()
	defer t.mu.Unlock()
	add(t.outcomes, outcome, tally)
	add(t.endpoints, endpoint, tally)
	if fault != "" {
		add(t.faults, fault, tally)
	}
}

func add[K comparable](m map[K]Tally, k K, more Tally) {
	sum := m[k]
	sum.add(more)
	m[k] = sum
}

func (t *truth) abort(a Abort) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.aborts) == keptAborts {
		t.aborts = append(t.aborts[:0], t.aborts[keptAborts/2:]...)
	}
	t.aborts = append(t.aborts, a)
}

func (t *truth) received(r *request, path string, status int) {
	kept := Received{Head: string(r.head), BodyBytes: len(r.came), Path: path, Status: status}
	kept.Body = append([]byte(nil), r.came[:min(len(r.came), keptBodySize)]...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.last) == t.keep {
		t.last = append(t.last[:0], t.last[1:]...)
	}
	t.last = append(t.last, kept)
}

// Stats is the truth so far.
func (s *Server) Stats() Stats {
	t := &s.truth
	out := Stats{
		Open: t.open.Load(), Accepted: t.accepted.Load(),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out.Outcomes, out.Endpoints, out.Faults = maps.Clone(t.outcomes), maps.Clone(t.endpoints), maps.Clone(t.faults)
	out.Aborts = append(out.Aborts, t.aborts...)
	sort.SliceStable(out.Aborts, func(i, j int) bool { return out.Aborts[i].NoticedNs < out.Aborts[j].NoticedNs })
	if n := t.bench.Load(); n > 0 {
		fast := Tally{Requests: n, PromptTokens: n * benchPrompt, CompletionTokens: t.benchTokens.Load()}
		add(out.Outcomes, Complete, fast)
		add(out.Endpoints, "chat", fast)
	}
	for _, v := range out.Outcomes {
		out.Tokens.add(v)
	}
	out.Requests = out.Tokens.Requests
	return out
}

// WaitIdle waits until no request is being answered; false: not within limit.
func (s *Server) WaitIdle(limit time.Duration) bool {
	for end := time.Now().Add(limit); s.truth.open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Last is the most recent requests, oldest first, byte for byte. Requests of
// bench- models are not kept.
func (s *Server) Last() []Received {
	s.truth.mu.Lock()
	defer s.truth.mu.Unlock()
	return append([]Received(nil), s.truth.last...)
}

// Reset clears the counts and all stored results.
func (s *Server) Reset() {
	s.truth.reset()
	s.mu.Lock()
	s.failed = map[string]int{}
	s.mu.Unlock()
}

// serveTruth answers GET /_sim/stats, /_sim/last and /_sim/made/ID and POST
// /_sim/reset.
func (c *conn) serveTruth(path string) bool {
	var value any
	switch path {
	case "/_sim/stats":
		value = c.srv.Stats()
	case "/_sim/last":
		value = c.srv.Last()
	case "/_sim/orders":
		value = c.srv.Orders()
	case "/_sim/reset":
		c.srv.Reset()
		value = map[string]bool{"reset": true}
	default:
		id, ok := strings.CutPrefix(path, "/_sim/made/")
		if value = c.srv.Made(id); !ok {
			value = map[string]string{"error": "know only /_sim/stats, /_sim/last, /_sim/made/ID and /_sim/reset"}
		}
	}
	body, err := json.Marshal(value)
	if err != nil {
		return false
	}
	_, keep, err := c.reply(&Scenario{}, 200, contentJSON, body)
	return keep && err == nil
}

// exchange is the bookkeeping of one answer from its start to its end.
type exchange struct {
	endpoint string
	cloud    string // the cloud of the request; may be empty
	sc       *Scenario
	tally    Tally
	opened   time.Time
	outcome  Outcome
	prompt   int64   // of requests with an id, known before anything is answered
	answer   *answer // of chat and messages
	hidden   int64   // tokens made and never written
	units    int64   // pictures or calls
	job      bool    // it is about a job: its order counts
	google   bool    // asked in Google's form, which its errors have, too
}

// noteEndpoint names the endpoint and says whether a stream is asked for.
func (x *exchange) noteEndpoint(endpoint string, asked gjson.Result) (streamed bool) {
	x.endpoint = endpoint
	if streamed = asked.Get("stream").Bool(); streamed {
		x.endpoint += "_stream"
	}
	return streamed
}

// settle books an answer that ended; gone: because the peer left.
func (c *conn) settle(x *exchange, gone bool) {
	t := &c.srv.truth
	defer t.open.Add(-1) // last, so that WaitIdle means that all is booked
	if gone {
		x.outcome = Aborted
		t.abort(Abort{
			ID: x.sc.ID, NoticedNs: c.leftAt.Load(), Tokens: x.tally.CompletionTokens,
			FirstByte: c.wire.begun, OpenedNs: x.opened.UnixNano(),
		})
	}
	x.tally.CompletionTokens += x.hidden
	x.tally.ReasoningTokens += x.hidden
	c.bookMade(x, gone)
	t.record(x.outcome, x.endpoint, x.sc.fault(), x.tally)
}

// Remote asks a simulated upstream in another process for its truth. URL is its
// address, with or without /v1.
type Remote struct{ URL string }

const (
	remoteTimeout = 10 * time.Second
	idleLimit     = 30 * time.Second
)

// Stats is the truth so far.
func (r Remote) Stats(ctx context.Context) (s Stats, err error) {
	return s, r.getJSON(ctx, "stats", &s)
}

// Made is the cost of an id.
func (r Remote) Made(ctx context.Context, id string) (m Made, err error) {
	return m, r.getJSON(ctx, "made/"+id, &m)
}

// IdleStats waits until nothing is under way.
func (r Remote) IdleStats(ctx context.Context) (s Stats, err error) {
	for end := time.Now().Add(idleLimit); ; time.Sleep(20 * time.Millisecond) {
		if s, err = r.Stats(ctx); err != nil || s.Open == 0 {
			return s, err
		}
		if time.Now().After(end) {
			return s, fmt.Errorf("%d requests are still under way after %v", s.Open, idleLimit)
		}
	}
}

func (r Remote) getJSON(ctx context.Context, path string, into any) error {
	root := strings.TrimSuffix(strings.TrimSuffix(r.URL, "/"), "/v1")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, root+"/_sim/"+path, nil)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: remoteTimeout}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", root, res.StatusCode)
	}
	return json.NewDecoder(res.Body).Decode(into)
}
