package proxy

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

type awaited struct {
	cause Cause
	err   error
	took  time.Duration
}

func awaiting(ends chan<- awaited, limit time.Duration, f func(context.Context) error) func(*gateway,
	*fasthttp.RequestCtx) {
	return func(g *gateway, ctx *fasthttp.RequestCtx) {
		start := time.Now()
		cause, err := g.p.Await(ctx, limit, f)
		ends <- awaited{cause, err, time.Since(start)}
	}
}

func untilDone(c context.Context) error {
	<-c.Done()
	return c.Err()
}

// A wait of a request ends when its client leaves, when its time is up, and when the
// process ends; otherwise it goes on.
func TestAwaitEndsWithItsReason(t *testing.T) {
	t.Parallel()
	own := errors.New("own")
	for name, c := range map[string]struct {
		limit time.Duration
		f     func(context.Context) error
		do    func(g *gateway, client io.Closer)
		want  Cause
		err   error
	}{
		"client gone": {f: untilDone, do: func(_ *gateway, c io.Closer) { c.Close() }, want: ClientGone},
		"too long":    {limit: 50 * time.Millisecond, f: untilDone, want: TotalTimeout},
		"shutdown":    {f: untilDone, do: func(g *gateway, _ io.Closer) { g.p.watch.shutdown() }, want: Shutdown},
		"done":        {limit: time.Minute, f: func(context.Context) error { return nil }},
		"failed":      {f: func(context.Context) error { return own }, err: own},
	} {
		ends := make(chan awaited, 1)
		g := newGateway(t, Options{HalfCloseGone: true}, ServerOptions{}, awaiting(ends, c.limit, c.f))
		client := g.dial()
		_, _ = io.WriteString(client, post("{}"))
		if c.do != nil {
			eventually(t, "it is registered", func() bool { return g.p.Active() == 1 })
			c.do(g, client)
		}
		select {
		case a := <-ends:
			if a.cause != c.want || c.want == None && a.err != c.err {
				t.Errorf("%s: %+v", name, a)
			}
		case <-time.After(60 * time.Second):
			t.Fatalf("%s: still waiting", name)
		}
		if g.p.Active() != 0 {
			t.Errorf("%s: still registered", name)
		}
	}
}

func TestPauseIsNeverShorter(t *testing.T) {
	t.Parallel()
	took := make(chan time.Duration, 1)
	g := newGateway(t, Options{}, ServerOptions{}, func(g *gateway, ctx *fasthttp.RequestCtx) {
		start := time.Now()
		if c := g.p.Pause(ctx, 80*time.Millisecond); c != None {
			t.Error(c)
		}
		took <- time.Since(start)
	})
	if _, _, err := g.ask("{}"); err != nil {
		t.Fatal(err)
	}
	if d := <-took; d < 80*time.Millisecond {
		t.Error(d)
	}
}
