package tee

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/enclave"
	"farebox/tests/rig"
)

// room is a gateway before two enclaves of one authority, and a client that encrypts.
type room struct {
	*rig.Gateway
	t        *testing.T
	one, two *enclave.Enclave
	client   *enclave.Client
	key      string // of an account with 100 USD
}

const sealedConfig = `
log: { level: debug, format: json, sample_above: 0 }
brand_aliases: [venice]
system_prompt: "Speak of the operator."
billing: { minimum_balance: 0, on_client_gone: abort }
limits: { failed_requests: { count: 0 }, aborted_requests: { count: 0 } }
tee:
  allow_test_root: true
  intel_root_file: DIR/intel.pem
  nvidia_root_file: DIR/nvidia.pem
  collateral: { url: ONE/pcs, root_crl_url: ONE/pcs/sgx/certification/v4/rootcacrl }
  nras_url: ONE/nras
  recheck: 10s
  per_ip: 0
upstreams:
  - { name: one, base_url: "ONE/v1", key: upstream-key, breaker: { failures: 0 } }
  - { name: two, base_url: "TWO/v1", key: upstream-key, breaker: { failures: 0 } }
models:
  - id: e2ee-model
    tier: unlimited
    context_tokens: 100000
    max_completion_tokens: 4000
    price: { input: 1, output: 2 }
    tee: { provider: phala }
    targets: [{ upstream: one, model: sim-enclave }, { upstream: two, model: sim-enclave }]
`

// startRoom starts one; the first enclave tells a lie.
func startRoom(t *testing.T, lie string) *room {
	t.Helper()
	r, dir := &room{t: t}, t.TempDir()
	var one, two string
	r.one, one = newEnclave(t, enclave.Options{Lie: lie})
	r.two, two = newEnclave(t, enclave.Options{Share: r.one})
	for name, pem := range map[string][]byte{"intel.pem": r.one.Root(), "nvidia.pem": r.one.DeviceRoot()} {
		if err := os.WriteFile(filepath.Join(dir, name), pem, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if r.client, err = enclave.NewClient(); err != nil {
		t.Fatal(err)
	}
	r.Gateway = rig.StartGateway(t, strings.NewReplacer("DIR", dir, "ONE", one, "TWO", two).Replace(sealedConfig))
	r.NewAccount("a", "100")
	r.key = r.Key("a")
	return r
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

// attested is what the gateway says of an enclave of the model, for a fresh nonce.
func (r *room) attested() gjson.Result {
	r.t.Helper()
	var nonce [32]byte
	rand.Read(nonce[:])
	text := hex.EncodeToString(nonce[:])
	status, _, answer := r.Get("/tee/attestation?model=e2ee-model&nonce="+text, "")
	a := gjson.ParseBytes(answer)
	if status != 200 || a.Get("nonce").Str != text {
		r.t.Fatalf("attestation: %d %s", status, answer)
	}
	return a
}

// seal is a text as an enclave wants it, in JSON.
func (r *room) seal(e *enclave.Enclave, text string) string {
	r.t.Helper()
	sealed, err := r.client.Seal(e.Public(), text)
	if err != nil {
		r.t.Fatal(err)
	}
	return `"` + sealed + `"`
}

func user(content string) string { return `{"role":"user","content":` + content + `}` }

// body is an encrypted chat with these messages and further members.
func body(messages, more string) string {
	return `{"model":"e2ee-model","stream":true,"messages":[` + messages + `]` + more + `}`
}

// sealed posts a chat with the headers of one that is sealed to an enclave, and others.
func (r *room) sealed(e *enclave.Enclave, body string, more ...string) (int, http.Header, string) {
	r.t.Helper()
	headers := append([]string{"X-Svc-TEE-Client-Pub-Key", r.client.Public(), "X-Svc-TEE-Model-Pub-Key", e.Public(),
		"X-Svc-TEE-Signing-Algo", "ecdsa"}, more...)
	status, header, answer, err := rig.Try(rig.Client, r.URL+"/chat/completions", r.key, body, headers...)
	if err != nil {
		r.t.Fatal(err)
	}
	return status, header, answer
}

// text opens the deltas of a stream and joins them.
func (r *room) text(stream string) (text string) {
	r.t.Helper()
	lines := bufio.NewScanner(strings.NewReader(stream))
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if content := gjson.Get(data, "choices.0.delta.content").Str; ok && content != "" {
			plain, err := r.client.Open(content)
			if err != nil {
				r.t.Fatalf("%v: %s", err, data)
			}
			text += plain
		}
	}
	return text
}

// spent is what a call costs.
func (r *room) spent(call func()) rig.Money {
	r.t.Helper()
	before := r.Settled()["a"].Spent
	call()
	return r.Settled()["a"].Spent - before
}

// chats is how many chats the enclaves had.
func (r *room) chats() int { return len(r.one.Requests()) + len(r.two.Requests()) }

// kept is all that the gateway has written: its log and its store.
func (r *room) kept() string {
	r.t.Helper()
	var b strings.Builder
	b.WriteString(r.Log())
	err := filepath.Walk(r.Store, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		_, err = io.Copy(&b, f)
		return err
	})
	if err != nil {
		r.t.Fatal(fmt.Errorf("cannot read the store: %w", err))
	}
	return b.String()
}
