package background

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// "After a reload the old loop still ran": Close returns when the last goroutine has ended.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Work
		var rounds atomic.Int64
		ended := false
		w.Every(time.Second, func() { rounds.Add(1) })
		w.Go(func() {
			<-w.Closing()
			time.Sleep(time.Minute)
			ended = true
		})
		time.Sleep(3500 * time.Millisecond)
		w.Close()
		if rounds.Load() != 3 || !ended || w.Context().Err() == nil {
			t.Errorf("%d rounds in 3.5 s, ended: %t, context: %v", rounds.Load(), ended, w.Context().Err())
		}
		w.Close()
	})
}

// A wait ends with its owner, so that stopping is immediate.
func TestSleepEndsWithItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Work
		began := time.Now()
		if !w.Sleep(time.Second) || time.Since(began) != time.Second {
			t.Errorf("slept for %s", time.Since(began))
		}
		time.AfterFunc(time.Second, w.Close)
		if w.Sleep(time.Hour) || time.Since(began) != 2*time.Second {
			t.Errorf("it went on sleeping for %s", time.Since(began))
		}
	})
}

// An owner that was never started closes, too.
func TestNothingBegan(t *testing.T) {
	var w Work
	w.Close()
	if w.Sleep(time.Hour) {
		t.Error("a closed owner slept")
	}
}
