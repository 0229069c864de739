package upstream

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

// wire writes one answer with the framing the scenario asks for. Tokens count
// as produced when the write that carried them succeeded.
type wire struct {
	c        *conn
	sc       *Scenario
	chunked  bool
	gzip     *gzip.Writer
	packed   bytes.Buffer
	batch    []byte // events waiting for the next write
	ends     []int  // where each of them ends in batch
	tokens   int64  // of the batch
	produced int64
	next     time.Time // when the next write is due
	begun    bool      // the head went out
	behind   []byte    // follows the body in its last write, where that has one
}

const (
	contentJSON   = "application/json"
	contentStream = "text/event-stream; charset=utf-8"
	contentHTML   = "text/html"
)

// begin prepares the answer's head; it is sent with the first body bytes.
// length -1: the length is not known.
func (w *wire) begin(sc *Scenario, status int, content string, length int) {
	c := w.c
	*w = wire{c: c, sc: sc, batch: w.batch[:0], ends: w.ends[:0]}
	c.out = c.out[:0]
	switch sc.Interim {
	case 0:
	case 103:
		c.out = append(c.out, "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"...)
	default:
		c.out = append(c.out, "HTTP/1.1 "+strconv.Itoa(sc.Interim)+" Continue\r\n\r\n"...)
	}
	c.out = append(c.out, "HTTP/1.1 "...)
	c.out = strconv.AppendInt(c.out, int64(status), 10)
	c.out = append(c.out, ' ')
	c.out = append(c.out, reason(status)...)
	w.header("Server", "simulated-upstream")
	w.header("Content-Type", content)
	w.header("x-request-id", "req_sim"+strconv.FormatUint(c.srv.ids.Load(), 16))
	w.header("openai-organization", "org-simsecret0001")
	if content == contentStream {
		w.header("Cache-Control", "no-cache")
	}
	for _, h := range c.extra {
		w.header(h[0], h[1])
	}
	c.extra = c.extra[:0]
	if sc.RetryAfter != "" {
		w.header("Retry-After", sc.RetryAfter)
	}
	if sc.Encoding == "gzip" {
		w.header("Content-Encoding", "gzip")
		w.gzip = gzip.NewWriter(&w.packed)
	}
	if sc.DupHeaders > 0 {
		w.header("Content-Type", content)
		w.header("x-request-id", "req_other")
	}
	switch {
	case sc.Close:
		w.header("Connection", "close")
	case length >= 0 && w.gzip == nil:
		w.header("Content-Length", strconv.Itoa(length))
		if sc.DupHeaders == 1 {
			w.header("Content-Length", strconv.Itoa(length))
		} else if sc.DupHeaders > 1 {
			w.header("Content-Length", strconv.Itoa(length+7))
		}
	default:
		w.chunked = true
		w.header("Transfer-Encoding", "chunked")
		if sc.DupHeaders > 1 {
			w.header("Content-Length", "5")
		}
	}
	c.out = append(c.out, "\r\n\r\n"...)
}

func (w *wire) header(name, value string) {
	w.c.out = append(w.c.out, crlf...)
	w.c.out = append(w.c.out, name...)
	w.c.out = append(w.c.out, ": "...)
	w.c.out = append(w.c.out, value...)
}

// event adds payload that carries tokens; every EventsPerWrite-th flushes.
func (w *wire) event(payload []byte, tokens int64) error {
	w.batch = append(w.batch, payload...)
	w.ends = append(w.ends, len(w.batch))
	w.tokens += tokens
	if len(w.ends) < max(1, w.sc.EventsPerWrite) {
		return nil
	}
	return w.flush()
}

// flush sends the buffered bytes, at the time the gap allows.
func (w *wire) flush() error {
	c := w.c
	if len(w.batch) == 0 && len(c.out) == 0 {
		return nil
	}
	if err := w.pace(); err != nil {
		return err
	}
	if w.gzip != nil {
		_, _ = w.gzip.Write(w.batch)
		_ = w.gzip.Flush()
		w.batch = append(w.batch[:0], w.packed.Bytes()...)
		w.packed.Reset()
		w.ends = append(w.ends[:0], len(w.batch))
	}
	if err := w.send(); err != nil {
		return err
	}
	w.produced += w.tokens
	w.tokens, w.batch, w.ends, w.begun = 0, w.batch[:0], w.ends[:0], true
	return nil
}

// pace keeps the rate: a late write does not delay the others.
func (w *wire) pace() error {
	if w.sc.Gap <= 0 {
		return nil
	}
	if w.next.IsZero() {
		w.next = time.Now()
	} else if err := w.c.pause(time.Until(w.next)); err != nil {
		return err
	}
	w.next = w.next.Add(w.sc.Gap)
	return nil
}

// send writes head and batch: one chunk an event and all in one write, or cut
// up as the scenario wants.
func (w *wire) send() error {
	c := w.c
	if w.sc.Chunk <= 0 && w.sc.Split == "" {
		from := 0
		for _, end := range w.ends {
			c.out = w.frame(c.out, w.batch[from:end])
			from = end
		}
		c.out = append(c.out, w.behind...)
		return w.sendOut()
	}
	if len(c.out) > 0 {
		if err := w.sendOut(); err != nil {
			return err
		}
	}
	for rest := w.batch; len(rest) > 0; {
		n := w.piece(rest)
		c.out = w.frame(c.out, rest[:n])
		rest = rest[n:]
		if err := w.sendOut(); err != nil {
			return err
		}
	}
	return nil
}

// sendOut writes the connection's output; split=frame also cuts through chunk
// heads.
func (w *wire) sendOut() error {
	c := w.c
	const frame = 5
	out := c.out
	c.out = c.out[:0]
	if w.sc.Split == "frame" {
		for len(out) > frame {
			if err := c.write(out[:frame]); err != nil {
				return err
			}
			out = out[frame:]
		}
	}
	return c.write(out)
}

func (w *wire) frame(dst, payload []byte) []byte {
	if !w.chunked {
		return append(dst, payload...)
	}
	if len(payload) == 0 {
		return dst
	}
	dst = strconv.AppendUint(dst, uint64(len(payload)), 16)
	dst = append(dst, crlf...)
	dst = append(dst, payload...)
	return append(dst, crlf...)
}

// piece is how many bytes of p go into the next write.
func (w *wire) piece(p []byte) int {
	limit := len(p)
	if w.sc.Chunk > 0 {
		limit = min(limit, w.sc.Chunk)
	}
	switch w.sc.Split {
	case "byte":
		return 1
	case "utf8":
		// Cut behind the first byte of a character of several bytes.
		for i := 0; i < limit-1; i++ {
			if p[i] >= utf8.RuneSelf && utf8.RuneStart(p[i]) {
				return i + 1
			}
		}
	case "crlf":
		// Cut inside every line end: \r | \n, or between the two \n of an event.
		for i := 1; i < limit; i++ {
			if p[i] == '\n' && (p[i-1] == '\r' || p[i-1] == '\n') {
				return i
			}
		}
	}
	return limit
}

// end finishes the answer properly, or improperly where the scenario says so.
// It reports whether the connection can be used again.
func (w *wire) end() (bool, error) {
	if err := w.flush(); err != nil {
		return false, err
	}
	if w.gzip != nil {
		_ = w.gzip.Close()
		w.batch = append(w.batch[:0], w.packed.Bytes()...)
		w.ends = append(w.ends[:0], len(w.batch))
		w.packed.Reset()
		if err := w.send(); err != nil {
			return false, err
		}
		w.batch, w.ends = w.batch[:0], w.ends[:0]
	}
	if !w.chunked {
		return !w.sc.Close, nil
	}
	if w.sc.Truncate {
		return false, nil
	}
	w.c.out = append(w.c.out, "0\r\n\r\n"...)
	return true, w.sendOut()
}

// body sends a complete body.
func (w *wire) body(b []byte) (bool, error) {
	if w.sc.Truncate || w.sc.Cut != "" {
		b = b[:min(w.sc.CutAfter.Or(len(b)/2), len(b))]
	}
	step := len(b)
	if w.sc.SlowBody > 0 {
		step = max(1, (len(b)+3)/4)
	}
	for len(b) > 0 {
		n := min(step, len(b))
		w.batch = append(w.batch[:0], b[:n]...)
		w.ends = append(w.ends[:0], n)
		if err := w.flush(); err != nil {
			return false, err
		}
		if b = b[n:]; len(b) > 0 {
			if err := w.c.pause(w.sc.SlowBody); err != nil {
				return false, err
			}
		}
	}
	keep, err := w.end()
	return keep && !w.sc.Truncate && w.sc.DupHeaders < 2, err
}

func reason(status int) string {
	if status == 529 {
		return "Site Overloaded"
	}
	return cmp.Or(http.StatusText(status), "Status")
}
