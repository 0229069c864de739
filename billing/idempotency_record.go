package billing

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"

	"github.com/klauspost/compress/s2"
)

// Kinds of keyed records. The numbers are stored.
const (
	keyedPending   = 1 + iota // somebody carries the request out
	keyedDone                 // its answer
	keyedForgotten            // as if it had not been
)

// Flags of a keyed record. The numbers are stored.
const (
	keyedTooLarge   = 1 << iota // the answer was too large to be kept
	keyedCompressed             // its body is in S2 form
)

// keyedRecord is what is known of a key: in files and in Redis a head of fixed
// size, and of a kept answer its headers and body behind it.
//
//	0 crc32c of [4:96]   4 kind   5 flags   6 status   8 id   24 fingerprint
//	56 Unix ms   64 token   72 node   76 size and 80 crc32c of what follows
//	84 patience in ms   88 boot
type keyedRecord struct {
	kind, flags byte
	status      uint16
	id          keyedID
	fingerprint [32]byte
	atMs        int64  // when the request began
	token       uint64 // of a pending record: random; of a kept answer: the hold's sequence
	node        uint32 // who leads or led the request
	size        uint32
	sum         uint32
	patienceMs  uint32
	boot        uint64

	rest []byte // what follows the head; nil when it was not read
}

const (
	keyedHead = 96
	// keyedCompressFrom is the size from which a body is worth compressing.
	keyedCompressFrom = 1 << 10
	// maxAnswerHeaders bounds the kept headers of an answer.
	maxAnswerHeaders = 64
)

// appendHead appends the head of r.
func (r *keyedRecord) appendHead(b []byte) []byte {
	le := binary.LittleEndian
	at := len(b)
	b = append(b, 0, 0, 0, 0, r.kind, r.flags)
	b = le.AppendUint16(b, r.status)
	b = append(b, r.id[:]...)
	b = append(b, r.fingerprint[:]...)
	b = le.AppendUint64(b, uint64(r.atMs))
	b = le.AppendUint64(b, r.token)
	b = le.AppendUint32(b, r.node)
	b = le.AppendUint32(b, r.size)
	b = le.AppendUint32(b, r.sum)
	b = le.AppendUint32(b, r.patienceMs)
	b = le.AppendUint64(b, r.boot)
	le.PutUint32(b[at:], crc32.Checksum(b[at+4:], castagnoli))
	return b
}

// bytes is the whole record.
func (r *keyedRecord) bytes() []byte {
	return append(r.appendHead(make([]byte, 0, keyedHead+len(r.rest))), r.rest...)
}

// readHead reads a head; false when it is torn or damaged.
func (r *keyedRecord) readHead(b []byte) bool {
	le := binary.LittleEndian
	if len(b) < keyedHead || le.Uint32(b) != crc32.Checksum(b[4:keyedHead], castagnoli) || b[4] < keyedPending || b[4] > keyedForgotten {
		return false
	}
	*r = keyedRecord{
		kind: b[4], flags: b[5], status: le.Uint16(b[6:]), id: keyedID(b[8:24]), fingerprint: [32]byte(b[24:56]),
		atMs: int64(le.Uint64(b[56:])), token: le.Uint64(b[64:]), node: le.Uint32(b[72:]), size: le.Uint32(b[76:]),
		sum: le.Uint32(b[80:]), patienceMs: le.Uint32(b[84:]), boot: le.Uint64(b[88:]),
	}
	return r.kind == keyedDone || r.size == 0
}

// read reads a whole record.
func (r *keyedRecord) read(b []byte) bool {
	if !r.readHead(b) || uint64(len(b)-keyedHead) != uint64(r.size) {
		return false
	}
	r.rest = b[keyedHead:]
	return crc32.Checksum(r.rest, castagnoli) == r.sum
}

// Answer is what a client got, to be given again under the same key.
type Answer struct {
	Status int
	Header []AnswerHeader // at most 64; without those that every answer has
	Body   []byte
}

// AnswerHeader is one header of an answer.
type AnswerHeader struct{ Name, Value string }

// keep makes r a kept answer.
func (r *keyedRecord) keep(a *Answer, body []byte) {
	r.status = uint16(a.Status)
	b := make([]byte, 0, 256+len(body))
	b = binary.AppendUvarint(b, uint64(len(a.Header)))
	for _, h := range a.Header {
		b = appendText(appendText(b, h.Name), h.Value)
	}
	at := len(b)
	if len(body) >= keyedCompressFrom && len(body) <= math.MaxInt32 {
		room := s2.MaxEncodedLen(len(body))
		packed := s2.Encode(make([]byte, room), body)
		if len(packed) < len(body) {
			r.flags |= keyedCompressed
			body = packed
		}
	}
	r.rest = append(b[:at], body...)
	r.size, r.sum = uint32(len(r.rest)), crc32.Checksum(r.rest, castagnoli)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

var errKeptAnswer = errors.New("a kept answer cannot be read")

// answer is what r keeps, with a body of at most so many bytes. The result has
// memory of its own or that of r.
func (r *keyedRecord) answer(most int) (*Answer, error) {
	if r.flags&keyedTooLarge != 0 {
		return nil, ErrKeyTooLarge
	}
	d := numbers{b: r.rest}
	n := d.uint()
	if n > maxAnswerHeaders {
		return nil, errKeptAnswer
	}
	a := &Answer{Status: int(r.status), Header: make([]AnswerHeader, n)}
	for i := range a.Header {
		a.Header[i] = AnswerHeader{d.text(), d.text()}
	}
	if d.bad {
		return nil, errKeptAnswer
	}
	a.Body = d.b
	if r.flags&keyedCompressed == 0 {
		return a, nil
	}
	size, err := s2.DecodedLen(d.b)
	if err != nil || size > most {
		return nil, errKeptAnswer
	}
	if a.Body, err = s2.Decode(make([]byte, size), d.b); err != nil {
		return nil, errKeptAnswer
	}
	return a, nil
}

func (d *numbers) text() string {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}
