package chat_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/enclave"
	"farebox/billing"
	"farebox/billing/store"
)

// Requests that encrypted chats do not support are refused before anything is asked or
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
	off := s.two.Public()[:66] + s.client.Public()[66:]
	nobody, err := enclave.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	mixed := map[string]string{"X-Venice-TEE-Client-Pub-Key": s.client.Public(),
		"X-Svc-TEE-Model-Pub-Key": s.one.Public(), "X-Svc-TEE-Signing-Algo": "ecdsa"}
	more := func(members string) string { return say(hello, ","+members) }
	params := func(members string) string { return more(`"svc_parameters":{` + members + `}`) }
	at := func(model string) string { return strings.Replace(say(hello, ""), "e2ee-model", model, 1) }
	const (
		missing, key, version = "e2ee_header_missing", "e2ee_invalid_public_key", "e2ee_invalid_version"
		invalid, noKey        = "INVALID_REQUEST", "Invalid public key"
		notHex, notAble       = "Encrypted field is not valid hex", "does not support end-to-end encryption"
		call                  = `[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]`
	)
	for name, row := range map[string]struct {
		headers    map[string]string
		body       string
		code, text string
	}{
		"no algorithm":             {with(algo, "-"), say(hello, ""), missing, "Signing-Algo"},
		"no client's key":          {with(client, "-"), say(hello, ""), missing, "Client-Pub-Key"},
		"no model's key":           {with(model, "-"), say(hello, ""), missing, "Model-Pub-Key"},
		"two are missing":          {with(model, "-", algo, "-"), say(hello, ""), missing, "missing"},
		"one is empty":             {with(algo, ""), say(hello, ""), missing, "missing"},
		"two brands mixed":         {mixed, say(hello, ""), missing, "under one name"},
		"another algorithm":        {with(algo, "ed25519"), say(hello, ""), "e2ee_invalid_signing_algo", "ecdsa"},
		"a short client key":       {with(client, s.client.Public()[:128]), say(hello, ""), key, noKey},
		"a client key off curve":   {with(client, off), say(hello, ""), key, noKey},
		"a client key packed":      {with(client, "02"+s.client.Public()[2:66]), say(hello, ""), key, noKey},
		"a model key that is none": {with(model, "zz"), say(hello, ""), key, noKey},
		"a model key nobody has proven": {
			with(model, nobody.Public()), say(hello, ""), "e2ee_model_key_mismatch", "fresh attestation",
		},
		"a version": {with("Version", "2"), say(hello, ""), version, "Version"},
		"a nonce":   {with("Nonce", "0"), say(hello, ""), version, "Nonce"},
		"a timestamp alone": {
			map[string]string{"X-Svc-TEE-Timestamp": "1"}, say(turn("user", `"Hi"`), ""), version, "Timestamp",
		},
		"no stream": {all, strings.Replace(say(hello, ""), "true", "false", 1), invalid, "E2EE requires streaming"},
		"tools":     {all, more(`"tools":[{"type":"function","function":{"name":"f"}}]`), invalid, "tools"},
		"a choice":  {all, more(`"tool_choice":"auto"`), invalid, "tools"},
		"a choice by name": {
			all, more(`"tool_choice":{"type":"function","function":{"name":"f"}}`), invalid, "tools",
		},
		"a tool's result": {all, say(hello+`,{"role":"tool","tool_call_id":"c","content":"42"}`, ""), invalid, "tools"},
		"a call":          {all, say(hello+`,{"role":"assistant","tool_calls":`+call+`}`, ""), invalid, "tools"},
		"web search":      {all, params(`"enable_web_search":"on"`), invalid, "enable_web_search"},
		"web search as it needs be": {
			all, more(`"venice_parameters":{"enable_web_search":"auto"}`), invalid,
			`"venice_parameters","enable_web_search"`,
		},
		"web search by suffix": {all, at("e2ee-model:enable_web_search=on"), invalid, "enable_web_search"},
		"scraping":             {all, params(`"enable_web_scraping":true`), invalid, "enable_web_scraping"},
		"citations":            {all, params(`"enable_web_citations":true`), invalid, "enable_web_citations"},
		"search of X":          {all, params(`"enable_x_search":true`), invalid, "enable_x_search"},
		"a character":          {all, params(`"character_slug":"alan"`), invalid, "character_slug"},
		"thinking stripped":    {all, params(`"strip_thinking_response":true`), invalid, "strip_thinking_response"},
		"no thinking":          {all, params(`"disable_thinking":true`), invalid, "disable_thinking"},
		"text in parts": {
			all, say(turn("user", `[{"type":"text","text":"`+sealed+`"}]`), ""), invalid, "messages.0.content",
		},
		"a picture": {
			all, say(turn("user", `[{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}]`), ""),
			invalid, "messages.0.content",
		},
		"an assistant in parts": {
			all, say(hello+","+turn("assistant", `[{"type":"text","text":"x"}]`), ""), invalid, "messages.1.content",
		},
		"a user in the clear":   {all, say(turn("user", `"Hello"`), ""), invalid, notHex},
		"a system in the clear": {all, say(turn("system", `"Be brief."`)+","+hello, ""), invalid, notHex},
		"an odd digit":          {all, say(turn("user", `"`+sealed+`0"`), ""), invalid, notHex},
		"too few digits":        {all, say(turn("user", `"`+sealed[:184]+`"`), ""), invalid, notHex},
		"escaped digits":        {all, say(turn("user", `"\u0061`+sealed[1:]+`"`), ""), invalid, notHex},
		"legacy functions":      {all, more(`"functions":[{"name":"f"}]`), invalid, "functions"},
		"numbers of tokens":     {all, more(`"return\u005ftoken_ids":true`), invalid, "return_token_ids"},
		"sound":                 {all, more(`"modalities":["text","audio"]`), invalid, "modalities"},
		"log probabilities":     {all, more(`"top_logprobs":2`), invalid, "log probabilities"},
		"a model without":       {all, at("open-model"), invalid, notAble},
		"an enclave without":    {all, at("tee-model"), invalid, notAble},
		"one header too many":   {with(model, "-", algo, "-"), at("open-model"), invalid, notAble},
	} {
		spent := s.spent(func() {
			status, h, answer := s.post("/chat/completions", row.body, row.headers)
			code := gjson.Get(answer, "error.code").Str
			if code == "" {
				code = gjson.Get(answer, "code").Str
			}
			if status != 400 || code != row.code || !strings.Contains(answer, row.text) ||
				h.Get("X-Svc-TEE") != "" {
				t.Errorf("%s: %d %s", name, status, answer)
			}
			if kind := gjson.Get(answer, "error.type").Str; strings.HasPrefix(row.code, "e2ee_") &&
				(kind != "invalid_request_error" || gjson.Get(answer, "error.message").Str == "") {
				t.Errorf("%s: it is not an error object: %s", name, answer)
			}
			for _, secret := range []string{sealed, s.client.Public()[2:], s.one.Public()[2:]} {
				if strings.Contains(answer, secret) {
					t.Errorf("%s: the answer repeats a sent secret: %s", name, answer)
				}
			}
		})
		if spent != 0 || s.requests() != 0 {
			t.Fatalf("%s: %s was charged, %d requests were sent", name, spent, s.requests())
		}
	}
	if n := s.known.lookups(); n != 1 {
		t.Errorf("%d keys were looked for", n)
	}
}

// Other client formats rewrite the answer, which no signature would match.
func TestOtherFormsDoNotServeEnclaves(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	for path, body := range map[string]string{
		"/responses":             `{"model":"%s","input":"Hello"}`,
		"/messages":              `{"model":"%s","max_tokens":9,"messages":[{"role":"user","content":"Hello"}]}`,
		"/messages/count_tokens": `{"model":"%s","messages":[{"role":"user","content":"Hello"}]}`,
	} {
		for model, headers := range map[string]map[string]string{"e2ee-model": nil, "tee-model": nil,
			"e2ee-model:strip_thinking_response=true": nil, "open-model": s.headers(s.one)} {
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

// A conversation as published clients send it: the user's turns are sealed, the assistant's and the
// developer's are not. The enclave opens all of it, and no hop between us and it can.
func TestAnEncryptedConversation(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	turns := []string{"Be brief: ünïcode \"quotes\"", "Who are you?", "I am \"a\" model\nof é 😀", "", "Speak up",
		"And now?"}
	const ours = `"svc_parameters":{"enable_e2ee":true,"include_svc_system_prompt":true},`
	body := fmt.Sprintf(`{"user":"someone","model" : "e2ee-model",`+ours+
		`"messages":[{"role":"system","content":%q},{"role":"user","name":"anna","content":%q},`+
		`{"role":"assistant","content":"I am \"a\" model\nof \u00e9 \ud83d\ude00"},{"role":"assistant","content":""},`+
		`{"role":"developer","content":"Speak up"},{"role":"user","content":%q}],"x_unknown":{"a":[1,2]},`+
		`"reasoning":{"effort":"none"},`+
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
	// Except for our members and the required changes, the body is the client's own.
	want := strings.NewReplacer(`"user":"someone",`, "", `"e2ee-model"`, `"their-model"`, ours, "",
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
	if header.Get("X-Svc-TEE") != "true" || header.Get("X-Svc-TEE-Provider") != "phala" ||
		header.Get("X-Svc-TEE-Mode") != "e2ee" || header.Get("Content-Encoding") != "" ||
		header.Get("X-Svc-TEE-Request-Hash") != hex.EncodeToString(request[:]) {
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
	body := s.ask(s.one, "Hello", `,"venice_parameters":{"enable_e2ee":true}`)
	status, _, answer := s.post("/chat/completions", body, headers)
	if status != 200 || s.text(answer) != "You said Hello." {
		t.Errorf("%d %s", status, answer)
	}
}

// "My package says yes, the wrapper around it says no": if the members of two brands differ, the
// request is not answered in the clear.
func TestTwoBrandsThatDiffer(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	for _, words := range [][2]string{{"true", "false"}, {"false", "true"}, {"true", "null"}, {"null", "null"}} {
		body := s.ask(s.one, "Hello", fmt.Sprintf(`,"svc_parameters":{"enable_e2ee":%s},"venice_parameters":{"enable_e2ee":%s}`,
			words[0], words[1]))
		status, header, answer := s.post("/chat/completions", body, s.headers(s.one))
		if status != 200 || header.Get("X-Svc-TEE-Mode") != "e2ee" || s.text(answer) != "You said Hello." {
			t.Errorf("%v: %d %v", words, status, header)
		}
	}
}

// A client that sends no headers, or says that they do not count, still gets the
// enclave's answer in the clear, byte for byte.
func TestChatsInTheClearWithEnclaves(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	say := func(model, text, more string) string {
		return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]%s}`, model, text, more)
	}
	mixed := s.headers(s.one)
	delete(mixed, "X-Svc-TEE-Signing-Algo")
	for i, ask := range []struct {
		body    string
		headers map[string]string
	}{
		{say("e2ee-model", "Hello", ""), nil},
		{say("e2ee-model", "Hello", `,"stream":true,"stream_options":{"include_usage":false}`), nil},
		{say("e2ee-model", "Hello", `,"svc_parameters":{"enable_e2ee":true}`), nil},
		{say("e2ee-model", "Hello", `,"stream":true,"svc_parameters":{"enable_e2ee":false}`), s.headers(s.one)},
		{say("e2ee-model", "Hello", `,"svc_parameters":{"enable_e2ee":false}`), mixed},
		{say("tee-model", "Hello", `,"svc_parameters":{"enable_e2ee":true}`), nil},
		{say("tee-model", strings.Repeat("long ", 20_000), `,"max_completion_tokens":50000`), nil},
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
		if len(answers) != i+1 || last.Key != "" || last.Request != request ||
			last.Response != sha256.Sum256(r.Answer) || last.ID == "" {
			t.Errorf("%.100s: %d noted, request %v, response %v: %+v", ask.body, len(answers), last.Request == request,
				last.Response == sha256.Sum256(r.Answer), last)
		}
	}
}

// Only currently verified enclaves are asked. Without one the request fails.
func TestOnlyVerifiedEnclavesAreAsked(t *testing.T) {
	t.Parallel()
	s := startSealing(t)
	body := `{"model":"tee-model","messages":[{"role":"user","content":"Hello"}]}`
	s.known.leave("one", true)
	for range 20 {
		if status, _, answer := s.post("/chat/completions", body, nil); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	if len(s.one.Requests()) != 0 || len(s.two.Requests()) != 20 {
		t.Errorf("%d went to the one that is not verified", len(s.one.Requests()))
	}
	s.known.leave("two", true)
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

// A key for private models may use models in enclaves, whichever upstream runs them
// (addendum 16.1).
func TestEnclavesArePrivate(t *testing.T) {
	t.Parallel()
	s := startSealing(t, "tier: unlimited", "tier: unlimited\n    privacy: anonymized")
	accounts, err := billing.All(s.Ledger, billing.ListAccounts{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []store.ModelPrivacy{store.PrivateText, store.PrivateOnly} {
		key, err := billing.Do(s.Ledger, billing.CreateKey{NewKey: billing.NewKey{Account: accounts[0].ID, Type: store.Inference,
			Privacy: p}})
		if err != nil {
			t.Fatal(err)
		}
		for model, want := range map[string]int{"tee-model": 200, "e2ee-model": 200, "open-model": 403} {
			body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Hello"}]}`, model)
			if status, answer := s.PostAs(key.Secret, "/chat/completions", body); status != want {
				t.Errorf("%v, %s: %d %s", p, model, status, answer)
			}
		}
	}
}
