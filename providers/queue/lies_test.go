package queue_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"farebox/config"
)

// Addresses that an upstream names elsewhere are not asked: the job is, at its own target.
func TestAddressesOfOtherHostsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for i := range doors[:2] {
		g := newRig(t)
		g.target(&doors[i], config.MusicKind, nil)
		job, s := g.submit(order(config.MusicKind, "polls=1 job=foreign"))
		if strings.Contains(string(s.Handle), "169.254") {
			t.Errorf("%s", s.Handle)
		}
		if at := g.wait(job); at.Failed != nil {
			t.Error(at.Failed)
		}
		if free, err := g.Cancel(context.Background(), job); free || err != nil {
			t.Error(free, err)
		}
	}
}

// A status that was never seen, and an answer that can be read in two ways, say nothing.
func TestWhatIsNotUnderstoodIsNotDone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g *rig, d *door, kind *config.JobKind) {
		if d.name == "elevenlabs" {
			t.Skip("it keeps no jobs")
		}
		g.target(d, kind, nil)
		for _, how := range []string{"job=odd", "job=twice polls=9", "at=status status=500", "at=status status=401"} {
			job, _ := g.submit(order(kind, how))
			for range 3 {
				if at, err := g.Poll(context.Background(), job); err == nil {
					t.Errorf("%s: %+v", how, at)
				}
			}
		}
		job, _ := g.submit(order(kind, "at=status status=429 retry_after=7"))
		if at, err := g.Poll(context.Background(), job); err != nil || at.Done || at.Retry != 7*time.Second {
			t.Error(at, err)
		}
		job, _ = g.submit(order(kind, "at=status status=429 retry_after=999999999"))
		if at, err := g.Poll(context.Background(), job); err != nil || at.Retry > 10*time.Minute {
			t.Error(at, err)
		}
	})
}

// A job that its upstream has forgotten is lost, but not at once: a queue may need a moment
// to know it.
func TestAForgottenJobIsLostAfterAWhile(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g *rig, d *door, kind *config.JobKind) {
		if d.name == "elevenlabs" {
			t.Skip("it keeps no jobs")
		}
		g.target(d, kind, nil)
		job, s := g.submit(order(kind, "job=forget"))
		if at, err := g.Poll(context.Background(), job); err == nil {
			t.Errorf("%+v", at)
		}
		at := strings.Index(string(s.Handle), `"since":`)
		job.Handle = []byte(string(s.Handle)[:at] + `"since":1000000000}`)
		if at, err := g.Poll(context.Background(), job); err != nil || at.Failed == nil || at.Done {
			t.Errorf("%+v %v", at, err)
		}
		if free, err := g.Cancel(context.Background(), job); free || err != nil {
			t.Error(free, err)
		}
	})
}

// A failed run is a failed job, in words that name no upstream.
func TestAFailedRunFails(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g *rig, d *door, kind *config.JobKind) {
		if d.name == "elevenlabs" {
			t.Skip("it keeps no jobs")
		}
		g.target(d, kind, nil)
		job, _ := g.submit(order(kind, "job=fail polls=2"))
		at := g.wait(job)
		if at.Done || at.Failed == nil || at.Failed.Status != 500 || strings.Contains(at.Failed.Message, "gpu") ||
			strings.Contains(at.Failed.Message, "worker") {
			t.Errorf("%+v", at.Failed)
		}
	})
}

// Links of upstreams lead nowhere inside, and the size of their answers is bounded.
func TestResultsAreFetchedThroughTheGuard(t *testing.T) {
	t.Parallel()
	for i := range doors[:3] {
		d := &doors[i]
		g := newRig(t)
		g.target(d, config.MusicKind, nil)
		for _, link := range []string{"http%3A%2F%2F169.254.169.254%2Flatest", "http%3A%2F%2F10.0.0.1%2Fa",
			"http%3A%2F%2F127.0.0.2%2Fa", "http%3A%2F%2F2130706433%2Fa"} {
			job, _ := g.submit(order(config.MusicKind, "polls=0 link="+link))
			at := g.wait(job)
			if at.Failed != nil {
				t.Fatal(at.Failed)
			}
			if body, _, err := g.Fetch(context.Background(), job, at.Result); err == nil {
				body.Close()
				t.Errorf("%s: %s was fetched", d.name, link)
			}
		}
		for _, link := range []string{"file%3A%2F%2F%2Fetc%2Fpasswd", "ftp%3A%2F%2Fx%2Fa", "gopher%3Ax"} {
			job, _ := g.submit(order(config.MusicKind, "polls=0 link="+link))
			if at := g.wait(job); at.Failed == nil {
				t.Errorf("%s: %s is a result", d.name, link)
			}
		}
	}
}

// An endless answer is ended here, and a broken one does not look complete.
func TestEndlessAndBrokenResults(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g *rig, d *door, kind *config.JobKind) {
		g.target(d, kind, nil)
		for _, how := range []string{"endless=1", "cut=fin cut_after=2000", "truncate=1"} {
			job, s := g.submit(order(kind, "polls=0 "+how))
			at := s.Done
			if at == nil {
				at = g.wait(job)
			}
			body := at.Body
			if body == nil {
				var err error
				if body, _, err = g.Fetch(context.Background(), job, at.Result); err != nil {
					t.Fatal(err)
				}
			}
			n, err := io.Copy(io.Discard, body)
			if err == nil || n > 8<<20 {
				t.Errorf("%s: %d bytes came, and %v", how, n, err)
			}
			if _, err := body.Read(make([]byte, 10)); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("%s: read again, it is %v", how, err)
			}
			body.Close()
		}
	})
}

// A cancellation gives money back only where the upstream says that it takes none.
func TestOnlyAConfirmedCancellationIsFree(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g *rig, d *door, kind *config.JobKind) {
		g.target(d, kind, nil)
		if d.name == "elevenlabs" {
			_, s := g.submit(order(kind, "polls=0"))
			s.Done.Body.Close()
			return
		}
		cancel := func(directive string, polls int) (bool, error) {
			job, _ := g.submit(order(kind, directive))
			for range polls {
				_, _ = g.Poll(context.Background(), job)
			}
			return g.Cancel(context.Background(), job)
		}
		if free, err := cancel("polls=5", 0); !free || err != nil {
			t.Error("in the queue:", free, err)
		}
		if free, err := cancel("job=late_cancel polls=5", 0); !free || err != nil {
			t.Error("in the queue, by its end:", free, err)
		}
		if free, err := cancel("job=race polls=5", 0); free || err != nil {
			t.Error("while it begins:", free, err)
		}
		if free, err := cancel("job=late_cancel polls=2", 2); free || err != nil {
			t.Error("while it runs, by its end:", free, err)
		}
		if free, err := cancel("job=stuck polls=1", 2); free || err != nil {
			t.Error("while it runs:", free, err)
		}
		if free, err := cancel("polls=0", 1); free || err != nil {
			t.Error("when it is done:", free, err)
		}
		if free, err := cancel("job=refuse_cancel polls=5", 0); free || err == nil {
			t.Error("refused:", free, err)
		}
		for _, o := range g.sim.Orders() {
			if o.Cancelled && o.Made {
				t.Errorf("%+v", o)
			}
		}
	})
}
