package audio_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/bench/upstream/sound"
	"farebox/bench/upstream/strict"
	"farebox/billing/store"
	"farebox/routes"
	"farebox/routes/audio"
	"farebox/routes/routestest"
)

const voicesConfig = `
log: { level: warn, format: json }
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: labs, dialect: elevenlabs, base_url: "http://ADDR/v1", key: k, breaker: { failures: 0 } }
  - { name: native, dialect: native, base_url: "http://ADDR/v1", breaker: { failures: 0 } }
models:
  - id: lasting
    type: tts
    tier: unlimited
    voices: [Aurora]
    voice_cloning: { price: 0.5 }
    price: { input: 15 }
    targets: [{ upstream: labs }]
  - id: passing
    type: tts
    tier: unlimited
    voices: [Aurora]
    voice_cloning: { mode: zero_shot, price: 0.5 }
    price: { input: 15 }
    targets: [{ upstream: native }]
`

const week = 7 * 24 * time.Hour

// studio is a gateway that clones voices.
type studio struct {
	*routestest.Rig
	of *audio.Capability
}

func startStudio(t *testing.T, address string) *studio {
	of := audio.New(nil)
	s := &studio{routestest.Start(t, voicesConfig, address, of), of}
	s.Gateway.Warm()
	t.Cleanup(of.Close)
	return s
}

// clone creates a voice, and returns its row.
func (s *studio) clone(t *testing.T, model string) *store.VoiceRow {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	_ = w.WriteField("model", model)
	part, _ := w.CreateFormFile("file", "sample.wav")
	_, _ = part.Write(sound.Bytes("wav", 6*time.Second))
	_ = w.Close()
	req, err := http.NewRequest(http.MethodPost, "http://"+s.Address+routes.Prefix+"/audio/voices", &form)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", w.FormDataContentType())
	req.Header.Set("Authorization", "Bearer "+s.Secret)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, _ := io.ReadAll(res.Body)
	var made struct{ ID string }
	if err := json.Unmarshal(answer, &made); err != nil || res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, answer)
	}
	return s.row(t, made.ID)
}

// row is the stored row of a voice; nil if the store has no such voice.
func (s *studio) row(t *testing.T, id string) *store.VoiceRow {
	t.Helper()
	all, err := s.Ledger.Voices().Voices(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range all {
		if row.ID == id {
			return row
		}
	}
	return nil
}

// age makes a voice older.
func (s *studio) age(t *testing.T, row *store.VoiceRow, by time.Duration) {
	t.Helper()
	row.CreatedUs, row.UsedUs, row.ExpiresUs = row.CreatedUs-by.Microseconds(), row.UsedUs-by.Microseconds(),
		row.ExpiresUs-by.Microseconds()
	voices := s.Ledger.Voices()
	if _, err := voices.DeleteVoice(row.ID); err != nil {
		t.Fatal(err)
	}
	if err := voices.AddVoice(row); err != nil {
		t.Fatal(err)
	}
}

func (s *studio) speak(model, voice string) (status int, answer string) {
	return s.Post("/audio/speech", fmt.Sprintf(`{"model":%q,"input":"Hello.","voice":%q}`, model, voice), "")
}

// "My voice was gone after a week of daily use." A voice lives for a week from its
// creation; a lasting one for a week after each use, however early.
func TestVoicesLiveForAWeek(t *testing.T) {
	t.Parallel()
	sim := strict.New(upstream.Options{})
	base, err := sim.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	s := startStudio(t, strings.TrimSuffix(strings.TrimPrefix(base, "http://"), "/v1"))
	for _, model := range []string{"lasting", "passing"} {
		row := s.clone(t, model)
		s.age(t, row, 59*time.Minute) // a use that is not recorded
		if status, answer := s.speak(model, row.ID); status != 200 {
			t.Fatalf("%s: %d %s", model, status, answer)
		}
		left := time.Until(time.UnixMicro(s.row(t, row.ID).ExpiresUs))
		if lasts := left >= week-time.Minute; lasts != (model == "lasting") {
			t.Errorf("%s: used now, it has %s", model, left)
		}

		s.age(t, s.row(t, row.ID), 6*24*time.Hour)
		if status, answer := s.speak(model, row.ID); status != 200 {
			t.Fatalf("%s: %d %s", model, status, answer)
		}
		left = time.Until(time.UnixMicro(s.row(t, row.ID).ExpiresUs))
		if anew := left >= week-time.Minute; anew != (model == "lasting") || !anew && left > 25*time.Hour {
			t.Errorf("%s: used after six days, it has %s", model, left)
		}
		s.of.SweepOnce(time.Now())
		if s.row(t, row.ID) == nil {
			t.Errorf("%s: it was deleted before its time", model)
		}

		s.age(t, s.row(t, row.ID), week+2*time.Hour)
		if status, answer := s.speak(model, row.ID); status != 400 || !strings.Contains(answer, "has no voice") {
			t.Errorf("%s: an expired voice speaks: %d %.200s", model, status, answer)
		}
		s.of.SweepOnce(time.Now())
		if s.row(t, row.ID) != nil {
			t.Errorf("%s: an expired voice is kept", model)
		}
	}
	for _, id := range sim.Voices() {
		if !strings.HasPrefix(id, "vv_") { // which expire there by themselves
			t.Errorf("%s was not deleted at its upstream", id)
		}
	}
}

// An upstream that does not delete a voice is asked again, once a sweep for all its voices, and not
// forever. Its account can still have other voices cloned.
func TestUpstreamsThatKeepVoices(t *testing.T) {
	t.Parallel()
	var asked, status atomic.Int64
	status.Store(500)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodDelete {
			asked.Add(1)
			w.WriteHeader(int(status.Load()))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"voice_id":"abc123"}`)
	}))
	t.Cleanup(up.Close)
	s := startStudio(t, strings.TrimPrefix(up.URL, "http://"))
	first := s.clone(t, "lasting")
	s.age(t, first, week+2*time.Hour)
	for n := range store.MaxVoices - 1 {
		row := *first
		row.ID, row.Voice = fmt.Sprintf("vv_%032x", n), fmt.Sprintf("abc%d", n)
		if err := s.Ledger.Voices().AddVoice(&row); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Ledger.Voices().AddVoice(&store.VoiceRow{ID: "vv_x", Account: first.Account, CreatedUs: first.CreatedUs,
		ExpiresUs: first.ExpiresUs}); err != store.ErrManyVoices {
		t.Fatalf("one voice more than the most: %v", err)
	}
	s.of.SweepOnce(time.Now())
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times in one sweep", n)
	}
	again := s.clone(t, "lasting") // although so many are still there
	status.Store(404)
	s.of.SweepOnce(time.Now())
	if rows, _ := s.Ledger.Voices().Voices(0); len(rows) != 1 || rows[0].ID != again.ID {
		t.Errorf("%d voices are left that the upstream does not know", len(rows))
	}
	status.Store(500)
	s.age(t, again, 2*week+2*time.Hour)
	s.of.SweepOnce(time.Now())
	if s.row(t, again.ID) != nil || !strings.Contains(strings.Join(s.Log.Lines(), "\n"), `"voice":"abc123"`) {
		t.Errorf("it is not given up: %s", s.Log.Lines())
	}
}

// No goroutine of the sweep is left when the process ends.
func TestTheSweepOfVoicesEnds(t *testing.T) {
	of := audio.New(nil)
	of.Close() // it was never started
	sweeps := func() int {
		stacks := make([]byte, 1<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "audio.(*Capability).sweep(")
	}
	before := sweeps()
	s := startStudio(t, "127.0.0.1:9")
	for end := time.Now().Add(10 * time.Second); sweeps() == before && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := sweeps(); n != before+1 {
		t.Errorf("%d sweeps run at once", n-before)
	}
	s.of.Close()
	s.of.Close()
	for end := time.Now().Add(10 * time.Second); sweeps() != before && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := sweeps(); n != before {
		t.Errorf("%d sweep after the end", n-before)
	}
}
