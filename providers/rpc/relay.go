package rpc

import (
	"github.com/valyala/fasthttp"

	"farebox/proxy"
)

// Charge is the price of the calls in credits, by their outcomes: the full price of those
// that succeeded or may have when the client left, failed for those that a node answered
// with an error, nothing for the others.
func (j *Job) Charge(base, failed int64) (sum int64) {
	for i, v := range j.Verdicts {
		switch v {
		case Succeeded, Left:
			sum += base * j.Calls[i].Method.Tier
		case NodeError:
			sum += failed
		}
	}
	return sum
}

// Relay makes the large answer of Run ctx's response body. It is judged while it is sent:
// end is called, exactly once and before the client's last byte, whether it was whole and
// good; else the client's body is cut off so that it cannot be taken for complete. done is
// called when all is over; it may Reset.
func (j *Job) Relay(ctx *fasthttp.RequestCtx, end func(cause proxy.Cause, whole bool), done func(proxy.Outcome)) {
	l := &j.lens
	*l = lens{job: j, id: j.ID(0), end: end, buf: l.buf[:0]}
	// The bytes read ahead have been judged; they are judged again as they pass.
	j.main.judge.Reset()
	j.main.x.Unbound() // from here on it lasts as long as the client reads
	j.main.x.Relay(ctx, l, done)
}

// lens is the judge as a proxy.Lens. It puts the client's id where the node's is.
type lens struct {
	job *Job
	id  []byte
	end func(cause proxy.Cause, whole bool)
	buf []byte
	at  int64 // offset in the answer, passed so far
	put bool  // the client's id was sent
}

// Pass is proxy.Lens.
func (l *lens) Pass(p []byte) (out []byte, stop bool) {
	out, stop = l.pass(p)
	if l.job.Tee != nil && !stop {
		l.job.Tee(out)
	}
	return out, stop
}

func (l *lens) pass(p []byte) (out []byte, stop bool) {
	j := &l.job.main.judge
	from := l.at
	l.at += int64(len(p))
	if !j.Write(p) || j.Array {
		return nil, true
	}
	if len(j.Answers) == 0 {
		return p, false
	}
	a := &j.Answers[0]
	to := l.at
	switch {
	case l.put:
		return p, false
	case a.IDFrom == 0: // not there so far
		if a.flags&answerComplete == 0 || a.To <= from {
			return p, false
		}
		// It ended without an id: here is its brace.
		l.put = true
		brace := int(a.To - 1 - from)
		l.buf = append(l.buf[:0], p[:brace]...)
		l.buf = append(l.buf, `,"id":`...)
		l.buf = append(l.buf, l.id...)
		l.buf = append(l.buf, p[brace:]...)
		return l.buf, false
	}
	begin, end := max(a.IDFrom, from), to
	if a.IDTo != 0 {
		end = a.IDTo
		l.put = true
	}
	l.buf = append(l.buf[:0], p[:begin-from]...)
	if l.put {
		l.buf = append(l.buf, l.id...)
	}
	l.buf = append(l.buf, p[end-from:]...)
	return l.buf, false
}

// End is proxy.Lens. An answer counts as broken off if it proves to be an error, or for
// another call, after its result has passed.
func (l *lens) End(cause proxy.Cause) (out []byte, clean bool) {
	a := l.job.main
	whole := cause == proxy.None && a.judge.Complete() && !a.judge.Answers[0].Failed()
	if whole && a.callOf(0) < 0 {
		a.x.Distrust()
		whole = false
	}
	l.end(cause, whole)
	return nil, whole
}
