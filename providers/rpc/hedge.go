package rpc

import (
	"time"

	policy "farebox/providers/attempt"
)

// hedgedAttempt is one of two attempts at the same read.
type hedgedAttempt struct {
	a     *attempt
	u     *Node
	r     reply
	panic any // of its goroutine, for the request's own
	ended chan struct{}
}

// good says that the reply is final: an answer, or the client is gone.
func (h *hedgedAttempt) good() bool {
	return h.r.kind == answered || h.r.kind == gone
}

// hedged asks u, and a second node when u takes longer than the network's hedge. The first
// answer counts and the other attempt is cut; the client pays once. It is here and not in
// the loop of package attempt, since both nodes have buffers of their own, of which the
// answer's stays: only the pooled attempts of this package can be stopped and released. It
// gives the node whose reply counts, the reply, and the verdict on u.
func (a *asking) hedged(u *Node) (*Node, reply, policy.Verdict) {
	t := &a.j.from
	done := make(chan *hedgedAttempt, 2)
	start := func(r *hedgedAttempt) {
		r.ended = make(chan struct{})
		go func() {
			defer close(r.ended)
			defer func() {
				r.panic = recover()
				done <- r
			}()
			r.r = r.a.askPaced(t, r.u, a.q, time.Now().UnixNano())
		}()
	}
	first := &hedgedAttempt{a: *a.at, u: u}
	start(first)
	timer := time.NewTimer(t.Network.Config.HedgeAfter)
	defer timer.Stop()
	select {
	case <-done:
		first.check()
		return u, first.r, u.verdict(first.r)
	case <-timer.C:
	}
	next := a.pick.Choose(time.Now().UnixNano())
	if next == nil {
		<-done
		first.check()
		return u, first.r, u.verdict(first.r)
	}
	second := &hedgedAttempt{a: attempts.Get().(*attempt), u: next}
	start(second)
	winner := <-done
	if !winner.good() {
		winner = <-done
	}
	loser := first
	if winner == first {
		loser = second
	}
	loser.stop()
	first.check()
	second.check()
	if !winner.good() && loser.good() {
		winner, loser = loser, winner
	}
	next.verdict(second.r).Report(next.Breaker, a.j.account, time.Now().UnixNano())
	v := u.verdict(first.r)
	winner.r.maybe = winner.r.maybe || loser.r.maybe
	*a.at = winner.a
	loser.a.release()
	return winner.u, winner.r, v
}

// check repeats a panic of the attempt in the caller's goroutine.
func (h *hedgedAttempt) check() {
	if h.panic != nil {
		panic(h.panic)
	}
}

// stop cuts an attempt and waits for its end. The cut is repeated, since the attempt may be
// between two sockets.
func (h *hedgedAttempt) stop() {
	for {
		select {
		case <-h.ended:
			return
		default:
			h.a.x.Cut()
		}
		select {
		case <-h.ended:
			return
		case <-time.After(time.Millisecond):
		}
	}
}
