package tee

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/enclave"
	"farebox/tests/rig"
)

const secret = "the-launch-code-is-swordfish"

// "Nobody but the model may read it": only the enclave reads a client's sealed text, and
// only the client its answer; bytes are relayed unchanged and signed for, and the charge
// equals the reported cost.
func TestOnlyTheEnclaveAndTheClientRead(t *testing.T) {
	t.Parallel()
	s := open(t, "", "").verified()
	c := meets(t, s.attest("&nonce="+nonce).Get("signing_key").Str)
	before := s.Settled()["a"].USD
	res, stream := c.chats(s, s.key, []turn{{"system", "be brief"}, {"user", "before"}, {"assistant", "in the clear"},
		{"user", secret}}, `,"max_completion_tokens":50,"svc_parameters":{"enable_e2ee":true},"user":"me"`)
	if res.StatusCode != 200 {
		t.Fatalf("%s %s", res.Status, stream)
	}
	text, id, usage := c.reads(stream)
	if text != "You said "+secret+"." {
		t.Errorf("it says %q", text)
	}
	got := s.enclaves[0].Requests()
	last := got[len(got)-1]
	if want := []string{"be brief", "before", "in the clear", secret}; fmt.Sprint(last.Turns) != fmt.Sprint(want) {
		t.Errorf("the enclave read %q", last.Turns)
	}
	if !bytes.Equal(last.Answer, stream) {
		t.Errorf("%d bytes were sent, %d came", len(last.Answer), len(stream))
	}
	if bytes.Contains(last.Body, []byte("in the clear")) || gjson.GetBytes(last.Body, "svc_parameters").Exists() ||
		gjson.GetBytes(last.Body, "user").Exists() || gjson.GetBytes(last.Body, "model").Str != "org/secret" {
		t.Errorf("the enclave was sent %.300s", last.Body)
	}
	sum := sha256.Sum256(last.Body)
	for name, want := range map[string]string{"X-Svc-Tee": "true", "X-Svc-Tee-Provider": "testers", "X-Svc-Tee-Mode": "e2ee",
		"X-Svc-Tee-Request-Hash": hex.EncodeToString(sum[:])} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q, expected %q", name, got, want)
		}
	}
	cost := rig.Money(usage.Get("prompt_tokens").Int()*inputPrice + usage.Get("completion_tokens").Int()*outputPrice)
	if paid := before - s.Settled()["a"].USD; paid != cost || cost == 0 {
		t.Errorf("it cost %s, expected %s", paid, cost)
	}
	signature := s.signature(s.key, id)
	for path, want := range map[string]string{
		"request_id": id, "requested_request_id": id, "model": model, "upstream_model": "org/secret",
		"server_verification.signature_valid": "true", "server_verification.signer_attested": "true",
		"server_verification.request_hash_match": "true", "server_verification.response_hash_match": "true",
		"server_verification.forwarded_request_sha256": hex.EncodeToString(sum[:]), "signing_algo": "ecdsa",
	} {
		if got := signature.Get(path).String(); got != want {
			t.Errorf("%s is %q, expected %q", path, got, want)
		}
	}
	log := s.Log()
	for _, word := range []string{secret, c.key, hex.EncodeToString(c.own.PubKey().SerializeUncompressed()), "be brief"} {
		if strings.Contains(log, word) || strings.Contains(log, hex.EncodeToString([]byte(word))) {
			t.Errorf("the log has %.40q", word)
		}
	}
	if blob := gjson.GetBytes(last.Body, "messages.0.content").Str; blob == "" || strings.Contains(log, blob[:40]) {
		t.Error("the log has a sealed text")
	}
}

// signature asks for the enclave's signature of a chat.
func (s *shop) signature(key, id string) gjson.Result {
	s.T.Helper()
	status, _, body := s.Get("/tee/signature?model="+model+"&request_id="+id, key)
	if status != 200 {
		s.T.Fatalf("%d %s", status, body)
	}
	return gjson.ParseBytes(body)
}

// "Somebody asked for my signature": records are their account's, and other accounts get
// a 404; lies of the enclave become errors.
func TestSignaturesAreTheirAccounts(t *testing.T) {
	t.Parallel()
	rig.OnBothStores(t, func(t *testing.T, store string) {
		s := openOn(t, store, "", "").verified()
		c := meets(t, s.attest("").Get("signing_key").Str)
		_, stream := c.chats(s, s.key, []turn{{"user", "hello"}}, "")
		_, id, _ := c.reads(stream)
		s.signature(s.key, id)
		s.NewAccount("b", "100")
		for _, ask := range [][2]string{{s.Key("b"), id}, {s.key, "chatcmpl-none"}, {s.key, id + "x"},
			{s.key, strings.Repeat("x", 300)}} {
			if status, _, body := s.Get("/tee/signature?model="+model+"&request_id="+ask[1], ask[0]); status != 404 ||
				!strings.Contains(string(body), "REQUEST_ID_NOT_FOUND") {
				t.Errorf("%s: %d %s", ask[1], status, body)
			}
		}
		if status, _, _ := s.Get("/tee/signature?model="+model+"&request_id="+id, ""); status != 401 {
			t.Errorf("without a key: %d", status)
		}
		for lie, wrong := range map[string]string{enclave.ForgedSig: "signature_valid", enclave.WrongHash: "response_hash_match"} {
			s.enclaves[0].Tell(lie)
			_, stream := c.chats(s, s.key, []turn{{"user", "hello"}}, "")
			_, id, _ := c.reads(stream)
			if v := s.signature(s.key, id).Get("server_verification"); v.Get(wrong).Bool() {
				t.Errorf("%s: %s", lie, v)
			}
		}
		s.enclaves[0].Tell(enclave.NoSignature)
		_, stream = c.chats(s, s.key, []turn{{"user", "hello"}}, "")
		_, id, _ = c.reads(stream)
		if status, _, body := s.Get("/tee/signature?model="+model+"&request_id="+id, s.key); status != 502 ||
			!strings.Contains(string(body), "TEE_SIGNATURE_FAILED") {
			t.Errorf("no signature: %d %s", status, body)
		}
		asked := 0
		for status := 0; status != 429; asked++ {
			if status, _, _ = s.Get("/tee/signature?model="+model+"&request_id="+id, s.key); asked > 20 {
				t.Fatalf("the enclave is asked for nothing again and again: %d", status)
			}
		}
	})
}

// An enclave that forgets its signatures sooner than a day is asked once.
func TestSignaturesOutliveTheirEnclaves(t *testing.T) {
	t.Parallel()
	s := open(t, "", "").verified()
	c := meets(t, s.attest("").Get("signing_key").Str)
	_, stream := c.chats(s, s.key, []turn{{"user", "hello"}}, "")
	_, id, _ := c.reads(stream)
	first := s.signature(s.key, id).Raw
	s.enclaves[0].Close()
	if again := s.signature(s.key, id).Raw; again != first {
		t.Errorf("%s\n%s", first, again)
	}
}

// "It answered in the clear, and everybody on the way could read it": not a byte of a
// plain delta comes through, and the enclave is asked for nothing until it is verified
// again.
func TestAPlainAnswerIsWithheld(t *testing.T) {
	t.Parallel()
	s := open(t, "", "").verified()
	c := meets(t, s.attest("").Get("signing_key").Str)
	s.enclaves[0].Tell(enclave.PlainReply)
	res, stream := c.chats(s, s.key, []turn{{"user", "hello"}}, "")
	if bytes.Contains(stream, []byte(enclave.KnownMarker)) || bytes.Contains(stream, []byte("You")) ||
		!bytes.Contains(stream, []byte("e2ee_plaintext_response")) {
		t.Errorf("%s %s", res.Status, stream)
	}
	s.AwaitLog("answered a sealed chat in the clear")
	s.MetricIs(fmt.Sprintf(`farebox_tee_plain_answers_total{model=%q,upstream="enclave0"}`, model),
		func(v float64) bool { return v == 1 })
	s.enclaves[0].Tell(enclave.NoHeader)
	rig.Await(t, "it is asked again", func() bool {
		res, stream = c.chats(s, s.key, []turn{{"user", "hello"}}, "")
		return res.StatusCode != http.StatusServiceUnavailable
	})
	if res.StatusCode != 502 || bytes.Contains(stream, []byte("You")) {
		t.Errorf("one that does not say that it opened it: %s %s", res.Status, stream)
	}
}

// Two enclaves have two keys: the one that a chat is sealed to gets the chat, and its signature
// is asked of the same; a key that none has proven is refused before anything is held.
func TestChatsGoToTheirKey(t *testing.T) {
	t.Parallel()
	s := open(t, "", "", enclave.Options{}, enclave.Options{}).verified()
	before := s.Settled()["a"].USD
	stranger, err := enclave.New(enclave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := meets(t, stranger.Public())
	if res, body := c.chats(s, s.key, []turn{{"user", "hello"}}, ""); res.StatusCode != 400 ||
		gjson.GetBytes(body, "error.code").Str != "e2ee_model_key_mismatch" {
		t.Errorf("a key that no enclave has: %s %s", res.Status, body)
	}
	if after := s.Settled()["a"].USD; after != before || len(s.enclaves[0].Requests())+len(s.enclaves[1].Requests()) > 0 {
		t.Errorf("it cost %s", before-after)
	}
	for i, e := range s.enclaves {
		c := meets(t, e.Public())
		for n := range 3 {
			res, stream := c.chats(s, s.key, []turn{{"user", "hello"}}, "")
			if res.StatusCode != 200 {
				t.Fatalf("%s %s", res.Status, stream)
			}
			if _, id, _ := c.reads(stream); len(e.Requests()) != n+1 ||
				!s.signature(s.key, id).Get("server_verification.signer_attested").Bool() {
				t.Errorf("enclave %d had %d chats", i, len(e.Requests()))
			}
		}
	}
}

// In the clear an enclave's answer passes as it is, streamed or whole, and is signed for.
func TestPlainChatsOfEnclavesPassUntouched(t *testing.T) {
	t.Parallel()
	s := open(t, "", "").verified()
	for _, more := range []string{"", `,"stream":true`} {
		status, header, body := s.Post("/chat/completions", s.key, rig.Ask(model, "hello", more))
		got := s.enclaves[0].Requests()
		if last := got[len(got)-1]; status != 200 || !bytes.Equal(last.Answer, body) {
			t.Errorf("%d: %s\nwas %s", status, body, last.Answer)
		}
		if header.Get("X-Svc-Tee-Mode") != "tee" {
			t.Errorf("%v", header)
		}
		id := gjson.GetBytes(body, "id").Str
		if id == "" {
			id = gjson.Get(strings.TrimPrefix(strings.SplitN(string(body), "\n", 2)[0], "data: "), "id").Str
		}
		if v := s.signature(s.key, id).Get("server_verification"); !v.Get("signature_valid").Bool() ||
			!v.Get("signer_attested").Bool() || !v.Get("request_hash_match").Bool() || !v.Get("response_hash_match").Bool() {
			t.Errorf("%s: %s", more, v)
		}
	}
}
