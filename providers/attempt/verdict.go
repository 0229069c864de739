// Package attempt gets an answer for every capability: a [Picker] names the targets of a
// request, one after the other, [Picker.Run] asks them, and a [Verdict] has the
// consequences of an attempt: whether another target is tried, the effect on the target's
// health, and the accounts it rests for.
//
// Statuses and causes decide. Text is a ground only where a vendor uses a code, or a fixed
// sentence at the very start of its message, for nothing that a client can cause: a dialect
// turns such an answer into the status that it means before it asks [Judge].
//
// Out of scope: the words that clients get, money, and the content of an
// attempt.
package attempt

import (
	"time"

	"farebox/providers/health"
	"farebox/proxy"
)

// Action is the consequence of an attempt.
type Action uint8

const (
	// Accept goes on with this answer; after a failure it is Fail.
	Accept Action = iota
	// Retry asks another target. Without one, an answer that was read stays
	// open, as after Fail.
	Retry
	// Fail gives up and keeps this attempt as the result.
	Fail
)

// Health is the effect of an attempt on its target's health.
type Health uint8

const (
	// Unknown: the attempt shows nothing, as when the client left or its request deserved
	// the refusal.
	Unknown Health = iota
	// Good: the answer was read whole.
	Good
	// Bad: the target failed.
	Bad
	// Begun: the answer goes on; its end is reported later.
	Begun
)

// Scope is the set of requests that a failure concerns.
type Scope uint8

const (
	// OneAccount: the request of one account met it, and may have caused it.
	// Alone it rests the target for at most health.MaxAlone.
	OneAccount Scope = iota
	// Everyone: no request can have caused it, or a probe of our own met it.
	Everyone
)

// Verdict has the consequences of an attempt. The zero value accepts the answer
// and says nothing of the target.
type Verdict struct {
	Do     Action
	Health Health
	Rest   time.Duration // the rest that the target asked for; 0: it did not
	For    Scope
	// Unsent: the request cannot have reached the target, so that the same one
	// may be tried once more when there is no other.
	Unsent bool
	// AtNs is when the attempt was judged, in Unix ns; 0: just now.
	AtNs int64
}

// Judge is the verdict on an answer by its status; retryAfter is its
// Retry-After. An answer of 2xx is good only when it was read whole: until then
// a caller has nothing to report.
func Judge(status int, retryAfter time.Duration) Verdict {
	v := Verdict{Do: Retry, Health: Bad, Rest: retryAfter}
	switch {
	case status >= 200 && status < 300:
		return Verdict{Do: Accept, Health: Good}
	case status == 403:
		// Content policy, or a key without the right: another target may be
		// willing, but one customer's words must not rest the target for all.
		v.Health, v.Rest = Unknown, 0
	case status < 400 || status == 401 || status == 402 || status == 407 || status == 421:
		// The operator's address, key or account.
		v.For = Everyone
	case status >= 500 || loaded[status-400]:
	default:
		// The request deserved it. That is no sign of health either: broken requests must
		// not keep a broken target in use.
		return Verdict{Do: Accept}
	}
	return v
}

// loaded are the other 4xx about the target and not about the
// request: its catalog or its load.
var loaded = [100]bool{404 - 400: true, 405 - 400: true, 408 - 400: true, 409 - 400: true, 425 - 400: true,
	429 - 400: true}

// Lost is the verdict on an attempt without a whole answer.
func Lost(cause proxy.Cause) Verdict {
	switch cause {
	case proxy.ClientGone, proxy.ClientStalled, proxy.Shutdown, proxy.Cut, proxy.Panic:
		return Verdict{Do: Fail}
	case proxy.NoFreeConn, proxy.NoCredential:
		return Verdict{Do: Retry} // our own cap, or our own token: not the target's fault
	case proxy.ConnectFailed, proxy.ConnectTimeout:
		return Verdict{Do: Retry, Health: Bad, For: Everyone, Unsent: true}
	}
	return Verdict{Do: Retry, Health: Bad}
}

// Broken is the verdict on an answer that cannot be used at any status:
// of the wrong kind, not in the dialect's format, or without the requested content.
func Broken() Verdict { return Verdict{Do: Retry, Health: Bad} }

// Tried is how a target failed, for the operator's log.
type Tried struct {
	Upstream string // the operator's label
	Status   int    // 0: there was no answer
	Cause    proxy.Cause
	Words    string // first words of the upstream's error, without secrets
	At       time.Time
}

// Report updates a target's breaker. account is the request's, 0 for a probe of our own.
func (v Verdict) Report(b *health.Breaker, account uint64, nowNs int64) {
	switch v.Health {
	case Good:
		b.Succeeded()
	case Bad:
		if v.For == Everyone {
			account = 0
		}
		b.FailedFor(account, nowNs, v.Rest)
	case Begun:
		b.Answering()
	default:
		b.Released()
	}
}
