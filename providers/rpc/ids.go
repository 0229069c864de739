package rpc

import (
	"hash/maphash"
	"strconv"
	"sync/atomic"
)

// maxPlainID is the longest text id that goes upstream as it is.
const maxPlainID = 128

// defaultID is the id of a call without one (interface.md, JSON-RPC).
var defaultID = []byte("1")

// ownIDs counts our own questions from a place on where no client does: an
// answer that a node gives twice must never pass for the one to a client's call
// behind it on the same connection, and most clients begin with 1.
var ownIDs atomic.Int64

func ownID() []byte { return strconv.AppendInt(nil, 1<<52+ownIDs.Add(1), 10) }

// canonical is the value of a number that every node gives back byte for byte:
// an integer without sign below 2^53. -1: it is none.
func canonical(id []byte) int64 {
	if len(id) == 0 || len(id) > 16 || id[0] == '0' && len(id) > 1 {
		return -1
	}
	n := int64(0)
	for _, c := range id {
		if c-'0' > 9 {
			return -1
		}
		n = n*10 + int64(c-'0')
	}
	if n >= 1<<53 {
		return -1
	}
	return n
}

// plainText says that a string id survives every node: printable ASCII without
// escapes, and without < > &, which encoders in Go write as escapes.
func plainText(id []byte) bool {
	if len(id) < 2 || len(id) > maxPlainID+2 || id[0] != '"' {
		return false
	}
	for _, c := range id[1 : len(id)-1] {
		if c < ' ' || c > '~' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

var idSeed = maphash.MakeSeed()

// distinct says that no two calls have the same id. Clients mostly count up.
func (r *Request) distinct() bool {
	if len(r.Calls) < 2 || !r.Untouched {
		return true
	}
	last, rising := int64(-1), true
	for i := range r.Calls {
		n := r.Calls[i].number
		if n <= last {
			rising = false
			break
		}
		last = n
	}
	if rising {
		return true
	}
	const slots = 256 // a power of two above twice MaxBatch
	var table [slots]uint8
	for i := range r.Calls {
		id := r.ID(i)
		for at := maphash.Bytes(idSeed, id) % slots; ; at = (at + 1) % slots {
			if table[at] == 0 {
				table[at] = uint8(i + 1)
				break
			}
			if string(r.ID(int(table[at]-1))) == string(id) {
				return false
			}
		}
	}
	return true
}
