package proxy

import "io"

// Patch replaces Body[From:To] by With. The patches of a request are sorted and
// disjoint, so that a body is changed without being copied: it leaves as
// segments of itself and of the patches (send.go).
type Patch struct {
	From, To int
	With     []byte
}

// PatchedLen is the length of body after the patches.
func PatchedLen(body []byte, patches []Patch) int {
	n := len(body)
	for i := range patches {
		n += len(patches[i].With) - (patches[i].To - patches[i].From)
	}
	return n
}

// AppendPatched appends the patched body to dst.
func AppendPatched(dst, body []byte, patches []Patch) []byte {
	at := 0
	for i := range patches {
		p := &patches[i]
		dst = append(dst, body[at:p.From]...)
		dst = append(dst, p.With...)
		at = p.To
	}
	return append(dst, body[at:]...)
}

// WritePatched writes the patched body to a hash, or to another writer that never fails.
func WritePatched(w io.Writer, body []byte, patches []Patch) {
	at := 0
	for i := range patches {
		p := &patches[i]
		_, _ = w.Write(body[at:p.From])
		_, _ = w.Write(p.With)
		at = p.To
	}
	_, _ = w.Write(body[at:])
}

// appendSegments appends the patched body to dst as pieces, none of them empty.
func appendSegments(dst [][]byte, body []byte, patches []Patch) [][]byte {
	at := 0
	for i := range patches {
		p := &patches[i]
		if p.From > at {
			dst = append(dst, body[at:p.From])
		}
		if len(p.With) > 0 {
			dst = append(dst, p.With)
		}
		at = p.To
	}
	if at < len(body) {
		dst = append(dst, body[at:])
	}
	return dst
}
