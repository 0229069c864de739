package health

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Quantiles are as exact as buckets are, and buckets add up.
func TestTimesTellQuantilesAndBuckets(t *testing.T) {
	var m Meter
	_, whole := m.Of(true, OutcomeOf(404))
	if whole.Quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	for i := range 100 {
		whole.Add(time.Duration(i) * 10 * time.Millisecond)
	}
	whole.Add(time.Hour)
	if p50, p100 := whole.Quantile(0.5), whole.Quantile(1); p50 < 320*time.Millisecond || p50 > 640*time.Millisecond ||
		p100 != 300*time.Second {
		t.Errorf("half takes %v, all take %v", p50, p100)
	}
	var b bytes.Buffer
	m.Each(func(status string, streamed bool, _, whole *Times) {
		whole.Write(&b, "n", fmt.Sprintf("status=%q,streamed=\"%t\"", status, streamed))
	})
	for _, line := range []string{`n_bucket{status="4xx",streamed="true",le="0.64"} 65`,
		`n_bucket{status="4xx",streamed="true",le="+Inf"} 101`, `n_count{status="4xx",streamed="true"} 101`} {
		if !strings.Contains(b.String(), line+"\n") {
			t.Errorf("%s is not in\n%s", line, b.String())
		}
	}
}

// Counting takes no memory.
func TestTimesDoNotAllocate(t *testing.T) {
	var m Meter
	var p Pace
	now := int64(1)
	if n := testing.AllocsPerRun(1000, func() {
		first, whole := m.Of(false, Success)
		first.Add(time.Second)
		whole.Add(time.Second)
		now += int64(2 * time.Millisecond)
		p.Ask(now)
		p.Note(now, now, false)
		p.Cost(now, true)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
