package job

import (
	"testing"
	"time"
)

// Ten thousand jobs that wait for long are polled a hundred times a second; jobs that
// were sold just now are polled as soon as ever.
func TestCrowdsAreAskedAfterMoreSeldom(t *testing.T) {
	m, terms := &Machine{}, &Terms{PollMin: time.Second, PollMax: time.Minute, Timeout: time.Hour}
	old, young := &entry{created: now().Add(-20 * time.Minute)}, &entry{created: now().Add(-12 * time.Second)}
	for _, c := range []struct {
		waiting     int64
		e           *entry
		least, most time.Duration
	}{
		{10, old, 40 * time.Second, 80 * time.Second},
		{10_000, old, 70 * time.Second, 130 * time.Second},
		{10_000, young, time.Second, 4 * time.Second},
	} {
		m.tally.allMine = c.waiting
		sum := time.Duration(0)
		for range 100 {
			sum += m.interval(c.e, terms, 0)
		}
		if mean := sum / 100; mean < c.least || mean > c.most {
			t.Errorf("where %d wait, one that is %v old is asked after each %v, want %v to %v", c.waiting,
				now().Sub(c.e.created).Round(time.Second), mean, c.least, c.most)
		}
	}
}
