package tee

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/enclave"
	"farebox/tests/rig"
)

// enclaveOf is the one with a key.
func (r *room) enclaveOf(key string) *enclave.Enclave {
	for _, e := range []*enclave.Enclave{r.one, r.two} {
		if e.Public() == key {
			return e
		}
	}
	r.t.Fatalf("no enclave has the key %s", key)
	return nil
}

// What a client does, from its nonce to the signature: it has the enclave attested, seals
// its words to the key that was proven, and has the answer's signature looked at.
func TestAnEncryptedConversationFromNonceToSignature(t *testing.T) {
	t.Parallel()
	r := startRoom(t, enclave.Honest)
	a := r.attested()
	if !a.Get("verified").Bool() || a.Get("signing_key").Str == "" {
		t.Fatalf("%s", a.Raw)
	}
	e := r.enclaveOf(a.Get("signing_key").Str)
	turns := user(r.seal(e, "Who are you?")) + `,{"role":"assistant","content":"A model."},` + user(r.seal(e, "And now?"))
	status, header, answer := r.sealed(e, body(`{"role":"system","content":`+r.seal(e, "Be brief.")+`},`+turns, ""))
	if status != 200 || r.text(answer) != "You said And now?." || header.Get("X-Svc-TEE-Mode") != "e2ee" {
		t.Fatalf("%d %v %s", status, header, answer)
	}
	got := e.Requests()
	if len(got) != 1 || fmt.Sprint(got[0].Turns) != "[Be brief. Who are you? A model. And now?]" ||
		strings.Contains(string(got[0].Body), "A model.") {
		t.Fatalf("the enclave has %q", got)
	}
	sum := sha256.Sum256(got[0].Body)
	if header.Get("X-Svc-TEE-Request-Hash") != hex.EncodeToString(sum[:]) {
		t.Errorf("the header names another request: %v", header)
	}
	id := gjson.Get(strings.TrimPrefix(answer, "data: "), "id").Str
	path := "/tee/signature?model=e2ee-model&request_id=" + id
	status, _, signature := r.Get(path, r.key)
	s := gjson.ParseBytes(signature).Get("server_verification")
	for _, name := range []string{"signature_valid", "signer_attested", "request_hash_match", "response_hash_match"} {
		if status != 200 || !s.Get(name).Bool() {
			t.Errorf("%s does not hold: %d %s", name, status, signature)
		}
	}
	r.NewAccount("b", "1")
	if status, _, answer := r.Get(path, r.Key("b")); status != 404 {
		t.Errorf("somebody else's signature: %d %s", status, answer)
	}
	r.CLI("verify")
}

// Each chat goes to the enclave whose key it is sealed to; a key that nobody has proven
// goes nowhere.
func TestEncryptedChatsFindTheirEnclave(t *testing.T) {
	t.Parallel()
	r := startRoom(t, enclave.Honest)
	for i := range 6 {
		e := []*enclave.Enclave{r.one, r.two}[i%2]
		before := len(e.Requests())
		status, _, answer := r.sealed(e, body(user(r.seal(e, "Hello")), ""))
		if status != 200 || r.text(answer) != "You said Hello." {
			t.Fatalf("%d %s", status, answer)
		}
		if len(e.Requests()) != before+1 {
			t.Error("it went elsewhere")
		}
	}
	stranger, _ := newEnclave(t, enclave.Options{})
	spent := r.spent(func() {
		status, _, answer := r.sealed(stranger, body(user(r.seal(stranger, "Hello")), ""))
		if status != 400 || gjson.Get(answer, "error.code").Str != "e2ee_model_key_mismatch" {
			t.Errorf("%d %s", status, answer)
		}
	})
	if spent != 0 || r.chats() != 6 || len(stranger.Requests()) != 0 {
		t.Errorf("%d was charged, %d chats", spent, r.chats())
	}
}

// An enclave that answers in the clear is asked for nothing until it is verified again.
func TestABetrayalEndsWithTheNextProof(t *testing.T) {
	t.Parallel()
	r := startRoom(t, enclave.Honest)
	ask := func() (int, string) {
		status, _, answer := r.sealed(r.one, body(user(r.seal(r.one, "Hello")), ""))
		return status, answer
	}
	if status, answer := ask(); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	r.one.Tell(enclave.PlainReply)
	spent := r.spent(func() {
		status, answer := ask()
		if status != 200 || !strings.Contains(answer, `"code":"e2ee_plaintext_response"`) ||
			strings.Contains(answer, enclave.KnownMarker) || strings.Contains(answer, "Hello") {
			t.Errorf("%d %s", status, answer)
		}
	})
	asked := len(r.one.Requests())
	if status, answer := ask(); status != 503 || gjson.Get(answer, "code").Str != "MODEL_OFFLINE" || spent != 0 ||
		len(r.one.Requests()) != asked {
		t.Errorf("%d %s; %d was charged", status, answer, spent)
	}
	r.one.Tell(enclave.Honest)
	rig.Await(t, "it is verified and asked again", func() bool {
		status, _ := ask()
		return status == 200
	})
	if n, ok := r.Metric("farebox_chat_unsealed_answers_total"); !ok || n != 1 {
		t.Errorf("%v answers were not sealed", n)
	}
}

// An enclave whose memory is open to its host gets no chat, sealed or not, and there is no
// other way in.
func TestUnverifiedEnclavesGetNoChats(t *testing.T) {
	t.Parallel()
	r := startRoom(t, enclave.Debug)
	rig.Await(t, "the other one is verified", func() bool {
		status, _, _ := r.Post("/chat/completions", r.key, rig.Ask("e2ee-model", "Hello", ""))
		return status == 200
	})
	for range 10 {
		if status, h, answer := r.Post("/chat/completions", r.key, rig.Ask("e2ee-model", "Hello", "")); status != 200 ||
			h.Get("X-Svc-TEE-Mode") != "tee" {
			t.Errorf("%d %s", status, answer)
		}
	}
	if status, _, answer := r.sealed(r.one, body(user(r.seal(r.one, "Hello")), "")); status != 400 && status != 503 {
		t.Errorf("%d %s", status, answer)
	}
	if n := len(r.one.Requests()); n != 0 {
		t.Errorf("the unverified one had %d chats", n)
	}
	r.two.Tell(enclave.Debug)
	rig.Await(t, "nobody is asked", func() bool {
		status, _, answer := r.Post("/chat/completions", r.key, rig.Ask("e2ee-model", "Hello", ""))
		return status == 503 && gjson.GetBytes(answer, "code").Str == "MODEL_OFFLINE"
	})
}

// A token of the prompt and one of the answer, in 1e-9 USD.
const input, output = rig.Money(1000), rig.Money(2000)

func TestEncryptedChatsAreChargedToTheToken(t *testing.T) {
	t.Parallel()
	r := startRoom(t, enclave.Honest)
	say := func(text, more string) rig.Money {
		return r.spent(func() {
			if status, _, answer := r.sealed(r.one, body(user(r.seal(r.one, text)), more)); status != 200 {
				t.Errorf("%d %s", status, answer)
			}
		})
	}
	if got, want := say("one two three", ""), 6*input+5*output; got != want {
		t.Errorf("with usage %d, want %d", got, want)
	}
	r.one.Tell(enclave.NoUsage)
	if got, want := say("one two three", ""), 11*input+6*output; got != want {
		t.Errorf("without usage %d, want %d", got, want)
	}
	if got, want := say(strings.Repeat("x", 400), `,"max_completion_tokens":5`), 107*input+5*output; got != want {
		t.Errorf("capped %d, want %d", got, want)
	}
	r.CLI("verify")
}

// The outcome of a chat with a key is kept, over a kill, too; its answer is not.
func TestOnlyTheOutcomeOfAKeyedChatIsKept(t *testing.T) {
	t.Parallel()
	r := startRoom(t, enclave.Honest)
	request := body(user(r.seal(r.one, "Hello")), "")
	var first string
	spent := r.spent(func() {
		var status int
		if status, _, first = r.sealed(r.one, request, "Idempotency-Key", "k"); status != 200 {
			t.Fatalf("%d %s", status, first)
		}
	})
	again := func() {
		t.Helper()
		status, _, answer := r.sealed(r.one, request, "Idempotency-Key", "k")
		if status != 409 || gjson.Get(answer, "code").Str != "IDEMPOTENT_ANSWER_NOT_KEPT" {
			t.Errorf("%d %s", status, answer)
		}
	}
	again()
	time.Sleep(time.Second) // keys are on disk by then
	r.Kill()
	r.Start()
	rig.Await(t, "the enclave is verified", func() bool {
		status, _, _ := r.sealed(r.one, request, "Idempotency-Key", "k")
		return status == 409
	})
	again()
	if total := r.Settled()["a"].Spent; total != spent || r.chats() != 1 {
		t.Errorf("%d was charged, then %d; %d chats", spent, total, r.chats())
	}
	for _, line := range strings.Split(first, "\n") {
		if delta := gjson.Get(strings.TrimPrefix(line, "data: "), "choices.0.delta.content").Str; delta != "" &&
			strings.Contains(r.kept(), delta) {
			t.Error("a part of the answer is kept")
		}
	}
}

// Neither the log nor the store has anything of what was said, sealed or not, nor a key.
func TestNothingOfEncryptedChatsStays(t *testing.T) {
	t.Parallel()
	r := startRoom(t, enclave.Honest)
	const secret = "the-secret-of-this-test"
	seen := []string{secret, enclave.KnownMarker, r.client.Public()}
	for _, lie := range []string{enclave.Honest, enclave.NoUsage, enclave.WrongHash, enclave.NoHeader,
		enclave.PlainReply} {
		r.one.Tell(lie)
		sealed := r.seal(r.one, secret)
		messages := user(sealed) + `,{"role":"assistant","content":"` + secret + `"},` + user(sealed)
		_, _, answer := r.sealed(r.one, body(messages, `,"user":"`+secret+`","metadata":{"a":"`+secret+`"}`),
			"Idempotency-Key", "key-"+lie)
		for _, line := range strings.Split(answer, "\n") {
			seen = append(seen, gjson.Get(strings.TrimPrefix(line, "data: "), "choices.0.delta.content").Str)
		}
		r.sealed(r.one, body(user(`"`+secret+`"`), ""))
		r.sealed(r.one, body(user(sealed), `,"tools":[{"type":"function","function":{"name":"`+secret+`"}}]`))
		r.sealed(r.one, body(user(strings.Replace(sealed, `"0`, `"1`, 1)), ""))
		r.sealed(r.one, body(user(sealed), ""), "X-Svc-TEE-Signing-Algo", secret)
		seen = append(seen, strings.Trim(sealed, `"`))
		rig.Await(t, "the enclave may be asked", func() bool {
			r.one.Tell(enclave.Honest)
			status, _, _ := r.sealed(r.one, body(user(sealed), ""))
			return status == 200
		})
	}
	kept := r.kept()
	if strings.Contains(r.Log(), r.one.Public()[2:]) { // the store has it, for the signature
		t.Error("the log has the model's key")
	}
	if !strings.Contains(kept, `"enclave":"e2ee"`) {
		t.Error("the log does not say how chats were carried out")
	}
	for _, text := range seen {
		if text != "" && strings.Contains(kept, text[:min(len(text), 48)]) {
			t.Errorf("%.60s is kept", text)
		}
	}
}

// Headers that are incomplete are never answered in the clear.
func TestNoSilentDowngrade(t *testing.T) {
	t.Parallel()
	r := startRoom(t, enclave.Honest)
	all := []string{"X-Venice-TEE-Client-Pub-Key", r.client.Public(), "X-Venice-TEE-Model-Pub-Key", r.one.Public(),
		"X-Venice-TEE-Signing-Algo", "ecdsa"}
	request := body(user(r.seal(r.one, "Hello")), `,"venice_parameters":{"enable_e2ee":true}`)
	for leave := 1; leave < 7; leave++ {
		var headers []string
		for i := range 3 {
			if leave&(1<<i) != 0 {
				headers = append(headers, all[2*i], all[2*i+1])
			}
		}
		spent := r.spent(func() {
			status, _, answer, err := rig.Try(http.DefaultClient, r.URL+"/chat/completions", r.key, request, headers...)
			if err != nil || status != 400 || gjson.Get(answer, "error.code").Str != "e2ee_header_missing" ||
				gjson.Get(answer, "error.type").Str != "invalid_request_error" {
				t.Errorf("with %d headers: %d %s, %v", len(headers)/2, status, answer, err)
			}
		})
		if spent != 0 || r.chats() != 0 {
			t.Errorf("%d was charged, %d chats", spent, r.chats())
		}
	}
	status, _, answer, err := rig.Try(http.DefaultClient, r.URL+"/chat/completions", r.key, request, all...)
	if err != nil || status != 200 || r.text(answer) != "You said Hello." {
		t.Errorf("with all: %d %s, %v", status, answer, err)
	}
}
