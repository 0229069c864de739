package fair

import (
	"sync/atomic"
	"testing"
)

func TestEachRunsSoManyAtATime(t *testing.T) {
	var now, most, ran atomic.Int64
	full := make(chan struct{})
	Each(7, 3, func(int) {
		n := now.Add(1)
		for top := most.Load(); n > top && !most.CompareAndSwap(top, n); top = most.Load() {
		}
		if n == 3 && ran.Load() == 0 {
			close(full)
		}
		<-full
		ran.Add(1)
		now.Add(-1)
	})
	if ran.Load() != 7 || most.Load() != 3 {
		t.Errorf("%d calls ran, at most %d at a time; expected 7 and 3", ran.Load(), most.Load())
	}
}

func TestEachPanicsInItsCaller(t *testing.T) {
	var ran atomic.Int64
	defer func() {
		if v := recover(); v != "broken" || ran.Load() != 4 {
			t.Errorf("recovered %v after %d other calls; expected broken and 4", v, ran.Load())
		}
	}()
	Each(5, 2, func(i int) {
		if i == 1 {
			panic("broken")
		}
		ran.Add(1)
	})
}
