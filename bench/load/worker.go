package load

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

// worker owns one connection and sends one request after the other.
type worker struct {
	run     *run
	rec     *recorder
	pace    *pacer
	startIn time.Duration
	conn    *Conn
	window  window
	busy    atomic.Int64 // Unix nanoseconds since when a request is under way; 0: idle
}

// ownLateness is how late the pacer may be before the lateness counts as the
// request's. Below it, it is the timer's.
const ownLateness = time.Millisecond

func (w *worker) loop() {
	if w.startIn > 0 {
		time.Sleep(w.startIn)
	}
	backoff := time.Millisecond
	for !w.run.stop.Load() {
		start := time.Now()
		if w.pace != nil {
			a, ok := <-w.pace.due
			if !ok {
				return
			}
			start = a
		}
		if w.run.stop.Load() {
			break
		}
		ok := w.one(start)
		switch {
		case ok:
			backoff = time.Millisecond
		case w.pace == nil:
			// A server that is away must not be asked a million times a second.
			time.Sleep(backoff)
			backoff = min(2*backoff, 100*time.Millisecond)
		}
	}
	if w.conn != nil {
		w.run.drop(w.conn)
	}
}

// one sends a request and records the result; false: it failed.
func (w *worker) one(start time.Time) bool {
	r := w.run
	w.window = window{start: start, counted: r.measured.Load(), tail: w.window.tail[:0], abortAt: -1}
	w.busy.Store(start.UnixNano())
	defer w.busy.Store(0)
	if w.conn == nil {
		c, err := r.dial()
		if err != nil {
			return w.fail("connect", err)
		}
		w.conn = c
	}
	c := w.conn
	if err := c.send(r.request, start); err != nil {
		return w.fail("send", err)
	}
	if err := c.head(); err != nil {
		return w.fail("head", err)
	}
	if r.o.Abort > 0 {
		// The golden ratio spreads the aborted requests evenly.
		n := float64(r.serial.Add(1)) * 0.6180339887498949
		if n-float64(int64(n)) < r.o.Abort {
			w.window.abortAt = r.o.AbortAfter
		}
	}
	if c.stream && c.status == 200 {
		return w.stream()
	}
	var first func([]byte) error
	if r.o.FirstByte && c.status == 200 && w.window.counted {
		first = w.first
	}
	if err := c.body(first); err != nil {
		return w.fail("body", err)
	}
	if c.status != 200 {
		w.rec.fail("status "+strconv.Itoa(c.status), w.counts())
		w.release()
		return false
	}
	w.done()
	return true
}

// first is given the payload of a whole answer and times the first of it.
func (w *worker) first([]byte) error {
	if w.window.begun || !w.counts() {
		return nil
	}
	w.window.begun = true
	w.rec.begun(time.Since(w.window.start))
	return nil
}

// counts: the request was at least begun or ended in the measured time.
func (w *worker) counts() bool { return w.run.measured.Load() }

func (w *worker) done() {
	now := time.Now()
	if w.counts() {
		second := int(now.Sub(w.run.begun) / time.Second)
		w.rec.done(now.Sub(w.window.start), second, w.window.counted, int64(w.conn.taken))
	}
	w.release()
}

func (w *worker) release() {
	if w.conn.closing {
		w.run.drop(w.conn)
		w.conn = nil
	}
}

func (w *worker) fail(where string, err error) bool {
	kind := where + ": " + errorKind(err)
	if w.conn != nil {
		w.run.drop(w.conn)
		w.conn = nil
	}
	if !w.run.stop.Load() {
		w.rec.fail(kind, w.counts())
	}
	return false
}

func errorKind(err error) string {
	var ne net.Error
	switch {
	case errors.As(err, &ne) && ne.Timeout():
		return "timeout"
	case errors.Is(err, errMalformed):
		return "malformed answer"
	case errors.Is(err, errTruncated):
		return "ended early"
	case errors.Is(err, errReset):
		return "reset"
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}

// window is the state of the request under way.
type window struct {
	start   time.Time
	counted bool // begun in the measured time
	begun   bool // its first byte was timed
	abortAt int
	events  int
	last    time.Time
	tail    []byte // end of the payload so far, for marks that cross reads
	finish  bool   // [DONE] or message_stop was read
}

var (
	eventEnd     = []byte("\n\n")
	crlfEventEnd = []byte("\r\n\r\n")
	dataMark     = []byte("data: ")
	doneMark     = []byte("data: [DONE]")
	stopMark     = []byte("message_stop")
	sentMark     = []byte(`"sent_ns":"`)
	errAborted   = errors.New("left by the client")
)

const (
	sentDigits = 19
	tailBytes  = 16
)

// stream reads an SSE answer and times its events.
func (w *worker) stream() bool {
	win := &w.window
	err := w.conn.body(w.payload)
	switch {
	case errors.Is(err, errAborted):
		w.rec.abort(w.counts())
		w.run.drop(w.conn)
		w.conn = nil
		return true
	case err != nil:
		return w.fail("stream", err)
	case !win.finish:
		w.rec.fail("stream: no [DONE]", w.counts())
		w.release()
		return false
	}
	w.done()
	return true
}

// payload is given the bytes of one chunk or read.
func (w *worker) payload(p []byte) error {
	win := &w.window
	n := bytes.Count(p, eventEnd) + bytes.Count(p, crlfEventEnd)
	finish := bytes.Contains(p, doneMark) || bytes.Contains(p, stopMark)
	if len(win.tail) > 0 && !bytes.HasPrefix(p, dataMark) {
		n += across(win.tail, p, eventEnd) + across(win.tail, p, crlfEventEnd)
		finish = finish || across(win.tail, p, doneMark)+across(win.tail, p, stopMark) > 0
	}
	win.finish = win.finish || finish
	if n > 0 {
		w.time(p, n)
	}
	if len(p) >= tailBytes {
		win.tail = append(win.tail[:0], p[len(p)-tailBytes:]...)
	} else {
		win.tail = append(win.tail, p...)
		win.tail = append(win.tail[:0], win.tail[max(0, len(win.tail)-tailBytes):]...)
	}
	if win.abortAt >= 0 && win.events >= win.abortAt {
		return errAborted
	}
	return nil
}

// across counts the marks that begin in tail and end in p.
func across(tail, p, mark []byte) (n int) {
	for have := 1; have < len(mark); have++ {
		if bytes.HasSuffix(tail, mark[:have]) && bytes.HasPrefix(p, mark[have:]) {
			n++
		}
	}
	return n
}

// time records n events that arrived together.
func (w *worker) time(p []byte, n int) {
	win := &w.window
	now := time.Now()
	if w.counts() {
		s := seen{events: n, first: -1, gap: -1, delay: -1}
		if win.events > 0 {
			s.gap = now.Sub(win.last)
		} else if win.counted {
			s.first = now.Sub(win.start)
		}
		if at := bytes.Index(p, sentMark); at >= 0 && len(p) >= at+len(sentMark)+sentDigits {
			from := at + len(sentMark)
			if sent, err := strconv.ParseInt(string(p[from:from+sentDigits]), 10, 64); err == nil {
				s.delay = max(0, time.Duration(now.UnixNano()-sent))
			}
		}
		w.rec.event(s)
	}
	win.events += n
	win.last = now
}
