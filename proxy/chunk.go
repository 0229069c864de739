package proxy

import "errors"

const (
	// maxChunkDigits keeps a chunk size within an int64.
	maxChunkDigits = 15
	// maxChunkLine bounds one size line with its extensions.
	maxChunkLine = 4 << 10
	// maxTrailer bounds all trailer lines together; they are read and dropped.
	maxTrailer = 16 << 10
)

var errChunk = errors.New("chunked framing is broken")

// chunks takes the chunked framing off an answer, in place and in pieces of any
// size. Unlike fasthttp's reader it never takes an end of the connection for
// the end of the answer: only the zero chunk and its trailer set done.
type chunks struct {
	left   int64 // payload bytes of the current chunk still to come
	state  uint8
	digits uint8 // of the size read so far
	line   int   // bytes of the current size line or of the trailer
	done   bool
}

const (
	chunkSize    = iota // at or in the hex digits of a size
	chunkPad            // spaces after the size
	chunkExt            // in an extension
	chunkSizeLF         // after the CR of a size line
	chunkData           // in the payload
	chunkDataCR         // after the payload
	chunkDataLF         // after its CR
	chunkTrailer        // at the begin of a trailer line
	chunkField          // within one
	chunkFieldLF        // after its CR
	chunkEndLF          // after the CR of the empty line that ends it all
)

// decode moves the payload in p to its front and returns its length. rest are the bytes after the
// end of the answer, which are never ours to have.
func (c *chunks) decode(p []byte) (n int, rest []byte, err error) {
	for i := 0; i < len(p); {
		if c.state == chunkData {
			k := int(min(c.left, int64(len(p)-i)))
			if n != i {
				copy(p[n:], p[i:i+k])
			}
			n += k
			i += k
			if c.left -= int64(k); c.left == 0 {
				c.state = chunkDataCR
			}
			continue
		}
		if c.done {
			return n, p[i:], nil
		}
		if !c.step(p[i]) {
			return n, nil, errChunk
		}
		i++
	}
	return n, nil, nil
}

// step takes one byte of framing.
func (c *chunks) step(b byte) bool {
	switch c.state {
	case chunkSize:
		d := hexDigit[b]
		switch {
		case d != 0:
			c.digits++
			c.left = c.left<<4 | int64(d-1)
			return c.digits <= maxChunkDigits
		case c.digits == 0:
			return false
		case b == '\r':
			c.state = chunkSizeLF
		case b == ' ' || b == '\t':
			c.state = chunkPad
		case b == ';':
			c.state = chunkExt
		default:
			return false
		}
	case chunkPad, chunkExt:
		switch {
		case b == '\r':
			c.state = chunkSizeLF
		case c.state == chunkPad && b == ';':
			c.state = chunkExt
		case c.state == chunkPad && b != ' ' && b != '\t':
			return false
		case b < ' ' && b != '\t' || b == 0x7f:
			return false
		}
		c.line++
		return c.line <= maxChunkLine
	case chunkSizeLF:
		if b != '\n' {
			return false
		}
		c.digits, c.line = 0, 0
		c.state = chunkData
		if c.left == 0 {
			c.state = chunkTrailer
		}
	case chunkDataCR:
		c.state = chunkDataLF
		return b == '\r'
	case chunkDataLF:
		c.state = chunkSize
		return b == '\n'
	case chunkTrailer:
		c.state = chunkField
		if b == '\r' {
			c.state = chunkEndLF
			return true
		}
		return c.field(b)
	case chunkField:
		if b == '\r' {
			c.state = chunkFieldLF
			return true
		}
		return c.field(b)
	case chunkFieldLF:
		c.state = chunkTrailer
		return b == '\n'
	case chunkEndLF:
		c.done = true
		return b == '\n'
	}
	return true
}

// field takes a byte of a trailer line.
func (c *chunks) field(b byte) bool {
	c.line++
	return c.line <= maxTrailer && (b >= ' ' && b != 0x7f || b == '\t')
}

var hexDigit = func() (t [256]uint8) {
	for i, c := range "0123456789abcdef" {
		t[c] = uint8(i + 1)
	}
	for i, c := range "ABCDEF" {
		t[c] = uint8(i + 11)
	}
	return t
}()
