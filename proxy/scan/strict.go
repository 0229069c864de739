package scan

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// SkimStrict is Skim that also refuses raw control characters inside strings and bytes that are
// not UTF-8. Bodies of clients are read so: an upstream's parser would refuse them later, or read
// another request than was priced.
func (d *Document) SkimStrict(body []byte, shape *Shape) error {
	if err := d.Skim(body, shape); err != nil {
		return err
	}
	at, why := check(body)
	if why == 0 {
		return nil
	}
	e := &Error{Offset: at, Reason: why}
	// Fields are in the order of the body, so the last one around the place is
	// the innermost.
	for i := range d.Fields {
		if f := &d.Fields[i]; int(f.From) <= at && at < int(f.To) {
			e.Path = d.Path(int32(i))
		}
	}
	return e
}

// check judges the strings of a body that is valid JSON otherwise. Outside of
// strings such a body has no control characters but white space, so most have
// none at all and need no look at their quotes.
func check(body []byte) (at int, why Reason) {
	control, high := odd(body)
	if control {
		for i := 0; ; {
			quote := bytes.IndexByte(body[i:], '"')
			if quote < 0 {
				break
			}
			from := i + quote + 1
			i = skipString(body, from)
			if i < 0 {
				break
			}
			if inside, _ := odd(body[from : i-1]); inside {
				for at = from; body[at] >= ' '; {
					at++
				}
				return at, Control
			}
		}
	}
	if !high || utf8.Valid(body) {
		return 0, 0
	}
	for {
		r, size := utf8.DecodeRune(body[at:])
		if r == utf8.RuneError && size <= 1 {
			return at, Encoding
		}
		at += size
	}
}

// odd says whether a text has control characters and whether it has bytes
// beyond ASCII, 32 bytes at a time.
func odd(p []byte) (control, high bool) {
	const (
		blanks = 0x2020202020202020
		highs  = 0x8080808080808080
	)
	var low, top uint64
	for len(p) >= 32 {
		a, b := binary.LittleEndian.Uint64(p[0:8]), binary.LittleEndian.Uint64(p[8:16])
		c, d := binary.LittleEndian.Uint64(p[16:24]), binary.LittleEndian.Uint64(p[24:32])
		low |= (a-blanks)&^a | (b-blanks)&^b | (c-blanks)&^c | (d-blanks)&^d
		top |= a | b | c | d
		p = p[32:]
	}
	for len(p) >= 8 {
		a := binary.LittleEndian.Uint64(p)
		low |= (a - blanks) &^ a
		top |= a
		p = p[8:]
	}
	for _, c := range p {
		if c < ' ' {
			low = highs
		}
		top |= uint64(c)
	}
	return low&highs != 0, top&highs != 0
}
