package proxy

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
	"time"
)

// FuzzChunks compares the decoder with net/http's: net/http accepts every body that we
// accept, with the same bytes. The split of the input makes no difference, and an end of
// input never ends the answer.
func FuzzChunks(f *testing.F) {
	for _, s := range []string{
		"0\r\n\r\n", "1\r\na\r\n0\r\n\r\n", "a;x=y\r\n0123456789\r\n0\r\nT: v\r\n\r\nrest", "1 \r\na\r\n0\r\n\r\n",
		"1\r\na", "-1\r\n", "fffffffffffffffff\r\n",
		"1\na\n0\n\n", "01\r\na\r\n00\r\n\r\n", "1\r\nab\r\n0\r\n\r\n", "3\r\n\r\n0\r\n0\r\n\r\n",
	} {
		f.Add([]byte(s), uint16(3))
	}
	f.Fuzz(func(t *testing.T, wire []byte, split uint16) {
		decode := func(step int) (out []byte, rest int, done bool, err error) {
			var c chunks
			for at := 0; at < len(wire) && !c.done; at += step {
				p := append([]byte(nil), wire[at:min(len(wire), at+step)]...)
				n, after, err := c.decode(p)
				out = append(out, p[:n]...)
				if err != nil {
					return out, 0, false, err
				}
				if c.done {
					return out, len(wire) - min(len(wire), at+step) + len(after), true, nil
				}
			}
			return out, 0, c.done, nil
		}
		out, rest, done, err := decode(len(wire) + 1)
		out2, rest2, done2, err2 := decode(int(split)%37 + 1)
		if !bytes.Equal(out, out2) || rest != rest2 || done != done2 || (err == nil) != (err2 == nil) {
			t.Fatalf("%q: whole %q %d %v %v, split %q %d %v %v", wire, out, rest, done, err, out2, rest2, done2, err2)
		}
		if err != nil {
			return
		}
		want, werr := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(wire)))
		if done {
			if werr != nil || !bytes.Equal(out, want) {
				t.Fatalf("%q: we took %q, net/http says %q %v", wire, out, want, werr)
			}
			if !bytes.HasSuffix(wire[:len(wire)-rest], []byte("\r\n")) {
				t.Fatalf("%q: ended in the middle, %d bytes left", wire, rest)
			}
		} else if !bytes.HasPrefix(want, out) && !bytes.HasPrefix(out, want) {
			t.Fatalf("%q: %q is not a prefix of %q", wire, out, want)
		}
	})
}

// FuzzHead checks that a head is only accepted if its framing has one meaning.
func FuzzHead(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: a/b\r\n", "HTTP/1.1 200\r\n",
		"HTTP/1.0 404 x\r\nConnection: a, Close\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n",
		"HTTP/1.1 429 x\r\nRetry-After: 3\r\nX: \t y \r\n", "HTTP/1.1 200 OK\r\nA : b\r\n",
		"HTTP/1.1 200 OK\r\nretry-after: Wed, 21 Oct 2015 07:28:00 GMT\r\nCONTENT-ENCODING: identity\r\n",
	} {
		f.Add([]byte(s))
	}
	now := time.Unix(1445412400, 0)
	f.Fuzz(func(t *testing.T, p []byte) {
		p = append(p[:len(p):len(p)], "\r\n"...)
		if bytes.Index(p, []byte("\r\n\r\n")) != len(p)-4 {
			return // the reader cuts at the first empty line
		}
		var h head
		if h.parse(p, now) != nil {
			return
		}
		text := strings.ToLower(string(p))
		if h.chunked && h.length >= 0 || strings.Count(text, "\r\ncontent-length:") > 1 ||
			strings.Count(text, "\r\ntransfer-encoding:") > 1 {
			t.Fatalf("%q: ambiguous", p)
		}
		if (h.length >= 0) != strings.Contains(text, "\r\ncontent-length:") ||
			h.chunked != strings.Contains(text, "\r\ntransfer-encoding:") {
			t.Fatalf("%q: framing was overlooked: %+v", p, h)
		}
		if h.status < 100 || h.status > 599 || h.retryAfter < 0 || h.retryAfter > maxRetryAfter ||
			bytes.IndexByte(p, 0) >= 0 {
			t.Fatalf("%q: %+v", p, h)
		}
		if s := h.contentType; s.from > s.to || s.to > len(h.lines) {
			t.Fatalf("%q: %+v", p, h)
		}
		for _, line := range strings.Split(strings.TrimSuffix(string(h.lines), "\r\n"), "\r\n") {
			if name, _, ok := strings.Cut(line, ":"); ok && h.get(name) == nil &&
				!strings.HasSuffix(strings.TrimRight(line, " \t"), ":") {
				t.Fatalf("%q: %q cannot be found again", p, name)
			}
		}
	})
}

// FuzzPatch checks that all ways of sending a patched body give the same bytes.
func FuzzPatch(f *testing.F) {
	f.Add([]byte("hello world"), []byte{1, 0, 3, 0, 2, 0, 9, 0, 0, 0, 4, 0})
	f.Add([]byte(""), []byte{0, 0, 0, 0, 5, 0})
	f.Add([]byte("abc"), []byte{})
	f.Fuzz(func(t *testing.T, body, plan []byte) {
		var patches []Patch
		want := append([]byte(nil), body...)
		at := 0
		for ; len(plan) >= 6; plan = plan[6:] {
			from := at + int(binary.LittleEndian.Uint16(plan))%(len(body)-at+1)
			to := from + int(binary.LittleEndian.Uint16(plan[2:]))%(len(body)-from+1)
			with := bytes.Repeat([]byte{'+'}, int(binary.LittleEndian.Uint16(plan[4:]))%300)
			patches = append(patches, Patch{from, to, with})
			at = to
		}
		for i := len(patches) - 1; i >= 0; i-- {
			p := patches[i]
			want = append(append(append([]byte(nil), want[:p.From]...), p.With...), want[p.To:]...)
		}
		if got := AppendPatched([]byte("x"), body, patches); string(got) != "x"+string(want) {
			t.Fatalf("%q with %v: %q, want %q", body, patches, got, want)
		}
		if n := PatchedLen(body, patches); n != len(want) {
			t.Fatalf("%q with %v: %d bytes, want %d", body, patches, n, len(want))
		}
		segments := appendSegments(nil, body, patches)
		for _, s := range segments {
			if len(s) == 0 {
				t.Fatal("an empty segment")
			}
		}
		if got := bytes.Join(segments, nil); !bytes.Equal(got, want) {
			t.Fatalf("%q with %v: %q, want %q", body, patches, got, want)
		}
	})
}
