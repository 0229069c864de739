package security

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"farebox/bench/attack"
	"farebox/bench/upstream/chain"
	"farebox/config/fair"
	"farebox/tests/rig"
)

// shared is a row of the table in SECURITY.md: a resource that customers share, and
// traffic that shows it.
type shared struct {
	resource string // the row's first column
	// places is how many pieces of the greedy one may end between an honest request
	// and its answer: those that were running. 0: nothing is waited for.
	places int
	// turns is how often an honest request takes a place; 0: once.
	turns   int
	workers int // greedy pieces at a time
	most    int // greedy pieces in all; 0: any number
	piece   func(s *shares, ctx context.Context, c caller) int
	// full says that the greedy one has all that it can get.
	full func(s *shares, c *crowd) bool
	// honest is one request of the honest account; it is answered 200.
	honest func(s *shares) (status int, answer string)
	// after frees the resources that the greedy one holds beyond its pieces.
	after func(s *shares)
	// apart runs before the others: it counts pieces while the children work, too.
	apart bool
	// long is for cases whose program only long tests have.
	long bool
}

// answered is a full that waits for so many answers.
func answered(n int64) func(*shares, *crowd) bool {
	return func(_ *shares, c *crowd) bool { return c.ended.Load() >= n }
}

func gauge(name string, least float64) func(*shares, *crowd) bool {
	return func(s *shares, _ *crowd) bool { n, _ := s.Metric(name); return n >= least }
}

// whatIsShared are the rows of the table, in its order.
var whatIsShared = []shared{
	{
		resource: "document readers", places: 2, workers: 20, full: gauge("farebox_jail_jobs", 20),
		piece: func(s *shares, ctx context.Context, c caller) int {
			kind, body := attack.FileForm("a.xlsx", slowDocument())
			status, _ := s.ask(ctx, c, "POST", "/augment/text-parser", kind, body)
			return status
		},
		honest: func(s *shares) (int, string) {
			kind, body := attack.FileForm("a.xlsx", attack.EmptyCells(3, "stork"))
			return s.ask(context.Background(), s.honest, "POST", "/augment/text-parser", kind, body)
		},
	},
	{
		// The honest request checks twice, and short pieces pass through the other place meanwhile.
		resource: "schema checkers", places: 2, turns: 4, workers: 30, full: answered(1),
		piece: func(s *shares, ctx context.Context, c caller) int {
			status, _ := s.post(ctx, c, "/chat/completions", schemaAsk(attack.SlowSchema(17)))
			return status
		},
		honest: func(s *shares) (int, string) {
			return s.post(context.Background(), s.honest, "/chat/completions", schemaAsk(`{"type":"object"}`))
		},
	},
	{
		resource: "page fetches", places: 2, workers: 20, full: answered(1), apart: true,
		piece: func(s *shares, ctx context.Context, c caller) int {
			status, _ := s.post(ctx, c, "/augment/scrape", `{"url":"`+s.site+`/slow/`+s.mark()+`"}`)
			return status
		},
		honest: func(s *shares) (int, string) {
			return s.post(context.Background(), s.honest, "/augment/scrape", `{"url":"`+s.site+`/`+s.mark()+`"}`)
		},
	},
	{
		resource: "renderers", places: 2, workers: 12, full: answered(1), long: true,
		piece: func(s *shares, ctx context.Context, c caller) int {
			status, _ := s.post(ctx, c, "/augment/scrape", `{"url":"`+s.site+`/script/`+s.mark()+`"}`)
			return status
		},
		honest: func(s *shares) (int, string) {
			return s.post(context.Background(), s.honest, "/augment/scrape", `{"url":"`+s.site+`/script/`+s.mark()+`"}`)
		},
	},
	{
		resource: "picture conversions", places: 2, workers: 16, full: answered(1),
		piece: func(s *shares, ctx context.Context, c caller) int {
			status, _ := s.post(ctx, c, "/image/generate", pictureAsk(1024))
			return status
		},
		honest: func(s *shares) (int, string) {
			return s.post(context.Background(), s.honest, "/image/generate", pictureAsk(64))
		},
	},
	{
		resource: "memory of pictures", workers: 30, most: 30, full: answered(1),
		piece: func(s *shares, ctx context.Context, c caller) int {
			status, _ := s.post(ctx, c, "/image/edit", s.editAsk("left-edit", "<p"+s.mark()+".>"))
			return status
		},
		honest: func(s *shares) (int, string) {
			return s.post(context.Background(), s.honest, "/image/edit", s.editAsk("edit", "Go"))
		},
		after: func(s *shares) { s.left.finish("p") },
	},
	{
		resource: "media probes", places: 4, turns: 2, workers: 16, full: answered(1), apart: true,
		piece: func(s *shares, ctx context.Context, c caller) int {
			status, _ := s.post(ctx, c, "/video/quote", filmAsk(s.site+"/slow/"+s.mark()+"/film"))
			return status
		},
		honest: func(s *shares) (int, string) {
			return s.post(context.Background(), s.honest, "/video/quote", filmAsk(s.site+"/"+s.mark()+"/film"))
		},
	},
	{
		resource: "RPC batch answers", workers: 16, most: 16, full: answered(16),
		piece: func(s *shares, _ context.Context, c caller) int { return s.stallReading(c) },
		honest: func(s *shares) (int, string) {
			status, answer := s.post(context.Background(), s.honest, "/crypto/rpc/ethereum-sepolia", largeBatch)
			if status == 200 && len(answer) < 800<<10 {
				return 500, answer
			}
			return status, ""
		},
		after: (*shares).hangUp,
	},
	{
		resource: "kept answers", workers: 16, most: 1600, full: answered(1600),
		piece: func(s *shares, ctx context.Context, c caller) int {
			n := s.mark()
			body := rig.Ask("gift", "[[sim tokens=40]] Go", "")
			switch {
			case strings.HasSuffix(n, "0"):
				body = rig.Ask("gift", "[[sim tokens=4000]] Go", `,"max_completion_tokens":4000`)
			case !s.isPaid(c) && strings.HasSuffix(n, "5"):
				body = rig.Ask("sold", "Go", "") // is refused: the account has no money
			}
			status, _ := s.post(ctx, c, "/chat/completions", body, "Idempotency-Key", "g"+n)
			return status
		},
		honest: func(s *shares) (int, string) {
			key, body := "h"+s.mark(), rig.Ask("sold", "[[sim tokens=4]] Go", "")
			if status, answer := s.post(context.Background(), s.honest, "/chat/completions", body, "Idempotency-Key", key); status != 200 {
				return status, answer
			}
			return s.post(context.Background(), s.honest, "/chat/completions", body, "Idempotency-Key", key)
		},
	},
	{
		resource: "places of pending payments", workers: 40, most: 40, full: answered(40),
		piece: func(s *shares, ctx context.Context, c caller) int {
			// A payment goes on without its client.
			ctx, leave := context.WithTimeout(ctx, time.Second)
			defer leave()
			p := chain.NewPayer()
			s.holding.Store(p.Address, true)
			status, _ := s.topUp(ctx, p, c)
			return status
		},
		honest: func(s *shares) (int, string) {
			return s.topUp(context.Background(), chain.NewPayer(), s.honest)
		},
	},
	{
		// The honest payment asks twice, and quick questions pass through other places meanwhile.
		resource: "questions to facilitators", places: 4, turns: 3, workers: 12, full: answered(1), apart: true,
		piece: func(s *shares, ctx context.Context, c caller) int {
			p := chain.NewPayer()
			s.slow.Store(strings.ToLower(p.Address), true)
			status, _ := s.topUp(ctx, p, c)
			return status
		},
		honest: func(s *shares) (int, string) {
			return s.topUp(context.Background(), chain.NewPayer(), s.honest)
		},
	},
	{
		resource: "uploads", workers: 50, most: 50, full: answered(50),
		piece: func(s *shares, _ context.Context, c caller) int { return s.stallUpload(c) },
		honest: func(s *shares) (int, string) {
			return s.post(context.Background(), s.honest, "/chat/completions", rig.Ask("gift", "[[sim tokens=5]] "+
				strings.Repeat("word ", 190_000), ""))
		},
		after: (*shares).hangUp,
	},
	{
		resource: "sign-in checks of contract wallets", places: 16, workers: 24, most: 24,
		full: func(s *shares, c *crowd) bool { return s.checking.Load() >= 16 || c.ended.Load() == 24 },
		piece: func(s *shares, ctx context.Context, c caller) int {
			status, _ := s.signIn(ctx, s.contracts.greedy, caller{from: c.from})
			return status
		},
		honest: func(s *shares) (int, string) {
			n := s.number.Add(1)
			return s.signIn(context.Background(), s.contracts.honest, caller{from: fmt.Sprintf("198.51.100.%d", 201+n%50)})
		},
	},
	{
		resource: "wallet-key challenges", workers: 16, most: 400, full: answered(400),
		piece: func(s *shares, ctx context.Context, c caller) int {
			status, _ := s.ask(ctx, caller{from: c.from}, "GET", rig.Web3Path, "", nil)
			return status
		},
		honest: func(s *shares) (int, string) {
			n := s.number.Add(1)
			return s.ask(context.Background(), caller{from: fmt.Sprintf("198.51.100.%d", 201+n%50)}, "GET", rig.Web3Path, "", nil)
		},
	},
	{
		resource: "reads of unknown keys", workers: 300, full: answered(300),
		piece: func(s *shares, ctx context.Context, c caller) int {
			// Of addresses that are not used elsewhere: tries of random keys block theirs.
			from := strings.NewReplacer("2001:db8:1:", "2001:db8:2:", "192.0.2.", "192.0.3.", "100.1", "100.2").Replace(c.from)
			key := "SVC_INFERENCE_KEY_" + strings.Repeat("x", 30) + s.mark()
			status, _ := s.ask(ctx, caller{key, from}, "GET", "/models", "", nil)
			return status
		},
		honest: func(s *shares) (int, string) {
			return s.ask(context.Background(), caller{s.coldKey(), s.honest.from}, "GET", "/models", "", nil)
		},
	},
	{
		// Reports take milliseconds: others end in this process while the honest answer is on its way.
		resource: "reports on accounts", places: 2, turns: 50, workers: 250, most: 2000, full: answered(1), apart: true,
		piece: func(s *shares, ctx context.Context, c caller) int {
			if !s.isPaid(c) {
				return 429 // their keys may read none
			}
			s.buying.Do(func() { s.buy(ctx, c, 500) })
			status, _ := s.ask(ctx, c, "GET", "/billing/usage-history?pageSize=1000", "", nil)
			return status
		},
		honest: func(s *shares) (int, string) {
			return s.ask(context.Background(), s.honest, "GET", "/billing/balance", "", nil)
		},
	},
	{
		resource: "changes of keys", places: 1, turns: 50, workers: 250, most: 10_000, full: answered(1), apart: true,
		piece: func(s *shares, ctx context.Context, c caller) int {
			if !s.isPaid(c) {
				return 429 // their keys may change none
			}
			return s.describeKey(ctx, c)
		},
		honest: func(s *shares) (int, string) { return s.describeKey(context.Background(), s.honest), "" },
	},
	{
		resource: "drains of clients that left", workers: 72, most: 72, full: answered(72),
		piece: func(s *shares, ctx context.Context, c caller) int {
			return s.leave(ctx, c, "left-gift", "", true)
		},
		honest: func(s *shares) (int, string) {
			return s.leave(context.Background(), s.honest, "left", "", false), ""
		},
		after: func(s *shares) { s.left.finish("d") },
	},
	{
		resource: "keyed requests under way without their client", workers: 16, most: 16, full: answered(16),
		piece: func(s *shares, ctx context.Context, c caller) int {
			return s.leave(ctx, c, "left-gift", "g"+s.mark(), true)
		},
		honest: func(s *shares) (int, string) {
			return s.leave(context.Background(), s.honest, "left", "h"+s.mark(), false), ""
		},
		after: func(s *shares) { s.left.finish("k") },
	},
}

// slowDocument keeps a reader busy for about 0.2 s.
var slowDocument = sync.OnceValue(func() []byte { return attack.EmptyCells(300_000, "x") })

// buy buys answers, side by side.
func (s *shares) buy(ctx context.Context, c caller, answers int) {
	fair.Each(answers, 8, func(int) {
		_, _ = s.post(ctx, c, "/chat/completions", rig.Ask("sold", "[[sim tokens=1]] Go", ""))
	})
}

// describeKey has an account describe its key anew.
func (s *shares) describeKey(ctx context.Context, c caller) int {
	status, _ := s.ask(ctx, c, "PATCH", "/api_keys", "application/json", fmt.Appendf(nil, `{"id":%q,"description":%q}`,
		s.ids[c.key], s.mark()))
	return status
}

func schemaAsk(schema string) string {
	return rig.Ask("strict", "[["+`sim echo={}`+"]] Go", `,"response_format":{"type":"json_schema","json_schema":`+
		`{"name":"n","strict":true,"schema":`+schema+`}}`)
}

func pictureAsk(side int) string {
	return fmt.Sprintf(`{"model":"painter","prompt":"a cat","width":%d,"height":%[1]d,"format":"webp","return_binary":true}`,
		side)
}

func (s *shares) editAsk(model, prompt string) string {
	return `{"model":"` + model + `","prompt":"` + prompt + `","image":"` + s.site + `/` + s.mark() + `/picture"}`
}

// noise is a PNG of 3 MB.
var noise = sync.OnceValue(func() []byte {
	m := image.NewRGBA(image.Rect(0, 0, 1000, 1000))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range m.Pix {
		m.Pix[i] = byte(r.Uint32()) | byte(i&3/3*0xff) // opaque
	}
	var b bytes.Buffer
	_ = png.Encode(&b, m) // a bytes.Buffer takes all
	return b.Bytes()
})

func filmAsk(link string) string {
	return `{"model":"larger","upscale_factor":2,"video_url":"` + link + `"}`
}

const largeBatch = `[{"jsonrpc":"2.0","id":1,"method":"eth_getLogs"},{"jsonrpc":"2.0","id":2,"method":"eth_getLogs"}]`

// isPaid says that a caller's account was credited.
func (s *shares) isPaid(c caller) bool { return c.key == s.kinds[0].callers[0].key }
