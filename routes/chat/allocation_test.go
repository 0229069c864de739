//go:build !race

package chat_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"farebox/bench/upstream/enclave"
	"farebox/routes/chat"
	"farebox/routes/routestest"
)

// A request through the whole gateway (key, scan, rules, limits, hold, send, meter,
// journal, answer) must not leave work for the garbage collector, and an event of a
// stream neither. The test's own client and upstream work on raw connections and allocate
// nothing, so only the gateway is counted.

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
`

const wholeAnswer = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello there, how are you?"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":7,"total_tokens":27}}`

const eventText = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}],"usage":null}` + "\n\n"

const lastEvents = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}` + "\n\n" +
	`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":9,"total_tokens":29}}` + "\n\ndata: [DONE]\n\n"

func TestRequestAllocatesNothing(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(wholeAnswer)) +
		"\r\n\r\n"
	call := allocGateway(t, []byte(head+wholeAnswer), "", []byte("data: [DO"))
	if n := testing.AllocsPerRun(2000, call); n != 0 {
		t.Errorf("a non-stream request allocates %v times", n)
	}
	// Wallets cost nothing for clients with a key.
	call = routestest.Caller(t, allocConfig+allocWallets, []byte(head+wholeAnswer), "/chat/completions",
		`{"model":"m","messages":[{"role":"user","content":"Hi"}]}`, []byte("data: [DO"), chat.New(nil, nil, nil))
	if n := testing.AllocsPerRun(2000, call); n != 0 {
		t.Errorf("with wallets in the config a request with a key allocates %v times", n)
	}
}

const allocWallets = `
public_url: https://shop.test
rpc: { networks: [{ name: base-mainnet, upstreams: [{ name: node, url: "http://127.0.0.1:9" }] }] }
x402:
  inference: true
  discovery: true
  networks: [{ network: base, rpc: base-mainnet, pay_to: "0x2670B922ef37C7Df47158725C0CC407b5382293F" }]
  facilitators: [{ name: none, url: "http://127.0.0.1:9" }]
`

func TestStreamAllocatesLittleAndItsEventsNothing(t *testing.T) {
	stream := func(events int) []byte {
		var b bytes.Buffer
		b.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range events {
			b.WriteString(strconv.FormatInt(int64(len(eventText)), 16) + "\r\n" + eventText + "\r\n")
		}
		// The upstream must report its true usage, or the gateway counts the text.
		last := strings.Replace(lastEvents, `"completion_tokens":9,"total_tokens":29`,
			fmt.Sprintf(`"completion_tokens":%d,"total_tokens":%d`, events, events+20), 1)
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

// The start of an encrypted stream may allocate, since keys are read and headers written.
// Its events must not.
func TestEventsOfEncryptedStreamsAllocateNothing(t *testing.T) {
	one, err := enclave.New(enclave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := enclave.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	config := strings.Replace(strings.Replace(allocConfig, "id: m", "id: e2ee-m", 1), "targets:", "tee: {}\n    targets:", 1)
	head := "X-Svc-TEE-Client-Pub-Key: " + client.Public() + "\r\nX-Svc-TEE-Model-Pub-Key: " + one.Public() +
		"\r\nX-Svc-TEE-Signing-Algo: ecdsa\r\n"
	sealed, err := client.Seal(one.Public(), "Hello")
	if err != nil {
		t.Fatal(err)
	}
	body := `{"stream":true,"model":"e2ee-m","messages":[{"role":"user","content":"` + sealed +
		`"}],"max_completion_tokens":500}`
	count := func(events int) float64 {
		word, err := client.Seal(client.Public(), " word")
		if err != nil {
			t.Fatal(err)
		}
		event := strings.Replace(eventText, " word", word, 1)
		last := strings.Replace(lastEvents, `"completion_tokens":9,"total_tokens":29`,
			fmt.Sprintf(`"completion_tokens":%d,"total_tokens":%d`, events, events+20), 1)
		answer := "HTTP/1.1 200 OK\r\nX-E2EE-Applied: true\r\nContent-Type: text/event-stream\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat(strconv.FormatInt(int64(len(event)), 16)+"\r\n"+event+"\r\n", events) +
			strconv.FormatInt(int64(len(last)), 16) + "\r\n" + last + "\r\n0\r\n\r\n"
		k := &known{proven: map[string]string{one.Public(): "only"}, away: map[string]bool{}}
		return testing.AllocsPerRun(200, routestest.CallerWith(t, config, []byte(answer), "/chat/completions", head, body,
			[]byte("0\r\n\r\n"), chat.New(nil, nil, k)))
	}
	few, many := count(1), count(400)
	if many > few+40 { // bytes of an event that came in two reads are held: one in ten on a busy machine
		t.Errorf("a stream of 400 events allocates %v times, one of 1 event %v", many, few)
	}
}

// allocGateway starts a gateway before an upstream that always sends answer, and returns
// a function that makes one request. end is the end of the client's answer; whole answers
// end by their length.
func allocGateway(t *testing.T, answer []byte, more string, end []byte) func() {
	t.Helper()
	body := `{` + more + `"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello, \"you\"!"}],"temperature":0.7,"max_completion_tokens":500,"user":"someone"}`
	return routestest.Caller(t, allocConfig, answer, "/chat/completions", body, end, chat.New(nil, nil, nil))
}
