package queue_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"farebox/config"
	"farebox/config/asyncjob"
	"farebox/providers/queue"
)

// refused and unknown are the two ways in which an order is not taken.
func refused(t *testing.T, err error) *asyncjob.Refused {
	t.Helper()
	var no *asyncjob.Refused
	if !errors.As(err, &no) || strings.Contains(no.Message, "simulated") || strings.Contains(no.Message, "simsecret") {
		t.Fatalf("expected a refusal, without names of upstreams; got %v", err)
	}
	return no
}

func unknown(t *testing.T, err error) *asyncjob.Unknown {
	t.Helper()
	var no *asyncjob.Unknown
	if !errors.As(err, &no) {
		t.Fatalf("expected an unknown outcome; got %v", err)
	}
	return no
}

// Where an upstream may have an order, no other is asked for it; where it cannot have it,
// another one is.
func TestOnlyWhatWasNotTakenIsOrderedElsewhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		directive string
		took      int  // orders that the first upstream has
		elsewhere bool // another one is asked
		status    int  // of the refusal, without another one
	}{
		{"job=swallow", 1, false, 0},
		{"status=502 html=1", 0, false, 0},
		{"status=500", 0, false, 0},
		{"status=408", 0, false, 0},
		{"status=409", 0, false, 0},
		{"status=503", 0, true, 503},
		{"status=429", 0, true, 429},
		{"status=401", 0, true, 503},
		{"status=402", 0, true, 503},
		{"status=404", 0, true, 503},
		{"status=400", 0, false, 400},
		{"status=413", 0, false, 413},
	} {
		t.Run(c.directive, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			first := g.target(&doors[0], config.MusicKind, nil)
			second := newRig(t)
			_, err := g.Submit(context.Background(), task(order(config.MusicKind, c.directive)))
			if c.status == 0 {
				if no := unknown(t, err); no.Again || no.Upstream != "fal" || no.Target != first.Model {
					t.Errorf("%+v", no)
				}
			} else if no := refused(t, err); no.Status != c.status {
				t.Errorf("refused with %d %s; expected %d", no.Status, no.Code, c.status)
			}
			g.targets[0].Breaker.Succeeded()
			to := g.targetAt(&doors[1], config.MusicKind, second.base+doors[1].path, nil)
			to.Priority = 1
			s, err := g.Submit(context.Background(), task(order(config.MusicKind, c.directive)))
			took := len(second.sim.Orders())
			if (s != nil || len(second.last()) > 0) != c.elsewhere {
				t.Errorf("another upstream was asked %d times, took %d: %v", len(second.last()), took, err)
			}
			if n := len(g.sim.Orders()); n != 2*c.took {
				t.Errorf("the first upstream has %d orders", n)
			}
		})
	}
}

// Nothing that could not be connected to has an order.
func TestAnUpstreamThatIsNotThereHasNoOrder(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + ln.Addr().String()
	ln.Close()
	g := newRig(t)
	g.targetAt(&doors[0], config.MusicKind, dead, nil)
	if no := refused(t, func() error {
		_, err := g.Submit(context.Background(), task(order(config.MusicKind, "polls=0")))
		return err
	}()); no.Status != 503 {
		t.Errorf("%+v", no)
	}
	g.target(&doors[1], config.MusicKind, nil)
	if _, s := g.submit(order(config.MusicKind, "polls=0")); s.Upstream != "replicate" {
		t.Errorf("%+v", s)
	}
	if len(g.sim.Orders()) != 1 {
		t.Error(g.sim.Orders())
	}
}

// "My one song was made twice, at my cost": an order that went out on a connection that
// was kept, and that the upstream then cut, is not sent again by itself.
func TestAnOrderIsNotRepeatedOnAnotherConnection(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g *rig, d *door, kind *config.JobKind) {
		g.target(d, kind, nil)
		if _, s := g.submit(order(kind, "polls=0")); s.Done != nil && s.Done.Body != nil {
			read(t, s.Done.Body)
		}
		_, err := g.Submit(context.Background(), task(order(kind, "job=swallow")))
		unknown(t, err)
		if n := len(g.sim.Orders()); n != 2 {
			t.Errorf("two songs were ordered %d times", n)
		}
	})
}

// Whatever cannot be read as the answer to an order may be one.
func TestAnAnswerThatCannotBeReadLeavesTheOutcomeOpen(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g *rig, d *door, kind *config.JobKind) {
		g.target(d, kind, nil)
		for _, directive := range []string{"wrong=half", "wrong=array", "wrong=bare", "wrong=text", "wrong=html", "empty=1",
			"job=swallow"} {
			before := len(g.sim.Orders())
			_, err := g.Submit(context.Background(), task(order(kind, directive)))
			if no := unknown(t, err); no.Upstream != d.name {
				t.Errorf("%s: %+v", directive, no)
			}
			if n := len(g.sim.Orders()) - before; n != 1 {
				t.Errorf("%s: it was ordered %d times", directive, n)
			}
			g.targets[0].Breaker.Succeeded()
		}
	})
}

// An order whose outcome is not known is handed over again where the upstream knows it by
// its key, and made once.
func TestAnUpstreamWithKeysIsAskedAgain(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	to := g.target(&doors[2], config.MusicKind, map[string]string{"idempotent": "true"})
	job := task(order(config.MusicKind, "job=swallow"))
	_, err := g.Submit(context.Background(), job)
	no := unknown(t, err)
	if !no.Again {
		t.Fatalf("%+v", no)
	}
	job.Upstream, job.Target = no.Upstream, no.Target
	// Neither a target that is not there for a moment nor one that refuses for other
	// reasons than the order's makes it certain that the first time came to nothing.
	other := newRig(t)
	other.targets = []*queue.Target{to}
	g.sim.Reset()
	for _, directive := range []string{"status=429", "status=401", "status=503", "status=500"} {
		again := task(order(config.MusicKind, directive))
		again.Upstream, again.Target = job.Upstream, job.Target
		if _, err := g.Submit(context.Background(), again); !unknown(t, err).Again {
			t.Error(directive)
		}
		to.Breaker.Succeeded()
	}
	again := task(order(config.MusicKind, "status=400"))
	again.Upstream, again.Target = job.Upstream, job.Target
	if _, err := g.Submit(context.Background(), again); refused(t, err).Status != 400 {
		t.Error(err)
	}
	// The same order with the same key.
	plain := task(order(config.MusicKind, "polls=0"))
	plain.ID = job.ID
	plain.Upstream, plain.Target = job.Upstream, job.Target
	s, err := g.Submit(context.Background(), plain)
	if err != nil {
		t.Fatal(err)
	}
	if all := g.sim.Orders(); len(all) != 1 || !strings.Contains(string(s.Handle), all[0].ID) {
		t.Errorf("%+v, %s", all, s.Handle)
	}
	// One that is not configured to take keys any more would make it once more.
	to.Options = nil
	if _, err := g.Submit(context.Background(), plain); unknown(t, err).Again || len(g.sim.Orders()) != 1 {
		t.Error(err, g.sim.Orders())
	}
	// A target that is not configured any more cannot be asked.
	plain.Target = "gone"
	if _, err := g.Submit(context.Background(), plain); unknown(t, err).Again {
		t.Error("it cannot be asked again")
	}
}

// The time of an order is over when its context says so, at an upstream that is silent.
func TestASilentUpstreamEndsWithItsTime(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g *rig, d *door, kind *config.JobKind) {
		g.target(d, kind, nil)
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := g.Submit(ctx, task(order(kind, "hang=1")))
		if unknown(t, err); time.Since(began) > 5*time.Second {
			t.Error("it took", time.Since(began))
		}
		// Before anything was sent it is certain.
		if _, err := g.Submit(ctx, task(order(kind, "polls=0"))); refused(t, err).Status != 503 {
			t.Error(err)
		}
	})
}

// A refusal by the model's policy is reported as such, with a suggested prompt.
func TestPolicyIsReported(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.target(&doors[3], config.MusicKind, nil)
	_, err := g.Submit(context.Background(), task(order(config.MusicKind, "kind=policy")))
	if no := refused(t, err); no.Status != 422 || no.Code != "CONTENT_POLICY_VIOLATION" || no.Suggestion != "a kind song" {
		t.Errorf("%+v", no)
	}
	if _, err = g.Submit(context.Background(), task(order(config.MusicKind, "kind=quota"))); refused(t, err).Status != 503 {
		t.Error(err)
	}
	for i := range doors {
		if doors[i].name != "native" {
			continue
		}
		g := newRig(t)
		g.target(&doors[i], config.MusicKind, nil)
		_, err := g.Submit(context.Background(), task(order(config.MusicKind, "status=422 kind=policy at=submit")))
		if no := refused(t, err); no.Status != 422 || no.Code != "CONTENT_POLICY_VIOLATION" || no.Suggestion != "a kind song" ||
			strings.Contains(no.Message, "submit failed") {
			t.Errorf("refused at once: %+v", no)
		}
	}
	for _, d := range doors[:3] {
		g := newRig(t, func(o *queue.Options) {
			o.Ours = func(upstream, model string, kind *config.JobKind) string { return "our-" + model }
		})
		kind := config.MusicKind
		if d.name == "native" {
			kind = config.VideoKind
		}
		g.target(&d, kind, nil)
		job, _ := g.submit(order(kind, "job=fail kind=policy polls=0"))
		at := g.wait(job)
		if at.Failed == nil || at.Failed.Code != "CONTENT_POLICY_VIOLATION" || at.Failed.Status != 422 {
			t.Errorf("%s: %+v", d.name, at.Failed)
		}
		if d.name == "native" && at.Failed.Recommend != "our-sim-video-other" {
			t.Errorf("%+v", at.Failed)
		}
		if at.Failed != nil && strings.Contains(at.Failed.Message, "simulated") {
			t.Error(at.Failed.Message)
		}
	}
}
