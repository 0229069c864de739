package rpc

import (
	"time"

	"farebox/proxy"
)

// raced is one of two attempts at the same read.
type raced struct {
	a     *attempt
	u     *Node
	r     reply
	panic any // of its goroutine, for the request's own
	ended chan struct{}
}

// good says that nothing better can come: an answer, or nobody who wants one.
func (c *raced) good() bool {
	return c.r.kind == answered || c.r.kind == gone
}

// hedged asks u, and a second node when u takes longer than the network's
// hedge. The first answer counts and the other attempt is cut; the client pays
// once. It gives the attempt that counts, which may be another than a.
func (j *Job) hedged(a *attempt, u *Node, pick *picker, q question) (*attempt, *Node, reply) {
	t := &j.from
	done := make(chan *raced, 2)
	start := func(c *raced) {
		c.ended = make(chan struct{})
		go func() {
			defer close(c.ended)
			defer func() {
				c.panic = recover()
				done <- c
			}()
			c.r = c.a.askPaced(t, c.u, q, time.Now().UnixNano())
		}()
	}
	first := &raced{a: a, u: u}
	start(first)
	timer := time.NewTimer(t.Network.Config.HedgeAfter)
	defer timer.Stop()
	select {
	case <-done:
		first.check()
		return a, u, first.r
	case <-timer.C:
	}
	next := pick.Choose(time.Now().UnixNano())
	if next == nil {
		<-done
		first.check()
		return a, u, first.r
	}
	second := &raced{a: attempts.Get().(*attempt), u: next}
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
	if loser.r.cause != proxy.Cut {
		loser.u.report(loser.r, j.account, time.Now().UnixNano())
	} else {
		loser.u.Breaker.Released()
	}
	winner.r.maybe = winner.r.maybe || loser.r.maybe
	loser.a.release()
	return winner.a, winner.u, winner.r
}

// check goes on with a panic where it is dealt with.
func (c *raced) check() {
	if c.panic != nil {
		panic(c.panic)
	}
}

// stop cuts an attempt and waits for its end. The cut is repeated, since the
// attempt may just be between two sockets.
func (c *raced) stop() {
	for {
		select {
		case <-c.ended:
			return
		default:
			c.a.x.Cut()
		}
		select {
		case <-c.ended:
			return
		case <-time.After(time.Millisecond):
		}
	}
}
