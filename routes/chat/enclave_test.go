package chat_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/enclave"
	"farebox/billing"
)

// What there is no room for in an encrypted chat is refused before anything is asked or
// charged: one case a row of the table of modes, and those of the headers.
func TestWhatEncryptedChatsHaveNoRoomFor(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	sealed := s.seal(s.one, "Hello")
	all := s.headers(s.one)
	with := func(changes ...string) map[string]string {
		h := maps.Clone(all)
		for i := 0; i < len(changes); i += 2 {
			if h["X-Svc-TEE-"+changes[i]] = changes[i+1]; changes[i+1] == "-" {
				delete(h, "X-Svc-TEE-"+changes[i])
			}
		}
		return h
	}
	turn := func(role, content string) string { return fmt.Sprintf(`{"role":%q,"content":%s}`, role, content) }
	hello := turn("user", `"`+sealed+`"`)
	say := func(messages, more string) string {
		return fmt.Sprintf(`{"model":"e2ee-model","stream":true,"messages":[%s]%s}`, messages, more)
	}
	const client, model, algo = "Client-Pub-Key", "Model-Pub-Key", "Signing-Algo"
	off := s.two.Public()[:128] + "00"
	nobody, err := enclave.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		headers    map[string]string
		body       string
		code, text string
	}{
		"no algorithm":           {with(algo, "-"), say(hello, ""), "e2ee_header_missing", "Signing-Algo"},
		"no client's key":        {with(client, "-"), say(hello, ""), "e2ee_header_missing", "Client-Pub-Key"},
		"no model's key":         {with(model, "-"), say(hello, ""), "e2ee_header_missing", "Model-Pub-Key"},
		"two are missing":        {with(model, "-", algo, "-"), say(hello, ""), "e2ee_header_missing", "missing"},
		"one is empty":           {with(algo, ""), say(hello, ""), "e2ee_header_missing", "missing"},
		"another algorithm":      {with(algo, "ed25519"), say(hello, ""), "e2ee_invalid_signing_algo", "ecdsa"},
		"a short client key":     {with(client, s.client.Public()[:128]), say(hello, ""), "e2ee_invalid_public_key", "Invalid public key"},
		"a client key off curve": {with(client, off), say(hello, ""), "e2ee_invalid_public_key", "Invalid public key"},
		"a client key packed":    {with(client, "02"+s.client.Public()[2:66]), say(hello, ""), "e2ee_invalid_public_key", "Invalid public key"},
		"a model key that is none": {
			with(model, "zz"), say(hello, ""), "e2ee_invalid_public_key", "Invalid public key",
		},
		"a model key that nobody has proven": {
			with(model, nobody.Public()), say(hello, ""), "e2ee_model_key_mismatch", "fresh attestation",
		},
		"a version":         {with("Version", "2"), say(hello, ""), "e2ee_invalid_version", "Version"},
		"a nonce":           {with("Nonce", "0"), say(hello, ""), "e2ee_invalid_version", "Nonce"},
		"a timestamp alone": {map[string]string{"X-Svc-TEE-Timestamp": "1"}, say(turn("user", `"Hi"`), ""), "e2ee_invalid_version", "Timestamp"},
		"two brands mixed": {
			map[string]string{"X-Venice-TEE-Client-Pub-Key": s.client.Public(), "X-Svc-TEE-Model-Pub-Key": s.one.Public(),
				"X-Svc-TEE-Signing-Algo": "ecdsa"}, say(hello, ""), "e2ee_header_missing", "under one name",
		},
		"no stream":                 {all, `{"model":"e2ee-model","messages":[` + hello + `]}`, "INVALID_REQUEST", "E2EE requires streaming"},
		"tools":                     {all, say(hello, `,"tools":[{"type":"function","function":{"name":"f"}}]`), "INVALID_REQUEST", "tools"},
		"a tool choice":             {all, say(hello, `,"tool_choice":"auto"`), "INVALID_REQUEST", "tools"},
		"a tool choice by name":     {all, say(hello, `,"tool_choice":{"type":"function","function":{"name":"f"}}`), "INVALID_REQUEST", "tools"},
		"a tool's result":           {all, say(hello+`,{"role":"tool","tool_call_id":"c","content":"42"}`, ""), "INVALID_REQUEST", "tools"},
		"a call":                    {all, say(hello+`,{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`, ""), "INVALID_REQUEST", "tools"},
		"web search":                {all, say(hello, `,"svc_parameters":{"enable_web_search":"on"}`), "INVALID_REQUEST", "enable_web_search"},
		"web search as it needs be": {all, say(hello, `,"venice_parameters":{"enable_web_search":"auto"}`), "INVALID_REQUEST", `"venice_parameters","enable_web_search"`},
		"web search by suffix":      {all, strings.Replace(say(hello, ""), `"e2ee-model"`, `"e2ee-model:enable_web_search=on"`, 1), "INVALID_REQUEST", "enable_web_search"},
		"scraping":                  {all, say(hello, `,"svc_parameters":{"enable_web_scraping":true}`), "INVALID_REQUEST", "enable_web_scraping"},
		"citations":                 {all, say(hello, `,"svc_parameters":{"enable_web_citations":true}`), "INVALID_REQUEST", "enable_web_citations"},
		"search of X":               {all, say(hello, `,"svc_parameters":{"enable_x_search":true}`), "INVALID_REQUEST", "enable_x_search"},
		"a character":               {all, say(hello, `,"svc_parameters":{"character_slug":"alan"}`), "INVALID_REQUEST", "character_slug"},
		"thinking that is stripped": {all, say(hello, `,"svc_parameters":{"strip_thinking_response":true}`), "INVALID_REQUEST", "strip_thinking_response"},
		"text in parts":             {all, say(turn("user", `[{"type":"text","text":"`+sealed+`"}]`), ""), "INVALID_REQUEST", "messages.0.content"},
		"a picture":                 {all, say(turn("user", `[{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}]`), ""), "INVALID_REQUEST", "messages.0.content"},
		"an assistant in parts":     {all, say(hello+","+turn("assistant", `[{"type":"text","text":"x"}]`), ""), "INVALID_REQUEST", "messages.1.content"},
		"a user in the clear":       {all, say(turn("user", `"Hello"`), ""), "INVALID_REQUEST", "Encrypted field is not valid hex"},
		"a system in the clear":     {all, say(turn("system", `"Be brief."`)+","+hello, ""), "INVALID_REQUEST", "Encrypted field is not valid hex"},
		"an odd digit":              {all, say(turn("user", `"`+sealed+`0"`), ""), "INVALID_REQUEST", "Encrypted field is not valid hex"},
		"too few digits":            {all, say(turn("user", `"`+sealed[:184]+`"`), ""), "INVALID_REQUEST", "Encrypted field is not valid hex"},
		"escaped digits":            {all, say(turn("user", `"\u0061`+sealed[1:]+`"`), ""), "INVALID_REQUEST", "Encrypted field is not valid hex"},
		"log probabilities":         {all, say(hello, `,"top_logprobs":2`), "INVALID_REQUEST", "log probabilities"},
		"a model without":           {all, strings.Replace(say(hello, ""), "e2ee-model", "open-model", 1), "INVALID_REQUEST", "does not support end-to-end encryption"},
		"an enclave without":        {all, strings.Replace(say(hello, ""), "e2ee-model", "tee-model", 1), "INVALID_REQUEST", "does not support end-to-end encryption"},
		"a model without, one header": {
			with(model, "-", algo, "-"), strings.Replace(say(hello, ""), "e2ee-model", "open-model", 1), "INVALID_REQUEST", "does not support end-to-end encryption",
		},
		"a model without, asked by its parameter": {
			nil, strings.Replace(say(turn("user", `"Hi"`), `,"venice_parameters":{"enable_e2ee":true}`), "e2ee-model", "open-model", 1),
			"INVALID_REQUEST", `"venice_parameters","enable_e2ee"`,
		},
	} {
		spent := s.spent(func() {
			status, h, answer := s.post("/chat/completions", row.body, row.headers)
			code := gjson.Get(answer, "error.code").Str
			if code == "" {
				code = gjson.Get(answer, "code").Str
			}
			if status != 400 || code != row.code || !strings.Contains(answer, row.text) || h.Get("X-Svc-TEE") != "" {
				t.Errorf("%s: %d %s", name, status, answer)
			}
			if strings.HasPrefix(row.code, "e2ee_") && (gjson.Get(answer, "error.type").Str != "invalid_request_error" ||
				gjson.Get(answer, "error.message").Str == "") {
				t.Errorf("%s: it is no error object: %s", name, answer)
			}
			for _, secret := range []string{sealed, s.client.Public()[2:], s.one.Public()[2:]} {
				if strings.Contains(answer, secret) {
					t.Errorf("%s: the answer repeats what was sent: %s", name, answer)
				}
			}
		})
		if spent != 0 || s.requests() != 0 {
			t.Fatalf("%s: %s was charged, %d requests were sent", name, spent, s.requests())
		}
	}
	if s.known.asked != 1 {
		t.Errorf("%d keys were looked for", s.known.asked)
	}
}

// Other forms of asking tell answers anew, which no signature would fit.
func TestOtherFormsDoNotServeEnclaves(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	for path, body := range map[string]string{
		"/responses":             `{"model":"%s","input":"Hello"}`,
		"/messages":              `{"model":"%s","max_tokens":9,"messages":[{"role":"user","content":"Hello"}]}`,
		"/messages/count_tokens": `{"model":"%s","messages":[{"role":"user","content":"Hello"}]}`,
	} {
		for model, headers := range map[string]map[string]string{"e2ee-model": nil, "tee-model": nil, "open-model": s.headers(s.one),
			"e2ee-model:strip_thinking_response=true": nil} {
			if model == "open-model" && path == "/messages/count_tokens" {
				continue // nothing is answered
			}
			spent := s.spent(func() {
				if status, _, answer := s.post(path, fmt.Sprintf(body, model), headers); status != 400 {
					t.Errorf("%s of %s: %d %s", path, model, status, answer)
				}
			})
			if spent != 0 || s.requests() != 0 {
				t.Errorf("%s of %s: %s was charged, %d requests", path, model, spent, s.requests())
			}
		}
	}
}

// A conversation as published clients hold it: what the user says is sealed, what the
// assistant and the developer said is not. The enclave opens all of it, and nobody between
// us and it can.
func TestAnEncryptedConversation(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	turns := []string{"Be brief: ünïcode \"quotes\"", "Who are you?", "I am \"a\" model\nof é 😀", "", "Speak up", "And now?"}
	body := fmt.Sprintf(`{"user":"someone","model" : "e2ee-model","svc_parameters":{"enable_e2ee":true,"include_svc_system_prompt":true},`+
		`"messages":[{"role":"system","content":%q},{"role":"user","name":"anna","content":%q},`+
		`{"role":"assistant","content":"I am \"a\" model\nof \u00e9 \ud83d\ude00"},{"role":"assistant","content":""},`+
		`{"role":"developer","content":"Speak up"},{"role":"user","content":%q}],"x_unknown":{"a":[1,2]},"reasoning":{"effort":"none"},`+
		`"temperature":0.7,"stream":true,"venice_parameters":{},"max_completion_tokens":50,"stop":["\n\nUser:"]}`,
		s.seal(s.two, turns[0]), s.seal(s.two, turns[1]), s.seal(s.two, turns[5]))
	h := s.headers(s.two)
	h["X-Request-Hash"], h["X-E2EE-Version"], h["X-Encryption-Version"] = strings.Repeat("0", 64), "2", "2"
	status, header, answer := s.post("/chat/completions", body, h)
	if status != 200 || s.text(answer) != "You said And now?." {
		t.Fatalf("%d %s", status, answer)
	}
	if len(s.one.Requests()) != 0 || len(s.two.Requests()) != 1 {
		t.Fatal("it went to the enclave that cannot open it")
	}
	r := s.two.Requests()[0]
	if fmt.Sprint(r.Turns) != fmt.Sprint(turns) {
		t.Errorf("the enclave has opened %q", r.Turns)
	}
	for _, plain := range []string{"a model", "Speak up", "someone", "Speak of the operator"} {
		if strings.Contains(string(r.Body), plain) {
			t.Errorf("%q is in the clear on its way: %s", plain, r.Body)
		}
	}
	if r.Header.Get("X-Client-Pub-Key") != s.client.Public() || r.Header.Get("X-Model-Pub-Key") != s.two.Public() ||
		r.Header.Get("X-Signing-Algo") != "ecdsa" || r.Header.Get("Accept-Encoding") != "identity" {
		t.Errorf("headers %v", r.Header)
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Svc") || strings.HasPrefix(name, "X-E2ee") || strings.HasPrefix(name, "X-Encryption") ||
			name == "X-Request-Hash" {
			t.Errorf("the client's %s was sent on", name)
		}
	}
	// But for what is ours and what must change, the body is the client's own.
	want := strings.NewReplacer(`"user":"someone",`, "", `"e2ee-model"`, `"their-model"`, `"svc_parameters":{"enable_e2ee":true,"include_svc_system_prompt":true},`, "",
		`,"venice_parameters":{}`, "").Replace(body)
	for at, turn := range map[int]string{2: `"I am \"a\" model\nof \u00e9 \ud83d\ude00"`, 3: `""`, 4: `"Speak up"`} {
		sent := gjson.GetBytes(r.Body, fmt.Sprintf("messages.%d.content", at)).Raw
		want = strings.Replace(want, `"content":`+turn, `"content":`+sent, 1)
	}
	want = `{"stream_options":{"include_usage":true},` + want[1:]
	if string(r.Body) != want {
		t.Errorf("sent\n%s\nwant\n%s", r.Body, want)
	}
	if string(r.Answer) != answer {
		t.Errorf("the enclave said\n%s\nthe client has\n%s", r.Answer, answer)
	}
	request, response := sha256.Sum256(r.Body), sha256.Sum256(r.Answer)
	if header.Get("X-Svc-TEE") != "true" || header.Get("X-Svc-TEE-Provider") != "phala" || header.Get("X-Svc-TEE-Mode") != "e2ee" ||
		header.Get("X-Svc-TEE-Request-Hash") != hex.EncodeToString(request[:]) || header.Get("Content-Encoding") != "" {
		t.Errorf("headers %v", header)
	}
	answers, _ := s.known.noted()
	if len(answers) != 1 || answers[0].Request != request || answers[0].Response != response ||
		answers[0].ID != gjson.Get(strings.TrimPrefix(answer, "data: "), "id").Str || answers[0].Key != s.two.Public() ||
		answers[0].Target.Upstream.Name != "two" {
		t.Errorf("noted %+v", answers)
	}
}

// "My package for the other service does not work here."
func TestClientsOfAnotherBrandEncrypt(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	headers := map[string]string{"x-venice-tee-client-pub-key": strings.ToUpper(s.client.Public()),
		"x-venice-tee-model-pub-key": s.one.Public()[2:], "x-venice-tee-signing-algo": "ecdsa"}
	status, _, answer := s.post("/chat/completions", s.ask(s.one, "Hello", `,"venice_parameters":{"enable_e2ee":true}`), headers)
	if status != 200 || s.text(answer) != "You said Hello." {
		t.Errorf("%d %s", status, answer)
	}
}

// Who leaves the headers out, or says that they do not count, is answered in the clear by
// an enclave all the same, byte for byte.
func TestChatsInTheClearWithEnclaves(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	mixed := s.headers(s.one)
	delete(mixed, "X-Svc-TEE-Signing-Algo")
	for i, ask := range []struct {
		body    string
		headers map[string]string
	}{
		{`{"model":"e2ee-model","messages":[{"role":"user","content":"Hello"}]}`, nil},
		{`{"model":"e2ee-model","stream":true,"stream_options":{"include_usage":false},"messages":[{"role":"user","content":"Hello"}]}`, nil},
		{`{"model":"e2ee-model","messages":[{"role":"user","content":"Hello"}],"svc_parameters":{"enable_e2ee":true}}`, nil},
		{`{"model":"e2ee-model","stream":true,"messages":[{"role":"user","content":"Hello"}],"svc_parameters":{"enable_e2ee":false}}`, s.headers(s.one)},
		{`{"model":"e2ee-model","messages":[{"role":"user","content":"Hello"}],"svc_parameters":{"enable_e2ee":false}}`, mixed},
		{`{"model":"tee-model","messages":[{"role":"user","content":"Hello"}],"svc_parameters":{"enable_e2ee":true}}`, nil},
		{`{"model":"tee-model","messages":[{"role":"user","content":"` + strings.Repeat("long ", 20_000) + `"}],"max_completion_tokens":50000}`, nil},
	} {
		status, header, answer := s.post("/chat/completions", ask.body, ask.headers)
		all := append(s.one.Requests(), s.two.Requests()...)
		if status != 200 || len(all) != i+1 {
			t.Fatalf("%.100s: %d %.200s, %d requests", ask.body, status, answer, len(all))
		}
		var r enclave.Request
		for _, one := range all {
			if string(one.Answer) == answer {
				r = one
			}
		}
		request := sha256.Sum256(r.Body)
		if r.Answer == nil || header.Get("X-Svc-TEE-Mode") != "tee" || header.Get("X-Svc-TEE") != "true" ||
			header.Get("X-Svc-TEE-Request-Hash") != hex.EncodeToString(request[:]) || r.Header.Get("X-Model-Pub-Key") != "" ||
			header.Get("Content-Encoding") != "" || strings.Contains(string(r.Body), "operator") {
			t.Errorf("%.100s: %v\n%.300s\n%.300s", ask.body, header, r.Body, answer)
		}
		answers, _ := s.known.noted()
		last := answers[len(answers)-1]
		if len(answers) != i+1 || last.Key != "" || last.Request != request || last.Response != sha256.Sum256(r.Answer) || last.ID == "" {
			t.Errorf("%.100s: %d noted, request %v, response %v: %+v", ask.body, len(answers), last.Request == request,
				last.Response == sha256.Sum256(r.Answer), last)
		}
	}
}

// Only enclaves that are verified now are asked; where there is none nobody is.
func TestOnlyVerifiedEnclavesAreAsked(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	body := `{"model":"tee-model","messages":[{"role":"user","content":"Hello"}]}`
	s.known.away["one"] = true
	for range 20 {
		if status, _, answer := s.post("/chat/completions", body, nil); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	if len(s.one.Requests()) != 0 || len(s.two.Requests()) != 20 {
		t.Errorf("%d went to the one that is not verified", len(s.one.Requests()))
	}
	s.known.away["two"] = true
	spent := s.spent(func() {
		status, h, answer := s.post("/chat/completions", body, nil)
		if status != 503 || gjson.Get(answer, "code").Str != "MODEL_OFFLINE" || h.Get("Retry-After") == "" {
			t.Errorf("%d %s", status, answer)
		}
	})
	if spent != 0 || s.requests() != 20 {
		t.Errorf("%s was charged, %d requests", spent, s.requests())
	}
}

// An enclave that is away has no stand-in: nobody else could open what is sealed to it.
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

// "The answer came in the clear": no byte of it reaches the client, and who sent it is not
// asked again.
func TestAnswersInTheClearAreWithheld(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	s.one.Tell(enclave.PlainReply)
	spent := s.spent(func() {
		status, _, answer := s.post("/chat/completions", s.ask(s.one, "Hello", ""), s.headers(s.one))
		last := strings.TrimSuffix(answer, "\n\ndata: [DONE]\n\n")
		last = strings.TrimPrefix(last[strings.LastIndex(last, "data: "):], "data: ")
		if status != 200 || gjson.Get(last, "error.code").Str != "e2ee_plaintext_response" || strings.Contains(answer, enclave.KnownMarker) ||
			strings.Contains(answer, "said") || strings.Contains(answer, "Hello") {
			t.Errorf("%d %s", status, answer)
		}
	})
	if answers, betrayed := s.known.noted(); len(answers) != 0 || fmt.Sprint(betrayed) != "[one]" || spent != 0 {
		t.Errorf("noted %v and %v; %s was charged", answers, betrayed, spent)
	}
	s.one.Tell(enclave.NoHeader)
	spent = s.spent(func() {
		s.known.away["one"] = false
		status, _, answer := s.post("/chat/completions", s.ask(s.one, "Hello", ""), s.headers(s.one))
		if status != 502 || gjson.Get(answer, "error.code").Str != "e2ee_plaintext_response" {
			t.Errorf("%d %s", status, answer)
		}
	})
	if _, betrayed := s.known.noted(); len(betrayed) != 2 || spent != 0 {
		t.Errorf("noted %v; %s was charged", betrayed, spent)
	}
}

// Enclaves of this kind do not say that they have opened a request; their answers do.
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

// Where the operator does not want it, turns in the clear are not sealed but refused.
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

// An enclave's refusal is told by its code and in our words: its own may be about what it
// has opened.
func TestRefusalsOfEnclavesAreToldInOurWords(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	body := strings.Replace(s.ask(s.one, "Hello", ""), `"content":"0`, `"content":"1`, 1)
	spent := s.spent(func() {
		status, _, answer := s.post("/chat/completions", body, s.headers(s.one))
		if status != 400 || gjson.Get(answer, "error.code").Str != "e2ee_decryption_failed" ||
			gjson.Get(answer, "error.type").Str != "invalid_request_error" || !strings.Contains(answer, "Failed to decrypt field") {
			t.Errorf("%d %s", status, answer)
		}
	})
	if spent != 0 {
		t.Errorf("%s was charged", spent)
	}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-E2EE-Applied", "true")
		w.WriteHeader(400)
		_, _ = io.WriteString(w, `{"error":{"message":"messages.0: '`+enclave.KnownMarker+`' is not allowed","type":"e2ee_unheard_of"}}`)
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

// What the enclave reports is charged as far as the bytes of the answer do not contradict
// it; without a report their bytes are, not the number of pieces.
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
	// It reports 3 tokens and one a word, and one a piece of the answer.
	if got, want := charge("one two three", enclave.Honest, ""), 6*inputNano+5*outputNano; got != want {
		t.Errorf("with usage %s, want %s", got, want)
	}
	// 3 for the message, 1 for its role, 3 for the reply, and one for 4 bytes.
	if got, want := charge("one two three", enclave.NoUsage, ""), (7+4)*inputNano+6*outputNano; got != want {
		t.Errorf("without usage %s, want %s", got, want)
	}
	// 4,010 bytes are not the 5 tokens that it says.
	long := strings.Repeat("a word ", 571) + "yes"
	if got, want := charge(long, enclave.Honest, ""), (3+1143)*inputNano+1003*outputNano; got != want {
		t.Errorf("with a usage that cannot be: %s, want %s", got, want)
	}
	// Never more than was asked for.
	if got, want := charge(long, enclave.NoUsage, `,"max_completion_tokens":4`), (7+1000)*inputNano+4*outputNano; got != want {
		t.Errorf("capped: %s, want %s", got, want)
	}
}

// The cap that is held for is always sent, and told where the client sent none: it
// stands in the bytes that are signed.
func TestTheCapOfAnEncryptedChatIsTold(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	_, h, _ := s.post("/chat/completions", s.ask(s.one, "Hello", ""), s.headers(s.one))
	sent := gjson.GetBytes(s.one.Requests()[0].Body, "max_completion_tokens").Raw
	if sent == "" || h.Get("X-Svc-Max-Completion-Tokens") != sent {
		t.Errorf("sent %q, told %q", sent, h.Get("X-Svc-Max-Completion-Tokens"))
	}
	_, h, _ = s.post("/chat/completions", s.ask(s.one, "Hello", `,"max_completion_tokens":77`), s.headers(s.one))
	if sent := gjson.GetBytes(s.one.Requests()[1].Body, "max_completion_tokens").Raw; sent != "77" ||
		h.Get("X-Svc-Max-Completion-Tokens") != "" {
		t.Errorf("sent %q, told %q", sent, h.Get("X-Svc-Max-Completion-Tokens"))
	}
}

// theEnd ends an answer of such an upstream.
const theEnd = "end"

// slow is an upstream that sends events as they come through a channel.
func slow(t *testing.T, events <-chan string) *httptest.Server {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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

// event is one with a delta that is sealed to the client.
func (s *sealing) event(delta string) string {
	return `data: {"id":"chatcmpl-7","object":"chat.completion.chunk","created":1,"model":"their-model","choices":[{"index":0,"delta":{` +
		delta + `},"finish_reason":null}]}` + "\n\n"
}

func (s *sealing) content(text string) string {
	sealed, err := s.client.Seal(s.client.Public(), text)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.event(`"content":"` + sealed + `"`)
}

const sealedEnd = `data: {"id":"chatcmpl-7","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
	`data: {"id":"chatcmpl-7","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":30,"total_tokens":39}}` + "\n\n" +
	"data: [DONE]\n\n"

// startSlow starts a gateway before such an upstream.
func startSlow(t *testing.T) (*sealing, chan<- string) {
	e, err := enclave.New(enclave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan string)
	up := slow(t, events)
	s := &sealing{t: t, one: e, two: e}
	s.known = &known{proven: map[string]string{e.Public(): "one"}, away: map[string]bool{}}
	s.start(strings.TrimPrefix(up.URL, "http://"), up.URL)
	return s, events
}

// Each event is with the client as soon as it is whole.
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
	// A part of an event is not shown before the rest of it is there.
	plain := s.event(`"content":"in the clear"`)
	events <- plain[:len(plain)-1]
	time.Sleep(50 * time.Millisecond)
	events <- plain[len(plain)-1:]
	rest, err := io.ReadAll(res.Body)
	if err != nil || strings.Contains(string(rest), "clear") || !strings.Contains(string(rest), "e2ee_plaintext_response") {
		t.Errorf("%s, %v", rest, err)
	}
}

// What was delivered before an enclave went on in the clear is charged.
func TestWhatWasSealedBeforeABetrayalIsCharged(t *testing.T) {
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

// A client that leaves pays for the prompt and for what was produced, as everywhere.
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
	for end := time.Now().Add(10 * time.Second); before-s.Balance() != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("charged %s, want %s", before-s.Balance(), want)
		}
	}
	if answers, _ := s.known.noted(); len(answers) != 0 {
		t.Errorf("noted %v", answers)
	}
}

// The network may cut a stream anywhere; nothing of it changes on its way.
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
		if status, _, got := s.post("/chat/completions", s.ask(s.one, "Hello", ""), s.headers(s.one)); status != 200 || got != input {
			t.Fatalf("%d %q of %q", status, got, input)
		}
	}
}

// "I repeated the request with its Idempotency-Key": it was carried out once, and its
// answer was kept by nobody.
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
	// What failed before it cost anything can be tried again.
	s.one.Tell(enclave.NoHeader)
	h := s.headers(s.one)
	h["Idempotency-Key"] = "another"
	body := s.ask(s.one, "Hello", "")
	for i, want := range []int{502, 200, 409} {
		if status, _, answer := s.post("/chat/completions", body, h); status != want {
			t.Errorf("try %d: %d %s", i, status, answer)
		}
		s.one.Tell(enclave.Honest)
		s.known.away["one"] = false
	}
}

// Nothing that was said, sealed or not, and no key is in the log, whatever goes wrong.
func TestNothingOfEncryptedChatsIsInTheLog(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	secret := "the-secret-of-this-test"
	var bodies []string
	for _, lie := range []string{enclave.Honest, enclave.PlainReply, enclave.NoHeader, enclave.NoUsage} {
		s.one.Tell(lie)
		s.known.away["one"] = false
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
