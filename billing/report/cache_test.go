package report

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var errTest = errors.New("the store has failed")

// "The dashboard, open in ten tabs, brought the database down."
func TestAnalyticsAreAskedForOnce(t *testing.T) {
	var c cache
	var asked atomic.Int64
	ask := func() (*Analytics, bool, error) {
		asked.Add(1)
		time.Sleep(50 * time.Millisecond)
		return &Analytics{First: 1}, true, nil
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if sum, err := c.get(cacheKey{1, 1, 7}, ask); err != nil || sum.First != 1 {
				t.Errorf("%+v, %v", sum, err)
			}
		})
	}
	all.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("20 at once asked the store %d times", n)
	}
	for _, other := range []cacheKey{{2, 1, 7}, {1, 2, 7}, {1, 1, 8}} {
		before := asked.Load()
		if _, err := c.get(other, ask); err != nil || asked.Load() != before+1 {
			t.Errorf("%+v was answered with another's figures", other)
		}
	}
	c.m[cacheKey{1, 1, 7}].at = time.Now().Add(-cacheFor)
	before := asked.Load()
	if _, err := c.get(cacheKey{1, 1, 7}, ask); err != nil || asked.Load() != before+1 {
		t.Error("an answer is kept for longer than 10 minutes")
	}
}

// Errors are not cached, and the cache is bounded.
func TestAnalyticsCacheForgets(t *testing.T) {
	var c cache
	k := cacheKey{1, 1, 1}
	if _, err := c.get(k, func() (*Analytics, bool, error) { return nil, false, errTest }); !errors.Is(err, errTest) {
		t.Errorf("the first answer is %v", err)
	}
	if _, err := c.get(k, func() (*Analytics, bool, error) { return &Analytics{}, true, nil }); err != nil {
		t.Errorf("an error is kept: %v", err)
	}
	k = cacheKey{2, 1, 1}
	for _, first := range []int32{1, 2} {
		sum, err := c.get(k, func() (*Analytics, bool, error) { return &Analytics{First: first}, first > 1, nil })
		if err != nil || sum.First != first {
			t.Errorf("an incomplete answer is kept: %+v, %v", sum, err)
		}
	}
	for i := range int32(3 * cacheMost) {
		_, _ = c.get(cacheKey{1, i, i}, func() (*Analytics, bool, error) { return &Analytics{}, true, nil })
	}
	if len(c.m) > cacheMost {
		t.Errorf("%d answers are kept", len(c.m))
	}
	var s anchors
	for i := range int64(3 * anchorsMost) {
		s.put(anchorKey{limit: i}, map[uint32]uint64{})
	}
	if len(s.m) > anchorsMost || s.get(anchorKey{limit: 3*anchorsMost - 1}) == nil {
		t.Errorf("%d ends of lists are kept", len(s.m))
	}
}
