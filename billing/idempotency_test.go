package billing

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/config"
)

// keyedFixture is a ledger with one key and money, and what its idempotency is
// kept in.
type keyedFixture struct {
	*fixture
	k     *Key
	redis *servers.Redis // nil: files
}

// onBoth runs a story with both stores.
func onBoth(t *testing.T, story func(t *testing.T, f *keyedFixture)) {
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		story(t, openKeyed(t, nil))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		story(t, openKeyed(t, servers.StartRedis(t)))
	})
}

func openKeyed(t *testing.T, r *servers.Redis, adjust ...func(*Options)) *keyedFixture {
	t.Helper()
	f := &keyedFixture{redis: r}
	f.fixture = openLedger(t, append(adjust, func(o *Options) {
		if r != nil {
			// The limits' timeout is patient: the machine is shared.
			o.Redis = config.Redis{Addresses: []string{r.Addr}, Timeout: 5 * time.Second, Away: "open"}
		}
	})...)
	f.account("a", 1000*usd)
	f.k, _ = f.key("a")
	return f
}

func (f *keyedFixture) claim(key, body string) *Claim {
	return &Claim{Account: f.k.Account, Key: []byte(key), Fingerprint: sha256.Sum256([]byte(body)), Patience: time.Minute, Wait: 30 * time.Second}
}

// carryOut is what a route does with a lead.
func (f *keyedFixture) carryOut(l *Lead, cost Nano, body string) Nano {
	f.t.Helper()
	a := f.ask(f.k, 1000)
	a.RequestID = l.RequestID()
	var h Hold
	if d := f.Admit(&h, a); d.Code != Admitted {
		f.t.Errorf("denied: %v", d.Code)
	}
	charged, _ := l.Settle(&h, Settlement{Cost: cost, Model: "model", Status: 200, NowNs: f.clock.nano()},
		&Answer{Status: 200, Header: []AnswerHeader{{"X-Credits", "20"}}, Body: []byte(body)})
	return charged
}

func (f *keyedFixture) spent() Nano {
	f.t.Helper()
	usd, _, _ := f.k.Balance()
	return 1000*1_000_000_000 - usd
}

func TestKeyedRequestIsCarriedOutOnceAndChargedOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f *keyedFixture) {
		i := f.Idempotency()
		large := string(bytes.Repeat([]byte("0123456789abcdef"), 10_000))
		for n, body := range []string{`{"result":"0x1"}`, large} {
			key := fmt.Sprint("key-", n)
			lead, answer, err := i.Begin(f.claim(key, "request"))
			if err != nil || lead == nil || answer != nil {
				t.Fatalf("the first request: %v %v %v", lead, answer, err)
			}
			if charged := f.carryOut(lead, 14_000, body); charged != 1000+13_000 {
				t.Errorf("charged %d", charged)
			}
			for range 3 {
				lead, answer, err = i.Begin(f.claim(key, "request"))
				if err != nil || lead != nil {
					t.Fatalf("a repeat: %v %v", lead, err)
				}
				if answer.Status != 200 || string(answer.Body) != body || !slices.Equal(answer.Header, []AnswerHeader{{"X-Credits", "20"}}) {
					t.Errorf("the repeat differs: %d %v, %d bytes", answer.Status, answer.Header, len(answer.Body))
				}
			}
			if _, _, err := i.Begin(f.claim(key, "another request")); !errors.Is(err, ErrKeyReused) {
				t.Errorf("the key with another request: %v", err)
			}
		}
		if f.spent() != 28_000 {
			t.Errorf("spent %d", f.spent())
		}
		if s := i.Stats(); s != (KeyedStats{Led: 2, Replayed: 6, Reused: 2}) {
			t.Errorf("counted %+v", s)
		}
		f.recount()
	})
}

// 64 clients ask the same at once: one request upstream, one charge, 64 equal answers.
func TestConcurrentDuplicatesWaitForTheFirst(t *testing.T) {
	onBoth(t, func(t *testing.T, f *keyedFixture) {
		i := f.Idempotency()
		var led atomic.Int64
		var wg sync.WaitGroup
		for range 64 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				lead, answer, err := i.Begin(f.claim("k", "request"))
				switch {
				case err != nil:
					t.Error(err)
				case lead != nil:
					led.Add(1)
					if _, _, err := i.Begin(f.claim("k", "other")); !errors.Is(err, ErrKeyReused) {
						t.Errorf("another request under the key of a pending one: %v", err)
					}
					time.Sleep(20 * time.Millisecond)
					f.carryOut(lead, 500, "answer")
				case string(answer.Body) != "answer":
					t.Errorf("got %q", answer.Body)
				}
			}()
		}
		wg.Wait()
		if led.Load() != 1 || f.spent() != 500 {
			t.Errorf("carried out %d times, charged %d", led.Load(), f.spent())
		}
	})
}

// "The first one failed": the next in line carries the request out.
func TestWaiterLeadsWhenTheLeaderFails(t *testing.T) {
	onBoth(t, func(t *testing.T, f *keyedFixture) {
		i := f.Idempotency()
		var led, answered atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				lead, answer, err := i.Begin(f.claim("k", "request"))
				switch {
				case err != nil:
					t.Error(err)
				case answer != nil:
					answered.Add(1)
				case led.Add(1) < 4:
					lead.Forget()
					lead.Forget() // changes nothing
				default:
					f.carryOut(lead, 500, "answer")
				}
			}()
		}
		wg.Wait()
		if led.Load() != 4 || answered.Load() != 12 || f.spent() != 500 {
			t.Errorf("%d led, %d were answered, charged %d", led.Load(), answered.Load(), f.spent())
		}
	})
}

func TestWaitingForASlowLeaderEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, f *keyedFixture) {
		i := f.Idempotency()
		lead, _, err := i.Begin(f.claim("k", "request"))
		if err != nil {
			t.Fatal(err)
		}
		c := f.claim("k", "request")
		c.Wait = 10 * time.Millisecond
		if _, _, err := i.Begin(c); !errors.Is(err, ErrKeyBusy) {
			t.Errorf("got %v", err)
		}
		lead.Forget()
	})
}

func TestKeysOfOtherAccountsAreOtherKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, f *keyedFixture) {
		f.account("b", usd)
		other, _ := f.key("b")
		i := f.Idempotency()
		lead, _, err := i.Begin(f.claim("k", "request"))
		if err != nil {
			t.Fatal(err)
		}
		f.carryOut(lead, 1, "mine")
		c := f.claim("k", "request")
		c.Account = other.Account
		lead, _, err = i.Begin(c)
		if err != nil || lead == nil {
			t.Fatalf("the other account got %v, %v", lead, err)
		}
		lead.Forget()
	})
}

// What an answer larger than the limit was is not known any more, but that
// there was one: it is never carried out again.
func TestTooLargeAnswerIsNotCarriedOutAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, f *keyedFixture) {
		i := f.Idempotency()
		i.maxAnswer = 1000
		lead, _, err := i.Begin(f.claim("k", "request"))
		if err != nil {
			t.Fatal(err)
		}
		for range 11 {
			lead.Record(make([]byte, 100))
		}
		a := f.ask(f.k, 1000)
		var h Hold
		f.Admit(&h, a)
		if charged, _ := lead.Settle(&h, Settlement{Cost: 7, NowNs: f.clock.nano()}, &Answer{Status: 200}); charged != 7 {
			t.Errorf("charged %d", charged)
		}
		if _, _, err := i.Begin(f.claim("k", "request")); !errors.Is(err, ErrKeyTooLarge) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRecordedPiecesAreTheAnswer(t *testing.T) {
	t.Parallel()
	f := openKeyed(t, nil)
	i := f.Idempotency()
	lead, _, err := i.Begin(f.claim("k", "request"))
	if err != nil {
		t.Fatal(err)
	}
	lead.Record([]byte("one "))
	lead.Record([]byte("two"))
	var h Hold
	f.Admit(&h, f.ask(f.k, 1000))
	lead.Settle(&h, Settlement{Cost: 7, NowNs: f.clock.nano()}, &Answer{Status: 200})
	if _, a, err := i.Begin(f.claim("k", "request")); err != nil || string(a.Body) != "one two" {
		t.Errorf("got %v, %v", a, err)
	}
}

// A restart in between forgets nothing, and what was under way can be led again.
func TestKeysOutliveARestart(t *testing.T) {
	onBoth(t, func(t *testing.T, f *keyedFixture) {
		lead, _, err := f.Idempotency().Begin(f.claim("done", "request"))
		if err != nil {
			t.Fatal(err)
		}
		f.carryOut(lead, 1, "answer")
		if lead, _, err = f.Idempotency().Begin(f.claim("failed", "request")); err != nil {
			t.Fatal(err)
		}
		lead.Forget()
		if _, _, err = f.Idempotency().Begin(f.claim("pending", "request")); err != nil {
			t.Fatal(err)
		}
		f.reopen()
		f.adopt(t)
		i := f.Idempotency()
		if _, a, err := i.Begin(f.claim("done", "request")); err != nil || a == nil || string(a.Body) != "answer" {
			t.Errorf("the answer is gone: %v %v", a, err)
		}
		if _, _, err := i.Begin(f.claim("pending", "other")); !errors.Is(err, ErrKeyReused) {
			t.Errorf("a pending key was forgotten: %v", err)
		}
		for _, key := range []string{"failed", "pending"} {
			lead, _, err := i.Begin(f.claim(key, "request"))
			if err != nil || lead == nil {
				t.Fatalf("%s: %v", key, err)
			}
			lead.Forget()
		}
	})
}

func TestKeysExpireAndTheirFilesGo(t *testing.T) {
	t.Parallel()
	f := openKeyed(t, nil)
	i := f.Idempotency()
	files := i.store.(*keyedFiles)
	for n := range 30 {
		lead, _, err := i.Begin(f.claim(fmt.Sprint("k", n), "request"))
		if err != nil {
			t.Fatal(err)
		}
		f.carryOut(lead, 1, "answer")
		f.clock.advance(time.Hour)
		files.tend()
	}
	left, err := filepath.Glob(filepath.Join(files.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 24 || len(files.index) != 24 || len(files.hours) != 24 {
		t.Errorf("%d files, %d keys and %d hours are left; a window has 24 hours", len(left), len(files.index), len(files.hours))
	}
	// 23 hours and 24: 29 was begun an hour ago, 7 is 23 hours old, 6 is 24.
	for n, known := range map[int]bool{29: true, 7: true, 6: false, 0: false} {
		lead, a, err := i.Begin(f.claim(fmt.Sprint("k", n), "request"))
		if err != nil || (a != nil) != known {
			t.Errorf("key %d: %v %v", n, a, err)
		}
		if lead != nil {
			lead.Forget()
		}
	}
	var size int64
	for _, path := range left {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	files.mu.Lock()
	stored := files.stored
	files.mu.Unlock()
	if grown := int64(4 * keyedHead); stored < size || stored > size+grown+2*int64(len(keyedMagic)) {
		t.Errorf("%d bytes are counted, %d on disk", stored, size)
	}
}

func TestFullStoreRefusesNewKeysAndKeepsOldOnes(t *testing.T) {
	t.Parallel()
	f := openKeyed(t, nil, func(o *Options) {
		o.Idempotency = config.DefaultIdempotency()
		o.Idempotency.MaxKeys = 3
	})
	i := f.Idempotency()
	for n := range 4 {
		lead, _, err := i.Begin(f.claim(fmt.Sprint(n), "request"))
		if n == 3 {
			if !errors.Is(err, ErrKeysAway) {
				t.Errorf("the fourth key: %v", err)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		f.carryOut(lead, 1, "answer")
	}
	if _, a, err := i.Begin(f.claim("0", "request")); err != nil || a == nil {
		t.Errorf("the first key: %v", err)
	}
	// Without room for its body the answer is still known to have been given.
	files := i.store.(*keyedFiles)
	files.mu.Lock()
	files.maxKeys, files.maxStored = 100, files.stored+4*keyedHead
	files.mu.Unlock()
	lead, _, err := i.Begin(f.claim("4", "request"))
	if err != nil {
		t.Fatal(err)
	}
	if charged := f.carryOut(lead, 9, "a body that is longer than what is left ............................................................................................................................................................................................................................................................................................"); charged != 9 {
		t.Errorf("charged %d", charged)
	}
	if _, _, err := i.Begin(f.claim("4", "request")); !errors.Is(err, ErrKeyTooLarge) {
		t.Errorf("got %v", err)
	}
	if _, _, err := i.Begin(f.claim("5", "request")); !errors.Is(err, ErrKeysAway) {
		t.Errorf("got %v", err)
	}
}

// "The disk is broken" or full: what cannot be kept is not charged, and the
// next try is.
func TestAnswerThatCannotBeKeptIsNotCharged(t *testing.T) {
	t.Parallel()
	f := openKeyed(t, nil)
	i := f.Idempotency()
	lead, _, err := i.Begin(f.claim("k", "request"))
	if err != nil {
		t.Fatal(err)
	}
	files := i.store.(*keyedFiles)
	good := files.last.file
	if files.last.file, err = os.Open(good.Name()); err != nil { // cannot be written
		t.Fatal(err)
	}
	if charged := f.carryOut(lead, 500, "answer"); charged != 0 {
		t.Errorf("charged %d", charged)
	}
	_ = files.last.file.Close()
	files.last.file = good
	lead, _, err = i.Begin(f.claim("k", "request"))
	if err != nil || lead == nil {
		t.Fatal(lead, err)
	}
	f.carryOut(lead, 500, "answer")
	if f.spent() != 500 || i.Stats().Free != 1 {
		t.Errorf("spent %d, %+v", f.spent(), i.Stats())
	}
	f.recount()
}

// A file whose end is torn, as after a crash, is read up to there and goes on.
func TestTornEndIsCutOff(t *testing.T) {
	t.Parallel()
	for _, cut := range []int64{1, keyedHead - 1, keyedHead, keyedHead + 3} {
		f := openKeyed(t, nil)
		for n := range 3 {
			lead, _, err := f.Idempotency().Begin(f.claim(fmt.Sprint(n), "request"))
			if err != nil {
				t.Fatal(err)
			}
			f.carryOut(lead, 1, "an answer of some length")
		}
		path := f.Idempotency().store.(*keyedFiles).last.file.Name()
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, info.Size()-cut); err != nil {
			t.Fatal(err)
		}
		f.open()
		i := f.Idempotency()
		for n := range 2 {
			if _, a, err := i.Begin(f.claim(fmt.Sprint(n), "request")); err != nil || a == nil {
				t.Errorf("cut %d: key %d is gone: %v", cut, n, err)
			}
		}
		lead, a, err := i.Begin(f.claim("2", "request"))
		if err != nil || a != nil {
			t.Fatalf("cut %d: the torn answer: %v %v", cut, a, err)
		}
		lead.Forget()
		f.reopen()
	}
}

// A byte of a kept answer has changed on disk: the request is not carried out
// again, and nothing wrong is given.
func TestDamagedAnswerIsNotGiven(t *testing.T) {
	t.Parallel()
	f := openKeyed(t, nil)
	i := f.Idempotency()
	lead, _, err := i.Begin(f.claim("k", "request"))
	if err != nil {
		t.Fatal(err)
	}
	f.carryOut(lead, 1, "answer")
	last := i.store.(*keyedFiles).last
	if _, err := last.file.WriteAt([]byte("X"), last.end-1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := i.Begin(f.claim("k", "request")); !errors.Is(err, ErrKeyTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestValidKey(t *testing.T) {
	f := func(text string, want bool) {
		t.Helper()
		if got := ValidKey([]byte(text)); got != want {
			t.Errorf("%.20q: %v", text, got)
		}
	}
	f("", false)
	f("a", true)
	f("Az09_-", true)
	f("a b", false)
	f("ä", false)
	f("a.b", false)
	f("a\n", false)
	f(string(bytes.Repeat([]byte("k"), 255)), true)
	f(string(bytes.Repeat([]byte("k"), 256)), false)
}
