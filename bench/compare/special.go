package compare

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"farebox/bench/load"
)

// Memory is the cost of open streams at a gateway.
type Memory struct {
	Streams     int           `json:"streams"`
	Open        int64         `json:"open"`           // of them at the upstream
	IdleBytes   int64         `json:"idle_bytes"`     // after one request
	IdleCPU     float64       `json:"idle_cpu_share"` // of a core, meanwhile
	OpenBytes   int64         `json:"open_bytes"`     // with all streams open
	KBPerStream float64       `json:"kb_per_stream"`
	Failed      int64         `json:"failed"`
	CPUUs       float64       `json:"cpu_us_per_event"`
	Levels      []MemoryLevel `json:"levels"`
}

// KB is the memory of a stream at level i, 1 for the fewest, over no streams.
func (m *Memory) KB(i int) float64 {
	if i >= len(m.Levels) {
		return 0
	}
	at := m.Levels[i]
	return float64(at.RSSBytes-m.Levels[0].RSSBytes) / 1024 / float64(max(1, at.Open))
}

// MemoryLevel is the memory at a number of streams; the first level has no streams.
type MemoryLevel struct {
	Streams  int   `json:"streams"`
	Open     int64 `json:"open"` // of them at the upstream
	RSSBytes int64 `json:"rss_bytes"`
	PSSBytes int64 `json:"pss_bytes"`
}

const (
	rampPerSecond = 5000.0 / 3
	// looksBefore the end of a run memory is read, with all streams open.
	looksBefore = 100 * time.Millisecond
)

// memoryPlan is how many streams are opened, and how long each level is watched.
func memoryPlan(quick bool) (levels []int, settle time.Duration) {
	if quick {
		return []int{250, 500, 1000}, 1200 * time.Millisecond
	}
	return []int{1000, 4000, 8000}, 4 * time.Second
}

// measureMemory opens ever more slow streams, each time through an unused gateway.
func (l *lab) measureMemory(ctx context.Context, name string, levels []int, settle time.Duration) (Memory, error) {
	var list []MemoryLevel
	var idle float64
	for i, streams := range levels {
		watched := settle
		if i < len(levels)-1 {
			watched /= 4
		}
		m, err := l.openStreams(ctx, name, streams, watched)
		if err != nil {
			return m, err
		}
		if i == 0 {
			list, idle = append(list, m.Levels[0]), m.IdleCPU
		}
		list = append(list, m.Levels[1])
		if m.Levels, m.IdleCPU = list, idle; i == len(levels)-1 {
			return m, nil
		}
	}
	return Memory{}, nil
}

func (l *lab) openStreams(ctx context.Context, name string, streams int, settle time.Duration) (Memory, error) {
	m := Memory{Streams: streams}
	g, err := l.start(name)
	defer func() { g.end(dropLimit) }()
	if err != nil {
		return m, err
	}
	o := g.traffic(load.Options{
		Timeout: 20 * time.Second, Model: "bench-sse-short", Stream: true, MaxTokens: streamTokens, Connections: 1,
		Duration: 200 * time.Millisecond,
	}, true)
	if _, err := load.Run(ctx, o); err != nil {
		return m, err
	}
	time.Sleep(settle / 4)
	_, _ = l.truth.IdleStats(ctx) // those of the gateway before end with it
	watched := load.Watch(o.PIDs)
	time.Sleep(settle / 4)
	if u := watched.Stop(); u != nil {
		m.IdleCPU = u.CPUShare
	}
	idle := MemoryLevel{RSSBytes: load.RSS(o.PIDs...), PSSBytes: load.PSS(o.PIDs...)}
	o.Model = g.traffic(load.Options{Model: "bench-sse-slow"}, true).Model
	o.Connections, o.Ramp = streams, time.Duration(float64(streams)/rampPerSecond*float64(time.Second))
	o.Warmup, o.Duration = o.Ramp+settle/2, settle
	level := MemoryLevel{Streams: streams}
	looked := make(chan struct{})
	time.AfterFunc(o.Warmup+o.Duration-looksBefore, func() {
		defer close(looked)
		st, _ := l.truth.Stats(ctx)
		level.Open, level.PSSBytes = st.Open, load.PSS(o.PIDs...)
	})
	r, err := load.Run(ctx, o)
	if err != nil {
		return m, err
	}
	<-looked
	level.RSSBytes = r.Process.RSSBytes
	m.Open, m.IdleBytes, m.OpenBytes, m.Levels = level.Open, idle.RSSBytes, level.RSSBytes, []MemoryLevel{idle, level}
	m.Failed, m.CPUUs = r.Failed, r.Process.PerEventUs
	m.KBPerStream = float64(m.OpenBytes-m.IdleBytes) / 1024 / float64(max(1, m.Open))
	return m, nil
}

// Abort is how fast an upstream learns that a client has left.
type Abort struct {
	Tries          int     `json:"tries"`
	StreamSeen     int     `json:"stream_seen"`
	StreamMedianMs float64 `json:"stream_median_ms"`
	StreamMaxMs    float64 `json:"stream_max_ms"`
	WaitSeen       int     `json:"wait_seen"` // left before the first byte
	WaitMedianMs   float64 `json:"wait_median_ms"`
	WaitMaxMs      float64 `json:"wait_max_ms"`
}

// abortModels are asked for streams whose client leaves: one sends events, one nothing.
var abortModels = []string{"bench-hold", "bench-wait"}

const (
	abortLimit  = 2 * time.Second
	abortGiveUp = 2 // unseen ones in a row
)

func (l *lab) measureAborts(ctx context.Context, g *gateway, tries int) (Abort, error) {
	a := Abort{Tries: tries}
	if g == nil {
		return a, errNotStarted
	}
	for i, kind := range []struct {
		seen        *int
		median, max *float64
	}{
		{&a.StreamSeen, &a.StreamMedianMs, &a.StreamMaxMs},
		{&a.WaitSeen, &a.WaitMedianMs, &a.WaitMaxMs},
	} {
		var took []float64
		unseen := 0
		for range tries {
			if unseen == abortGiveUp {
				break
			}
			d, err := l.abortOnce(ctx, g, abortModels[i], i == 0)
			switch {
			case errors.Is(err, errUnseen):
				unseen++
				continue
			case err != nil:
				return a, err
			}
			unseen = 0
			took = append(took, float64(d)/1e6)
			*kind.max = max(*kind.max, float64(d)/1e6)
		}
		*kind.seen, *kind.median = len(took), median(took)
	}
	return a, nil
}

var errUnseen = errors.New("the upstream did not learn that the client left")

// abortOnce asks for a stream, leaves, after some events or before the first byte, and
// asks the upstream when it noticed.
func (l *lab) abortOnce(ctx context.Context, g *gateway, model string, begun bool) (time.Duration, error) {
	before, err := l.truth.Stats(ctx)
	if err != nil {
		return 0, err
	}
	u, err := url.Parse(g.address(true))
	if err != nil {
		return 0, err
	}
	nc, err := net.DialTimeout("tcp", u.Host, 5*time.Second)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(abortLimit))
	req, err := g.request(model, true)
	if err != nil {
		return 0, err
	}
	if err := req.Write(nc); err != nil {
		return 0, err
	}
	if begun {
		br := bufio.NewReader(nc)
		for events := 0; events < 10; {
			line, err := br.ReadString('\n')
			if err != nil {
				return 0, fmt.Errorf("cannot read a stream through %s: %w", g.name, err)
			}
			if strings.HasPrefix(line, "data: ") {
				events++
			}
		}
	} else {
		if err := l.waitOpen(ctx, before.Open); err != nil {
			return 0, fmt.Errorf("cannot send a request through %s: %w", g.name, err)
		}
	}
	left := time.Now()
	_ = nc.Close()
	for end := left.Add(abortLimit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		st, err := l.truth.Stats(ctx)
		if err != nil {
			return 0, err
		}
		for _, a := range st.Aborts {
			if a.NoticedNs >= left.UnixNano() {
				return time.Duration(a.NoticedNs - left.UnixNano()), nil
			}
		}
	}
	return 0, errUnseen
}

// request is a short chat request through the gateway.
func (g *gateway) request(model string, stream bool) (*http.Request, error) {
	o := g.traffic(load.Options{Model: model}, stream)
	body := fmt.Sprintf(`{"model":"%s","stream":%t,"messages":[{"role":"user","content":"hi"}]}`, o.Model, stream)
	req, err := http.NewRequest(http.MethodPost, o.URL+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if g.key != "" {
		req.Header.Set("Authorization", "Bearer "+g.key)
	}
	for _, line := range o.Headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	return req, nil
}

// waitOpen waits until the upstream has more requests under way than before.
func (l *lab) waitOpen(ctx context.Context, before int64) error {
	for end := time.Now().Add(abortLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		st, err := l.truth.Stats(ctx)
		if err != nil {
			return err
		}
		if st.Open > before {
			return nil
		}
	}
	return errors.New("it did not reach the upstream")
}
