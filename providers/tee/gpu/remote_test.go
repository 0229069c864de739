package gpu

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/enclave"
)

// evidenceOf is that of an enclave for a nonce.
func evidenceOf(t testing.TB, base string, nonce [32]byte) string {
	t.Helper()
	r, err := http.Get(base + "/v1/attestation/report?signing_algo=ecdsa&nonce=" + hex.EncodeToString(nonce[:]))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	raw, err := io.ReadAll(r.Body)
	var f struct {
		Payload string `json:"nvidia_payload"`
	}
	if err != nil || json.Unmarshal(raw, &f) != nil || f.Payload == "" {
		t.Fatal(err, string(raw))
	}
	return f.Payload
}

// The service's verdict counts if it is signed, in time, for this question and about all
// devices, and only then.
func TestTheServiceIsBelievedWhereItSigned(t *testing.T) {
	t.Parallel()
	for lie, want := range map[string]error{"": nil, "fail": errFails, "nonce": errToken, "forged": errToken, "expired": errToken} {
		e, err := enclave.New(enclave.Options{JudgeLie: lie, Devices: 3})
		if err != nil {
			t.Fatal(err)
		}
		base, err := e.Start("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		r := &Remote{Base: base + "/nras", Issuer: NRAS, HTTP: http.DefaultClient, Now: time.Now}
		nonce := [32]byte{1, 2}
		payload := evidenceOf(t, base, nonce)
		if err := r.Judge(t.Context(), payload, nonce, 3); !errors.Is(err, want) {
			t.Errorf("%q: %v", lie, err)
		}
		if lie != "" {
			continue
		}
		if err := r.Judge(t.Context(), payload, [32]byte{9}, 3); !errors.Is(err, errToken) {
			t.Errorf("for another nonce: %v", err)
		}
		if err := r.Judge(t.Context(), payload, nonce, 2); !errors.Is(err, errToken) {
			t.Errorf("about more devices: %v", err)
		}
		other := &Remote{Base: base + "/nras", Issuer: "https://other", HTTP: http.DefaultClient, Now: time.Now}
		if err := other.Judge(t.Context(), payload, nonce, 3); !errors.Is(err, errToken) {
			t.Errorf("of another issuer: %v", err)
		}
		for range 5 {
			if err := r.Judge(t.Context(), payload, nonce, 3); err != nil {
				t.Error(err)
			}
		}
		if n := e.Calls("/nras/.well-known/jwks.json"); n != 2 { // one for each Remote
			t.Errorf("it was asked %d times for its keys", n)
		}
		e.Close()
		if err := r.Judge(t.Context(), payload, nonce, 3); !errors.Is(err, ErrAway) {
			t.Errorf("when it is gone: %v", err)
		}
	}
}

// Judgements that waited for missing keys do not ask for them again, one after the other.
func TestMissingKeysAreAskedForOnce(t *testing.T) {
	t.Parallel()
	e, err := enclave.New(enclave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	base, err := e.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var asked atomic.Int64
	now := time.Now()
	r := &Remote{Base: base + "/nras", Issuer: NRAS, Now: func() time.Time { return now },
		HTTP: &http.Client{Transport: roundTrip(func(q *http.Request) *http.Response {
			if strings.HasSuffix(q.URL.Path, "/jwks.json") {
				asked.Add(1)
				time.Sleep(50 * time.Millisecond)
				return &http.Response{StatusCode: 503, Body: http.NoBody}
			}
			a, err := http.DefaultTransport.RoundTrip(q)
			if err != nil {
				t.Error(err)
			}
			return a
		})}}
	nonce := [32]byte{1, 2}
	payload := evidenceOf(t, base, nonce)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := r.Judge(t.Context(), payload, nonce, 1); !errors.Is(err, ErrAway) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("the keys were asked for %d times", n)
	}
	now = now.Add(awayFor)
	if _ = r.Judge(t.Context(), payload, nonce, 1); asked.Load() != 2 {
		t.Error("they are not asked for later")
	}
}

// roundTrip answers in the place of a server.
type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// FuzzAnswer: no answer of the service panics, and none counts without its own token.
func FuzzAnswer(f *testing.F) {
	e, err := enclave.New(enclave.Options{Devices: 2})
	if err != nil {
		f.Fatal(err)
	}
	base, err := e.Start("127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	defer e.Close()
	nonce := [32]byte{3}
	get := func(path, body string) string {
		r, err := http.Post(base+"/nras"+path, "application/json", strings.NewReader(body))
		if body == "" {
			r, err = http.Get(base + "/nras" + path)
		}
		if err != nil {
			f.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			f.Fatal(err)
		}
		return string(raw)
	}
	keys, good := get("/.well-known/jwks.json", ""), get("/v3/attest/gpu", evidenceOf(f, base, nonce))
	token := gjson.Get(good, "0.1").Str
	var answer string
	r := &Remote{Base: base, Issuer: NRAS, Now: time.Now, HTTP: &http.Client{Transport: roundTrip(func(q *http.Request) *http.Response {
		body := answer
		if q.Method == http.MethodGet {
			body = keys
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}
	})}}
	answer = good
	if err := r.Judge(f.Context(), "{}", nonce, 2); err != nil || token == "" {
		f.Fatal(err, good)
	}
	for _, s := range []string{good, strings.ReplaceAll(good, ".", "!"), `[["JWT",""],{"GPU-0":"","GPU-1":""}]`, `[["JWT"],{}]`,
		`[["JWT","a.b.c"],{"GPU-0":"a.b.c","GPU-1":"e30.e30."}]`, `[]`, `null`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		answer = s
		if r.Judge(t.Context(), "{}", nonce, 2) == nil && !strings.Contains(strings.ReplaceAll(s, `\u002e`, "."), token) {
			var parts [2]any
			if err := json.Unmarshal([]byte(s), &parts); err != nil || parts[0].([]any)[1] != token {
				t.Errorf("%q counts", s)
			}
		}
	})
}

// No evidence, however broken, panics or holds.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"nonce":"00","evidence_list":[{"certificate":"AA==","evidence":"EQ=="}]}`))
	f.Add([]byte(`{"evidence_list":[{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Read(text)
		if err == nil && p.Check([32]byte{}, NVIDIA, time.Unix(1780598249, 0)) == nil {
			t.Error("it holds")
		}
	})
}

func FuzzMeasurements(f *testing.F) {
	f.Add(append(append([]byte{0x11, 0xe0}, make([]byte, 35)...), append([]byte{0x11, 0x60}, make([]byte, 200)...)...))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if m, err := readMeasurements(raw); err == nil && len(m.signed)+len(m.signature) != len(raw) {
			t.Error("a part of it is neither signed nor a signature")
		}
	})
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-384","kid":"a","x":"AA","y":"AA"}]}`))
	f.Fuzz(func(_ *testing.T, raw []byte) { _, _ = readKeys(raw) })
}
