package tee

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/enclave"
	"farebox/tests/rig"
)

// telling has the log say everything, a prompt of the operator's that enclaves must not get,
// and no account blocked for refused requests.
const telling = `log: { level: debug, format: json, sample_above: 0 }
system_prompt: "Speak of the operator."
limits: { failed_requests: { count: 0 }, aborted_requests: { count: 0 } }`

// An enclave that answers in the clear is asked for nothing until it is verified again.
func TestABetrayalEndsWithTheNextProof(t *testing.T) {
	t.Parallel()
	s := open(t, telling, "").verified()
	one := s.enclaves[0]
	c := meets(t, one.Public())
	ask := func() (int, string) {
		res, answer := c.chats(s, s.key, []turn{{"user", "Hello"}}, "")
		return res.StatusCode, string(answer)
	}
	if status, answer := ask(); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	one.Tell(enclave.PlainReply)
	spent := s.spent(func() {
		status, answer := ask()
		if status != 200 || !strings.Contains(answer, `"code":"e2ee_plaintext_response"`) ||
			strings.Contains(answer, enclave.KnownMarker) || strings.Contains(answer, "Hello") {
			t.Errorf("%d %s", status, answer)
		}
	})
	asked := s.asked()
	if status, answer := ask(); status != 503 || gjson.Get(answer, "code").Str != "MODEL_OFFLINE" || spent != 0 ||
		s.asked() != asked {
		t.Errorf("%d %s; %d was charged", status, answer, spent)
	}
	one.Tell(enclave.Honest)
	rig.Await(t, "it is verified and asked again", func() bool {
		status, _ := ask()
		return status == 200
	})
	if n, ok := s.Metric("farebox_chat_unsealed_answers_total"); !ok || n != 1 {
		t.Errorf("%v answers were not sealed", n)
	}
}

// An enclave whose memory is open to its host gets no chat, sealed or not, and there is no
// other way in.
func TestUnverifiedEnclavesGetNoChats(t *testing.T) {
	t.Parallel()
	s := open(t, telling, "", enclave.Options{Lie: enclave.Debug}, enclave.Options{})
	one, two := s.enclaves[0], s.enclaves[1]
	rig.Await(t, "the other one is verified", func() bool {
		status, _, _ := s.Post("/chat/completions", s.key, rig.Ask(model, "Hello", ""))
		return status == 200
	})
	for range 10 {
		if status, h, answer := s.Post("/chat/completions", s.key, rig.Ask(model, "Hello", "")); status != 200 ||
			h.Get("X-Svc-TEE-Mode") != "tee" {
			t.Errorf("%d %s", status, answer)
		}
	}
	if res, answer := meets(t, one.Public()).chats(s, s.key, []turn{{"user", "Hello"}}, ""); res.StatusCode != 400 &&
		res.StatusCode != 503 {
		t.Errorf("%d %s", res.StatusCode, answer)
	}
	if n := len(one.Requests()); n != 0 {
		t.Errorf("the unverified one had %d chats", n)
	}
	two.Tell(enclave.Debug)
	rig.Await(t, "no enclave is asked", func() bool {
		status, _, answer := s.Post("/chat/completions", s.key, rig.Ask(model, "Hello", ""))
		return status == 503 && gjson.GetBytes(answer, "code").Str == "MODEL_OFFLINE"
	})
}

func TestEncryptedChatsAreChargedToTheToken(t *testing.T) {
	t.Parallel()
	s := open(t, telling, "").verified()
	c := meets(t, s.enclaves[0].Public())
	say := func(text, more string) rig.Money {
		return s.spent(func() {
			if res, answer := c.chats(s, s.key, []turn{{"user", text}}, more); res.StatusCode != 200 {
				t.Errorf("%d %s", res.StatusCode, answer)
			}
		})
	}
	const input, output = rig.Money(inputPrice), rig.Money(outputPrice)
	if got, want := say("one two three", ""), 6*input+5*output; got != want {
		t.Errorf("with usage %d, want %d", got, want)
	}
	s.enclaves[0].Tell(enclave.NoUsage)
	if got, want := say("one two three", ""), 11*input+6*output; got != want {
		t.Errorf("without usage %d, want %d", got, want)
	}
	if got, want := say(strings.Repeat("x", 400), `,"max_completion_tokens":5`), 107*input+5*output; got != want {
		t.Errorf("capped %d, want %d", got, want)
	}
	s.CLI("verify")
}

// The outcome of a chat with a key is kept, over a kill, too; its answer is not.
func TestOnlyTheOutcomeOfAKeyedChatIsKept(t *testing.T) {
	t.Parallel()
	s := open(t, telling, "").verified()
	c := meets(t, s.enclaves[0].Public())
	request := c.body([]turn{{"user", "Hello"}}, "")
	var first string
	spent := s.spent(func() {
		res, answer := c.posts(s, s.key, request, "Idempotency-Key", "k")
		if first = string(answer); res.StatusCode != 200 {
			t.Fatalf("%d %s", res.StatusCode, answer)
		}
	})
	again := func() {
		t.Helper()
		res, answer := c.posts(s, s.key, request, "Idempotency-Key", "k")
		if res.StatusCode != 409 || gjson.GetBytes(answer, "code").Str != "IDEMPOTENT_ANSWER_NOT_KEPT" {
			t.Errorf("%d %s", res.StatusCode, answer)
		}
	}
	again()
	time.Sleep(4 * time.Second) // keys are on disk by then
	s.Kill()
	s.Start()
	rig.Await(t, "the enclave is verified", func() bool {
		res, _ := c.posts(s, s.key, request, "Idempotency-Key", "k")
		return res.StatusCode == 409
	})
	again()
	if total := s.Settled()["a"].Spent; total != spent || s.asked() != 1 {
		t.Errorf("%d was charged, then %d; %d chats", spent, total, s.asked())
	}
	for _, line := range strings.Split(first, "\n") {
		if delta := gjson.Get(strings.TrimPrefix(line, "data: "), "choices.0.delta.content").Str; delta != "" &&
			strings.Contains(s.kept(), delta) {
			t.Error("a part of the answer is kept")
		}
	}
}

// Neither the log nor the store has any text of the chats, sealed or not, nor a key.
func TestNothingOfEncryptedChatsStays(t *testing.T) {
	t.Parallel()
	s := open(t, telling, "").verified()
	one := s.enclaves[0]
	c := meets(t, one.Public())
	own := hex.EncodeToString(c.own.PubKey().SerializeUncompressed())
	seen := []string{secret, enclave.KnownMarker, own}
	for _, lie := range []string{enclave.Honest, enclave.NoUsage, enclave.WrongHash, enclave.NoHeader,
		enclave.PlainReply} {
		one.Tell(lie)
		_, answer := c.posts(s, s.key, c.body([]turn{{"user", secret}, {"assistant", secret}, {"user", secret}},
			`,"user":"`+secret+`","metadata":{"a":"`+secret+`"}`), "Idempotency-Key", "key-"+lie)
		for _, line := range strings.Split(string(answer), "\n") {
			seen = append(seen, gjson.Get(strings.TrimPrefix(line, "data: "), "choices.0.delta.content").Str)
		}
		good := c.body([]turn{{"user", secret}}, "")
		sealed := gjson.Get(good, "messages.0.content").Str
		c.posts(s, s.key, strings.Replace(good, sealed, secret, 1))
		c.chats(s, s.key, []turn{{"user", secret}}, `,"tools":[{"type":"function","function":{"name":"`+secret+`"}}]`)
		c.posts(s, s.key, strings.Replace(good, sealed, "1"+sealed[1:], 1))
		c.posts(s, s.key, good, "X-Svc-TEE-Signing-Algo", secret)
		seen = append(seen, sealed)
		rig.Await(t, "the enclave may be asked", func() bool {
			one.Tell(enclave.Honest)
			res, _ := c.posts(s, s.key, good)
			return res.StatusCode == 200
		})
	}
	kept := s.kept()
	if strings.Contains(s.Log(), one.Public()[2:]) { // the store has it, for the signature
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
	s := open(t, telling, "").verified()
	c := meets(t, s.enclaves[0].Public())
	all := c.headers("Acme")
	request := c.body([]turn{{"user", "Hello"}}, `,"acme_parameters":{"enable_e2ee":true}`)
	for leave := 1; leave < 8; leave++ {
		var headers []string
		for i := range 3 {
			if leave&(1<<i) != 0 {
				headers = append(headers, all[2*i], all[2*i+1])
			}
		}
		spent := s.spent(func() {
			status, _, answer, err := rig.Try(rig.Client, s.URL+"/chat/completions", s.key, request, headers...)
			said := fmt.Sprintf("with %d headers: %d %s, %v", len(headers)/2, status, answer, err)
			switch {
			case leave == 7:
				if text, _, _ := c.reads([]byte(answer)); status != 200 || text != "You said Hello." {
					t.Error(said)
				}
			case status != 400 || gjson.Get(answer, "error.code").Str != "e2ee_header_missing" ||
				gjson.Get(answer, "error.type").Str != "invalid_request_error":
				t.Error(said)
			}
		})
		if leave < 7 && (spent != 0 || s.asked() != 0) {
			t.Errorf("%d was charged, %d chats", spent, s.asked())
		}
	}
}

// Version 1 of the protocol binds a message to the enclave's key alone: an attacker who has
// a message and may send requests can have it opened, under a key of their own. SECURITY.md
// says so; where this does not hold any more, it says too little of us.
func TestWhatTheProtocolDoesNotKeep(t *testing.T) {
	t.Parallel()
	s := open(t, telling, "").verified()
	victim, other := meets(t, s.enclaves[0].Public()), meets(t, s.enclaves[0].Public())
	taken := victim.body([]turn{{"user", secret}}, "")
	s.NewAccount("b", "1")
	res, answer := other.posts(s, s.Key("b"), taken)
	if res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, answer)
	}
	if text, _, _ := other.reads(answer); text != "You said "+secret+"." {
		t.Errorf("it says %q", text)
	}
}
