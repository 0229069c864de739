package replay

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestKeyedRequestIsCarriedOutOnceAndChargedOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		i := f.Keys
		large := string(bytes.Repeat([]byte("0123456789abcdef"), 10_000))
		for n, body := range []string{`{"result":"0x1"}`, large} {
			key := fmt.Sprint("key-", n)
			lead, answer, err := begin(i, f.claim(key, "request"))
			if err != nil || lead == nil || answer != nil {
				t.Fatalf("the first request: %v %v %v", lead, answer, err)
			}
			if charged := f.carryOut(lead, 14_000, body); charged != 14_000 {
				t.Errorf("charged %d", charged)
			}
			for range 3 {
				lead, answer, err = begin(i, f.claim(key, "request"))
				if err != nil || lead != nil {
					t.Fatalf("a repeat: %v %v", lead, err)
				}
				if answer.Status != 200 || string(answer.Body) != body ||
					!slices.Equal(answer.Header, []Header{{"X-Credits", "20"}}) {
					t.Errorf("the repeat differs: %d %v, %d bytes", answer.Status, answer.Header, len(answer.Body))
				}
			}
			if _, _, err := begin(i, f.claim(key, "another request")); !errors.Is(err, ErrReused) {
				t.Errorf("the key with another request: %v", err)
			}
		}
		if f.charged.Load() != 28_000 {
			t.Errorf("spent %d", f.charged.Load())
		}
		if s := i.Stats(); s != (Stats{Led: 2, Replayed: 6, Reused: 2}) {
			t.Errorf("counted %+v", s)
		}
	})
}

// 64 clients ask the same at once: one request upstream, one charge, 64 equal answers.
func TestConcurrentDuplicatesWaitForTheFirst(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		i := f.Keys
		var led atomic.Int64
		var wg sync.WaitGroup
		for range 64 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				lead, answer, err := begin(i, f.claim("k", "request"))
				switch {
				case err != nil:
					t.Error(err)
				case lead != nil:
					led.Add(1)
					if _, _, err := begin(i, f.claim("k", "other")); !errors.Is(err, ErrReused) {
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
		if led.Load() != 1 || f.charged.Load() != 500 {
			t.Errorf("carried out %d times, charged %d", led.Load(), f.charged.Load())
		}
	})
}

// "The first one failed": the next in line executes the request.
func TestWaiterLeadsWhenTheLeaderFails(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		i := f.Keys
		var led, answered atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				lead, answer, err := begin(i, f.claim("k", "request"))
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
		if led.Load() != 4 || answered.Load() != 12 || f.charged.Load() != 500 {
			t.Errorf("%d led, %d were answered, charged %d", led.Load(), answered.Load(), f.charged.Load())
		}
	})
}

func TestWaitingForASlowLeaderEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		i := f.Keys
		lead, _, err := begin(i, f.claim("k", "request"))
		if err != nil {
			t.Fatal(err)
		}
		c := f.claim("k", "request")
		c.Wait = 10 * time.Millisecond
		if _, _, err := begin(i, c); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v", err)
		}
		lead.Forget()
	})
}

func TestKeysOfOtherAccountsAreOtherKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		i := f.Keys
		lead, _, err := begin(i, f.claim("k", "request"))
		if err != nil {
			t.Fatal(err)
		}
		f.carryOut(lead, 1, "mine")
		c := f.claim("k", "request")
		c.Account = 2
		lead, _, err = begin(i, c)
		if err != nil || lead == nil {
			t.Fatalf("the other account got %v, %v", lead, err)
		}
		lead.Forget()
	})
}

// An answer larger than the limit is not kept, but its existence is: the request is never
// executed again.
func TestTooLargeAnswerIsNotCarriedOutAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		i := f.Keys
		i.maxAnswer = 1000
		lead, _, err := begin(i, f.claim("k", "request"))
		if err != nil {
			t.Fatal(err)
		}
		for range 11 {
			lead.Record(make([]byte, 100))
		}
		if !lead.Keep(1, &Answer{Status: 200}) {
			t.Error("that there was an answer is not kept")
		}
		if _, _, err := begin(i, f.claim("k", "request")); !errors.Is(err, ErrTooLarge) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRecordedPiecesAreTheAnswer(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	i := f.Keys
	lead, _, err := begin(i, f.claim("k", "request"))
	if err != nil {
		t.Fatal(err)
	}
	lead.Record([]byte("one "))
	lead.Record([]byte("two"))
	lead.Keep(1, &Answer{Status: 200})
	if _, a, err := begin(i, f.claim("k", "request")); err != nil || string(a.Body) != "one two" {
		t.Errorf("got %v, %v", a, err)
	}
}

// A restart forgets nothing, and pending requests can be led again.
func TestKeysOutliveARestart(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		lead, _, err := begin(f.Keys, f.claim("done", "request"))
		if err != nil {
			t.Fatal(err)
		}
		f.carryOut(lead, 1, "answer")
		if lead, _, err = begin(f.Keys, f.claim("failed", "request")); err != nil {
			t.Fatal(err)
		}
		lead.Forget()
		if _, _, err = begin(f.Keys, f.claim("pending", "request")); err != nil {
			t.Fatal(err)
		}
		f.reopen()
		i := f.Keys
		if _, a, err := begin(i, f.claim("done", "request")); err != nil || a == nil || string(a.Body) != "answer" {
			t.Errorf("the answer is gone: %v %v", a, err)
		}
		if _, _, err := begin(i, f.claim("pending", "other")); !errors.Is(err, ErrReused) {
			t.Errorf("a pending key was forgotten: %v", err)
		}
		for _, key := range []string{"failed", "pending"} {
			lead, _, err := begin(i, f.claim(key, "request"))
			if err != nil || lead == nil {
				t.Fatalf("%s: %v", key, err)
			}
			lead.Forget()
		}
	})
}

func TestKeysExpireAndTheirFilesGo(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	i := f.Keys
	files := i.store.(*fileStore)
	for n := range 30 {
		lead, _, err := begin(i, f.claim(fmt.Sprint("k", n), "request"))
		if err != nil {
			t.Fatal(err)
		}
		f.carryOut(lead, 1, "answer")
		f.nowNs.Add(int64(time.Hour))
		files.tend()
	}
	left, err := filepath.Glob(filepath.Join(files.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 24 || len(files.index) != 24 || len(files.hours) != 24 {
		t.Errorf("%d files, %d keys and %d hours are left; a window has 24 hours", len(left), len(files.index),
			len(files.hours))
	}
	// 23 hours and 24: 29 was begun an hour ago, 7 is 23 hours old, 6 is 24.
	for n, known := range map[int]bool{29: true, 7: true, 6: false, 0: false} {
		lead, a, err := begin(i, f.claim(fmt.Sprint("k", n), "request"))
		if err != nil || (a != nil) != known {
			t.Errorf("key %d: %v %v", n, a, err)
		}
		if lead != nil {
			lead.Forget()
		}
	}
	if left, err = filepath.Glob(filepath.Join(files.dir, "*")); err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, path := range left {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	heads := int64(len(left)) * int64(len(fileMagic))
	if stored := files.bytes.Used(); stored != size-heads {
		t.Errorf("%d bytes are counted, %d on disk", stored, size-heads)
	}
}

// "The disk is broken" or full: an answer that cannot be kept is not charged, and the
// next try is.
func TestAnswerThatCannotBeKeptIsNotCharged(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	i := f.Keys
	lead, _, err := begin(i, f.claim("k", "request"))
	if err != nil {
		t.Fatal(err)
	}
	files := i.store.(*fileStore)
	good := files.last.file
	if files.last.file, err = os.Open(good.Name()); err != nil { // cannot be written
		t.Fatal(err)
	}
	if charged := f.carryOut(lead, 500, "answer"); charged != 0 {
		t.Errorf("charged %d", charged)
	}
	_ = files.last.file.Close()
	files.last.file = good
	lead, _, err = begin(i, f.claim("k", "request"))
	if err != nil || lead == nil {
		t.Fatal(lead, err)
	}
	f.carryOut(lead, 500, "answer")
	if f.charged.Load() != 500 || i.Stats().Free != 1 {
		t.Errorf("spent %d, %+v", f.charged.Load(), i.Stats())
	}
}

// "The log said that a job was not charged, and it was": a charge whose answer could not
// be kept is neither counted nor logged as free.
func TestChargesAreNotReportedAsFree(t *testing.T) {
	t.Parallel()
	var told bytes.Buffer
	f := open(t, nil, func(o *Options) { o.Log = zerolog.New(&told) })
	lead, _, err := begin(f.Keys, f.claim("k", "request"))
	if err != nil {
		t.Fatal(err)
	}
	files := f.store.(*fileStore)
	good := files.last.file
	if files.last.file, err = os.Open(good.Name()); err != nil { // cannot be written
		t.Fatal(err)
	}
	lead.KeepCharged(1, &Answer{Status: 200, Body: []byte("answer")})
	if f.Stats().Free != 0 || lead.Kept() || !lead.Ended() || !strings.Contains(told.String(), "it is charged") ||
		strings.Contains(told.String(), "not charged") {
		t.Errorf("%+v, %s", f.Stats(), &told)
	}
	_ = files.last.file.Close()
	files.last.file = good
	told.Reset()
	if lead.Keep(1, &Answer{Status: 200}) {
		t.Error("it ended twice")
	}
	if lead.KeepCharged(1, &Answer{Status: 200}); told.Len() > 0 {
		t.Error(told.String())
	}
}

// A file with a torn end, as after a crash, is read up to it and continued.
func TestTornEndIsCutOff(t *testing.T) {
	t.Parallel()
	for _, cut := range []int64{1, headSize - 1, headSize, headSize + 3} {
		f := open(t, nil)
		for n := range 3 {
			lead, _, err := begin(f.Keys, f.claim(fmt.Sprint(n), "request"))
			if err != nil {
				t.Fatal(err)
			}
			f.carryOut(lead, 1, "an answer of some length")
		}
		path := f.store.(*fileStore).last.file.Name()
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
		i := f.Keys
		for n := range 2 {
			if _, a, err := begin(i, f.claim(fmt.Sprint(n), "request")); err != nil || a == nil {
				t.Errorf("cut %d: key %d is gone: %v", cut, n, err)
			}
		}
		lead, a, err := begin(i, f.claim("2", "request"))
		if err != nil || a != nil {
			t.Fatalf("cut %d: the torn answer: %v %v", cut, a, err)
		}
		lead.Forget()
		f.reopen()
	}
}

// A byte of a kept answer has changed on disk: the request is not executed again, and the
// wrong answer is not given.
func TestDamagedAnswerIsNotGiven(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	i := f.Keys
	lead, _, err := begin(i, f.claim("k", "request"))
	if err != nil {
		t.Fatal(err)
	}
	f.carryOut(lead, 1, "answer")
	last := i.store.(*fileStore).last
	if _, err := last.file.WriteAt([]byte("X"), last.end-1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := begin(i, f.claim("k", "request")); !errors.Is(err, ErrTooLarge) {
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
