package proxy

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// countedBody is the smallest request body that is counted in flight.
	// Smaller ones are bounded by MaxConnections times this.
	countedBody = 16 << 10
	// maxChunkedBody bounds a body that does not announce its length, which is
	// counted as this much while it is read.
	maxChunkedBody = 8 << 20
	// staleAfter is how much longer than ReadTimeout an upload may be counted
	// whose end nobody was told: a chunked one that broke off between two chunks.
	staleAfter = 5 * time.Second
	// lingerTime and lingerBytes bound how long a refused upload is read on so
	// that its sender gets to see the refusal; closing at once would reset the
	// connection and may destroy the answer on its way.
	lingerTime  = 3 * time.Second
	lingerBytes = 64 << 20
)

// inFlight counts the request bodies of all clients together. The server
// allocates a body when its head has announced it, so a few thousand heads could
// take all memory otherwise.
type inFlight struct {
	o     ServerOptions
	used  atomic.Int64
	held  atomic.Int64 // entries in streams
	mu    sync.Mutex
	reads map[*fasthttp.RequestHeader]reading
	// streams are bodies of requests whose response is still being relayed:
	// the server keeps them until its end.
	streams map[net.Conn]int64
}

type reading struct {
	bytes   int64
	beganAt time.Time
	refused bool
}

func newInFlight(o ServerOptions) *inFlight {
	return &inFlight{o: o, reads: map[*fasthttp.RequestHeader]reading{}, streams: map[net.Conn]int64{}}
}

// header is told of each request head before the body is read. It cannot refuse,
// so it makes the body too large, which refuse then explains.
func (f *inFlight) header(h *fasthttp.RequestHeader) (c fasthttp.RequestConfig) {
	limit := f.o.MaxBody
	if f.o.BodyLimit != nil {
		if n := f.o.BodyLimit(h); n > 0 {
			limit = n
		}
	}
	size := int64(h.ContentLength())
	if size == -1 {
		limit = min(limit, maxChunkedBody)
		size = int64(limit)
	}
	c.MaxRequestBodySize = limit
	if size < countedBody || size > int64(limit) {
		return c
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if old, ok := f.reads[h]; ok {
		// This connection state served another request before, whose body
		// ended without anybody being told.
		f.used.Add(-old.bytes)
	}
	r := reading{bytes: size, beganAt: time.Now()}
	if f.o.MaxInFlight > 0 && f.used.Load()+size > f.o.MaxInFlight && !f.makeRoom(size) {
		r.bytes, r.refused = 0, true
		c.MaxRequestBodySize = 1
	}
	f.used.Add(r.bytes)
	f.reads[h] = r
	if length := h.ContentLength(); length >= presized && !r.refused {
		presize(h, length)
	}
	return c
}

// makeRoom forgets uploads that must be over by now. Under f.mu.
func (f *inFlight) makeRoom(size int64) bool {
	if f.o.ReadTimeout > 0 {
		for h, r := range f.reads {
			if time.Since(r.beganAt) > f.o.ReadTimeout+staleAfter {
				f.used.Add(-r.bytes)
				delete(f.reads, h)
			}
		}
	}
	return f.used.Load()+size <= f.o.MaxInFlight
}

// take ends the reading of a request body.
func (f *inFlight) take(h *fasthttp.RequestHeader) reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.reads[h]
	delete(f.reads, h)
	return r
}

// forget is for bodies that are not read after all.
func (f *inFlight) forget(ctx *fasthttp.RequestCtx) {
	f.used.Add(-f.take(&ctx.Request.Header).bytes)
}

// around counts a body until its response is written.
func (f *inFlight) around(handler fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if n := ctx.Request.Header.ContentLength(); n < countedBody && n != -1 {
			handler(ctx)
			return
		}
		r := f.take(&ctx.Request.Header)
		size := min(r.bytes, int64(len(ctx.Request.Body())))
		f.used.Add(size - r.bytes)
		handler(ctx)
		if ctx.Response.IsBodyStream() && size > 0 {
			f.mu.Lock()
			f.streams[ctx.Conn()] += size
			f.mu.Unlock()
			f.held.Add(1)
			return
		}
		f.used.Add(-size)
	}
}

// state is told when a connection goes idle or closes: its response is written.
func (f *inFlight) state(c net.Conn, s fasthttp.ConnState) {
	if s != fasthttp.StateIdle && s != fasthttp.StateClosed || f.held.Load() == 0 {
		return
	}
	f.mu.Lock()
	size, ok := f.streams[c]
	delete(f.streams, c)
	f.mu.Unlock()
	if ok {
		f.held.Add(-1)
		f.used.Add(-size)
	}
}

// refuse answers a request that could not be read. The server closes the
// connection afterwards.
func (f *inFlight) refuse(ctx *fasthttp.RequestCtx, err error) {
	r := f.take(&ctx.Request.Header)
	f.used.Add(-r.bytes)
	why := refusalOf(err)
	if why == LargeBody && r.refused {
		why = ServerIsFull
	}
	ctx.Response.Reset()
	ctx.SetStatusCode(why.Status())
	f.o.Refuse(ctx, why)
	ctx.SetConnectionClose()
	if why == LargeBody || why == ServerIsFull || why == LargeHead {
		linger(ctx)
	}
}

// linger writes the response itself, shuts the sending side and reads on for a
// while. What the server writes afterwards goes nowhere.
func linger(ctx *fasthttp.RequestCtx) {
	c := ctx.Conn()
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return
	}
	_ = c.SetDeadline(time.Now().Add(lingerTime))
	body := ctx.Response.Body()
	ctx.Response.Header.SetContentLength(len(body))
	if _, err := c.Write(append(ctx.Response.Header.Header(), body...)); err != nil {
		return
	}
	if half.CloseWrite() != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(c, lingerBytes))
}
