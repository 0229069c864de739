package report

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/config/fair"
)

// narrow is a store with two connections, on which each report takes a second.
type narrow struct{ connections chan struct{} }

func (n narrow) Report(ctx context.Context, _ func(*store.Query) error) error {
	select {
	case n.connections <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-n.connections }()
	time.Sleep(time.Second)
	return nil
}

func (narrow) Now() int64           { return time.Now().UnixNano() }
func (narrow) Today() int32         { return 0 }
func (narrow) SeveralNodes() bool   { return false }
func (narrow) Sign([]byte) [32]byte { return [32]byte{} }
func (narrow) Floor() money.Nano    { return 0 }

type stored struct{}

func (stored) Detailed() bool { return true }
func (stored) Detail() bool   { return true }
func (stored) Days() bool     { return true }

// "Another customer asks for its statement on 200 connections, and the query for my balance times out."
func TestReportsOfACustomerWaitForOneOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := New(narrow{make(chan struct{}, 2)})
		of := func(number uint64) Account {
			return Account{Reports: reports, No: uint32(number), Newest: stored{}}.For(fair.Paid(number))
		}
		var work sync.WaitGroup
		full := 0
		var mu sync.Mutex
		for range 300 {
			work.Go(func() {
				if _, err := of(1).Balance(); errors.Is(err, fair.ErrFull) {
					mu.Lock()
					full++
					mu.Unlock()
				} else if err != nil && !errors.Is(err, ErrTimeout) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		time.Sleep(time.Second / 2)
		began := time.Now()
		if _, err := of(2).Balance(); err != nil || time.Since(began) != time.Second*3/2 {
			t.Errorf("after %v: %v; expected the rest of one report and its own", time.Since(began), err)
		}
		work.Wait()
		if full != 300-readsAtOnce-readsWaiting+1 {
			t.Errorf("%d reports were refused for their number", full)
		}
	})
}
