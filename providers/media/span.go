package media

import (
	"encoding/binary"
	"slices"
)

// Spans are the pieces of a file that were sent.
type Spans struct {
	list []span // in order, apart from each other
	sent int64  // bytes, those that were sent twice counted twice
}

type span struct{ from, to int64 } // to is the first byte that is not in it

// mostSpans bounds the recorded pieces; of a file that was fetched in more of them the
// smallest gaps count as fetched.
const mostSpans = 256

// Add notes n bytes from an offset on.
func (s *Spans) Add(from, n int64) {
	if n <= 0 {
		return
	}
	s.sent += n
	next := span{from, from + n}
	first, _ := slices.BinarySearchFunc(s.list, next, func(a, b span) int {
		if a.to < b.from {
			return -1
		}
		return 1
	})
	last := first
	for last < len(s.list) && s.list[last].from <= next.to {
		next.from, next.to = min(next.from, s.list[last].from), max(next.to, s.list[last].to)
		last++
	}
	s.list = slices.Replace(s.list, first, last, next)
	if len(s.list) > mostSpans {
		s.join()
	}
}

// join closes the smallest gap.
func (s *Spans) join() {
	at := 1
	for i := 2; i < len(s.list); i++ {
		if s.list[i].from-s.list[i-1].to < s.list[at].from-s.list[at-1].to {
			at = i
		}
	}
	s.list[at-1].to = s.list[at].to
	s.list = slices.Delete(s.list, at, at+1)
}

// Whole says that all of a file of so many bytes was handed over.
func (s *Spans) Whole(size int64) bool {
	return size == 0 || len(s.list) == 1 && s.list[0].from == 0 && s.list[0].to >= size
}

// Append encodes s for ReadSpans.
func (s *Spans) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(s.sent))
	at := int64(0)
	for _, one := range s.list {
		b = binary.AppendUvarint(b, uint64(one.from-at))
		b = binary.AppendUvarint(b, uint64(one.to-one.from))
		at = one.to
	}
	return b
}

// ReadSpans reads the spans that Append has written; none if they cannot be read.
func ReadSpans(b []byte) (s Spans) {
	next := func() int64 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > 1<<50 {
			b = nil
			return -1
		}
		b = b[size:]
		return int64(n)
	}
	if s.sent = next(); s.sent < 0 {
		return Spans{}
	}
	for at := int64(0); len(b) > 0; {
		gap, n := next(), next()
		if gap < 0 || n <= 0 || len(s.list) == mostSpans || len(s.list) > 0 && gap == 0 {
			return Spans{sent: s.sent}
		}
		s.list = append(s.list, span{at + gap, at + gap + n})
		at += gap + n
	}
	return s
}

// Sent is how many bytes were handed over in all.
func (s *Spans) Sent() int64 { return s.sent }
