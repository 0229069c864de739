package load

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	urls "net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
)

func simulated(t *testing.T) string {
	t.Helper()
	s := upstream.New(upstream.Options{})
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return url
}

func mustRun(t *testing.T, o Options) *Result {
	t.Helper()
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// stalling answers at once, but nothing at all during one stall.
func stalling(t *testing.T, after, stall time.Duration) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	var begun atomic.Int64
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				br := bufio.NewReader(nc)
				for {
					req, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					_, _ = br.Discard(int(req.ContentLength))
					begun.CompareAndSwap(0, time.Now().UnixNano())
					since := time.Since(time.Unix(0, begun.Load()))
					if since > after && since < after+stall {
						time.Sleep(after + stall - since)
					}
					_, _ = nc.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
				}
			}()
		}
	}()
	return "http://" + ln.Addr().String() + "/v1"
}

// 4 connections see 4 slow answers in a stall of 600 ms. The 300 requests that
// should have been sent meanwhile waited too, and have to show.
func TestStallShowsInEveryRequestThatShouldHaveBeenSent(t *testing.T) {
	within(t, func() error {
		url := stalling(t, 400*time.Millisecond, 600*time.Millisecond)
		r := mustRun(t, Options{URL: url, Model: "m", Rate: 500, Connections: 4, Duration: 2 * time.Second})
		switch {
		case r.Requests < 850 || r.Failed > 0:
			return fmt.Errorf("%d requests, errors %v", r.Requests, r.Errors)
		// 30 % of the arrivals fell into the stall and waited 300 ms on average.
		case r.Latency.P90Us < 200_000 || r.Latency.MaxUs < 500_000:
			return fmt.Errorf("p90 %.0f µs, max %.0f µs: the stall was omitted", r.Latency.P90Us, r.Latency.MaxUs)
		case r.Latency.P50Us > 50_000:
			return fmt.Errorf("p50 %.0f µs: requests outside the stall look slow", r.Latency.P50Us)
		}
		return nil
	})
}

func TestStallAtTheEndIsReported(t *testing.T) {
	url := stalling(t, 300*time.Millisecond, 5*time.Second)
	r := mustRun(t, Options{URL: url, Model: "m", Rate: 200, Connections: 4, Duration: time.Second})
	if r.Unfinished != 4 || r.OldestUs < 500_000 || r.Unsent < 80 {
		t.Errorf("unfinished %d, oldest %.0f µs, unsent %d", r.Unfinished, r.OldestUs, r.Unsent)
	}
}

// An answer that takes longer than the measured time would leave a run with nothing to
// show; it goes on for the answers it must have, and no longer than it may.
func TestRunWaitsForTheAnswersItMustHave(t *testing.T) {
	t.Parallel()
	url := stalling(t, 0, 300*time.Millisecond)
	r := mustRun(t, Options{URL: url, Model: "m", Connections: 1, Duration: time.Millisecond, Least: 3,
		Longest: time.Minute})
	if r.Latency.Count < 3 || r.Seconds > 50 {
		t.Errorf("%d answers in %.1f s", r.Latency.Count, r.Seconds)
	}
	url = stalling(t, 0, time.Minute)
	r = mustRun(t, Options{URL: url, Model: "m", Connections: 1, Duration: time.Millisecond, Least: 1,
		Longest: 50 * time.Millisecond})
	if r.Requests != 0 || r.Unfinished != 1 {
		t.Errorf("%d answers, %d under way after %.1f s", r.Requests, r.Unfinished, r.Seconds)
	}
}

// within runs a check of times up to three times: another process that takes the processor for
// a moment is not the generator's fault, a generator that is out of step fails every time.
func within(t *testing.T, check func() error) {
	t.Helper()
	var err error
	for range 3 {
		if err = check(); err == nil {
			return
		}
	}
	t.Error(err)
}

func TestArrivalsKeepTheirRate(t *testing.T) {
	url := simulated(t)
	within(t, func() error {
		r := mustRun(t, Options{URL: url, Model: "bench-1k", Rate: 1000, Connections: 16,
			Warmup: 100 * time.Millisecond, Duration: time.Second})
		if r.Requests < 900 || r.Requests > 1100 || r.Failed > 0 {
			return fmt.Errorf("%d requests at 1000/s, errors %v", r.Requests, r.Errors)
		}
		if r.Latency.Count == 0 || r.Latency.P50Us <= 0 || r.Lateness.Count == 0 {
			return fmt.Errorf("latency %+v", r.Latency)
		}
		return nil
	})
	// A generator that is out of step with its own schedule would be late by
	// a good part of the interval, every time.
	within(t, func() error {
		slow := mustRun(t, Options{URL: url, Model: "bench-1k", Rate: 50, Connections: 4,
			Duration: 500 * time.Millisecond})
		if slow.Lateness.P50Us > 2000 {
			return fmt.Errorf("arrivals are %.0f µs late at 50/s", slow.Lateness.P50Us)
		}
		return nil
	})
}

func TestClosedModeCountsEventsAndTheirTimes(t *testing.T) {
	url := simulated(t)
	within(t, func() error {
		r := mustRun(t, Options{URL: url, Model: "bench-sse@gap_ms=5,tokens=20", Stream: true, Connections: 4,
			Duration: 1200 * time.Millisecond})
		if r.Failed > 0 || r.Requests < 20 {
			return fmt.Errorf("%d streams, errors %v", r.Requests, r.Errors)
		}
		// 20 tokens, the finish, the usage and [DONE] are 23 events.
		if per := float64(r.Events) / float64(r.Requests); per < 22.5 || per > 28 {
			return fmt.Errorf("%.1f events a stream", per)
		}
		if r.Gap.P90Us < 3000 || r.Gap.P90Us > 20000 || r.First.Count == 0 || r.First.P50Us > r.Latency.P50Us ||
			r.Delay.Count == 0 {
			return fmt.Errorf("gap %+v, first %+v, delay %+v", r.Gap.P90Us, r.First.P50Us, r.Delay.Count)
		}
		if len(r.Series) != 1 || r.Series[0].Requests == 0 {
			return fmt.Errorf("series %+v", r.Series)
		}
		return nil
	})
}

func TestEventsAreCountedHoweverTheyAreCut(t *testing.T) {
	url := simulated(t)
	for _, how := range []string{"split=byte", "split=crlf,crlf=1", "chunk=7,crlf=1", "events_per_write=5"} {
		w := &worker{run: &run{o: Options{}}, rec: newRecorder()}
		w.run.measured.Store(true)
		r := &run{o: Options{URL: url, Timeout: time.Second}, clients: map[*Conn]struct{}{},
			dialing: make(chan struct{}, 1)}
		r.to, _ = urls.Parse(url)
		r.request = requestBytes(r.to.Host, "/v1/chat/completions",
			Options{Model: "sim-chat@" + how, Stream: true, MaxTokens: 10})
		r.measured.Store(true)
		w.run = r
		if !w.one(time.Now()) {
			t.Fatalf("%s: %v", how, w.rec.errors)
		}
		// role, 10 tokens, finish, usage, [DONE]
		if w.rec.events != 14 {
			t.Errorf("%s: %d events", how, w.rec.events)
		}
	}
}

func TestErrorsAreNamedByKind(t *testing.T) {
	url := simulated(t)
	f := func(model string, stream bool, want string) {
		t.Helper()
		r := mustRun(t, Options{URL: url, Model: model, Stream: stream, Connections: 1,
			Duration: 150 * time.Millisecond, Least: 1, Longest: 10 * time.Second, Timeout: 50 * time.Millisecond})
		if r.Errors[want] == 0 || r.Requests > 0 {
			t.Errorf("%s: errors %v, %d requests; want %q", model, r.Errors, r.Requests, want)
		}
	}
	f("sim-chat@status=429", false, "status 429")
	f("sim-chat@cut=fin,cut_after=3", true, "stream: ended early")
	f("sim-chat@truncate=1", false, "body: ended early")
	f("sim-chat@no_done=1", true, "stream: no [DONE]")
	f("sim-chat@cut=fin,cut_after=0", false, "head: ended early")
	f("sim-chat@garbage=1", false, "head: malformed answer")
}

func TestAbortedShareIsKept(t *testing.T) {
	r := mustRun(t, Options{URL: simulated(t), Model: "bench-sse@gap_ms=1,tokens=10", Stream: true, Connections: 4,
		Duration: 500 * time.Millisecond, Abort: 0.25, AbortAfter: 3})
	share := float64(r.Aborted) / float64(r.Aborted+r.Requests)
	if share < 0.15 || share > 0.35 || r.Failed > 0 {
		t.Errorf("%d of %d aborted, errors %v", r.Aborted, r.Aborted+r.Requests, r.Errors)
	}
}

func TestOwnProcessorTimeIsSeen(t *testing.T) {
	if CheckPIDs(os.Getpid()) != nil {
		servers.Elsewhere(t, "/proc")
	}
	p := Watch([]int{os.Getpid()})
	work := 0
	for n := range 200_000_000 { // about a tenth of a second of processor time
		work += n
	}
	u := p.Stop()
	if work == 0 || u.CPUSeconds < 0.02 || u.CPUSeconds > 1 || u.RSSBytes < 1<<20 || u.PeakBytes < u.RSSBytes/2 {
		t.Errorf("%+v", u)
	}
	if err := CheckPIDs(1 << 30); err == nil {
		t.Error("a pid that does not exist was accepted")
	}
}

func TestWrongOptionsSayWhatToDo(t *testing.T) {
	f := func(o Options, want string) {
		t.Helper()
		if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	f(Options{URL: "127.0.0.1:80", Model: "m"}, "http://127.0.0.1:8080/v1")
	f(Options{URL: "http://127.0.0.1:1/v1", Model: "m"}, "is the server running there?")
	f(Options{URL: "http://127.0.0.1:1/v1"}, "--model")
	f(Options{URL: "http://127.0.0.1:1/v1", Model: "m", Rate: -1}, "rate")
}

func TestRequestHasItsSize(t *testing.T) {
	for _, size := range []int{1024, 32 << 10, 1 << 20} {
		if got := len(chatBody(Options{Model: "m", BodyBytes: size, MaxTokens: 9, Stream: true})); got != size {
			t.Errorf("%d bytes, want %d", got, size)
		}
	}
}
