package rig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Await waits until a condition holds.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never happened that %s", what)
		}
	}
}

// Took is how long a condition takes to hold from here on.
func Took(t testing.TB, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	Await(t, what, holds)
	return time.Since(began)
}

// Soon wants something to take a time at most, ten times as much with the race detector. A busy machine
// may stall for longer than that, so one of five tries is enough.
func Soon(t testing.TB, what string, limit time.Duration, took func(try int) time.Duration) {
	t.Helper()
	if RaceDetector() {
		limit *= 10
	}
	var all []time.Duration
	for try := range 5 {
		if all = append(all, took(try)); all[try] <= limit {
			return
		}
	}
	t.Errorf("%s took %v, expected %s at most", what, all, limit)
}

// Log is everything farebox has written to standard error so far.
func (g *Gateway) Log() string { return g.log.String() }

// Banner is everything farebox has written to standard output so far.
func (g *Gateway) Banner() string { return g.out.String() }

// AwaitLog waits for the log to have a text, and gives all of it.
func (g *Gateway) AwaitLog(text string) string {
	g.T.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if log := g.Log(); strings.Contains(log, text) {
			return log
		}
	}
	g.T.Fatalf("the log has no %s:\n%s", text, g.Log())
	return ""
}

// Tail is the end of the log, for messages of tests that fail.
func (g *Gateway) Tail() string {
	const most = 8 << 10
	text := g.Log()
	if len(text) > most {
		text = "…" + text[len(text)-most:]
	}
	return "farebox's log:\n" + text
}

// MetricsURL is where the banner says that /metrics are.
func (g *Gateway) MetricsURL() string {
	url := ""
	for end := time.Now().Add(CallLimit); ; time.Sleep(10 * time.Millisecond) {
		for line := range strings.Lines(g.Banner()) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "metrics" {
				url = fields[1] // the last one: it may have started several times
			}
		}
		if url != "" {
			return url
		}
		if time.Now().After(end) {
			g.T.Fatalf("the banner names no metrics: %s", g.Banner())
		}
	}
}

// Metrics is the page of metrics; it is empty while farebox starts again, before its
// banner is there.
func (g *Gateway) Metrics() string {
	g.T.Helper()
	res, err := Client.Get(g.MetricsURL())
	if errors.Is(err, syscall.ECONNREFUSED) {
		return ""
	}
	if err != nil {
		g.T.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		g.T.Fatal(err)
	}
	return string(page)
}

// Metric reads one value of /metrics; ok is false when it is not there.
func (g *Gateway) Metric(name string) (value float64, ok bool) {
	g.T.Helper()
	for line := range strings.Lines(g.Metrics()) {
		if text, found := strings.CutPrefix(line, name+" "); found {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			return value, err == nil
		}
	}
	return 0, false
}

// MetricIs waits for a value of /metrics.
func (g *Gateway) MetricIs(name string, is func(float64) bool) {
	g.T.Helper()
	for end := time.Now().Add(CallLimit); ; time.Sleep(20 * time.Millisecond) {
		value, ok := g.Metric(name)
		if ok && is(value) {
			return
		}
		if time.Now().After(end) {
			g.T.Fatalf("%s is %v (there: %v) after %s", name, value, ok, CallLimit)
		}
	}
}

// Output collects the output of a process while a test reads it.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (o *Output) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Reset()
}

// ResidentKB is a field of /proc/PID/status, such as VmRSS.
func ResidentKB(t testing.TB, pid int, field string) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s of process %d", field, pid)
	return 0
}
