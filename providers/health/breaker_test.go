package health

import (
	"sync"
	"testing"
	"time"
)

const second = int64(time.Second)

func TestFailuresInARowOpenIt(t *testing.T) {
	b := NewBreaker(3, 10*time.Second)
	f := func(now int64, want State) {
		t.Helper()
		if got := b.State(now); got != want || b.Ready(now) != (want != Open) {
			t.Errorf("at %d: state %d, ready %v, want state %d", now/second, got, b.Ready(now), want)
		}
	}
	b.Failed(0, 0)
	b.Failed(0, 0)
	b.Succeeded()
	b.Failed(0, 0)
	b.Failed(0, 0)
	f(0, Closed)
	b.Failed(0, 0)
	f(9*second, Open)
	f(10*second, HalfOpen)
	if !b.Acquire(10*second) || b.Acquire(10*second) {
		t.Error("one request finds out, and one only")
	}
	b.Failed(11*second, 0)
	f(20*second, Open)
	f(21*second, HalfOpen)
	if !b.Acquire(21 * second) {
		t.Error("nobody may find out")
	}
	b.Released() // its client left
	if !b.Acquire(22 * second) {
		t.Error("the next one may find out")
	}
	b.Succeeded()
	f(22*second, Closed)
	if failures, opened := b.Counts(); failures != 6 || opened != 2 {
		t.Errorf("%d failures, opened %d times", failures, opened)
	}
}

func TestAskedForTimeIsGivenWithinReason(t *testing.T) {
	b := NewBreaker(5, 10*time.Second)
	b.Failed(0, 3*time.Second)
	if b.State(2*second) != Open || b.State(3*second) != HalfOpen || b.Failing() {
		t.Error("one answer with Retry-After rests it for that long")
	}
	b.Failed(0, 24*time.Hour)
	if b.State(int64(MaxCoolDown)-1) != Open || b.State(int64(MaxCoolDown)) != HalfOpen {
		t.Error("a day is not believed")
	}
	off := NewBreaker(0, time.Second)
	for range 100 {
		off.Failed(0, time.Hour)
	}
	if off.State(0) != Closed {
		t.Error("it was switched off")
	}
}

// Thousands of requests report at once; afterwards it must be as open or
// closed as the last of them say.
func TestReportsFromEverywhere(t *testing.T) {
	b := NewBreaker(5, time.Second)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range int64(2000) {
				if b.Acquire(n * second) {
					if (n+int64(i))%3 == 0 {
						b.Succeeded()
					} else {
						b.Failed(n*second, 0)
					}
				}
			}
		})
	}
	wg.Wait()
	b.Succeeded()
	if !b.Acquire(0) || b.State(0) != Closed {
		t.Error("a success did not close it")
	}
}
