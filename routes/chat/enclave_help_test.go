package chat_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/enclave"
	"farebox/billing"
	"farebox/providers/chat/dialect"
	"farebox/routes"
	"farebox/routes/chat"
	"farebox/routes/messages"
	"farebox/routes/responses"
	"farebox/routes/routestest"
)

// known replaces the registry of enclaves, which is in another package.
type known struct {
	mu       sync.Mutex
	proven   map[string]string // key -> upstream
	away     map[string]bool   // upstreams that are not ready
	asked    int
	answers  []routes.EnclaveAnswer
	betrayed []string
}

func (k *known) Attested(c *routes.Call, m *dialect.Model, key string) (*dialect.Target, *routes.Error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	for _, t := range m.Targets {
		if k.proven[key] == t.Upstream.Name {
			return t, nil
		}
	}
	return nil, &routes.Error{Status: 400, Code: "e2ee_model_key_mismatch", Param: "headers",
		Message: "fetch a fresh attestation"}
}

func (k *known) Ready(_ *routes.Call, t *dialect.Target) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.away[t.Upstream.Name]
}

func (k *known) Answered(_ *routes.Call, a *routes.EnclaveAnswer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answers = append(k.answers, *a)
}

func (k *known) Betrayed(_ *routes.Call, t *dialect.Target) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.betrayed = append(k.betrayed, t.Upstream.Name)
	k.away[t.Upstream.Name] = true
}

// lookups is the number of keys that were looked up.
func (k *known) lookups() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

// leave makes an upstream unready, or ready again.
func (k *known) leave(upstream string, away bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away[upstream] = away
}

// noted returns the answers and betrayals so far.
func (k *known) noted() (answers []routes.EnclaveAnswer, betrayed []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append(answers, k.answers...), append(betrayed, k.betrayed...)
}

const enclaveConfig = `
log: { level: debug, format: json }
brand_aliases: [venice]
system_prompt: "Speak of the operator."
compat: { answer_extras: true }
billing: { minimum_balance: 0, on_client_gone: abort }
limits: { failed_requests: { count: 0 }, aborted_requests: { count: 0 } }
upstreams:
  - { name: one, base_url: "http://ADDR/v1", key: upstream-key, breaker: { failures: 0 } }
  - { name: two, base_url: "TWO/v1", key: upstream-key, breaker: { failures: 0 } }
models:
  - id: e2ee-model
    tier: unlimited
    context_tokens: 100000
    max_completion_tokens: 4000
    hold: slice
    capabilities: { reasoning: false, tools: true, response_schema: true, vision: true }
    price: { input: 1, output: 2 }
    tee: { kind: KIND, provider: phala }
    targets: [{ upstream: one, model: their-model }, { upstream: two, model: their-model }]
  - id: tee-model
    tier: unlimited
    context_tokens: 400000
    max_completion_tokens: 60000
    capabilities: { tools: true }
    price: { input: 1, output: 2 }
    tee: { encrypted: false }
    targets: [{ upstream: one, model: their-model }, { upstream: two, model: their-model }]
  - id: open-model
    tier: unlimited
    context_tokens: 100000
    price: { input: 1, output: 2 }
    capabilities: { tools: true }
    targets: [{ upstream: one, model: their-model }]
`

// sealing is a gateway before two enclaves, and a client that encrypts.
type sealing struct {
	*routestest.Rig
	t        *testing.T
	one, two *enclave.Enclave
	known    *known
	client   *enclave.Client

	answering sync.WaitGroup // the slow enclave's requests
}

func newEnclave(t *testing.T, o enclave.Options) (e *enclave.Enclave, base string) {
	t.Helper()
	o.Key = "upstream-key"
	e, err := enclave.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if base, err = e.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e, base
}

// startSealing starts one; changes replaces pieces of the config in pairs.
func startSealing(t *testing.T, changes ...string) *sealing {
	t.Helper()
	s := &sealing{t: t}
	var one, two string
	s.one, one = newEnclave(t, enclave.Options{})
	s.two, two = newEnclave(t, enclave.Options{Share: s.one})
	s.known = &known{proven: map[string]string{s.one.Public(): "one", s.two.Public(): "two"}, away: map[string]bool{}}
	s.start(strings.TrimPrefix(one, "http://"), two, changes...)
	return s
}

// start starts the gateway before other upstreams than the enclaves.
func (s *sealing) start(one, two string, changes ...string) {
	s.t.Helper()
	var err error
	if s.client, err = enclave.NewClient(); err != nil {
		s.t.Fatal(err)
	}
	text := strings.NewReplacer(append(changes, "TWO", two, "KIND", "dstack")...).Replace(enclaveConfig)
	texts := chat.New(nil, nil, s.known)
	s.Rig = routestest.Start(s.t, text, one, texts, responses.New(texts), messages.New(texts))
}

// headers returns the three headers of a chat that is sealed to an enclave.
func (s *sealing) headers(e *enclave.Enclave) map[string]string {
	return map[string]string{"X-Svc-TEE-Client-Pub-Key": s.client.Public(), "X-Svc-TEE-Model-Pub-Key": e.Public(),
		"X-Svc-TEE-Signing-Algo": "ecdsa"}
}

// seal returns a text as an enclave expects it.
func (s *sealing) seal(e *enclave.Enclave, text string) string {
	s.t.Helper()
	sealed, err := s.client.Seal(e.Public(), text)
	if err != nil {
		s.t.Fatal(err)
	}
	return sealed
}

// ask returns an encrypted chat of one turn, with more members.
func (s *sealing) ask(e *enclave.Enclave, text, more string) string {
	return fmt.Sprintf(`{"model":"e2ee-model","stream":true,"messages":[{"role":"user","content":%q}]%s}`,
		s.seal(e, text), more)
}

// open posts a body with headers and returns the answer, whose body may still arrive.
func (s *sealing) open(path, body string, headers map[string]string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequest("POST", "http://"+s.Address+routes.Prefix+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+s.Secret)
	req.Header.Set("Accept-Encoding", "gzip, br")
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return res
}

func (s *sealing) post(path, body string, headers map[string]string) (int, http.Header, string) {
	s.t.Helper()
	res := s.open(path, body, headers)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(raw)
}

// text opens the deltas of a stream and joins them.
func (s *sealing) text(stream string) (text string) {
	s.t.Helper()
	lines := bufio.NewScanner(strings.NewReader(stream))
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		content := gjson.Get(data, "choices.0.delta.content").Str
		if !ok || content == "" {
			continue
		}
		plain, err := s.client.Open(content)
		if err != nil {
			s.t.Fatalf("%v: %s", err, data)
		}
		text += plain
	}
	return text
}

// spent returns the cost of a call, which settles before the client's last byte.
func (s *sealing) spent(call func()) billing.Nano {
	before := s.Balance()
	call()
	return before - s.Balance()
}

// requests is the number of chats that the enclaves got.
func (s *sealing) requests() int { return len(s.one.Requests()) + len(s.two.Requests()) }
