package fair

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// "My page had ten seconds, and another customer's documents used up all of them."
func TestWaitingForATurnUsesNoTimeOfTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, began := NewTurns(1, 10), time.Now()
		other, err := turns.Take(t.Context(), Paid(1))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, other.Done)
		outer, stop := WithLimit(t.Context(), 10*time.Second)
		defer stop()
		inner, stopInner := WithLimit(outer, 4*time.Second)
		defer stopInner()
		time.Sleep(3 * time.Second)
		p, err := turns.Take(inner, Paid(2))
		if err != nil || time.Since(began) != time.Minute {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		defer p.Done()
		if left, ok := Left(inner); !ok || left != time.Second {
			t.Errorf("%v are left of the inner limit", left)
		}
		child, cancel := context.WithTimeout(inner, time.Hour)
		defer cancel()
		<-child.Done()
		if !errors.Is(child.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(child), context.DeadlineExceeded) ||
			time.Since(began) != time.Minute+time.Second {
			t.Errorf("the inner limit ended with %v after %v", child.Err(), time.Since(began))
		}
		if outer.Err() != nil {
			t.Errorf("the outer limit ended, too: %v", outer.Err())
		}
		<-outer.Done()
		if !errors.Is(outer.Err(), context.DeadlineExceeded) || time.Since(began) != time.Minute+7*time.Second {
			t.Errorf("the outer limit ended with %v after %v", outer.Err(), time.Since(began))
		}
	})
}

// The parent bounds the wait, and a limit ends with it.
func TestALimitEndsWithItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, began := NewTurns(1, 10), time.Now()
		other, err := turns.Take(t.Context(), Paid(1))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Done()
		whole, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		ctx, stop := WithLimit(whole, time.Second)
		defer stop()
		_, err = turns.Take(ctx, Paid(2))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 20*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, stop = WithLimit(t.Context(), time.Second)
		stop()
		if <-ctx.Done(); !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("%v", ctx.Err())
		}
	})
}

// A paid request uses nothing of the budget, a failed one all of its cost.
func TestOnlyUnpaidWorkCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(10 * time.Second)
		for _, paid := range []bool{true, false} {
			m := b.Meter(Paid(1))
			ctx := WithMeter(t.Context(), m)
			MeterOf(ctx).Add(6 * time.Second)
			MeterOf(ctx).Add(6 * time.Second)
			if w := m.Wait(); w != 0 {
				t.Errorf("waits %v before the request ended", w)
			}
			m.End(paid)
			m.End(!paid)
			m.Add(time.Second) // for a page that other requests waited for, too
			if w, want := m.Wait(), map[bool]time.Duration{true: 0, false: 18 * time.Second}[paid]; w != want {
				t.Errorf("paid %v: waits %v, expected %v", paid, w, want)
			}
		}
		if MeterOf(t.Context()).Add(time.Hour); MeterOf(t.Context()).Wait() != 0 {
			t.Error("work without a meter counts")
		}
	})
}
