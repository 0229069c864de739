package jail

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Word {
		Main(misdeeds())
	}
	_ = os.Unsetenv("FAREBOX_JAIL") // the misdeeds are this binary's own
	os.Exit(m.Run())
}

func pool(t testing.TB, o Options) *Pool {
	t.Helper()
	p := New(o)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func do(t testing.TB, p *Pool, job, word string, in []byte) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return p.Do(ctx, job, word, in)
}

// works shows that the next job is done as if nothing had happened.
func works(t testing.TB, p *Pool) {
	t.Helper()
	out, err := do(t, p, "echo", "", []byte("still here"))
	if err != nil || string(out) != "still here" {
		t.Fatalf("the next job: %q, %v", out, err)
	}
}

func TestAJobGetsItsBytesAndItsWord(t *testing.T) {
	p := pool(t, Options{Workers: 1})
	in := bytes.Repeat([]byte("farebox "), 1<<17)
	out, err := do(t, p, "echo", "", in)
	if err != nil || !bytes.Equal(out, in) {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	if out, err = do(t, p, "word", "ünd", nil); err != nil || string(out) != "ünd" {
		t.Fatalf("%q, %v", out, err)
	}
}

func TestOutputOfAJobCrossesWhole(t *testing.T) {
	p := pool(t, Options{Workers: 1})
	_, err := do(t, p, "refuse", "encrypted", []byte("the file has a password"))
	var r *Refusal
	if !errors.As(err, &r) || *r != (Refusal{"encrypted", "the file has a password"}) {
		t.Fatalf("%v", err)
	}
	if _, err = do(t, p, "fail", "", nil); !errors.As(err, &r) || *r != (Refusal{"failed", "it did not work"}) {
		t.Fatalf("%v", err)
	}
	if _, err = do(t, p, "nonsense", "", nil); !errors.As(err, &r) || r.Code != "unknown" {
		t.Fatalf("%v", err)
	}
	if p.Started() != 1 {
		t.Errorf("%d children for refusals, want 1", p.Started())
	}
}

func TestAJobThatPanicsTakesItsChildOnly(t *testing.T) {
	p := pool(t, Options{Workers: 1})
	for _, job := range []string{"panic", "index", "exit", "overflow", "goexit", "garbage", "silence"} {
		if _, err := do(t, p, job, "", nil); !errors.Is(err, ErrDied) {
			t.Errorf("%s: %v, want ErrDied", job, err)
		}
		works(t, p)
	}
}

func TestAnEndlessLoopDiesAtTheDeadline(t *testing.T) {
	p := pool(t, Options{Workers: 1, Limit: 300 * time.Millisecond})
	works(t, p)
	began := time.Now()
	if _, err := do(t, p, "loop", "", nil); !errors.Is(err, ErrTooSlow) {
		t.Errorf("%v, want ErrTooSlow", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	works(t, p)
}

func TestAMemoryBombDiesAndTheNextJobWorks(t *testing.T) {
	p := pool(t, Options{Workers: 1, Memory: 128 << 20})
	for _, job := range []string{"bomb", "mapbomb"} {
		if _, err := do(t, p, job, "", nil); !errors.Is(err, ErrDied) {
			t.Errorf("%s: %v, want ErrDied", job, err)
		}
		works(t, p)
	}
}

func TestAnOutputThatIsTooLargeIsNotTaken(t *testing.T) {
	p := pool(t, Options{Workers: 1, MaxOut: 1000})
	in := make([]byte, 1001)
	if out, err := do(t, p, "echo", "", in[:1000]); err != nil || len(out) != 1000 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	if _, err := do(t, p, "echo", "", in); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
	if _, err := do(t, p, "forged", "", in); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
	works(t, p)
}

// "Nineteen seconds of work were thrown away, since the twentieth was the last."
func TestSentOutputOfAJobStaysHoweverItEnds(t *testing.T) {
	p := pool(t, Options{Workers: 1, Limit: 500 * time.Millisecond, MaxOut: 1000})
	works(t, p)
	var no *Refusal
	for word, is := range map[string]func(error) bool{
		"":       func(err error) bool { return err == nil },
		"panic":  func(err error) bool { return errors.Is(err, ErrDied) },
		"exit":   func(err error) bool { return errors.Is(err, ErrDied) },
		"loop":   func(err error) bool { return errors.Is(err, ErrTooSlow) },
		"refuse": func(err error) bool { return errors.As(err, &no) },
	} {
		want := "aaaaa"
		if word == "" {
			want += "end"
		}
		out, err := do(t, p, "send", word, []byte("aaaaa"))
		if !is(err) || string(out) != want {
			t.Errorf("%q: %q, %v; want %q", word, out, err, want)
		}
		works(t, p)
	}
	out, err := do(t, p, "send", "", bytes.Repeat([]byte("a"), 998))
	if !errors.Is(err, ErrTooLarge) || len(out) != 998 {
		t.Errorf("%d bytes, %v; want those that fit and ErrTooLarge", len(out), err)
	}
	works(t, p)
}

func TestFiftyJobsAtOnceOnTwoChildrenAllEnd(t *testing.T) {
	p := pool(t, Options{Workers: 2})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if i == 20 {
				if _, err := do(t, p, "exit", "", nil); !errors.Is(err, ErrDied) {
					t.Errorf("%v, want ErrDied", err)
				}
				return
			}
			in := bytes.Repeat([]byte{byte(i)}, 100_000)
			if out, err := do(t, p, "echo", "", in); err != nil || !bytes.Equal(out, in) {
				t.Errorf("job %d: %d bytes, %v", i, len(out), err)
			}
		})
	}
	all.Wait()
	if p.Waiting() != 0 {
		t.Errorf("%d jobs are left", p.Waiting())
	}
}

func TestACallerThatLeavesFreesTheChild(t *testing.T) {
	p := pool(t, Options{Workers: 1})
	works(t, p)
	for _, job := range []string{"loop", "sleep", "silence"} {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		began := time.Now()
		_, err := p.Do(ctx, job, "", make([]byte, 1<<20))
		cancel()
		if job != "silence" && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want the context's", job, err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s took %v", job, took)
		}
		works(t, p)
	}
}

func TestACallerThatLeavesTheQueueIsNotWaitedFor(t *testing.T) {
	p := pool(t, Options{Workers: 1, Queue: 1})
	works(t, p)
	busy, leave := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Do(busy, "sleep", "", nil)
		ended <- err
	}()
	for p.Waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	queued := make(chan error, 1)
	go func() {
		_, err := p.Do(ctx, "echo", "", nil)
		queued <- err
	}()
	for p.Waiting() < 2 {
		time.Sleep(time.Millisecond)
	}
	if _, err := p.Do(busy, "echo", "", nil); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	if err := <-queued; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the context's", err)
	}
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's", err)
	}
	works(t, p)
}

func TestClosingEndsOpenWork(t *testing.T) {
	p := New(Options{Workers: 1})
	works(t, p)
	ended := make(chan error, 1)
	go func() {
		_, err := do(t, p, "sleep", "", nil)
		ended <- err
	}()
	for p.Waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	_ = p.Close()
	if err := <-ended; !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	if _, err := do(t, p, "echo", "", nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	_ = p.Close()
}

func TestWithoutChildrenJobsAreRefusedAtOnce(t *testing.T) {
	for _, command := range [][]string{{"/nonexistent/farebox", Word}, {"/bin/false"}} {
		p := pool(t, Options{Workers: 1, Command: command})
		if _, err := do(t, p, "echo", "", nil); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v: %v, want ErrUnavailable", command, err)
		}
		_ = p.Close()
	}
}

func TestAChildIsReplacedAfterItsJobs(t *testing.T) {
	p := pool(t, Options{Workers: 1, Jobs: 3})
	for range 9 {
		works(t, p)
	}
	if n := p.Started(); n < 3 || n > 4 {
		t.Errorf("%d children for 9 jobs, want 3 or 4", n)
	}
	if p.Died() != 0 {
		t.Errorf("%d children died", p.Died())
	}
}

func TestOutputOfAChildIsBounded(t *testing.T) {
	var f firstBytes
	for range 100 {
		_, _ = f.Write([]byte(strings.Repeat("x", 50)))
	}
	if n := len(f.bytes()); n != maxSaid {
		t.Errorf("%d bytes, want %d", n, maxSaid)
	}
}
