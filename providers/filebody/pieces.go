package filebody

import (
	"errors"
	"io"
	"sync"

	"github.com/emmansun/base64"

	"farebox/proxy"
)

const (
	// rawStep is how many raw bytes are turned into base64 at a time; a multiple
	// of 3, so that no padding falls inside. textStep is the text they make, and the
	// most that is written at once: the other side must take it within one stall limit.
	rawStep  = 48 << 10
	textStep = rawStep / 3 * 4
)

// Pieces is a body made of pieces of other buffers: they are turned into base64, or back
// into raw bytes, while the body is written, 48 KiB at a time. So an image is in memory
// once, whatever its form in the request and in the answer.
//
// It is a proxy.Source: the body of a request, which can be written again for
// another target, or of a response (proxy.Deliver). The zero value is empty.
type Pieces struct {
	list []piece
	size int64
}

var _ proxy.Source = (*Pieces)(nil)

type piece struct {
	p  []byte
	as form
}

type form uint8

const (
	asIs    form = iota
	encoded      // raw bytes, to be written as base64
	decoded      // base64, to be written as raw bytes
)

// Add appends p as it is.
func (pi *Pieces) Add(p []byte) { pi.add(p, asIs, int64(len(p))) }

// AddString appends s.
func (pi *Pieces) AddString(s string) { pi.Add([]byte(s)) }

// AddText appends a file as base64: of Image and Input one of text and raw is set.
func (pi *Pieces) AddText(text, raw []byte) {
	if text != nil {
		pi.Add(text)
		return
	}
	pi.add(raw, encoded, int64(base64.StdEncoding.EncodedLen(len(raw))))
}

// AddRaw appends a file as raw bytes: of Image and Input one of text and raw is set.
func (pi *Pieces) AddRaw(text, raw []byte) {
	if text == nil {
		pi.Add(raw)
		return
	}
	pi.add(text, decoded, Size(text, nil))
}

// Join appends all pieces of o.
func (pi *Pieces) Join(o *Pieces) {
	pi.list = append(pi.list, o.list...)
	pi.size += o.size
}

func (pi *Pieces) add(p []byte, as form, size int64) {
	if size == 0 {
		return
	}
	pi.size += size
	if last := len(pi.list) - 1; as == asIs && last >= 0 && pi.list[last].as == asIs && len(p) < 4<<10 &&
		len(pi.list[last].p) < 4<<10 {
		// Small pieces are joined, in memory of our own.
		own := &pi.list[last]
		own.p = append(own.p[:len(own.p):len(own.p)], p...)
		return
	}
	pi.list = append(pi.list, piece{p, as})
}

// Len is the exact number of bytes that WriteTo writes.
func (pi *Pieces) Len() int64 { return pi.size }

// errText is broken base64; inputs and images were checked before.
var errText = errors.New("an image's base64 text is broken")

// steps are the buffers of conversions under way.
var steps = sync.Pool{New: func() any { return new([textStep]byte) }}

// WriteTo writes the whole body; it may be called again.
func (pi *Pieces) WriteTo(w io.Writer) (n int64, err error) {
	var step *[textStep]byte
	defer func() {
		if step != nil {
			steps.Put(step)
		}
	}()
	for i := range pi.list {
		p, as := pi.list[i].p, pi.list[i].as
		if as != asIs && step == nil {
			step = steps.Get().(*[textStep]byte)
		}
		for len(p) > 0 {
			var out []byte
			switch as {
			case asIs:
				k := min(len(p), textStep)
				out, p = p[:k], p[k:]
			case encoded:
				k := min(len(p), rawStep)
				out = step[:base64.StdEncoding.EncodedLen(k)]
				base64.StdEncoding.Encode(out, p[:k])
				p = p[k:]
			case decoded:
				k, err := base64.StdEncoding.Decode(step[:], p[:min(len(p), textStep)])
				if err != nil {
					return n, errText
				}
				out, p = step[:k], p[min(len(p), textStep):]
			}
			k, err := w.Write(out)
			n += int64(k)
			if err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// Size is the length of raw, or of the bytes in the padded base64 text.
func Size(text, raw []byte) int64 {
	if text == nil {
		return int64(len(raw))
	}
	n := int64(len(text)) / 4 * 3
	for i := len(text) - 1; i >= 0 && i >= len(text)-2 && text[i] == '='; i-- {
		n--
	}
	return n
}
