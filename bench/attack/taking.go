package attack

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

func (o *Options) given(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

func (o *Options) documents() string { return o.given(o.Documents) }
func (o *Options) pages() string     { return o.given(o.Pages) }
func (o *Options) poor() string      { return o.given(len(o.Unpaid) > 0) }
func (o *Options) strict() string    { return o.Strict }

const (
	manyCells  = 3_000_000
	slowLevels = 18
	// keptText is the size of the text in a cached RPC answer.
	keptText = 16 << 10
	// largeText is the size of the text that the node repeats for each of largeCalls calls
	// of a batch.
	largeText  = 300 << 10
	largeCalls = 3
	dripWindow = 4 << 10
	dripEvery  = 200 * time.Millisecond
	slowUpload = 1_000_000
)

// takings are rounds that use up resources of all customers.
var takings = []Round{
	{Name: "refused_keys", What: "requests with an Idempotency-Key of accounts without money", Rate: 2000,
		needs: (*Options).poor, crowds: true, do: func(a *attacker) []byte {
			return keyed(a.post("/chat/completions", a.o.Unpaid[a.next()%len(a.o.Unpaid)],
				chatBody(a.o.Model, "tokens=1", false, nil)))
		}},
	{Name: "kept_answers", What: "JSON-RPC calls with an Idempotency-Key and an answer of 16 KB", Rate: 100,
		needs: (*Options).network, crowds: true, do: func(a *attacker) []byte {
			return keyed(a.post("/crypto/rpc/"+a.o.RPC, a.key(), largeCall(1, keptText)))
		}},
	{Name: "documents_20", What: "XLSX of 12 KB with three million empty cells, 20 at a time", Rate: 100, most: 20,
		needs: (*Options).documents, crowds: true, do: func(a *attacker) []byte { return a.document() }},
	{Name: "documents_140", What: "the same, 140 at a time", Rate: 200, most: 140, needs: (*Options).documents,
		crowds: true, do: func(a *attacker) []byte { return a.document() }},
	{Name: "slow_schemas", What: "schemas of 2 KB that take a second to check, 100 at a time", Rate: 100, most: 100,
		needs: (*Options).strict, crowds: true, do: func(a *attacker) []byte {
			return a.post("/chat/completions", a.key(), strictBody(a.o.Strict, "{}", SlowSchema(slowLevels)))
		}},
	{Name: "slow_batches", What: "answers of 0.9 MB to JSON-RPC batches, read drop by drop", Rate: 5, most: 64,
		drip: keepSockets, needs: (*Options).network, crowds: true, do: func(a *attacker) []byte {
			return a.post("/crypto/rpc/"+a.o.RPC, a.key(), largeCall(largeCalls, largeText))
		}},
	{Name: "leavers", What: "clients that leave at once, with the key of an ordinary customer", Rate: 100,
		gone: 50 * time.Millisecond, do: func(a *attacker) []byte {
			return a.post("/chat/completions", a.o.Keys[0], chatBody(a.o.Model, "tokens=4 delay_ms=500", false, nil))
		}},
	{Name: "slow_uploads", What: "bodies of 1 MB of which the end does not come", Rate: 20, open: keepSockets,
		most: mostSockets, crowds: true, do: func(a *attacker) []byte {
			body := bytes.Repeat([]byte(" "), slowUpload)
			whole := a.post("/chat/completions", a.key(), body)
			return whole[:len(whole)-slowUpload/10]
		}},
	{Name: "challenges", What: "sign-in and wallet-key challenges", Rate: 200, crowds: true,
		do: func(a *attacker) []byte {
			return fmt.Appendf(nil, "GET %s/api_keys/generate_web3_key HTTP/1.1\r\nHost: %s\r\n\r\n", a.base.Path,
				a.base.Host)
		}},
	{Name: "slow_pages", What: "pages that take 3 s, 100 at a time", Rate: 100, most: 100, needs: (*Options).pages,
		crowds: true, do: func(a *attacker) []byte {
			return a.post("/augment/scrape", a.key(), fmt.Appendf(nil, `{"url":"%s/slow/%d"}`, a.sites[0], a.next()))
		}},
}

// crowded are rounds that many unpaid accounts do together: from one /64, and from
// addresses everywhere.
func crowded() (list []Round) {
	many := func(needs func(*Options) string) func(*Options) string {
		return func(o *Options) string {
			if !o.Forwarded || len(o.Unpaid) == 0 || needs != nil && needs(o) == "" {
				return ""
			}
			return "yes"
		}
	}
	for _, r := range takings {
		if !r.crowds {
			continue
		}
		name, what := r.Name, r.What
		r.needs = many(r.needs)
		r.Name, r.What = name+"_net", what+", by unpaid accounts of one /64"
		r.from = func(n int) string { return fmt.Sprintf("2001:db8:0:1::%x", n%0xffff) }
		list = append(list, r)
		r.Name, r.What = name+"_all", what+", by unpaid accounts from everywhere"
		r.from = func(n int) string { return fmt.Sprintf("10.%d.%d.%d", n>>16&0xff, n>>8&0xff, n&0xff) }
		list = append(list, r)
	}
	return list
}

// key is the attacker's, or one of an unpaid account.
func (a *attacker) key() string {
	if a.round.from == nil {
		return a.o.Attacker
	}
	return a.o.Unpaid[a.next()%len(a.o.Unpaid)]
}

// keyed gives a request an idempotency key of its own.
func keyed(request []byte) []byte {
	return bytes.Replace(request, []byte("\r\nHost:"), []byte("\r\nIdempotency-Key: "+rand.Text()+"\r\nHost:"), 1)
}

var manyEmptyCells = sync.OnceValue(func() []byte { return EmptyCells(manyCells, "x") })

func (a *attacker) document() []byte {
	kind, body := FileForm("a.xlsx", manyEmptyCells())
	return bytes.Replace(a.post("/augment/text-parser", a.key(), body), []byte("application/json"), []byte(kind), 1)
}

// largeCall has a node repeat a text, in so many calls; one is not a batch.
func largeCall(calls, text int) []byte {
	call := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":"0x1","data":"0x%s"},"latest"]}`,
		strings.Repeat("0", text))
	if calls == 1 {
		return []byte(call)
	}
	return []byte("[" + strings.Repeat(call+",", calls-1) + call + "]")
}

// strictBody is a chat whose answer must follow a schema.
func strictBody(model, answer, schema string) []byte {
	return fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":%q}],"response_format":{"type":"json_schema",`+
		`"json_schema":{"name":"n","strict":true,"schema":%s}}}`, model, "[[sim echo="+answer+"]] hello", schema)
}

// dripFrom reads a few bytes now and then.
func (a *attacker) dripFrom(ctx context.Context, from io.Reader) (size int64) {
	drop := make([]byte, 64)
	for end := time.Now().Add(a.round.drip); time.Now().Before(end) && ctx.Err() == nil; wait(ctx, dripEvery) {
		n, err := from.Read(drop)
		if size += int64(n); err != nil {
			return size
		}
	}
	return size
}
