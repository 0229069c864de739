package image

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// imageKind is a kind of request whose price is known.
type imageKind struct {
	path, body string // body with %s for the prompt
	pictures   int
	each, once rig.Money
}

// Over random requests with faults of every kind, the charge equals the price of the
// pictures in the answers, to the nano-dollar; no hold is left.
func TestImageLedgerIsTheTruth(t *testing.T) { imageLedger(t, 300, 8) }

func TestLongImageLedgerIsTheTruth(t *testing.T) { imageLedger(t, 3000, 16) }

func imageLedger(t *testing.T, requests, workers int) {
	s := startStudio(t, "10000")
	picture := base64.StdEncoding.EncodeToString(painting(512, 256))
	kinds := []imageKind{
		{"/image/generate", `{"model":"pixels","prompt":%q,"width":256,"height":256,"format":"png"}`, 1, 10_000_000, 0},
		{"/image/generate", `{"model":"pixels","prompt":%q,"width":256,"height":256,"format":"png","variants":4}`, 4,
			10_000_000, 0},
		{"/image/generate", `{"model":"pixels","prompt":%q,"width":256,"height":256,"format":"png","return_binary":true}`, 1, 10_000_000, 0},
		{"/image/generate", `{"model":"tiers","prompt":%q,"quality":"low","num_images":3,"enable_web_search":true,"format":"png"}`, 3, 20_000_000, 1_000_000},
		{"/images/generations", `{"prompt":%q,"size":"256x256"}`, 1, 10_000_000, 0},
		{"/image/edit", `{"prompt":%q,"image":"` + picture + `"}`, 1, 340_000_000, 0},
		{"/image/multi-edit", `{"prompt":%q,"images":["` + picture + `","` + picture + `"]}`, 1, 340_000_000,
			9_200_000},
		{"/image/upscale", `{"image":"` + picture + `","scale":1.5}`, 1, 20_000_000, 0},
		{"/image/background-remove", `{"image":"` + picture + `"}`, 1, 30_000_000, 0},
	}
	faults := []string{"", "", "", "", "FAIL", "POLICY", "GARBAGE", "BROKEN", "LATE"}
	var worth, charged, failed, left atomic.Int64
	prices := sync.Map{} // of requests whose clients left, by number
	var next atomic.Int64
	var work sync.WaitGroup
	source := rig.Seeded(t)
	for w := range workers {
		work.Add(1)
		go func() {
			defer work.Done()
			x := source(uint64(w))
			for n := next.Add(1); int(n) <= requests; n = next.Add(1) {
				k, fault := kinds[x.IntN(len(kinds)-2)], faults[x.IntN(len(faults))]
				if x.IntN(20) == 0 { // a picture that the simulated upstream takes long to paint
					k = kinds[len(kinds)-1-x.IntN(2)]
				}
				body := k.body
				if strings.Contains(body, "%q") {
					body = fmt.Sprintf(body, fmt.Sprintf("a painting %s %d.", fault, n))
				} else {
					fault = "" // it has no prompt that could say one
				}
				ctx, cancel := context.WithTimeout(context.Background(), rig.CallLimit)
				if fault == "LATE" {
					prices.Store(fmt.Sprintf(" %d.", n), int64(k.pictures)*int64(k.each)+int64(k.once))
					cancel()
					ctx, cancel = context.WithTimeout(context.Background(),
						time.Duration(1+x.IntN(200))*time.Millisecond)
				}
				status, answer := s.ask(ctx, k.path, body)
				cancel()
				switch {
				case fault == "LATE":
					if status != 0 {
						t.Errorf("an answer that never came has status %d", status)
					}
					left.Add(1)
				case fault != "":
					if status < 400 {
						t.Errorf("%s is answered %d", fault, status)
					}
					failed.Add(1)
				default:
					n := countPictures(answer)
					if status != 200 || n != k.pictures {
						t.Errorf("%s: %d with %d pictures, want %d: %.300s", k.path, status, n, k.pictures, answer)
						return
					}
					worth.Add(int64(n)*int64(k.each) + int64(k.once))
					charged.Add(1)
				}
			}
		}()
	}
	work.Wait()
	s.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
	// Pictures asked of the upstream were made, and are charged.
	for _, q := range s.easel.all() {
		prompt := q.Fields["prompt"]
		if price, late := prices.LoadAndDelete(prompt[max(0, strings.LastIndexByte(prompt, ' ')):]); late {
			worth.Add(price.(int64))
		}
	}
	a := s.Settled()["a"]
	if a.Spent != rig.Money(worth.Load()) || a.Held != 0 || a.USD+a.Spent != 10_000_000_000_000 {
		t.Errorf("charged %s for pictures worth %s; the account is %+v", a.Spent, rig.Money(worth.Load()), a)
	}
	t.Logf("%d answered, %d failed, %d left: charged %s", charged.Load(), failed.Load(), left.Load(), a.Spent)
	s.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
}

// ask posts a body; the status is 0 when ctx ended first.
func (s *studio) ask(ctx context.Context, path, body string, headers ...string) (status int, answer []byte) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Gateway.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, nil
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+s.key)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := rig.Client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = res.Body.Close() }()
	answer, err = io.ReadAll(res.Body)
	if err != nil {
		return 0, nil
	}
	return res.StatusCode, answer
}

// countPictures is how many whole pictures an answer has.
func countPictures(answer []byte) (n int) {
	var e struct {
		Images [][]byte
		Data   []struct {
			B64 []byte `json:"b64_json"`
		}
	}
	list := [][]byte{answer}
	if json.Unmarshal(answer, &e) == nil {
		list = e.Images
		for _, d := range e.Data {
			list = append(list, d.B64)
		}
	}
	for _, m := range list {
		if _, err := png.Decode(bytes.NewReader(m)); err == nil {
			n++
		}
	}
	return n
}

// "Nine of ten clients left before their pictures were there, and nobody paid for them."
// An ordered picture is made, and charged as made.
func TestLeavingWhileAPictureIsMade(t *testing.T) {
	t.Parallel()
	s := startStudio(t, "1")
	made := make(chan struct{})
	s.easel.mu.Lock()
	s.easel.wait = made
	s.easel.mu.Unlock()
	s.leave("/image/generate", `{"model":"pixels","prompt":"a gull","variants":4,"format":"png"}`)
	s.MetricIs("farebox_unattended_images", func(n float64) bool { return n == 1 })
	close(made)
	s.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
	if a := s.Settled()["a"]; a.Spent != 40_000_000 || a.Held != 0 {
		t.Errorf("four pictures of 0.01 whose clients had left: the account is %+v", a)
	}
	if n := s.easel.pictures(); n != 4 {
		t.Errorf("%d pictures were made", n)
	}
	s.MetricIs("farebox_unattended_images", func(n float64) bool { return n == 0 })
	s.leave("/image/generate", `{"model":"pixels","prompt":"LATE FAIL","format":"png"}`)
	s.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
	if got := s.spent(); got != 40_000_000 {
		t.Errorf("a picture that came to nothing was charged: %s", got)
	}
}

// Above the limit of requests that continue without a client, the upstream is let go, and
// the ordered pictures are charged: it may make them all the same.
func TestLeavingWhenTooManyHaveLeft(t *testing.T) {
	t.Parallel()
	e := startEasel(t)
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(strings.Replace(imagesConfig, "fetch:", "images: { unattended: 0 }\nfetch:",
		1), e.URL, sim.URL))
	g.NewAccount("a", "1")
	s := &studio{g, e, sim, g.Key("a")}
	s.leave("/image/generate", `{"model":"pixels","prompt":"HANG","variants":4,"format":"png"}`)
	s.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
	if a := s.Settled()["a"]; a.Spent != 40_000_000 || a.Held != 0 {
		t.Errorf("four pictures of 0.01 that were given up: the account is %+v", a)
	}
}

// leave asks, and goes away when the upstream was asked.
func (s *studio) leave(path, body string, headers ...string) {
	s.T.Helper()
	before := s.requests()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ask(ctx, path, body, headers...)
	}()
	for end := time.Now().Add(rig.CallLimit); s.requests() == before; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			s.T.Fatal("the upstream was not asked")
		}
	}
	time.Sleep(20 * time.Millisecond)
	cancel()
	<-done
}

// A picture that was being made when the process was killed costs nothing, and
// its money is back at the next start.
func TestKillWhileAPictureIsMade(t *testing.T) {
	t.Parallel()
	s := startStudio(t, "1")
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ask(context.Background(), "/image/generate", `{"model":"pixels","prompt":"HANG","variants":4}`)
	}()
	s.MetricIs("farebox_holds_open", func(n float64) bool { return n == 1 })
	s.Kill()
	<-done
	s.Start()
	if a := s.Settled()["a"]; a.Spent != 0 || a.Held != 0 || a.USD != 1_000_000_000 {
		t.Errorf("the account is %+v", a)
	}
	if status, _, answer := s.Post("/image/generate", s.key,
		`{"model":"pixels","prompt":"x","format":"png"}`); status != 200 {
		t.Errorf("after the restart: %d %.300s", status, answer)
	}
}

// A client that cannot pay for all requested pictures gets none of them, and the upstream
// is not asked.
func TestPicturesNeedTheirPrice(t *testing.T) {
	t.Parallel()
	s := startStudio(t, "0.039")
	status, _, answer := s.Post("/image/generate", s.key, `{"model":"pixels","prompt":"x","variants":4}`)
	if status != 402 || !strings.Contains(string(answer), "INSUFFICIENT_BALANCE") || s.requests() != 0 {
		t.Fatalf("%d %s after %d requests", status, answer, s.requests())
	}
	if status, _, answer = s.Post(
		"/image/generate", s.key, `{"model":"pixels","prompt":"x","variants":3,"format":"png"}`); status != 200 {
		t.Fatalf("%d %.300s", status, answer)
	}
	if a := s.Settled()["a"]; a.Spent != 30_000_000 || a.USD != 9_000_000 {
		t.Errorf("the account is %+v", a)
	}
}

// Usage entries and analytics show pictures as pictures.
func TestReportsShowPictures(t *testing.T) {
	t.Parallel()
	s := startStudio(t, "10")
	picture := base64.StdEncoding.EncodeToString(painting(512, 256))
	for path, body := range map[string]string{
		"/image/generate":   `{"model":"tiers","prompt":"x","num_images":2,"enable_web_search":true,"format":"png","quality":"low"}`,
		"/image/multi-edit": `{"prompt":"x","images":["` + picture + `","` + picture + `","` + picture + `"]}`,
	} {
		if status, _, answer := s.Post(path, s.key, body); status != 200 {
			t.Fatalf("%s: %d %.300s", path, status, answer)
		}
	}
	s.Settled()
	admin := s.Key("a", "--type", "ADMIN")
	want := map[string]string{
		"tiers-image-unit": "2 0.02 -0.04", "tiers-image-search-unit": "1 0.001 -0.001",
		"retouch-image-unit": "1 0.34 -0.34", "retouch-image-input-unit": "2 0.0092 -0.0184",
	}
	_, _, answer := s.Get("/billing/usage", admin)
	var usage struct {
		Data []struct {
			SKU                            string
			Units, PricePerUnitUSD, Amount json.Number
			InferenceDetails               map[string]any
		}
	}
	if err := json.Unmarshal(answer, &usage); err != nil || len(usage.Data) != len(want) {
		t.Fatalf("%v %s", err, answer)
	}
	for _, e := range usage.Data {
		if got := fmt.Sprint(e.Units, " ", e.PricePerUnitUSD, " ", e.Amount); got != want[e.SKU] {
			t.Errorf("%s: %s, want %s", e.SKU, got, want[e.SKU])
		}
		if d := e.InferenceDetails; d["promptTokens"] != nil || d["completionTokens"] != nil || d["requestId"] == "" {
			t.Errorf("%s: %v", e.SKU, d)
		}
	}
	_, _, answer = s.Get("/billing/usage-analytics", admin)
	var sums struct {
		ByModel []struct {
			ModelName, UnitType, ModelType string
			TotalUSD                       json.Number
			TotalUnits                     int
			Breakdown                      any
		}
	}
	if err := json.Unmarshal(answer, &sums); err != nil || len(sums.ByModel) != 2 {
		t.Fatalf("%v %s", err, answer)
	}
	for i, want := range []string{"retouch images IMAGE 0.3584 1 <nil>", "tiers images IMAGE 0.041 2 <nil>"} {
		m := sums.ByModel[i]
		if got := fmt.Sprint(m.ModelName, " ", m.UnitType, " ", m.ModelType, " ", m.TotalUSD, " ", m.TotalUnits, " ",
			m.Breakdown); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	_, _, answer = s.Get("/billing/usage?format=csv", admin)
	if !strings.Contains(string(answer), ",tiers-image-unit,0.02,2,-0.04,USD,API Inference,") ||
		!strings.Contains(string(answer), ",,\r\n") {
		t.Errorf("the CSV is %s", answer)
	}
}

// A request for four pictures uses four of the model's requests a minute.
func TestPicturesCountAgainstTheLimit(t *testing.T) {
	t.Parallel()
	e := startEasel(t)
	g := rig.StartGateway(t, strings.Replace(fmt.Sprintf(imagesConfig, e.URL, e.URL), "tier: unlimited", "tier: image",
		1))
	g.NewAccount("a", "10")
	key := g.Key("a")
	for i := range 5 {
		status, header, answer := g.Post("/image/generate", key,
			`{"model":"pixels","prompt":"x","width":256,"height":256,"variants":4,"format":"png"}`)
		if status != 200 || header.Get("X-Ratelimit-Limit-Requests") != "20" {
			t.Fatalf("request %d: %d %v %.300s", i, status, header, answer)
		}
	}
	status, header, answer := g.Post("/image/generate", key,
		`{"model":"pixels","prompt":"x","variants":4,"format":"png"}`)
	if status != 429 || header.Get("Retry-After") == "" || !strings.Contains(string(answer), "RATE_LIMIT_EXCEEDED") {
		t.Errorf("pictures 21 to 24 in a minute: %d %.300s", status, answer)
	}
}
