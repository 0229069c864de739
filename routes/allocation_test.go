//go:build !race

package routes

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"farebox/billing"
	"farebox/config"
	"farebox/proxy"
)

// A request through the whole gateway (key, scan, rules, limits, hold, send,
// meter, journal, answer) must not leave work for the garbage collector, and
// an event of a stream neither. The test's own client and upstream work on
// raw connections and allocate nothing, so what is counted is the gateway.

const allocConfig = `
log: { level: error }
limits: { key: { rpm: 100000000, tpm: 100000000000 } }
upstreams:
  - { name: only, base_url: "http://ADDR/v1" }
models:
  - id: m
    tier: unlimited
    context_tokens: 128000
    price: { input: 1, output: 2, cache_read: 0.5 }
    capabilities: { tools: true }
    targets: [{ upstream: only }]
rpc:
  networks: [{ name: ethereum-mainnet, upstreams: [{ name: only, url: "http://ADDR/" }] }]
  rate: { rpm: 100000000 }
`

const wholeAnswer = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello there, how are you?"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":7,"total_tokens":27}}`

const eventText = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}],"usage":null}` + "\n\n"

const lastEvents = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}` + "\n\n" +
	`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":9,"total_tokens":29}}` + "\n\ndata: [DONE]\n\n"

func TestRequestAllocatesNothing(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(wholeAnswer)) + "\r\n\r\n"
	call := allocGateway(t, []byte(head+wholeAnswer), "", []byte("data: [DO"))
	if n := testing.AllocsPerRun(2000, call); n != 0 {
		t.Errorf("a non-stream request allocates %v times", n)
	}
}

func TestStreamAllocatesLittleAndItsEventsNothing(t *testing.T) {
	stream := func(events int) []byte {
		var b bytes.Buffer
		b.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range events {
			b.WriteString(strconv.FormatInt(int64(len(eventText)), 16) + "\r\n" + eventText + "\r\n")
		}
		// What an upstream reports must be true, or its text is counted.
		last := strings.Replace(lastEvents, `"completion_tokens":9,"total_tokens":29`, fmt.Sprintf(`"completion_tokens":%d,"total_tokens":%d`, events, events+20), 1)
		b.WriteString(strconv.FormatInt(int64(len(last)), 16) + "\r\n" + last + "\r\n0\r\n\r\n")
		return b.Bytes()
	}
	few := testing.AllocsPerRun(300, allocGateway(t, stream(1), `"stream":true,`, []byte("0\r\n\r\n")))
	many := testing.AllocsPerRun(300, allocGateway(t, stream(400), `"stream":true,`, []byte("0\r\n\r\n")))
	if few > 4 {
		t.Errorf("a stream allocates %v times, at most 4 are allowed", few)
	}
	if many > 4 {
		t.Errorf("a stream of 400 events allocates %v times, one of 1 event %v", many, few)
	}
}

// allocGateway starts a gateway before an upstream that always sends answer,
// and gives a function that makes one request. end is what the client's
// answer ends with; for whole answers it is found by length.
func allocGateway(t *testing.T, answer []byte, more string, end []byte) func() {
	t.Helper()
	body := `{` + more + `"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello, \"you\"!"}],"temperature":0.7,"max_completion_tokens":500,"user":"someone"}`
	return allocCall(t, answer, "/chat/completions", body, end)
}

// allocCall is allocGateway for any path and body.
func allocCall(t *testing.T, answer []byte, path, body string, end []byte) func() {
	t.Helper()
	up, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Close() })
	go func() {
		for {
			c, err := up.Accept()
			if err != nil {
				return
			}
			go echo(c, answer)
		}
	}()
	text := bytes.ReplaceAll([]byte(allocConfig), []byte("ADDR"), []byte(up.Addr().String()))
	cfg, err := config.Parse("test.yaml", text, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := billing.Open(billing.Options{Dir: t.TempDir(), Brand: "svc", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	account, err := ledger.CreateAccount("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ledger.Credit(account.ID, billing.USD, 1_000_000_000_000, "", ""); err != nil {
		t.Fatal(err)
	}
	_, secret, err := ledger.CreateKey(billing.NewKey{Account: account.ID, Type: billing.Inference})
	if err != nil {
		t.Fatal(err)
	}
	px := proxy.New(proxy.Options{HalfCloseGone: true})
	t.Cleanup(px.Close)
	g, err := New(Options{Ledger: ledger, Proxy: px, Log: zerolog.Nop(), Version: "test"}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := proxy.NewServer(g.Handler(), g.ServerOptions(cfg))
	ln, err := proxy.Listen("127.0.0.1:0", "", "")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Shutdown() })
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })

	request := []byte("POST /api/v1" + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer " + secret +
		"\r\nUser-Agent: test\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	buf := make([]byte, 1<<20)
	want := answer[bytes.Index(answer, []byte("\r\n\r\n"))+4:]
	call := func() {
		if _, err := client.Write(request); err != nil {
			t.Fatal(err)
		}
		for n := 0; ; {
			m, err := client.Read(buf[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += m
			if bytes.HasSuffix(buf[:n], end) || bytes.HasSuffix(buf[:n], want) {
				if !bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 200 OK")) {
					t.Fatalf("answered %s", buf[:n])
				}
				return
			}
			if bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 4")) || bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 5")) {
				t.Fatalf("answered %s", buf[:n])
			}
		}
	}
	for range 200 {
		call()
	}
	return call
}

// echo answers every request on c with the same bytes.
func echo(c net.Conn, answer []byte) {
	defer func() { _ = c.Close() }()
	buf := make([]byte, 64<<10)
	headEnd, length := []byte("\r\n\r\n"), []byte("Content-Length: ")
	for n := 0; ; {
		m, err := c.Read(buf[n:])
		if err != nil {
			return
		}
		n += m
		at := bytes.Index(buf[:n], headEnd)
		if at < 0 {
			continue
		}
		size := 0
		if i := bytes.Index(buf[:at], length); i >= 0 {
			for _, d := range buf[i+len(length) : at+2] {
				if d < '0' || d > '9' {
					break
				}
				size = size*10 + int(d-'0')
			}
		}
		if n < at+4+size {
			continue
		}
		n = 0
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}
