package audio

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// "An upstream sent an error page, and I was charged for sound." An answer without sound
// is an error, and costs nothing; the next target is asked.
func TestSpeechWithoutSound(t *testing.T) {
	t.Parallel()
	s := startSpeech(t, "10")
	for _, format := range []string{"mp3", "wav", "pcm", "opus"} {
		for _, directive := range []string{"empty=1", "html=1", "error_event=1", "status=500", "status=429 retry_after=1",
			"garbage=1", "cut=fin cut_after=0", "wrong=text", "status=401"} {
			status, header, answer := s.Post("/audio/speech", s.key, speech("narrator", "[[sim "+directive+"]]",
				`,"response_format":"`+format+`"`))
			if status < 429 || status > 504 || !strings.HasPrefix(header.Get("Content-Type"), "application/json") ||
				strings.Contains(string(answer), "internal.simulated") {
				t.Errorf("%s as %s is answered %d %s %.200s", directive, format, status, header.Get("Content-Type"), answer)
			}
		}
	}
	for _, directive := range []string{"endless=1", "cut=fin cut_after=30000", "cut=rst cut_after=30000", "truncate=1 chunk=4096"} {
		status, answer, err := ask(t.Context(), s, speech("narrator", "[[sim "+directive+"]]"+strings.Repeat("x", 60),
			`,"response_format":"wav"`), "")
		if status != 200 || err == nil || len(answer) > 32<<20 {
			t.Errorf("%s: %d with %d bytes ends well", directive, status, len(answer))
		}
	}
	s.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
	if a := s.Settled()["a"]; a.Spent != 0 || a.Held != 0 {
		t.Errorf("answers without sound cost %s", a.Spent)
	}
	if status, _, answer := s.Post("/audio/speech", s.key, speech("two", "over there", "")); status != 200 {
		t.Errorf("the second target was not asked: %d %.200s", status, answer)
	}
	if a := s.Settled()["a"]; a.Spent != 10*100_000 {
		t.Errorf("ten characters of the second target cost %s", a.Spent)
	}
}

// Over random requests with faults and leaving clients, the ledger charges the speech
// that the upstreams made and the requests sent in full, to the nano-dollar.
func TestSpeechLedgerIsTheTruth(t *testing.T) { speechLedger(t, 150, 8) }

func TestLongSpeechLedgerIsTheTruth(t *testing.T) { speechLedger(t, servers.Campaign(800), 16) }

func speechLedger(t *testing.T, requests, workers int) {
	t.Parallel()
	s := startSpeech(t, "1000")
	faults := []string{"", "", "", "status=500", "error_event=1", "empty=1", "cut=fin cut_after=5000", "LATE", "LEAVE"}
	models := []string{"narrator", "labs", "native", "slow", "two"}
	var worth, next, left atomic.Int64
	var unsure sync.Map // characters of clients that left before an answer, by id
	source := rig.Seeded(t)
	var work sync.WaitGroup
	for w := range workers {
		work.Go(func() {
			x := source(uint64(w))
			for n := next.Add(1); int(n) <= requests; n = next.Add(1) {
				fault, model := faults[x.IntN(len(faults))], models[x.IntN(len(models))]
				id := fmt.Sprintf("r%d", n)
				directive := "[[sim id=" + id + " " + fault + "]]"
				ctx, cancel := context.WithTimeout(t.Context(), rig.CallLimit)
				switch fault {
				case "LATE": // its client leaves before there is an answer
					directive = "[[sim id=" + id + " think_ms=400]]"
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(1+x.IntN(100))*time.Millisecond)
				case "LEAVE": // …or in the middle of it
					directive = "[[sim id=" + id + " gap_ms=30]]"
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(100+x.IntN(200))*time.Millisecond)
				}
				more := ""
				if x.IntN(2) == 0 {
					more = `,"streaming":true`
				}
				text := directive + strings.Repeat("ä. ", 30+x.IntN(500))
				if model == "slow" {
					text = strings.Repeat(directive+" Ende. ", 8)
				}
				price := int64(len([]rune(text))) * 100_000
				format := []string{"mp3", "wav", "pcm"}[x.IntN(3)]
				if model == "native" && format == "pcm" {
					format = "mp3"
				}
				status, answer, err := ask(ctx, s, speech(model, text, more+`,"response_format":"`+format+`"`), "")
				cancel()
				switch {
				case fault == "LATE" || fault == "LEAVE" && err != nil:
					left.Add(1)
					unsure.Store(id, price)
				case fault == "" || fault == "LEAVE":
					if status != 200 || err != nil {
						t.Errorf("%s: %d %v %.200s", model, status, err, answer)
					}
					worth.Add(price)
				case err == nil && status < 400:
					t.Errorf("%s: %s is answered %d", model, fault, status)
				}
			}
		})
	}
	work.Wait()
	s.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
	s.sim.Idle(t)
	// A client that left pays for the request sent to its upstream. An upstream whose peer
	// was gone before it had read the request does not count it, and may have got it: any of
	// these may have been paid.
	handed := map[rig.Money]bool{0: true}
	unsure.Range(func(id, price any) bool {
		if s.sim.Made(id.(string)).Requests > 0 {
			worth.Add(price.(int64))
		} else {
			for sum := range maps.Clone(handed) {
				handed[sum+rig.Money(price.(int64))] = true
			}
		}
		return true
	})
	a := s.Settled()["a"]
	if !handed[a.Spent-rig.Money(worth.Load())] || a.Held != 0 {
		t.Errorf("charged %s for speech worth %s; the account is %+v", a.Spent, rig.Money(worth.Load()), a)
	}
	t.Logf("%d requests, %d clients left: charged %s", requests, left.Load(), a.Spent)
}

// A retry under the same key is given the same sound, and neither is charged twice; the
// first client need not have stayed.
func TestSpeechIsRepeatedUnderItsKey(t *testing.T) {
	t.Parallel()
	s := startSpeech(t, "10")
	body := speech("narrator", "[[sim gap_ms=40]]"+strings.Repeat("wieder und wieder. ", 10), `,"streaming":true,"response_format":"wav"`)
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	_, _, err := ask(ctx, s, body, "same")
	cancel()
	if err == nil {
		t.Log("the first client had its answer already")
	}
	var status int
	var first, second []byte
	for end := time.Now().Add(rig.CallLimit); ; time.Sleep(50 * time.Millisecond) {
		if status, first, err = ask(t.Context(), s, body, "same"); status != 409 || time.Now().After(end) {
			break
		}
	}
	if status != 200 || err != nil || len(first) < 10_000 {
		t.Fatalf("the repeat is answered %d with %d bytes (%v): %.200s", status, len(first), err, first)
	}
	if _, second, _ = ask(t.Context(), s, body, "same"); string(second) != string(first) {
		t.Error("two repeats differ")
	}
	n := len("[[sim gap_ms=40]]") + len("wieder und wieder. ")*10
	if a := s.Settled()["a"]; a.Spent != rig.Money(n*100_000) {
		t.Errorf("%d characters under one key cost %s", n, a.Spent)
	}
}
