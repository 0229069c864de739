package health

import (
	"slices"
	"sync"
	"testing"
	"time"
)

const second = int64(time.Second)

func TestFailuresInARowOpenIt(t *testing.T) {
	b := NewBreaker(3, 10*time.Second)
	f := func(now int64, want State) {
		t.Helper()
		if got := b.State(now); got != want || b.ReadyFor(0, now) != (want != Open) {
			t.Errorf("at %d: state %d, ready %v, want state %d", now/second, got, b.ReadyFor(0, now), want)
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
	if !b.AcquireFor(0, 10*second) || b.AcquireFor(0, 10*second) {
		t.Error("one request finds out, and one only")
	}
	b.Failed(11*second, 0)
	f(20*second, Open)
	f(21*second, HalfOpen)
	if !b.AcquireFor(0, 21*second) {
		t.Error("no request may probe")
	}
	b.Released() // its client left
	if !b.AcquireFor(0, 22*second) {
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
	var told Change
	b.Watch(func(c Change) { told = c })
	b.Failed(0, 3*time.Second)
	if b.State(2*second) != Open || b.State(3*second) != HalfOpen || !told.Asked {
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

// One account can rest a target for five seconds and no more, however often it
// fails and whatever the upstream asks for; a second one confirms it.
func TestOneAccountRestsATargetForFiveSecondsAtMost(t *testing.T) {
	f := func(b *Breaker, now int64, want time.Duration) {
		t.Helper()
		if got := time.Duration(max(b.RestsUntil()-now, 0)); got != want {
			t.Errorf("it rests for %v, want %v", got, want)
		}
	}
	b := NewBreaker(3, time.Minute)
	for i := range int64(100) { // requests that were under way when it opened add nothing
		b.FailedFor(1, second+i, 90*time.Second)
	}
	f(b, second, MaxAlone)
	b.FailedFor(2, 7*second, 90*time.Second)
	f(b, 7*second, 90*time.Second)

	// A success of any account begins anew.
	b.Succeeded()
	b.FailedFor(2, 8*second, 90*time.Second)
	f(b, 8*second, MaxAlone)

	// Failures in a row are the same.
	b = NewBreaker(3, time.Minute)
	for range 3 {
		b.FailedFor(1, second, 0)
	}
	f(b, second, MaxAlone)
	b.FailedFor(2, 7*second, 0)
	f(b, 7*second, time.Minute)

	// Another account's failure of another kind does not confirm a 429.
	b = NewBreaker(30, time.Minute)
	b.FailedFor(1, second, 90*time.Second)
	b.FailedFor(2, 7*second, 0)
	b.FailedFor(1, 7*second, 90*time.Second)
	f(b, 7*second, MaxAlone)
	b.FailedFor(0, 13*second, 90*time.Second) // a probe of our own
	f(b, 13*second, 90*time.Second)
}

// An account that floods a resting target must not be the only one to probe it, and a
// request that hangs must not keep others from it.
func TestProbesAreShared(t *testing.T) {
	b := NewBreaker(1, time.Minute)
	b.FailedFor(1, second, 0)
	now := 2 * second
	if !b.ProbeFor(1, now) || b.ProbeFor(1, now) || b.ProbeFor(2, now) {
		t.Fatal("one probe at a time")
	}
	b.FailedFor(1, now, 0)
	if b.ProbeFor(1, now+second/2) {
		t.Error("the account whose probe failed probes again at once")
	}
	if !b.ProbeFor(2, now+second/2) {
		t.Error("another account may not probe")
	}
	if b.ProbeFor(1, now+3*second) {
		t.Error("two probes at once")
	}
	if !b.ProbeFor(1, now+6*second) {
		t.Error("a probe that hangs keeps all others out")
	}
}

// Each change is reported once.
func TestChangesAreReported(t *testing.T) {
	var got []Change
	b := NewBreaker(2, time.Minute)
	b.Watch(func(c Change) { got = append(got, c) })
	b.Failed(0, 0)
	b.Failed(second, 0)
	b.Failed(second+1, 0)
	b.ProbeFor(0, 2*second) // a last resort, before the rest is over
	b.Failed(2*second, 0)
	b.AcquireFor(0, 63*second)
	b.Released()
	b.AcquireFor(0, 63*second)
	b.Succeeded()
	b.Succeeded()
	b.Failed(64*second, 30*time.Second)
	b.AcquireFor(0, 95*second)
	b.Answering()
	want := []Change{
		{To: Open, Rest: time.Minute}, {To: HalfOpen}, {To: Closed},
		{To: Open, Rest: 30 * time.Second, Asked: true}, {To: HalfOpen}, {To: Closed},
	}
	if !slices.Equal(got, want) {
		t.Errorf("reported %v\nwant %v", got, want)
	}
	for state, n := range map[State]int64{Open: 2, HalfOpen: 2, Closed: 2} {
		if b.Became(state) != n {
			t.Errorf("became %s %d times, want %d", state, b.Became(state), n)
		}
	}
}

// A stream that begins lets others pass; only one that ends well forgives.
func TestBrokenStreamsOpenIt(t *testing.T) {
	b := NewBreaker(3, 10*time.Second)
	for i := range int64(3) {
		b.Answering()
		b.Failed(i, 0)
	}
	if b.State(3) != Open {
		t.Error("streams that all break keep it closed")
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
				if b.AcquireFor(0, n*second) {
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
	if !b.AcquireFor(0, 0) || b.State(0) != Closed {
		t.Error("a success did not close it")
	}
}

// A lone target that refused one customer answered 503 to all the others, but
// for one at a time.
func TestAFailureOfOneAccountRefusesNoOther(t *testing.T) {
	b := NewBreaker(5, 10*time.Second)
	b.FailedFor(1, 0, 60*time.Second)
	if b.State(0) != Open || b.RestsForAnother(1) || !b.RestsForAnother(2) || b.RestsForAnother(0) {
		t.Error("it rests for account 1 alone")
	}
	b.FailedFor(2, second, 60*time.Second)
	if b.RestsForAnother(3) {
		t.Error("two accounts have met it")
	}
	b.Succeeded()
	b.Failed(0, 60*time.Second)
	if b.RestsForAnother(3) {
		t.Error("a failure that no request can have caused concerns all accounts")
	}
}

// Nothing but the operator's word brings requests back to a target that is held.
func TestAHeldTargetGetsNothingUntilItIsFree(t *testing.T) {
	for _, held := range []Held{Drained, Offline} {
		b := NewBreaker(2, time.Second)
		b.Failed(1, 0)
		b.Hold(held)
		b.Succeeded() // requests under way end
		b.Answering()
		b.Failed(2*second, time.Minute)
		b.Released()
		if b.Held() != held || b.ReadyFor(1, 1<<60) || b.AcquireFor(1, 1<<60) || b.ProbeFor(1, 1<<60) || b.RestsForAnother(2) {
			t.Errorf("%s: it takes a request", held)
		}
		b.Hold(Free)
		b.Hold(Free)
		if b.State(0) != Closed || !b.AcquireFor(1, 0) {
			t.Errorf("%s: it takes none afterwards", held)
		}
		b.Failed(3*second, 0)
		if b.State(3*second) != Closed {
			t.Errorf("%s: failures from before still count", held)
		}
	}
}
