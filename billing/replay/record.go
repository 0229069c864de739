package replay

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"

	"github.com/klauspost/compress/s2"

	"farebox/config/fair"
)

// Kinds of records. The numbers are stored.
const (
	kindPending   = 1 + iota // the request is being carried out
	kindDone                 // its answer
	kindForgotten            // as if it had not been
	kindErased               // nothing: its account was erased
)

// Flags of a record. The numbers are stored.
const (
	flagTooLarge   = 1 << iota // the answer was too large to be kept
	flagCompressed             // its body is in S2 form
	flagOwned                  // its head has an owner
	flagWrites                 // it changes something outside: it is carried out once at most
	flagUnknown                // whether it was carried out is not known; there is no answer
)

// record is the state of a key: in files and in Redis a head of fixed
// size, and of a kept answer its headers and body behind it.
//
//	0 crc32c of [4:96]   4 kind   5 flags   6 status   8 id   24 fingerprint
//	56 Unix ms   64 token   72 node   76 size and 80 crc32c of the rest
//	84 patience in ms   88 boot; of a kept answer its account
//
// With flagOwned the head continues, and the sum of [4:112] covers that, too:
//
//	96 account   104 net
//
// Records in files have it. Those of earlier versions have not: they belong to the zero
// Owner.
type record struct {
	kind, flags byte
	status      uint16
	id          requestID
	fingerprint [32]byte
	atMs        int64  // when the request began
	token       uint64 // of a pending record: random; of a kept answer: the hold's sequence
	node        uint32 // the leader of the request
	size        uint32
	sum         uint32
	patienceMs  uint32
	boot        uint64     // of a kept answer the number of its account
	owner       fair.Owner // stored with flagOwned

	rest   []byte // the bytes behind the head; nil when they were not read
	ageMs  int64  // since it was written, where the store knows
	orphan bool   // it is pending, writes, and its process is dead
}

// yields says that a pending record whose process is dead makes way for its own
// repetition, p. One that writes does not: it may have been carried out.
func (r *record) yields(p *record) bool {
	if r.kind != kindPending || r.fingerprint != p.fingerprint {
		return false
	}
	r.orphan = r.flags&flagWrites != 0
	return !r.orphan
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	headSize  = 96
	ownedSize = headSize + 16
	// compressFrom is the size from which a body is worth compressing.
	compressFrom = 1 << 10
	// maxAnswerHeaders bounds the kept headers of an answer.
	maxAnswerHeaders = 64
)

// headSize is the size of the head.
func (r *record) headSize() int {
	if r.flags&flagOwned != 0 {
		return ownedSize
	}
	return headSize
}

// stored is the size of the whole record.
func (r *record) stored() int64 { return int64(r.headSize()) + int64(r.size) }

// appendHead appends the head of r.
func (r *record) appendHead(b []byte) []byte {
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
	if r.flags&flagOwned != 0 {
		b = le.AppendUint64(le.AppendUint64(b, r.owner.Account), r.owner.Net)
	}
	le.PutUint32(b[at:], crc32.Checksum(b[at+4:], castagnoli))
	return b
}

// bytes is the whole record.
func (r *record) bytes() []byte {
	return append(r.appendHead(make([]byte, 0, r.headSize()+len(r.rest))), r.rest...)
}

// headIn is the size of a head whose first headSize bytes are b.
func headIn(b []byte) int { return (&record{flags: b[5]}).headSize() }

// readHead reads a head; false when it is torn or damaged.
func (r *record) readHead(b []byte) bool {
	le := binary.LittleEndian
	if len(b) < headSize || len(b) < headIn(b) || le.Uint32(b) != crc32.Checksum(b[4:headIn(b)], castagnoli) ||
		b[4] < kindPending || b[4] > kindErased {
		return false
	}
	*r = record{
		kind: b[4], flags: b[5], status: le.Uint16(b[6:]), id: requestID(b[8:24]), fingerprint: [32]byte(b[24:56]),
		atMs: int64(le.Uint64(b[56:])), token: le.Uint64(b[64:]), node: le.Uint32(b[72:]), size: le.Uint32(b[76:]),
		sum: le.Uint32(b[80:]), patienceMs: le.Uint32(b[84:]), boot: le.Uint64(b[88:]),
	}
	if r.flags&flagOwned != 0 {
		r.owner = fair.Owner{Account: le.Uint64(b[headSize:]), Net: le.Uint64(b[headSize+8:])}
	}
	return r.kind == kindDone || r.kind == kindErased || r.size == 0
}

// parse reads a whole record.
func (r *record) parse(b []byte) bool {
	if !r.readHead(b) || int64(len(b)) != r.stored() {
		return false
	}
	r.rest = b[r.headSize():]
	return crc32.Checksum(r.rest, castagnoli) == r.sum
}

// Answer is a client's answer, to be given again under the same key.
type Answer struct {
	Status int
	Header []Header // at most 64; without those that every answer has
	Body   []byte
}

// Header is one header of an answer.
type Header struct{ Name, Value string }

// keep makes r a kept answer.
func (r *record) keep(a *Answer, body []byte) {
	r.status = uint16(a.Status)
	b := make([]byte, 0, 256+len(body))
	b = binary.AppendUvarint(b, uint64(len(a.Header)))
	for _, h := range a.Header {
		b = appendText(appendText(b, h.Name), h.Value)
	}
	at := len(b)
	if len(body) >= compressFrom && len(body) <= math.MaxInt32 {
		room := s2.MaxEncodedLen(len(body))
		packed := s2.Encode(make([]byte, room), body)
		if len(packed) < len(body) {
			r.flags |= flagCompressed
			body = packed
		}
	}
	r.rest = append(b[:at], body...)
	r.size, r.sum = uint32(len(r.rest)), crc32.Checksum(r.rest, castagnoli)
}

// tooLarge is r without its answer.
func (r record) tooLarge() *record {
	r.flags, r.rest, r.size, r.sum = flagTooLarge|r.flags&flagOwned, nil, 0, 0
	return &r
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

var errUnreadable = errors.New("a kept answer cannot be read")

// answer is the kept answer of r, with a body of at most so many bytes. The result has
// memory of its own or that of r.
func (r *record) answer(most int) (*Answer, error) {
	switch {
	case r.flags&flagUnknown != 0:
		return nil, ErrUnknown
	case r.flags&flagTooLarge != 0:
		return nil, ErrTooLarge
	}
	n, rest := number(r.rest)
	if n > maxAnswerHeaders {
		return nil, errUnreadable
	}
	a := &Answer{Status: int(r.status), Header: make([]Header, n)}
	for i := range a.Header {
		h := &a.Header[i]
		h.Name, rest = text(rest)
		h.Value, rest = text(rest)
	}
	if rest == nil {
		return nil, errUnreadable
	}
	a.Body = rest
	if r.flags&flagCompressed == 0 {
		return a, nil
	}
	size, err := s2.DecodedLen(rest)
	if err != nil || size > most {
		return nil, errUnreadable
	}
	if a.Body, err = s2.Decode(make([]byte, size), rest); err != nil {
		return nil, errUnreadable
	}
	return a, nil
}

// number reads a number from the begin of b, and returns the bytes behind it: nil when
// absent.
func number(b []byte) (uint64, []byte) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil
	}
	return v, b[n:]
}

// text reads a text with its length in front.
func text(b []byte) (string, []byte) {
	n, b := number(b)
	if n > uint64(len(b)) {
		return "", nil
	}
	return string(b[:n]), b[n:]
}
