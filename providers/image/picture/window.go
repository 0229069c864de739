package picture

import (
	"bytes"
	"sync"

	"github.com/emmansun/base64"
)

const (
	// windowLen is how much of a file is looked at at a time; of base64 text so
	// much is decoded at once. A multiple of 3, so that no padding falls inside.
	windowLen = 48 << 10
	// keep is the most bytes that a reader may ask for at once.
	keep = 64
)

// window reads a file from front to back, as raw bytes or from base64 text of
// which a step at a time is decoded. Text is decoded to its end even where the
// bytes are skipped: that is how broken text is found, at 17 GB/s.
type window struct {
	p    []byte // decoded bytes not yet read
	pos  int64  // of p in the file
	text []byte // not yet decoded
	own  *[keep + windowLen + 16]byte
	bad  bool // the text is not base64
}

var windows = sync.Pool{New: func() any { return new([keep + windowLen + 16]byte) }}

// open starts at the front of a file; exactly one of text and raw is set.
// release must follow.
func open(text, raw []byte) window {
	if text == nil {
		return window{p: raw}
	}
	return window{text: text, own: windows.Get().(*[keep + windowLen + 16]byte)}
}

func (w *window) release() {
	if w.own != nil {
		windows.Put(w.own)
		w.own, w.p = nil, nil
	}
}

// fill decodes the next step, behind the unread rest of the last.
func (w *window) fill() bool {
	if len(w.text) == 0 || w.bad {
		return false
	}
	left := copy(w.own[:], w.p) // at most keep bytes
	step := w.text[:min(len(w.text), windowLen/3*4)]
	w.text = w.text[len(step):]
	n, err := base64.StdEncoding.Decode(w.own[left:], step)
	if err != nil || n != decodedLen(step) || len(w.text) > 0 && n != windowLen {
		w.bad = true
		w.text = nil
		return false
	}
	w.p = w.own[:left+n]
	return n > 0
}

// decodedLen is the decoded length of padded base64 text.
func decodedLen(text []byte) int {
	n := len(text) / 4 * 3
	if bytes.HasSuffix(text, []byte("==")) {
		return n - 2
	}
	if bytes.HasSuffix(text, []byte("=")) {
		return n - 1
	}
	return n
}

// peek is the next n bytes, at most keep; nil when the file ends before.
func (w *window) peek(n int) []byte {
	if len(w.p) < n && !w.fill() || len(w.p) < n {
		return nil
	}
	return w.p[:n]
}

// take is peek and goes on.
func (w *window) take(n int) []byte {
	p := w.peek(n)
	if p != nil {
		w.p, w.pos = w.p[n:], w.pos+int64(n)
	}
	return p
}

// skip passes over n bytes; false when the file ends before.
func (w *window) skip(n int64) bool {
	for n > int64(len(w.p)) {
		n -= int64(len(w.p))
		w.pos += int64(len(w.p))
		w.p = w.p[len(w.p):]
		if !w.fill() {
			return false
		}
	}
	w.p, w.pos = w.p[n:], w.pos+n
	return true
}

// seek passes over all bytes before the next c; false if absent.
func (w *window) seek(c byte) bool {
	for {
		if i := bytes.IndexByte(w.p, c); i >= 0 {
			w.p, w.pos = w.p[i:], w.pos+int64(i)
			return true
		}
		w.pos += int64(len(w.p))
		w.p = w.p[len(w.p):]
		if !w.fill() {
			return false
		}
	}
}

// drain reads to the end; false when the text is broken.
func (w *window) drain() bool {
	for {
		w.p = nil
		if !w.fill() {
			return !w.bad
		}
	}
}
