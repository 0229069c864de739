package audio

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/bench/upstream/sound"
	"farebox/tests/rig"
)

const voicesConfig = `
log: { level: info, format: json, sample_above: 0 }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 }, unsupported_features: { count: 0 } }
upstreams:
  - { name: labs, dialect: elevenlabs, base_url: "%[1]s", key: k, breaker: { failures: 0 } }
  - { name: native, dialect: native, base_url: "%[1]s", breaker: { failures: 0 } }
models:
  - id: mimic
    type: tts
    tier: unlimited
    voices: [Aurora]
    supported_formats: [mp3]
    voice_cloning: { accepted_formats: [wav, mp3], price: 0.5 }
    price: { input: 100 }
    targets: [{ upstream: labs }]
  - id: other
    type: tts
    tier: unlimited
    voices: [Aurora]
    voice_cloning: { mode: zero_shot, price: 0.5 }
    price: { input: 100 }
    targets: [{ upstream: native }]
  - id: plain
    type: tts
    tier: unlimited
    voices: [Aurora]
    price: { input: 100 }
    targets: [{ upstream: native }]
`

func startVoices(t *testing.T) *speechRig {
	t.Helper()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(voicesConfig, sim.URL))
	return &speechRig{g, sim, g.Key(g.NewAccount("a", "10"))}
}

// clone posts a sample.
func (s *speechRig) clone(t *testing.T, key, model string, sample []byte) (status int, id, answer string) {
	t.Helper()
	req := s.cloneRequest(t, t.Context(), key, model, sample)
	res, err := rig.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(res.Body)
	var made struct{ ID, Model string }
	_ = json.Unmarshal(text, &made)
	if res.StatusCode == 200 && made.Model != model {
		t.Errorf("the voice is of model %q, not %q", made.Model, model)
	}
	return res.StatusCode, made.ID, string(text)
}

func (s *speechRig) cloneRequest(t *testing.T, ctx context.Context, key, model string, sample []byte) *http.Request {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	if model != "" {
		_ = w.WriteField("model", model)
	}
	if sample != nil {
		part, _ := w.CreateFormFile("file", "of-frau-schmidt.txt")
		_, _ = part.Write(sample)
	}
	_ = w.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/audio/voices", &form)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", w.FormDataContentType())
	req.Header.Set("Authorization", "Bearer "+key)
	return req
}

// "Somebody else spoke in my voice." A handle is good for its account and its model, and
// unknown to all others.
func TestVoicesBelongToTheirAccount(t *testing.T) {
	t.Parallel()
	s := startVoices(t)
	stranger := s.Key(s.NewAccount("b", "10"))
	for _, model := range []string{"mimic", "other"} {
		status, id, answer := s.clone(t, s.key, model, sound.Bytes("wav", 6*time.Second))
		if status != 200 || !strings.HasPrefix(id, "vv_") || len(id) != 35 {
			t.Fatalf("%s: %d %s", model, status, answer)
		}
		voice := `,"voice":"` + id + `"`
		if status, _, answer := s.Post("/audio/speech", s.key, speech(model, "mine", voice)); status != 200 {
			t.Errorf("%s does not speak in its voice: %d %.300s", model, status, answer)
		}
		said := s.sim.Latest(t)
		if asked := string(said.Body) + said.Head; !strings.Contains(asked, "clone") || strings.Contains(asked, id) {
			t.Errorf("the upstream is asked for %.300s", asked)
		}
		for _, c := range []struct{ key, model string }{{stranger, model}, {s.key, "plain"}, {s.key, map[string]string{"mimic": "other", "other": "mimic"}[model]}} {
			status, _, answer := s.Post("/audio/speech", c.key, speech(c.model, "not mine", voice))
			if status != 400 || !strings.Contains(string(answer), "has no voice "+id) {
				t.Errorf("%s of another is answered %d %.300s", c.model, status, answer)
			}
		}
	}
	if a := s.Settled(); a["a"].Spent != 2*(500_000_000+4*100_000) || a["b"].Spent != 0 {
		t.Errorf("two voices and eight characters cost %s, and the stranger %s", a["a"].Spent, a["b"].Spent)
	}
}

// A sample's type is that of its bytes, whatever its name; a refusal, here or upstream,
// costs nothing.
func TestSamplesAreJudgedByTheirBytes(t *testing.T) {
	t.Parallel()
	s := startVoices(t)
	short := sound.Bytes("wav", 3*time.Second)
	liar := sound.Bytes("wav", 3*time.Second)
	hour := 3600 * 48000 // bytes, as its head says
	for i := range 4 {
		liar[40+i], liar[4+i] = byte(hour>>(8*i)), byte((hour+36)>>(8*i))
	}
	for _, c := range []struct {
		what, model string
		sample      []byte
		want        string
	}{
		{"nothing", "mimic", nil, "file: is required"},
		{"an empty file", "mimic", []byte{}, "file"},
		{"no model", "", short, "model: is required"},
		{"a short one", "mimic", short, "at least 5 seconds"},
		{"a false head", "mimic", liar, "file"},
		{"FLAC", "mimic", sound.Bytes("flac", 6*time.Second), "takes samples as wav, mp3, not flac"},
		{"text", "mimic", []byte("RIFF, he said, and left. It was late."), "file"},
		{"a model that clones nothing", "plain", sound.Bytes("wav", 6*time.Second), "does not clone"},
		{"an unknown model", "nobody", sound.Bytes("wav", 6*time.Second), "Unknown model"},
	} {
		if status, _, answer := s.clone(t, s.key, c.model, c.sample); status < 400 || status > 422 || !strings.Contains(answer, c.want) {
			t.Errorf("%s: %d %.300s; want %s", c.what, status, answer, c.want)
		}
	}
	if n := s.sim.Idle(t).Requests; n != 0 {
		t.Errorf("%d refused samples reached the upstream", n)
	}
	if a := s.Settled()["a"]; a.Spent != 0 || a.Held != 0 {
		t.Errorf("refusals cost %s", a.Spent)
	}
}

// "I closed the page, and paid twice." A voice that is being made is made to its end and paid
// once, whether or not its client waits; a retry under the same key gets the same voice.
func TestLeavingWhileAVoiceIsMade(t *testing.T) {
	t.Parallel()
	up := slowCloner(t)
	g := rig.StartGateway(t, fmt.Sprintf(voicesConfig, up.URL))
	s := &speechRig{Gateway: g, key: g.Key(g.NewAccount("a", "10"))}
	sample := sound.Bytes("wav", 6*time.Second)
	copy(sample[1000:], "the words of Frau Schmidt")
	begin := func(key string) (left chan struct{}, leave context.CancelFunc) {
		ctx, leave := context.WithCancel(t.Context())
		req := s.cloneRequest(t, ctx, s.key, "mimic", sample)
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		left = make(chan struct{})
		go func() {
			defer close(left)
			if res, err := rig.Client.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}()
		return left, leave
	}
	for n, key := range []string{"", "once"} {
		left, leave := begin(key)
		<-up.asked
		leave()
		<-left
		up.proceed <- struct{}{}
		spent := rig.Money(n+1) * 500_000_000
		rig.Await(t, "the voice is paid", func() bool { return s.Settled()["a"].Spent == spent })
		if key == "" {
			continue
		}
		req := s.cloneRequest(t, t.Context(), s.key, "mimic", sample)
		req.Header.Set("Idempotency-Key", key)
		res, err := rig.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var made struct{ ID string }
		_ = json.NewDecoder(res.Body).Decode(&made)
		_ = res.Body.Close()
		if res.StatusCode != 200 || res.Header.Get("Idempotent-Replayed") != "true" || !strings.HasPrefix(made.ID, "vv_") {
			t.Errorf("the retry: %d %v", res.StatusCode, made)
		}
		if status, _, answer := s.Post("/audio/speech", s.key, speech("mimic", "mine", `,"voice":"`+made.ID+`"`)); status != 200 {
			t.Errorf("its voice does not speak: %d %.200s", status, answer)
		}
	}

	// A voice that the upstream refuses costs nothing, and neither the sample nor its name is logged.
	up.refuses.Store(true)
	left, leave := begin("")
	<-up.asked
	up.proceed <- struct{}{}
	<-left
	leave()
	if a := s.Settled()["a"]; a.Spent != 2*500_000_000+4*100_000 || a.Held != 0 {
		t.Errorf("two voices, one that is refused and four characters cost %s", a.Spent)
	}
	log := s.AwaitLog(`"upstream_status"`)
	for _, secret := range []string{"Schmidt", "schmidt", "RIFF"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %q of a sample", secret)
		}
	}
}

// "My voice was being made when your machine died. I tried again, and it was made twice." The
// outcome is unknown: the retry gets an error that says so, pays nothing, and makes no voice.
func TestAVoiceOfUnknownOutcomeIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	up := slowCloner(t)
	g := rig.StartGateway(t, fmt.Sprintf(voicesConfig, up.URL))
	s := &speechRig{Gateway: g, key: g.Key(g.NewAccount("a", "10"))}
	type answer struct {
		status int
		text   string
	}
	begin := func(key string) chan answer {
		req := s.cloneRequest(t, t.Context(), s.key, "mimic", sound.Bytes("wav", 6*time.Second))
		req.Header.Set("Idempotency-Key", key)
		answers := make(chan answer, 1)
		go func() {
			res, err := rig.Client.Do(req)
			if err != nil {
				answers <- answer{0, err.Error()}
				return
			}
			defer func() { _ = res.Body.Close() }()
			text, _ := io.ReadAll(res.Body)
			answers <- answer{res.StatusCode, string(text)}
		}()
		return answers
	}
	// ask is one whole request, which may reach the upstream.
	ask := func(key string) (a answer, reached bool) {
		answers := begin(key)
		select {
		case <-up.asked:
			up.proceed <- struct{}{}
			return <-answers, true
		case a := <-answers:
			return a, false
		}
	}
	unknown := func(key string) {
		t.Helper()
		a, reached := ask(key)
		if reached || a.status != 409 || !strings.Contains(a.text, "IDEMPOTENT_OUTCOME_UNKNOWN") {
			t.Errorf("the retry of %s is answered %d %s, and is carried out: %v", key, a.status, a.text, reached)
		}
	}

	answers := begin("killed")
	<-up.asked
	g.Kill()
	up.proceed <- struct{}{}
	if a := <-answers; a.status != 0 {
		t.Errorf("a process that was killed answered %d %s", a.status, a.text)
	}
	g.Start()
	unknown("killed")

	up.loses.Store(true)
	if a, reached := ask("lost"); !reached || a.status < 500 {
		t.Errorf("a voice whose answer was lost is answered %d %s", a.status, a.text)
	}
	up.loses.Store(false)
	unknown("lost")

	up.refuses.Store(true)
	if a, reached := ask("refused"); !reached || a.status < 400 {
		t.Errorf("a voice that is refused is answered %d %s", a.status, a.text)
	}
	up.refuses.Store(false)
	if a := s.Settled()["a"]; a.Spent != 0 || a.Held != 0 {
		t.Errorf("no voice is known to be made, and %s are paid", a.Spent)
	}
	for _, key := range []string{"refused", "new"} {
		if a, reached := ask(key); !reached || a.status != 200 {
			t.Errorf("a voice under the key %s is answered %d %s", key, a.status, a.text)
		}
	}
	for _, restarted := range []bool{false, true} {
		if restarted {
			if err := g.Stop(); err != nil {
				t.Fatal(err)
			}
			g.Start()
		}
		unknown("killed")
		unknown("lost")
	}
	if a := s.Settled()["a"]; a.Spent != 2*500_000_000 {
		t.Errorf("two voices cost %s", a.Spent)
	}
}

// cloner is an upstream whose voices are made when the test says so.
type cloner struct {
	*httptest.Server
	asked, proceed chan struct{}
	refuses, loses atomic.Bool
}

func slowCloner(t *testing.T) *cloner {
	u := &cloner{asked: make(chan struct{}), proceed: make(chan struct{})}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/voices/add") {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "audio/mpeg")
			_, _ = w.Write(sound.Bytes("mp3", time.Second))
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		u.asked <- struct{}{}
		<-u.proceed
		if u.loses.Load() {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		if u.refuses.Load() {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"detail":{"status":"bad","message":"no voice"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"voice_id":"abc123","requires_verification":false}`)
	}))
	t.Cleanup(u.Close)
	return u
}
