package tee

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/enclave"
	"farebox/tests/rig"
)

const (
	model = "e2ee-secret"
	nonce = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	// Prices in nano-USD a token.
	inputPrice, outputPrice = 1000, 2000
)

// shop is a gateway that sells a model which runs in enclaves.
type shop struct {
	*rig.Gateway
	enclaves []*enclave.Enclave
	key      string
	config   string
}

// open starts a gateway before enclaves; more is added to tee:, of to the model's tee:.
func open(t *testing.T, more, of string, options ...enclave.Options) *shop {
	t.Helper()
	return openOn(t, "", more, of, options...)
}

func openOn(t *testing.T, store, more, of string, options ...enclave.Options) *shop {
	t.Helper()
	s := &shop{}
	if len(options) == 0 {
		options = []enclave.Options{{}}
	}
	var upstreams, targets strings.Builder
	base := ""
	for i, o := range options {
		if i > 0 {
			o.Share = s.enclaves[0]
		}
		o.Key = "operator-key"
		e, err := enclave.New(o)
		if err != nil {
			t.Fatal(err)
		}
		at, err := e.Start("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		if i == 0 {
			base = at
		}
		s.enclaves = append(s.enclaves, e)
		fmt.Fprintf(&upstreams, "  - { name: enclave%d, base_url: %q, key: operator-key }\n", i, at+"/v1")
		fmt.Fprintf(&targets, "{ upstream: enclave%d, model: org/secret }, ", i)
	}
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	config := fmt.Sprintf(`
brand_aliases: [acme]
tee:
  allow_test_root: true
  intel_root_file: %q
  nvidia_root_file: %q
  collateral: { url: %q }
  nras_url: %q
  recheck: 10s
  per_ip: 0
%s
upstreams:
%s
models:
  - id: %s
    aliases: [e2ee-alias]
    context_tokens: 8192
    price: { input: 1, output: 2 }
    tee: { kind: dstack, provider: testers%s }
    targets: [%s]
  - id: plain
    context_tokens: 8192
    price: { input: 1, output: 2 }
    targets: [{ upstream: enclave0 }]
`, write("intel.pem", s.enclaves[0].Root()), write("nvidia.pem", s.enclaves[0].DeviceRoot()), base+"/pcs", base+"/nras",
		more, upstreams.String(), model, of, strings.TrimSuffix(targets.String(), ", "))
	if store != "" {
		s.Gateway = rig.StartGatewayOn(t, store, config)
	} else {
		s.Gateway = rig.StartGateway(t, config)
	}
	s.config = config
	s.NewAccount("a", "100")
	s.key = s.Key("a")
	return s
}

// verified waits until every enclave is verified.
func (s *shop) verified() *shop {
	s.T.Helper()
	for i := range s.enclaves {
		s.MetricIs(fmt.Sprintf(`farebox_tee_verified{model=%q,upstream="enclave%d"}`, model, i),
			func(v float64) bool { return v == 1 })
	}
	return s
}

// attest asks for a report.
func (s *shop) attest(query string) gjson.Result {
	s.T.Helper()
	status, _, body := s.Get("/tee/attestation?model="+model+query, "")
	if status != 200 {
		s.T.Fatalf("%d %s", status, body)
	}
	return gjson.ParseBytes(body)
}

// spent is the charge of a call.
func (s *shop) spent(call func()) rig.Money {
	s.T.Helper()
	before := s.Settled()["a"].Spent
	call()
	return s.Settled()["a"].Spent - before
}

// asked is how many chats the enclaves had.
func (s *shop) asked() (n int) {
	for _, e := range s.enclaves {
		n += len(e.Requests())
	}
	return n
}

// kept is all that the gateway has written: its log and its store.
func (s *shop) kept() string {
	s.T.Helper()
	var b strings.Builder
	b.WriteString(s.Log())
	err := filepath.Walk(s.Store, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		b.Write(raw)
		return err
	})
	if err != nil {
		s.T.Fatal(err)
	}
	return b.String()
}
