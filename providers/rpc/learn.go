package rpc

import (
	"sync/atomic"
	"time"
)

// refusalTTL is how long a node's refusal is remembered: a method it does not
// serve, a batch it does not take.
const refusalTTL = 10 * time.Minute

// learnedRefusal remembers that a node refuses something. A refusal of one account's
// request holds for that account; it holds for all once another account meets it too, so
// that no client can end a node's service for others. The zero value is: nothing.
type learnedRefusal struct {
	all atomic.Int64 // until when it holds for all accounts, Unix ns; 0: it does not
	one atomic.Pointer[accountEvidence]
}

// accountEvidence is the refusal that one account has met.
type accountEvidence struct {
	account uint64
	untilNs int64
}

// holds says whether it counts for an account. It does not allocate.
func (l *learnedRefusal) holds(account uint64, nowNs int64) bool {
	if until := l.all.Load(); until != 0 && nowNs < until {
		return true
	}
	h := l.one.Load()
	return h != nil && h.account == account && nowNs < h.untilNs
}

// met notes that a request of an account met the refusal.
func (l *learnedRefusal) met(account uint64, nowNs int64) {
	h := l.one.Load()
	if h != nil && nowNs < h.untilNs && h.account != account {
		l.all.Store(nowNs + int64(refusalTTL))
		return
	}
	l.one.Store(&accountEvidence{account, nowNs + int64(refusalTTL)})
}
