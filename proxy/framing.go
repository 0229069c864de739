package proxy

// framing knows where an upstream's answer ends.
type framing struct {
	kind   uint8
	left   int64 // of a known length
	chunks chunks
	done   bool // the answer was read to its end
	extra  bool // and something followed it: the connection is poisoned
}

const (
	framedNone uint8 = iota
	framedLength
	framedChunks
	framedClose // ends with the connection
)

func (f *framing) reset(h *head) {
	*f = framing{}
	switch {
	case h.bodyless():
		f.done = true
	case h.chunked:
		f.kind = framedChunks
	case h.length >= 0:
		f.kind, f.left, f.done = framedLength, h.length, h.length == 0
	default:
		f.kind = framedClose
	}
}

// decode takes the framing off p in place and returns the payload's length.
func (f *framing) decode(p []byte) (n int, err error) {
	switch {
	case f.done:
		f.extra = f.extra || len(p) > 0
		return 0, nil
	case f.kind == framedClose:
		return len(p), nil
	case f.kind == framedLength:
		n = int(min(f.left, int64(len(p))))
		f.left -= int64(n)
		f.done = f.left == 0
		f.extra = n < len(p)
		return n, nil
	}
	n, rest, err := f.chunks.decode(p)
	f.done = f.chunks.done
	f.extra = len(rest) > 0
	return n, err
}
