package audio

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/upstream/sound"
	"farebox/tests/rig"
)

// An upstream that says another length than the sound has gains and loses nothing.
func TestUpstreamsThatLieAboutLengths(t *testing.T) {
	t.Parallel()
	e := startEar(t, "10")
	file := sound.Bytes("wav", 20*time.Second)
	spent := rig.Money(0)
	for said, want := range map[string]int64{
		"0": 20, "0.001": 20, "-5": 20, "1e9": 20, "1e999": 20, "none": 20, "21": 20, "20": 20, "19.2": 20, "18.7": 19,
		"10": 20,
	} {
		status, _, answer := e.hear(file, "prompt", "[[sim heard="+said+"]]")
		if status != 200 || !strings.Contains(answer, fmt.Sprintf(`"usage":{"type":"duration","seconds":%d}`, want)) {
			t.Errorf("%s: %d %s", said, status, answer)
		}
		spent = e.costs(said, spent, want)
	}
}

// A head of one second does not buy a minute, whatever the upstream believes.
func TestHeadersThatLieBuyNothing(t *testing.T) {
	t.Parallel()
	e := startEar(t, "0.005") // 50 seconds
	minute := append(sound.Bytes("wav", time.Second), bytes.Repeat([]byte{0x55}, 59*2*sound.Rate)...)
	if status, _, answer := e.hear(minute); status != 402 {
		t.Errorf("a minute after a header of a second: %d %s", status, answer)
	}
	e.Credit("a", "1")
	if status, _, answer := e.hear(minute); status != 200 {
		t.Errorf("with money: %d %s", status, answer)
	}
	spent := e.costs("a minute", 0, 60)

	// A head of days is a second of sound, and costs it.
	long := sound.Bytes("wav", time.Second)
	binary.LittleEndian.PutUint32(long[bytes.Index(long, []byte("data"))+4:], 1<<32-1)
	if status, _, answer := e.hear(long); status != 200 {
		t.Errorf("a header of days: %d %s", status, answer)
	}
	e.costs("a second", spent, 1)
}

// A client that leaves when the upstream has the sound pays for its length; with an
// idempotency key it gets the answer later, once.
func TestLeavingATranscription(t *testing.T) {
	t.Parallel()
	e := startEar(t, "10")
	file := sound.Bytes("wav", 7*time.Second)
	leave := func(headers ...string) {
		t.Helper()
		e.sim.Idle(t)
		body, contentType := upload(file, "prompt", "[[sim think_ms=1000]]")
		ctx, cancel := context.WithCancel(context.Background())
		left := make(chan struct{})
		go func() {
			defer close(left)
			_, _, _ = e.send(ctx, body, contentType, headers...)
		}()
		rig.Await(t, "the upstream is asked", func() bool { return e.sim.Stats().Open > 0 })
		cancel()
		<-left
	}
	leave("Idempotency-Key", "once")
	body, contentType := upload(file, "prompt", "[[sim think_ms=1000]]") // with another boundary
	status, header, answer := e.send(context.Background(), body, contentType, "Idempotency-Key", "once")
	if status != 200 || header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the retry: %d %v %s", status, header, answer)
	}
	spent := e.costs("a client that left with a key", 0, 7)

	leave()
	rig.Await(t, "the leaver is charged", func() bool { return e.Settled()["a"].Spent > spent })
	e.costs("a client that left", spent, 7)
	if !strings.Contains(e.AwaitLog(`"status":499`), `"cause":"client_gone"`) {
		t.Error("the log does not say that the client left")
	}
}

// A refused file was not transcribed: a client that leaves while the refusal comes owes nothing.
func TestLeavingARefusedTranscription(t *testing.T) {
	t.Parallel()
	e := startEar(t, "10")
	body, contentType := upload(sound.Bytes("wav", 7*time.Second), "prompt", "[[sim status=422 slow_body=2000]]")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		rig.Await(t, "the upstream is asked", func() bool { return e.sim.Stats().Open > 0 })
		time.Sleep(200 * time.Millisecond)
		cancel()
	}()
	_, _, _ = e.send(ctx, body, contentType)
	cancel()
	if !strings.Contains(e.AwaitLog(`"status":499`), `"cause":"client_gone"`) {
		t.Error("the client did not leave while it was refused")
	}
	e.sim.Idle(t)
	if a := e.Settled()["a"]; a.Spent != 0 || a.USD != rig.Money(10_000_000_000) {
		t.Errorf("it is charged %s", a.Spent)
	}
}

// Another target is asked where one does not take the sound, never where it has.
func TestTranscriptionsFailOver(t *testing.T) {
	t.Parallel()
	e := startEar(t, "10")
	file := sound.Bytes("wav", 2*time.Second)
	if status, _, answer := e.hear(file, "model", "doubled"); status != 200 {
		t.Errorf("a target that refuses: %d %s", status, answer)
	}
	e.sim.Idle(t) // else its end counts behind the reset
	e.sim.Reset()
	if status, _, answer := e.hear(file, "model", "doubled", "prompt", "[[sim status=0 cut=rst cut_after=10]]"); status != 502 {
		t.Errorf("a target that breaks off: %d %s", status, answer)
	}
	if n := e.sim.Idle(t).Requests; n != 1 {
		t.Errorf("%d targets had the sound", n)
	}
	e.costs("one answer", 0, 2)
}

// Over random requests with faults the charge equals the price of the sound, to the nano-dollar.
func TestTranscriptionLedgerIsTheTruth(t *testing.T) {
	t.Parallel()
	e := startEar(t, "100")
	faults := []string{"", "", "", "", "status=500", "status=400", "wrong=half", "heard=0", "heard=1e9", "heard=none"}
	source := rig.Seeded(t)
	var work sync.WaitGroup
	var mu sync.Mutex
	worth := rig.Money(0)
	for w := range uint64(4) {
		work.Add(1)
		go func() {
			defer work.Done()
			x := source(w)
			for range 25 {
				n := 1 + x.IntN(9)
				fault := faults[x.IntN(len(faults))]
				format := []string{"wav", "flac"}[x.IntN(2)]
				status, _, answer := e.hear(sound.Bytes(format, time.Duration(n)*time.Second), "prompt", "[[sim "+fault+"]]")
				bad := strings.HasPrefix(fault, "status") || strings.HasPrefix(fault, "wrong")
				if bad != (status != http.StatusOK) {
					t.Errorf("%s: %d %.200s", fault, status, answer)
				}
				if status == http.StatusOK {
					mu.Lock()
					worth += rig.Money(n * second)
					mu.Unlock()
				}
			}
		}()
	}
	work.Wait()
	e.costs("all of them", 0, int64(worth)/second)
}

// Twenty uploads of 25 MB at a time are in memory once each.
func TestLongUploadsOfSoundAreInMemoryOnce(t *testing.T) {
	e := startEar(t, "1000")
	file := sound.Bytes("wav", time.Second)
	file = append(file, make([]byte, 25<<20-len(file)-1024)...)
	binary.LittleEndian.PutUint32(file[bytes.Index(file, []byte("data"))+4:], uint32(len(file)-44))
	body, contentType := upload(file, "prompt", "[[sim think_ms=3000]]")
	before := rig.ResidentKB(t, e.PID(), "VmRSS")
	const clients = 20
	var work sync.WaitGroup
	for range clients {
		work.Add(1)
		go func() {
			defer work.Done()
			if status, _, answer := e.send(context.Background(), body, contentType); status != 200 {
				t.Errorf("%d %.300s", status, answer)
			}
		}()
	}
	work.Wait()
	most := rig.ResidentKB(t, e.PID(), "VmHWM") - before
	t.Logf("%d uploads of 25 MB took %d KB", clients, most)
	if most > clients*25<<10*3/2 {
		t.Errorf("%d uploads of 25 MB took %d KB", clients, most)
	}
}
