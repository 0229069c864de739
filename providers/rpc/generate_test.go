package rpc

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// envelopes is how many generated requests a test tries: few by default, as many
// as FAREBOX_RPC_ENVELOPES says.
func envelopes(t *testing.T) int {
	if text := os.Getenv("FAREBOX_RPC_ENVELOPES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("FAREBOX_RPC_ENVELOPES: %v", err)
		}
		return n
	}
	return 30_000
}

// generator makes requests, most of them odd, some of them hostile.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) *generator { return &generator{rand.New(rand.NewPCG(seed, 1))} }

func (g *generator) one(list ...string) string { return list[g.IntN(len(list))] }

func (g *generator) space() string {
	if g.IntN(4) > 0 {
		return ""
	}
	return g.one(" ", "\n", "\t", "\r\n", "  ")
}

func (g *generator) text() string {
	var b strings.Builder
	b.WriteByte('"')
	for range g.IntN(12) {
		b.WriteString(g.one("a", "0x", "é", "日", `\"`, `\\`, `\/`, `\u00e9`, `\ud83d\ude00`, `\n`, "<", "&", "{", "]",
			"ſ", "K", "method", "'"))
	}
	b.WriteByte('"')
	return b.String()
}

func (g *generator) number() string {
	return g.one("0", "-0", "1", "42", "9007199254740991", "9007199254740992", "9007199254740993",
		"18446744073709551615", "-9223372036854775809",
		"1.10", "1e2", "1E+2", "0.1e-7", "123456789012345678901234567890", strconv.Itoa(g.IntN(1_000_000)))
}

func (g *generator) value(depth int) string {
	n := g.IntN(8)
	if depth > 4 {
		n = g.IntN(5)
	}
	switch n {
	case 0:
		return g.one("true", "false", "null")
	case 1, 2:
		return g.number()
	case 3, 4:
		return g.text()
	case 5:
		return g.object(depth)
	}
	return g.array(depth)
}

func (g *generator) array(depth int) string {
	parts := make([]string, g.IntN(4))
	for i := range parts {
		parts[i] = g.space() + g.value(depth+1) + g.space()
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (g *generator) object(depth int) string {
	parts := make([]string, g.IntN(4))
	for i := range parts {
		key := g.text()
		if g.IntN(3) == 0 {
			key = `"` + g.one("method", "id", "params", "jsonrpc", "METHOD") + `"`
		}
		parts[i] = g.space() + key + g.space() + ":" + g.space() + g.value(depth+1)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (g *generator) id() string {
	switch g.IntN(6) {
	case 0:
		return g.text()
	case 1:
		return g.number()
	case 2:
		return "null"
	}
	return strconv.Itoa(g.IntN(50))
}

func (g *generator) method() string {
	return g.one("eth_call", "eth_getLogs", "eth_chainId", "trace_block", "txpool_content", "eth_getBalance",
		"debug_traceCall")
}

// call is a request object; hostile ones have members that parsers may read
// differently.
func (g *generator) call(hostile bool) string {
	members := []string{`"method":` + g.space() + `"` + g.method() + `"`}
	if g.IntN(8) > 0 {
		members = append(members, `"jsonrpc"`+g.space()+`:"2.0"`)
	}
	if g.IntN(8) > 0 {
		members = append(members, `"id":`+g.id())
	}
	if g.IntN(5) > 0 {
		members = append(members, `"params":`+g.space()+g.one(g.array(0), g.object(0)))
	}
	if g.IntN(6) == 0 {
		members = append(members, g.text()+":"+g.value(0))
	}
	for hostile && g.IntN(3) > 0 {
		bad := g.one("eth_accounts", "eth_sign", "debug_setHead", "txpool_content")
		members = append(members, g.one(
			`"method":"`+bad+`"`, `"METHOD":"`+bad+`"`, `"Method":"`+bad+`"`, `"m\u0065thod":"`+bad+`"`,
			`"\u006dethod":"`+bad+`"`, `"metHod":"`+bad+`"`,
			`"method ":"`+bad+`"`, `" method":"`+bad+`"`, `"method\u0000":"`+bad+`"`, `"params":["`+bad+`"]`,
			`"Params":[]`, `"paramſ":["x"]`, `"id":7`, `"ID":7`, `"Id":"x"`,
			`"ıd":9`, `"iD":9`, `"jsonrpc":"2.0"`, `"JSONRPC":"2.0"`, `"method":["`+bad+`"]`, `"method":null`,
			`"x":{"method":"`+bad+`"}`, `"":"`+bad+`"`,
			`"extra":"\",\"method\":\"`+bad+`"`, "\"a\nb\":1", `'method':'`+bad+`'`, `method:"`+bad+`"`,
			`/*"method":"x"*/`, `"__proto__":{"method":"`+bad+`"}`,
		))
	}
	g.Shuffle(len(members), func(i, k int) { members[i], members[k] = members[k], members[i] })
	for i := range members {
		members[i] = g.space() + members[i] + g.space()
	}
	return "{" + strings.Join(members, ",") + "}"
}

// envelope is the body of a request.
func (g *generator) envelope(hostile bool) string {
	if g.IntN(3) > 0 {
		return g.space() + g.call(hostile) + g.space()
	}
	n := 1 + g.IntN(6)
	if g.IntN(50) == 0 {
		n = MaxBatch
	}
	parts := make([]string, n)
	for i := range parts {
		parts[i] = g.call(hostile && g.IntN(n) == 0)
	}
	body := g.space() + "[" + strings.Join(parts, ","+g.space()) + "]" + g.space()
	if hostile && g.IntN(8) == 0 {
		// A byte changed anywhere.
		at := g.IntN(len(body))
		body = body[:at] + g.one(",", `"`, "{", "}", "[", "]", ":", "\\", "\x00", "\xff", "x", " ") + body[at+1:]
	}
	return body
}

// The generator must make both kinds of requests that the tests need.
func TestGeneratorMakesBothKinds(t *testing.T) {
	g := newGenerator(1)
	var r Request
	good, untouched, refused := 0, 0, map[string]int{}
	for range 5000 {
		if fault := r.Scan([]byte(g.envelope(g.IntN(2) == 0))); fault != nil {
			refused[fault.Text]++
			continue
		}
		good++
		if r.Untouched {
			untouched++
		}
	}
	if good < 1500 || untouched < 500 || len(refused) < 8 {
		t.Errorf("%d good, %d of them untouched, refused: %v", good, untouched, fmt.Sprint(refused))
	}
}
