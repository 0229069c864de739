package rpc

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"

	"farebox/proxy"
)

// Each call is sent to a node under an id of ours that no other call to any node has, and
// its answer is sent to the client under the client's own. Clients use the same ids, most
// begin with 1: an answer that a node gives twice would pass for the answer to the next
// call on the connection, which may be another customer's.

// defaultID is the id of a call without one (interface.md, JSON-RPC).
var defaultID = []byte("1")

// ids counts them. They are integers below 2^53, which every node gives back byte for
// byte, and all have idDigits digits.
var ids = func() *atomic.Int64 {
	n := new(atomic.Int64)
	n.Store(1<<52 + rand.Int64N(1<<51))
	return n
}()

const idDigits = 16

// number gives the calls of a question ids of their own.
func (a *attempt) number(q *question) {
	n := len(q.ids)
	a.first = ids.Add(int64(n)) - int64(n)
	a.digits, a.patches = slices.Grow(a.digits[:0], n*idDigits), a.patches[:0]
	for i, at := range q.ids {
		from := len(a.digits)
		a.digits = strconv.AppendInt(a.digits, a.first+int64(i), 10)
		a.patches = append(a.patches, proxy.Patch{From: int(at.from), To: int(at.to), With: a.digits[from:]})
	}
}

// callOf finds the call of an answer, -1 when it is not for one of the question's.
func (a *attempt) callOf(answer int) int {
	if a.judge.Answers[answer].IDTo == 0 {
		return -1
	}
	id := integer(a.judge.ID(answer))
	if id < a.first || id >= a.first+int64(len(a.patches)) {
		return -1
	}
	return int(id - a.first)
}

// nameless says that an answer is an error without an id: the node could not read the
// request's id.
func (a *attempt) nameless(answer int) bool {
	n := &a.judge.Answers[answer]
	return n.Failed() && (n.IDFrom == 0 || n.IDTo != 0 && string(a.judge.ID(answer)) == "null")
}

// integer is the value of an id of idDigits digits. -1 if it is not one.
func integer(id []byte) (n int64) {
	if len(id) != idDigits {
		return -1
	}
	for _, c := range id {
		if c-'0' > 9 {
			return -1
		}
		n = n*10 + int64(c-'0')
	}
	return n
}
