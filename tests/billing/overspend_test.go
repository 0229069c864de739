package billing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/overspend"
	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/billing"
	"farebox/billing/cli"
	"farebox/config"
	"farebox/tests/rig"
)

// Attempts of a customer to get more than the balance covers: every lie of an upstream,
// every way to leave, each endpoint that charges.

// overspendSlice is stream_slice_tokens of overspendConfig.
const overspendSlice = 64

const overspendConfig = `
log: { level: error, format: json }
server: { max_connections: 4096 }
billing: { minimum_balance: 0, stream_slice_tokens: 64, drain: { streams: %d } }
limits: { failed_requests: { count: 0 } }
fetch: { allow: [127.0.0.1] }
jobs: { poll_min: 100ms, poll_max: 1s, timeout: 10s }
media: { max_bytes: 2MB }
upstreams:
  - { name: openai, base_url: %[2]s, breaker: { failures: 0 }, max_connections: 4096 }
  - { name: anthropic, dialect: anthropic, base_url: %[2]s, breaker: { failures: 0 }, max_connections: 4096 }
  - { name: fal, dialect: fal, base_url: "%[3]s/fal", key: k, breaker: { failures: 0 }, max_connections: 4096 }
  - { name: replicate, dialect: replicate, base_url: %[2]s, key: k, breaker: { failures: 0 }, max_connections: 4096 }
  - { name: queue, dialect: native, base_url: %[2]s, key: k, breaker: { failures: 0 }, max_connections: 4096 }
  - { name: responses, base_url: %[2]s, responses: true, breaker: { failures: 0 }, max_connections: 4096 }
  - { name: gemini, dialect: gemini, base_url: %[2]s, breaker: { failures: 0 }, max_connections: 4096 }
models:
  - id: over-openai
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 8000
    capabilities: { reasoning: true }
    price: { input: 1, output: 10 }
    targets: [{ upstream: openai, model: sim-chat }]
  - id: over-anthropic
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 8000
    capabilities: { reasoning: true }
    price: { input: 1, output: 10 }
    targets: [{ upstream: anthropic, model: claude-sonnet-4-5 }]
  - id: over-gemini
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 8000
    capabilities: { reasoning: true }
    price: { input: 1, output: 10 }
    targets: [{ upstream: gemini, model: gemini-2.5-flash }]
  - id: over-responses
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 8000
    capabilities: { reasoning: true, tools: true }
    price: { input: 1, output: 10 }
    targets: [{ upstream: responses, model: sim-chat }]
  - id: over-embedding
    type: embedding
    tier: unlimited
    price: { input: 1 }
    targets: [{ upstream: openai, model: sim-embedding }]
  - id: over-image
    type: image
    tier: unlimited
    price: { generation: 0.001 }
    targets: [{ upstream: openai, model: sim-image }]
  - id: over-sound
    type: asr
    tier: unlimited
    capabilities: { prompt: true, timestamps: [segment] }
    price: { per_audio_second: 0.001 }
    targets: [{ upstream: openai, model: sim-ear }]
  - id: over-speech
    type: tts
    tier: unlimited
    voices: [alloy]
    price: { input: 15 }
    targets: [{ upstream: openai, model: sim-voice }]
  - id: over-music
    type: music
    tier: unlimited
    constraints: { min_prompt_characters: 1, prompt_characters: 500, min_duration: 1, max_duration: 22 }
    price: { per_second: 0.001 }
    targets: [{ upstream: queue }]
  - id: over-video
    type: video
    tier: unlimited
    constraints: { durations: [5s, 10s] }
    price: { second: { any: 0.002 } }
    targets: [{ upstream: queue }]
  - id: over-fal
    type: video
    tier: unlimited
    constraints: { durations: [5s, 10s] }
    price: { second: { any: 0.002 } }
    targets: [{ upstream: fal, model: sim/video }]
  - id: over-replicate
    type: video
    tier: unlimited
    constraints: { durations: [5s, 10s] }
    price: { second: { any: 0.002 } }
    targets: [{ upstream: replicate, model: sim/video, options: { duration: "duration:number" } }]
rpc:
  rate: { rpm: 0 }
  networks:
    - { name: ethereum-sepolia, head_every: 0s, upstreams: [{ name: only, url: "%[3]s/rpc/evm", breaker: { failures: 0 } }] }
`

// overspendEndpoints are those of overspendConfig with its prices.
func overspendEndpoints(t testing.TB, names ...string) []overspend.Endpoint {
	t.Helper()
	text := upstream.Price{Prompt: 1000, Completion: 10_000}
	models := map[string]string{
		"chat": "over-openai", "chat_stream": "over-openai", "messages": "over-anthropic",
		"messages_stream": "over-anthropic", "generate": "over-gemini", "generate_stream": "over-gemini",
		"embeddings": "over-embedding", "images": "over-image", "transcription": "over-sound", "rpc": "ethereum-sepolia",
		"speech": "over-speech", "speech_stream": "over-speech", "music": "over-music", "video": "over-video",
		"hidden_tools": "over-responses",
	}
	prices := map[string]upstream.Price{"embeddings": {Prompt: 1000}, "images": {Unit: 1_000_000},
		"transcription": {Unit: 1_000_000}, "rpc": {Unit: 14_000}, "speech": {Unit: 15_000},
		"speech_stream": {Unit: 15_000}, "music": {Unit: 5_000_000}, "video": {Unit: 10_000_000}}
	var list []overspend.Endpoint
	for _, name := range names {
		price, ok := prices[name]
		if !ok {
			price = text
		}
		e, err := overspend.EndpointNamed(name, models[name], price)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

var allEndpoints = []string{"chat", "chat_stream", "messages", "messages_stream", "generate",
	"generate_stream", "embeddings", "images", "transcription", "speech", "speech_stream", "hidden_tools", "rpc"}

// overspendBooks open accounts through the operator's side of a ledger, inside
// this process: hundreds of cells would wait long for hundreds of commands.
type overspendBooks struct {
	lab     *lab
	balance billing.Nano
	limit   billing.Nano

	mu   sync.Mutex
	op   billing.Operator
	at   time.Time
	list map[string]overspend.Funds
	keys map[string][2]string // of accounts with a limit: the id of the key, and an ADMIN key
}

// operate does something on the ledger; a control socket that was idle for long
// is opened again.
func (b *overspendBooks) operate(do func(billing.Operator) error) (err error) {
	for range 2 {
		if b.op == nil {
			if b.op, err = b.lab.operator(); err != nil {
				return err
			}
		}
		if err = do(b.op); err == nil {
			return nil
		}
		_ = b.op.Close()
		b.op = nil
	}
	return err
}

func (b *overspendBooks) close() {
	if b.op != nil {
		_ = b.op.Close()
	}
}

func (b *overspendBooks) Open(_ context.Context, cell string) (secret string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return secret, b.operate(func(op billing.Operator) error {
		if _, err := billing.Do(op, billing.CreateAccount{Name: cell}); err != nil && !errors.Is(err, billing.ErrNameTaken) {
			return err
		}
		if _, err := billing.Do(op, billing.CreditAccount{Account: cell, Currency: billing.USD, Amount: b.balance, Ref: "overspend-" + cell}); err != nil {
			return err
		}
		k, err := cli.NewKey(cell, "INFERENCE", "", "", "", "", "EPOCH")
		if err != nil {
			return err
		}
		if b.limit > 0 {
			k.LimitUSD = &b.limit
		}
		inference, err := billing.Do(op, billing.CreateKey{NewKey: k})
		if secret = inference.Secret; err != nil || b.limit == 0 {
			return err
		}
		if k, err = cli.NewKey(cell, "ADMIN", "", "", "", "", "EPOCH"); err != nil {
			return err
		}
		admin, err := billing.Do(op, billing.CreateKey{NewKey: k})
		b.keys[cell] = [2]string{inference.Info.ID, admin.Secret}
		return err
	})
}

// booksLag is how long nodes of a shared store may take to book a charge: books that did not change
// for so long are read.
const booksLag = 5 * time.Second

// Read lists all accounts at most ten times a second.
func (b *overspendBooks) Read(_ context.Context, cell string) (overspend.Funds, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	shared := len(b.lab.nodes) > 1
	if b.list == nil || !shared && (time.Since(b.at) > 100*time.Millisecond || b.list[cell].Open) {
		if err := b.operate(b.read); err != nil {
			return overspend.Funds{}, err
		}
		for was := map[string]overspend.Funds(nil); shared && !maps.Equal(was, b.list); {
			was = b.list
			time.Sleep(booksLag)
			if err := b.operate(b.read); err != nil {
				return overspend.Funds{}, err
			}
		}
		b.at = time.Now()
	}
	f := b.list[cell]
	if b.limit > 0 && int64(b.balance)-f.Left > int64(b.limit) {
		return f, b.keyUse(cell, &f)
	}
	return f, nil
}

// read lists the balances of accounts.
func (b *overspendBooks) read(op billing.Operator) error {
	accounts, err := billing.All(op, billing.ListAccounts{})
	if err != nil {
		return err
	}
	b.list = map[string]overspend.Funds{}
	for _, a := range accounts {
		f := overspend.Funds{Known: true, Open: a.Held > 0, Left: int64(a.USD + a.Leased.USD), Debt: int64(a.Debt),
			Key: -1}
		if len(b.lab.nodes) > 1 {
			f.Left = int64(b.balance - a.Spent) // leases are on their way back
		}
		b.list[a.Name] = f
	}
	return nil
}

func nano(t testing.TB, text string) billing.Nano {
	t.Helper()
	if text == "" {
		return 0
	}
	n, err := config.ParseNano(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const (
	// smallMoney covers three answers of the cap of overspend's requests.
	smallMoney = "0.0615"
	// richMoney is more than any cell can use.
	richMoney = "100"
)

// lab is a gateway, or several on one store, before a lying upstream.
type lab struct {
	t     *testing.T
	sim   *rig.Simulated
	nodes []*rig.Gateway
	store string // of several nodes
}

const labDrains = 64

// startLab starts nodes with overspendConfig; more than one on PostgreSQL and
// Redis.
func startLab(t *testing.T, nodes int) *lab {
	t.Helper()
	l := &lab{t: t, sim: rig.StartUpstream(t, upstream.Options{})}
	text := fmt.Sprintf(overspendConfig, labDrains, l.sim.URL, strings.TrimSuffix(l.sim.URL, "/v1"))
	if nodes == 1 {
		l.nodes = []*rig.Gateway{rig.StartGateway(t, text)}
		return l
	}
	l.store = servers.Database(t)
	redis := servers.StartRedis(t).Addr
	for i := range nodes {
		g := rig.NewGateway(t, "")
		g.Store = l.store
		g.WriteConfig(text + fmt.Sprintf("node: { name: n%d, dir: %s }\nredis: { addresses: [%q], timeout: 1s }\n", i,
			filepath.Join(g.Dir, "node"), redis))
		g.ListenAndStart()
		l.nodes = append(l.nodes, g)
	}
	return l
}

// operator opens the ledger beside the nodes.
func (l *lab) operator() (billing.Operator, error) {
	if l.store != "" {
		return billing.OperateShared(l.store, "svc")
	}
	op, _, err := billing.Operate(l.nodes[0].Store, "svc")
	return op, err
}

// books keep accounts with a balance, and keys with a limit.
func (l *lab) books(balance, limit string) *overspendBooks {
	b := &overspendBooks{lab: l, balance: nano(l.t, balance), limit: nano(l.t, limit), keys: map[string][2]string{}}
	l.t.Cleanup(b.close)
	return b
}

// run sends a share of the cells; prefix tells runs on one lab apart.
func (l *lab) run(prefix, balance, limit string, at, each int, more func(*overspend.Options)) *overspend.Result {
	l.t.Helper()
	b := l.books(balance, limit)
	o := overspend.Options{
		Endpoints: overspendEndpoints(l.t, allEndpoints...), Liars: overspend.Liars, Leavers: overspend.Leavers,
		Requests: each, Concurrency: at, Lanes: max(1, 64/at), Cap: 2000, Rotate: true, Timeout: 30 * time.Second,
		Balance: int64(b.balance), Limit: int64(b.limit), Books: b, Truth: upstream.Remote{URL: l.sim.URL}, Prefix: prefix,
	}
	for _, g := range l.nodes {
		o.URLs = append(o.URLs, g.URL)
	}
	if more != nil {
		more(&o)
	}
	r, err := overspend.Run(context.Background(), o)
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

// crowded is run for the clients that leave when the places for answers that
// are read on are taken. By itself: the others would find them taken, too.
func (l *lab) crowded(prefix, balance, limit string, at, each int) *overspend.Result {
	l.t.Helper()
	key, err := l.books(richMoney, "").Open(context.Background(), prefix+"crowd")
	if err != nil {
		l.t.Fatal(err)
	}
	return l.run(prefix, balance, limit, at, each, func(o *overspend.Options) {
		o.Leavers, err = overspend.LeaversNamed([]string{"crowded"})
		o.Crowd, o.CrowdKey, o.Lanes = labDrains, key, 8
	})
}

// verify recounts the books once all nodes have booked.
func (l *lab) verify() {
	l.t.Helper()
	l.nodes[0].CLI("verify")
}

// exact are the endpoints whose units are known before the work starts, to the last
// character, second or track.
var exact = map[string]bool{"speech": true, "speech_stream": true, "transcription": true, "music": true, "video": true}

// rounding is in 1e-9 USD a request.
const rounding = 2

// drawnAway reports whether a whole picture did not reach its client, or cost more than the
// upstream's report.
func drawnAway(c *overspend.Cell) bool {
	return c.Liar == "draws" && c.Leaver == "stays" && (c.Failed > 0 || c.Above > rounding*c.Let)
}

// forNothing reports a charge above the value of the work, or for unusable work. Clients
// that leave are skipped, since their full answer is unknown; but for a job it makes no
// difference whether its client has left.
func forNothing(c *overspend.Cell) bool {
	if job := c.Endpoint == "music" || c.Endpoint == "video"; !exact[c.Endpoint] || c.Leaver != "stays" && !job {
		return false
	}
	arrives := c.Liar == "job_made_twice" || c.Liar == "job_stands_in_two_ways" // at some upstreams
	return c.Above > rounding || c.Breaks && !arrives && c.Charged > 0
}

// judge checks the rules of every cell: only real work is charged, and of the operator's
// payments within the requested cap, at most one visible slice a request is neither
// charged nor owed; nothing if a truthful final usage arrived.
func judge(t *testing.T, r *overspend.Result) {
	t.Helper()
	for _, c := range r.Cells {
		most := int64(overspendSlice*10_000) * c.Let
		if c.Made.Truthful == c.Let {
			most = rounding * c.Let
		}
		most += c.Unknowable
		if exact[c.Endpoint] {
			most = rounding * c.Let
			if c.Breaks {
				most += c.Real // the operator's cost of unusable work
			}
		}
		name := c.Endpoint + ", " + c.Liar + ", " + c.Leaver
		if c.Undelivered {
			continue // attempts that failed are the operator's
		}
		switch {
		case c.Overdraw > 0:
			t.Errorf("%s: charged %s, which is %s more than there was", name, rig.Money(c.Charged),
				rig.Money(c.Overdraw))
		case drawnAway(c):
			t.Errorf("%s: %d of %d failed, charged %s above its value", name, c.Failed, c.Sent, rig.Money(c.Above))
		case forNothing(c):
			t.Errorf("%s: charged %s for work worth %s; truth %+v %s", name, rig.Money(c.Charged), rig.Money(c.Real),
				c.Made, c.Note)
		case c.Lost > most:
			t.Errorf("%s: %s lost of %s made within the cap (charged %s, owed %s; at most %s may be lost); "+
				"truth %+v %s", name, rig.Money(c.Lost), rig.Money(c.Capped), rig.Money(c.Charged), rig.Money(c.Debt),
				rig.Money(most), c.Made, c.Note)
		}
	}
}

// A customer with money enough for everything pays for everything.
func TestNothingIsFreeWhateverUpstreamsClaimAndWheneverClientsLeave(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1)
	r := l.run("a-", richMoney, "", 1, 1, func(o *overspend.Options) { o.Lanes = 32 })
	judge(t, r)
	crowded := l.crowded("b-", richMoney, "", 1, 1)
	judge(t, crowded)
	if t.Failed() || testing.Verbose() {
		printCells(t, r)
		printCells(t, crowded)
	}
	l.verify()
}

// A balance that covers three answers, and a key limit that does, are never
// passed by clients that come four at once.
func TestNoBalanceAndNoKeyLimitIsPassed(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1)
	judge(t, l.run("a-", smallMoney, "", 4, 4, nil))
	judge(t, l.run("b-", richMoney, smallMoney, 4, 4, nil))
	l.verify()
}

// printCells shows the table with -v, and beside a failure.
func printCells(t *testing.T, r *overspend.Result) {
	t.Helper()
	var b strings.Builder
	r.Print(&b)
	t.Log("\n" + b.String())
}
