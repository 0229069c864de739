package load

import (
	"sync"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// pacer releases arrivals at a constant rate, independent of their outcome. An
// arrival is the time from which its latency counts.
type pacer struct {
	due      chan time.Time
	lateness *hdr.Histogram
	measured atomic.Bool
	missed   atomic.Int64 // found the queue full
	quit     chan struct{}
	done     sync.WaitGroup
	clock    *alarm
}

func newPacer(rate float64) (*pacer, error) {
	clock, err := newAlarm()
	if err != nil {
		return nil, err
	}
	p := &pacer{due: make(chan time.Time, maxBacklog), lateness: newHistogram(), quit: make(chan struct{}),
		clock: clock}
	p.done.Add(1)
	go p.run(rate)
	return p, nil
}

// shortestSleep releases arrivals above 20,000 a second in small groups instead of a timer
// each.
const shortestSleep = 50 * time.Microsecond

func (p *pacer) run(rate float64) {
	defer p.done.Done()
	defer close(p.due)
	begin := time.Now()
	for n := 0; ; n++ {
		intended := begin.Add(time.Duration(float64(n) / rate * float64(time.Second)))
		now := time.Now()
		if wait := intended.Sub(now); wait > 0 {
			if !p.clock.sleep(max(wait, shortestSleep)) {
				return
			}
			now = time.Now()
		}
		select {
		case <-p.quit:
			return
		default:
		}
		p.release(intended, now)
	}
}

// release releases one arrival. Its latency counts from when it was meant to
// be sent; up to a millisecond of lateness is the timer's own and is not the
// server's latency.
func (p *pacer) release(intended, now time.Time) {
	late := max(0, now.Sub(intended))
	if p.measured.Load() {
		record(p.lateness, late)
	}
	if late < ownLateness {
		intended = now
	}
	select {
	case p.due <- intended:
	default:
		p.missed.Add(1)
	}
}

func (p *pacer) stop() {
	close(p.quit)
	p.clock.close()
	p.done.Wait()
}

// unsent empties the queue: these arrivals never got a connection.
func (p *pacer) unsent() int64 {
	n := p.missed.Load()
	for range p.due {
		n++
	}
	return n
}
