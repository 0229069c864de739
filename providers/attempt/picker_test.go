package attempt

import (
	"slices"
	"testing"
	"time"

	"farebox/providers/health"
)

// stub is a target by its health and rank.
type stub struct {
	*health.Breaker
	rank int
	pace *health.Pace
}

type stubs struct{}

func (stubs) Target(t *stub) (*health.Breaker, int) { return t.Breaker, 1 }
func (stubs) Rank(t *stub, _ int64) int             { return t.rank }
func (stubs) Pace(t *stub) *health.Pace             { return t.pace }

func picker(ranks ...int) (p Picker[*stub, stubs], list []*stub) {
	for _, rank := range ranks {
		list = append(list, &stub{health.NewBreaker(1, time.Minute), rank, &health.Pace{}})
	}
	p.Begin(list, 1)
	return p, list
}

// A fifth target was asked, or one after an answer that the client was to get.
func TestNoTargetIsAskedAfterTheLastAttempt(t *testing.T) {
	for _, v := range []Verdict{Judge(200, 0), Judge(400, 0), {Do: Fail}} {
		p, list := picker(0, 1)
		p.Report(p.Next(1), v, 1)
		if p.Next(1) != nil {
			t.Errorf("%+v: another is asked", v)
		}
		if list[0].RestsUntil() != 0 {
			t.Errorf("%+v: it rests", v)
		}
	}
	p, _ := picker(0, 1, 2, 3, 4, 5, 6)
	for _, pass := range []bool{true, false, false, true, false, false} {
		u := p.Next(1)
		if u == nil {
			t.Fatal("a skipped target counts as asked")
		}
		if pass {
			p.Pass(u)
		} else {
			p.Report(u, Broken(), 1)
		}
	}
	if p.Next(1) != nil {
		t.Errorf("more than %d are asked", MaxAttempts)
	}
}

// One that cannot serve the request is not even the last resort.
func TestTargetsBelowRankZeroAreNeverAsked(t *testing.T) {
	p, list := picker(-1, 0)
	list[1].Failed(1, 0)
	if p.Next(1) != list[1] || p.Next(1) != nil {
		t.Error("not the one that rests")
	}
}

// A lone target that could not be connected to is asked once more, and blamed
// once; where there is another, that one is asked.
func TestAnUnsentRequestIsSentOnceMore(t *testing.T) {
	unsent := Verdict{Do: Retry, Health: Bad, Unsent: true}
	p, list := picker(0)
	asked := 0
	for u := p.Next(1); u != nil; u = p.Next(1) {
		asked++
		p.Report(u, unsent, 1)
	}
	if failures, _ := list[0].Counts(); asked != 2 || failures != 1 {
		t.Errorf("asked %d times, blamed %d times", asked, failures)
	}
	p, list = picker(0, 1)
	p.Report(p.Next(1), unsent, 1)
	if p.Next(1) != list[1] {
		t.Error("the other one is not asked")
	}
}

// A fast standby target takes no turn from a slow one of a lower rank, and of one rank
// all that are about as fast as the best share the turns, however many are slow.
func TestFastTargetsHaveTheTurnsOfTheirRank(t *testing.T) {
	const now = int64(1_000_000 * time.Second)
	asked := map[int]int{}
	for range 1000 {
		p, list := picker(0, 1, 1, 1, 1)
		p.Fast = true
		for i, took := range []time.Duration{time.Second, time.Second, 20 * time.Millisecond, time.Second, 25 * time.Millisecond} {
			list[i].pace.Ask(now)
			list[i].pace.Note(now, int64(took), false)
		}
		if p.Next(now) != list[0] {
			t.Fatal("a target of a later rank took the turn")
		}
		asked[slices.Index(list, p.Next(now))]++
	}
	if asked[2] < 400 || asked[4] < 400 || asked[2]+asked[4] != 1000 {
		t.Errorf("of the second rank are asked %v, expected 2 and 4, alike often", asked)
	}
}

// A target that was chosen and never reported on does not keep others from probing it:
// neither if the request ended, nor if its answer goes on.
func TestAProbeEndsWithItsRequest(t *testing.T) {
	p, list := picker(0)
	list[0].FailedFor(1, 1, 0)
	if p.Next(2) == nil {
		t.Fatal("it is not probed")
	}
	other, _ := picker()
	other.Begin(list, 1)
	if other.Next(2) != nil {
		t.Fatal("there are two probes")
	}
	p.End()
	if other.Next(2) == nil {
		t.Fatal("the first probe never ends")
	}
	other.Report(list[0], Verdict{Health: Begun}, 2)
	if list[0].State(2) != health.Closed {
		t.Error("it rests although it is answering")
	}
}

// A drained target is for requests that failed at all others, and one that is offline for none.
func TestHeldTargetsAreNotTheFirstChoice(t *testing.T) {
	p, list := picker(0, 1, 2)
	list[0].Hold(health.Drained)
	list[1].Hold(health.Offline)
	for _, want := range []int{2, 0} {
		u := p.Next(1)
		if u != list[want] {
			t.Fatalf("%d is asked, expected %d", slices.Index(list, u), want)
		}
		p.Report(u, Broken(), 1)
	}
	if p.Next(1) != nil {
		t.Error("a target that is offline is asked")
	}
	p.Begin(list[:2], 1)
	if p.Next(1) != nil || p.Choose(1) != nil || RestsFor(list[:2], stubs{}, 1) != 0 {
		t.Error("held targets alone are asked")
	}
}
