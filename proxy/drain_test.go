package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func drainable(t *testing.T, serve func(c net.Conn, r *bufio.Reader, n int)) (*gateway, *noted) {
	u := newUpstream(t, serve)
	tg := endpoint(t, u.addr)
	lens := &noted{tail: []byte("data: bye\n\n"), clean: true}
	return newGateway(t, Options{HalfCloseGone: true}, ServerOptions{},
		streaming(func() (*plan, Lens) { return &plan{endpoints: []*Endpoint{tg}}, lens })), lens
}

// Open streams finish after the process gets its signal to stop, within the limit.
func TestStreamsFinishDuringADrain(t *testing.T) {
	finish := make(chan bool)
	g, _ := drainable(t, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		_, _ = io.WriteString(c, sseHead+chunk("data: 1\n\n"))
		<-finish
		_, _ = io.WriteString(c, chunk("data: 2\n\n")+"0\r\n\r\n")
	})
	stream := g.dial()
	_, _ = io.WriteString(stream, post("{}"))
	_, _ = stream.Read(make([]byte, 10))

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	drained := make(chan error)
	go func() { drained <- Drain(ctx, g.s, g.p) }()
	eventually(t, "no new connections", func() bool {
		c, err := net.Dial("tcp", g.addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	select {
	case err := <-drained:
		t.Fatalf("drained with a stream under way: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	finish <- true
	b, err := io.ReadAll(stream)
	if err != nil || !strings.HasSuffix(string(b), "data: 2\n\n\r\nb\r\ndata: bye\n\n\r\n0\r\n\r\n") {
		t.Errorf("%q %v", b, err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if o := g.outcome(); !o.Complete || o.Cause != None {
		t.Errorf("%+v", o)
	}
}

// Streams that are still open at the limit are cut with a last event, and settled.
func TestSurvivorsOfADrainAreCut(t *testing.T) {
	for _, version := range []string{"1.1", "1.0"} {
		g, lens := drainable(t, func(c net.Conn, r *bufio.Reader, _ int) {
			_, _, _ = readRequest(r)
			_, _ = io.WriteString(c, sseHead+chunk("data: 1\n\n"))
			_, _ = r.ReadByte()
		})
		c := g.dial()
		_, _ = io.WriteString(c, "POST /x HTTP/"+version+"\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}")
		_, _ = c.Read(make([]byte, 10))
		eventually(t, "the stream is under way", func() bool { in, _ := lens.seen(); return in != "" })
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		err := Drain(ctx, g.s, g.p)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "1 requests were cut") {
			t.Errorf("HTTP/%s: %v", version, err)
		}
		if o := g.outcome(); o.Cause != Shutdown || o.Complete {
			t.Errorf("HTTP/%s: %+v", version, o)
		}
		if _, ends := lens.seen(); len(ends) != 1 || ends[0] != Shutdown {
			t.Errorf("HTTP/%s: ends %v", version, ends)
		}
		if b, err := io.ReadAll(c); err != nil || !strings.Contains(string(b), "data: bye") {
			t.Errorf("HTTP/%s: %q %v", version, b, err)
		}
	}
}

// A request that waits for its first byte is cut as well.
func TestARequestWithoutAnAnswerIsCutByADrain(t *testing.T) {
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		_, _ = r.ReadByte()
	})
	tg := endpoint(t, u.addr)
	pl := &plan{endpoints: []*Endpoint{tg, tg}}
	g := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan { return pl }, 100))
	c := g.dial()
	_, _ = io.WriteString(c, post("{}"))
	eventually(t, "the request is upstream", func() bool { return u.open.Load() == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := Drain(ctx, g.s, g.p); err == nil {
		t.Error("nothing was cut")
	}
	if r := g.result(); r.Cause != Shutdown || len(pl.attempts) != 1 {
		t.Errorf("%+v", r)
	}
	if b, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(b), "shutdown") {
		t.Errorf("%q %v", b, err)
	}
}

func TestADrainOfAnIdleServerIsQuick(t *testing.T) {
	g, _ := drainable(t, answering(sseHead+"0\r\n\r\n"))
	c := g.dial()
	_, _ = io.WriteString(c, post("{}"))
	_, _ = c.Read(make([]byte, 1000))
	g.outcome()
	start := time.Now()
	if err := Drain(context.Background(), g.s, g.p); err != nil || time.Since(start) > 20*time.Second {
		t.Errorf("%v after %s", err, time.Since(start))
	}
}
