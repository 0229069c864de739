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

// Memory is what open streams cost a gateway.
type Memory struct {
	Streams     int     `json:"streams"`
	IdleBytes   int64   `json:"idle_bytes"` // after one request
	OpenBytes   int64   `json:"open_bytes"` // with all streams open
	KBPerStream float64 `json:"kb_per_stream"`
	Failed      int64   `json:"failed"`
	CPUUs       float64 `json:"cpu_us_per_event"`
}

// measureMemory opens many slow streams through an unused gateway.
func (l *lab) measureMemory(ctx context.Context, name string, streams int, ramp, settle time.Duration) (Memory, error) {
	m := Memory{Streams: streams}
	g, err := starters[name](l)
	defer func() { g.stop() }()
	if err != nil {
		return m, err
	}
	options := load.Options{
		URL: g.address(true), Key: g.key, PIDs: g.pids(true), Timeout: 20 * time.Second,
		Model: "bench-sse-short", Stream: true, MaxTokens: streamTokens, Connections: 1,
		Duration: 200 * time.Millisecond,
	}
	if _, err := load.Run(ctx, options); err != nil {
		return m, err
	}
	time.Sleep(settle / 4)
	m.IdleBytes = load.RSS(g.pids(true)...)
	options.Model, options.Connections, options.Ramp = "bench-sse-slow", streams, ramp
	options.Warmup, options.Duration = ramp+settle/2, settle
	r, err := load.Run(ctx, options)
	if err != nil {
		return m, err
	}
	m.Failed, m.OpenBytes = r.Failed, r.Process.RSSBytes
	m.CPUUs = r.Process.PerEventUs
	m.KBPerStream = float64(m.OpenBytes-m.IdleBytes) / 1024 / float64(streams)
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
	body := fmt.Sprintf(`{"model":"%s","stream":true,"messages":[{"role":"user","content":"hi"}]}`, model)
	req, err := http.NewRequest(http.MethodPost, u.String()+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if g.key != "" {
		req.Header.Set("Authorization", "Bearer "+g.key)
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
