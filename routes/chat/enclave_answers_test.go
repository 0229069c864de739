package chat_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/enclave"
	"farebox/billing"
)

// An enclave that is away has no stand-in: no other enclave can open texts that are
// sealed to it.
func TestAnEncryptedChatGoesToNobodyElse(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	s.one.Close()
	for _, body := range []string{s.ask(s.one, "Hello", "")} {
		spent := s.spent(func() {
			if status, _, answer := s.post("/chat/completions", body, s.headers(s.one)); status != 503 {
				t.Errorf("%d %s", status, answer)
			}
		})
		if spent != 0 || s.requests() != 0 {
			t.Errorf("%s was charged, %d requests", spent, s.requests())
		}
	}
}

// "The answer came in the clear": no byte of it reaches the client, and its sender is not asked
// again.
func TestAnswersInTheClearAreWithheld(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	s.one.Tell(enclave.PlainReply)
	spent := s.spent(func() {
		status, _, answer := s.post("/chat/completions", s.ask(s.one, "Hello", ""), s.headers(s.one))
		last := strings.TrimSuffix(answer, "\n\ndata: [DONE]\n\n")
		last = strings.TrimPrefix(last[strings.LastIndex(last, "data: "):], "data: ")
		if status != 200 || gjson.Get(last, "error.code").Str != "e2ee_plaintext_response" ||
			strings.Contains(answer, enclave.KnownMarker) || strings.Contains(answer, "said") ||
			strings.Contains(answer, "Hello") {
			t.Errorf("%d %s", status, answer)
		}
	})
	if answers, betrayed := s.known.noted(); len(answers) != 0 || fmt.Sprint(betrayed) != "[one]" || spent != 0 {
		t.Errorf("noted %v and %v; %s was charged", answers, betrayed, spent)
	}
	s.one.Tell(enclave.NoHeader)
	spent = s.spent(func() {
		s.known.leave("one", false)
		status, _, answer := s.post("/chat/completions", s.ask(s.one, "Hello", ""), s.headers(s.one))
		if status != 502 || gjson.Get(answer, "error.code").Str != "e2ee_plaintext_response" {
			t.Errorf("%d %s", status, answer)
		}
	})
	if _, betrayed := s.known.noted(); len(betrayed) != 2 || spent != 0 {
		t.Errorf("noted %v; %s was charged", betrayed, spent)
	}
}

// Enclaves of this kind do not report that they have opened a request; their answers
// prove it.
func TestEnclavesThatSayNothing(t *testing.T) {
	t.Parallel()
	s := startSealing(t, "KIND", "near")
	s.one.Tell(enclave.NoHeader)
	body := fmt.Sprintf(`{"model":"e2ee-model","stream":true,"messages":[{"role":"user","content":%q},`+
		`{"role":"assistant","content":"a thought","reasoning_content":"a thought"},{"role":"user","content":%q}]}`,
		s.seal(s.one, "Hi"), s.seal(s.one, "Hello"))
	status, _, answer := s.post("/chat/completions", body, s.headers(s.one))
	if status != 200 || s.text(answer) != "You said Hello." {
		t.Fatalf("%d %s", status, answer)
	}
	if r := s.one.Requests()[0]; strings.Contains(string(r.Body), "thought") {
		t.Errorf("in the clear on its way: %s", r.Body)
	}
}

// If the operator forbids it, turns in the clear are refused, not sealed.
func TestPlainTurnsAreSealedOnlyWhereTheyMayBe(t *testing.T) {
	t.Parallel()
	s := startSealing(t, "compat:", "tee: { seal_plain_turns: false }\ncompat:")
	turns := fmt.Sprintf(`{"role":"user","content":%q},{"role":"assistant","content":%%q}`, s.seal(s.one, "Hi"))
	body := func(turn string) string {
		return fmt.Sprintf(`{"model":"e2ee-model","stream":true,"messages":[`+turns+`]}`, turn)
	}
	if status, _, answer := s.post("/chat/completions", body("Hello"), s.headers(s.one)); status != 400 ||
		!strings.Contains(answer, "messages.1.content: Encrypted field is not valid hex") {
		t.Errorf("%d %s", status, answer)
	}
	status, _, answer := s.post("/chat/completions", body(s.seal(s.one, "Hello")), s.headers(s.one))
	if status != 200 || s.text(answer) != "You said Hello." {
		t.Errorf("%d %s", status, answer)
	}
}

// An enclave's refusal has its code and our words: its own text may quote the opened
// prompt.
func TestRefusalsOfEnclavesAreInOurWords(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	body := strings.Replace(s.ask(s.one, "Hello", ""), `"content":"0`, `"content":"1`, 1)
	spent := s.spent(func() {
		status, _, answer := s.post("/chat/completions", body, s.headers(s.one))
		if status != 400 || gjson.Get(answer, "error.code").Str != "e2ee_decryption_failed" ||
			gjson.Get(answer, "error.type").Str != "invalid_request_error" ||
			!strings.Contains(answer, "Failed to decrypt field") {
			t.Errorf("%d %s", status, answer)
		}
	})
	if spent != 0 {
		t.Errorf("%s was charged", spent)
	}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-E2EE-Applied", "true")
		w.WriteHeader(400)
		_, _ = io.WriteString(w, `{"error":{"message":"messages.0: '`+enclave.KnownMarker+`' is not allowed",`+
			`"type":"e2ee_unheard_of"}}`)
	}))
	defer up.Close()
	o := &sealing{t: t, one: s.one, two: s.two, known: s.known}
	o.start(strings.TrimPrefix(up.URL, "http://"), up.URL)
	status, _, answer := o.post("/chat/completions", o.ask(o.one, "Hello", ""), o.headers(o.one))
	if status != 400 || strings.Contains(answer, enclave.KnownMarker) || strings.Contains(answer, "unheard") {
		t.Errorf("%d %s", status, answer)
	}
	if log := strings.Join(append(s.Log.Lines(), o.Log.Lines()...), "\n"); strings.Contains(log, enclave.KnownMarker) {
		t.Errorf("the log has it: %s", log)
	}
}

const (
	inputNano  = billing.Nano(1000) // a token of the prompt
	outputNano = billing.Nano(2000) // a token of the answer
)

// The enclave's reported usage is charged as far as the bytes of the answer do not
// contradict it. Without a report the bytes are charged, not the number of pieces.
func TestEncryptedAnswersAreChargedByWhatWasSealed(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	charge := func(text, lie, more string) billing.Nano {
		t.Helper()
		s.one.Tell(lie)
		return s.spent(func() {
			status, _, answer := s.post("/chat/completions", s.ask(s.one, text, more), s.headers(s.one))
			if status != 200 || !strings.HasSuffix(answer, "data: [DONE]\n\n") {
				t.Fatalf("%d %s", status, answer)
			}
		})
	}
	// It reports 3 tokens plus one a word, and for the answer one a piece.
	if got, want := charge("one two three", enclave.Honest, ""), 6*inputNano+5*outputNano; got != want {
		t.Errorf("with usage %s, want %s", got, want)
	}
	// 3 for the message, 1 for its role, 3 for the reply, and one for 4 bytes.
	if got, want := charge("one two three", enclave.NoUsage, ""), (7+4)*inputNano+6*outputNano; got != want {
		t.Errorf("without usage %s, want %s", got, want)
	}
	// 4,010 bytes are more than the 5 tokens of its report.
	long := strings.Repeat("a word ", 571) + "yes"
	if got, want := charge(long, enclave.Honest, ""), (3+1143)*inputNano+1003*outputNano; got != want {
		t.Errorf("with a usage that cannot be: %s, want %s", got, want)
	}
	// The charge never exceeds the requested cap.
	capped := `,"max_completion_tokens":4`
	if got, want := charge(long, enclave.NoUsage, capped), (7+1000)*inputNano+4*outputNano; got != want {
		t.Errorf("capped: %s, want %s", got, want)
	}
}

// The cap of the hold is always sent, and a header reports it where the client sent none,
// since the signed bytes contain it.
func TestTheCapOfAnEncryptedChatIsReported(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	_, h, _ := s.post("/chat/completions", s.ask(s.one, "Hello", ""), s.headers(s.one))
	sent := gjson.GetBytes(s.one.Requests()[0].Body, "max_completion_tokens").Raw
	if sent == "" || h.Get("X-Svc-Max-Completion-Tokens") != sent {
		t.Errorf("sent %q, reported %q", sent, h.Get("X-Svc-Max-Completion-Tokens"))
	}
	_, h, _ = s.post("/chat/completions", s.ask(s.one, "Hello", `,"max_completion_tokens":77`), s.headers(s.one))
	if sent := gjson.GetBytes(s.one.Requests()[1].Body, "max_completion_tokens").Raw; sent != "77" ||
		h.Get("X-Svc-Max-Completion-Tokens") != "" {
		t.Errorf("sent %q, reported %q", sent, h.Get("X-Svc-Max-Completion-Tokens"))
	}
}

// theEnd ends an answer of such an upstream.
const theEnd = "end"

// slow is an upstream that sends the events of a channel.
func slow(t *testing.T, events <-chan string, answering *sync.WaitGroup) *httptest.Server {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answering.Add(1)
		defer answering.Done()
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-E2EE-Applied", "true")
		for {
			select {
			case e, ok := <-events:
				if !ok || e == theEnd {
					return
				}
				_, _ = io.WriteString(w, e)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(up.Close)
	return up
}

// event is an event with a delta that is sealed to the client.
func (s *sealing) event(delta string) string {
	return `data: {"id":"chatcmpl-7","object":"chat.completion.chunk","created":1,"model":"their-model",` +
		`"choices":[{"index":0,"delta":{` + delta + `},"finish_reason":null}]}` + "\n\n"
}

func (s *sealing) content(text string) string {
	sealed, err := s.client.Seal(s.client.Public(), text)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.event(`"content":"` + sealed + `"`)
}

const sealedEnd = `data: {"id":"chatcmpl-7","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
	`data: {"id":"chatcmpl-7","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":30,"total_tokens":39}}` +
	"\n\ndata: [DONE]\n\n"

// startSlow starts a gateway before such an upstream.
func startSlow(t *testing.T) (*sealing, chan<- string) {
	e, err := enclave.New(enclave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan string)
	s := &sealing{t: t, one: e, two: e}
	up := slow(t, events, &s.answering)
	s.known = &known{proven: map[string]string{e.Public(): "one"}, away: map[string]bool{}}
	s.start(strings.TrimPrefix(up.URL, "http://"), up.URL)
	return s, events
}

// Each event reaches the client as soon as it is whole.
func TestEventsOfEncryptedChatsAreNotHeldBack(t *testing.T) {
	t.Parallel()
	s, events := startSlow(t)
	first := s.event(`"role":"assistant","content":""`)
	go func() { events <- first }()
	res := s.open("/chat/completions", s.ask(s.one, "Hello", ""), s.headers(s.one))
	defer func() { _ = res.Body.Close() }()
	buf := make([]byte, 4096)
	read := func(want string) {
		t.Helper()
		if n, err := io.ReadFull(res.Body, buf[:len(want)]); err != nil || string(buf[:n]) != want {
			t.Fatalf("%q, %v", buf[:n], err)
		}
	}
	read(first)
	for range 5 {
		event := s.content("word")
		events <- event[:len(event)/2]
		events <- event[len(event)/2:]
		read(event)
	}
	// A part of an event is not shown before its rest arrives.
	plain := s.event(`"content":"in the clear"`)
	events <- plain[:len(plain)-1]
	time.Sleep(50 * time.Millisecond)
	events <- plain[len(plain)-1:]
	rest, err := io.ReadAll(res.Body)
	if err != nil || strings.Contains(string(rest), "clear") ||
		!strings.Contains(string(rest), "e2ee_plaintext_response") {
		t.Errorf("%s, %v", rest, err)
	}
}

// The text that an enclave delivered before it went on in the clear is charged.
func TestSealedTextBeforeABetrayalIsCharged(t *testing.T) {
	t.Parallel()
	s, events := startSlow(t)
	go func() {
		events <- s.content(strings.Repeat("word", 10)) + s.content(strings.Repeat("word", 10))
		events <- s.event(`"content":"` + enclave.KnownMarker + `"`)
	}()
	spent := s.spent(func() {
		status, _, answer := s.post("/chat/completions", s.ask(s.one, "Hello", ""), s.headers(s.one))
		if status != 200 || s.text(strings.Split(answer, `data: {"error"`)[0]) != strings.Repeat("word", 20) ||
			strings.Contains(answer, enclave.KnownMarker) {
			t.Errorf("%d %s", status, answer)
		}
	})
	if want := (7+2)*inputNano + 20*outputNano; spent != want {
		t.Errorf("charged %s, want %s", spent, want)
	}
}

// "One customer's parameters took the model from all others": a fault that the request
// may have caused ends that answer alone.
func TestWhatAClientMayHaveCausedBetraysNobody(t *testing.T) {
	t.Parallel()
	s, events := startSlow(t)
	for _, delta := range []string{`"tool_calls":[{"index":0,"function":{"name":"` + enclave.KnownMarker + `"}}]`,
		`"audio":{"transcript":"` + enclave.KnownMarker + `"}`, `"reasoning":"` + enclave.KnownMarker + `"`} {
		go func() { events <- s.content("word") + s.event(delta) }()
		status, _, answer := s.post("/chat/completions", s.ask(s.one, "Hello", ""), s.headers(s.one))
		if status != 200 || strings.Contains(answer, enclave.KnownMarker) ||
			!strings.Contains(answer, "e2ee_plaintext_response") {
			t.Errorf("%d %s", status, answer)
		}
		s.answering.Wait() // it would take the next answer's event
	}
	if _, betrayed := s.known.noted(); len(betrayed) != 0 {
		t.Errorf("noted %v", betrayed)
	}
}

// A client that disconnects pays for the prompt and the produced text, as everywhere.
func TestLeavingAnEncryptedChat(t *testing.T) {
	t.Parallel()
	s, events := startSlow(t)
	before := s.Balance()
	event := s.content(strings.Repeat("word", 10))
	go func() { events <- event }()
	res := s.open("/chat/completions", s.ask(s.one, "Hello", ""), s.headers(s.one))
	if _, err := io.ReadFull(res.Body, make([]byte, len(event))); err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	want := (7+2)*inputNano + 10*outputNano
	for end := time.Now().Add(time.Minute); before-s.Balance() != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("charged %s, want %s", before-s.Balance(), want)
		}
	}
	if answers, _ := s.known.noted(); len(answers) != 0 {
		t.Errorf("noted %v", answers)
	}
}

// The network may cut a stream anywhere; the relayed bytes do not change.
func TestCutsOfAnEncryptedStream(t *testing.T) {
	t.Parallel()
	s, events := startSlow(t)
	r := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		input := s.event(`"role":"assistant","content":""`)
		for range 1 + r.IntN(8) {
			input += s.content(strings.Repeat("x", r.IntN(60)))
		}
		input += sealedEnd
		go func() {
			for rest := input; rest != ""; {
				n := 1 + r.IntN(len(rest))
				events <- rest[:n]
				rest = rest[n:]
			}
			events <- theEnd
		}()
		status, _, got := s.post("/chat/completions", s.ask(s.one, "Hello", ""), s.headers(s.one))
		if status != 200 || got != input {
			t.Fatalf("%d %q of %q", status, got, input)
		}
	}
}

// "I repeated the request with its Idempotency-Key": it was executed once, and no store
// kept its answer.
func TestAnswersOfEnclavesAreNotKept(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	for i, ask := range []struct {
		body    string
		headers map[string]string
	}{
		{s.ask(s.one, "Hello", ""), s.headers(s.one)},
		{`{"model":"tee-model","messages":[{"role":"user","content":"Hello"}]}`, map[string]string{}},
		{`{"model":"tee-model","stream":true,"messages":[{"role":"user","content":"Hello"}]}`, map[string]string{}},
	} {
		ask.headers["Idempotency-Key"] = fmt.Sprint("key-", i)
		first := s.spent(func() {
			if status, _, answer := s.post("/chat/completions", ask.body, ask.headers); status != 200 {
				t.Errorf("%d %s", status, answer)
			}
		})
		again := s.spent(func() {
			status, _, answer := s.post("/chat/completions", ask.body, ask.headers)
			if status != 409 || gjson.Get(answer, "code").Str != "IDEMPOTENT_ANSWER_NOT_KEPT" {
				t.Errorf("%d %s", status, answer)
			}
		})
		if first == 0 || again != 0 || s.requests() != i+1 {
			t.Errorf("charged %s, then %s; %d requests", first, again, s.requests())
		}
	}
	// A request that failed before it cost anything can be repeated.
	s.one.Tell(enclave.NoHeader)
	h := s.headers(s.one)
	h["Idempotency-Key"] = "another"
	body := s.ask(s.one, "Hello", "")
	for i, want := range []int{502, 200, 409} {
		if status, _, answer := s.post("/chat/completions", body, h); status != want {
			t.Errorf("try %d: %d %s", i, status, answer)
		}
		s.one.Tell(enclave.Honest)
		s.known.leave("one", false)
	}
}

// The log contains no text of the chat, sealed or not, and no key, whatever goes wrong.
func TestNothingOfEncryptedChatsIsInTheLog(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	secret := "the-secret-of-this-test"
	var bodies []string
	for _, lie := range []string{enclave.Honest, enclave.PlainReply, enclave.NoHeader, enclave.NoUsage} {
		s.one.Tell(lie)
		s.known.leave("one", false)
		body := s.ask(s.one, secret, `,"user":"`+secret+`","metadata":{"a":"`+secret+`"}`)
		bodies = append(bodies, gjson.Get(body, "messages.0.content").Str)
		_, _, answer := s.post("/chat/completions", body, s.headers(s.one))
		for _, line := range strings.Split(answer, "\n") {
			bodies = append(bodies, gjson.Get(strings.TrimPrefix(line, "data: "), "choices.0.delta.content").Str)
		}
		s.post("/chat/completions", strings.Replace(body, `"content":"0`, `"content":"1`, 1), s.headers(s.one))
		s.post("/chat/completions", strings.Replace(body, `"stream":true`, `"stream":false`, 1), s.headers(s.one))
		s.post("/chat/completions", `{"model":"tee-model","messages":[{"role":"user","content":"`+secret+`"}]}`, nil)
	}
	s.one.Close()
	s.post("/chat/completions", s.ask(s.one, secret, ""), s.headers(s.one))
	log := strings.Join(s.Log.Lines(), "\n")
	if !strings.Contains(log, `"enclave":"e2ee"`) || !strings.Contains(log, `"enclave":"tee"`) {
		t.Errorf("the log does not say how it was: %.2000s", log)
	}
	for _, text := range append(bodies, secret, s.client.Public(), s.one.Public(), enclave.KnownMarker) {
		if text != "" && strings.Contains(log, text[:min(len(text), 40)]) {
			t.Errorf("%.60s is in the log", text)
		}
	}
}
