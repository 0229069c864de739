package audio

import (
	"bytes"
	"encoding/base64"

	"github.com/valyala/fasthttp"

	"farebox/proxy"
)

// Listening gets the bytes of a relayed answer.
type Listening interface {
	// Pass is given bytes on their way to the client.
	Pass(p []byte)
	// End gets the outcome, once and before the client's last byte. whole says that
	// all of the sound was there.
	End(cause proxy.Cause, whole bool)
}

// lens processes a relayed answer.
type lens struct {
	k    *SpeechStream
	to   Listening
	most int64 // bytes that the sound may have
	n    int64
	tail []byte // of an answer of events

	out  []byte  // events that are made here
	rest [2]byte // of the sound, until three bytes are there
	left int     // how many of them
}

// Relay makes the sound ctx's response body, of at most so many bytes. done is called
// when all is over; it may Reset.
func (ss *SpeechStream) Relay(ctx *fasthttp.RequestCtx, most int64, to Listening, done func(proxy.Outcome)) {
	l := &ss.lens
	*l = lens{k: ss, to: to, most: most, tail: l.tail[:0], out: l.out[:0]}
	ss.x.Relay(ctx, l, done)
}

// Identity is proxy.Identity: the client gets the upstream's length if it waits for the
// whole.
func (l *lens) Identity() bool { return !l.k.speech.Stream && !l.k.speech.Events }

// Pass is proxy.Lens.
func (l *lens) Pass(p []byte) (out []byte, stop bool) {
	if l.n += int64(len(p)); l.n > l.most {
		return nil, true // it never ends
	}
	if out = p; l.k.series.on {
		if out, stop = l.k.series.pass(p); stop {
			return nil, true
		}
	}
	if l.k.events() {
		l.keep(p)
	}
	if l.k.wraps {
		l.out = l.wrap(l.out[:0], out)
		out = l.out
	}
	l.to.Pass(out)
	return out, false
}

// Spoken is how many code points of a text were spoken whose rest was not: those of the
// complete pieces, if it was asked for in pieces. The next one may have been refused for
// its text.
func (ss *SpeechStream) Spoken() int64 { return ss.series.spoken }

// keep keeps the end of an answer of events, whose last one says that it is whole.
func (l *lens) keep(p []byte) {
	const most = 512
	if len(p) >= most {
		l.tail = append(l.tail[:0], p[len(p)-most:]...)
		return
	}
	if over := len(l.tail) + len(p) - most; over > 0 {
		l.tail = append(l.tail[:0], l.tail[over:]...)
	}
	l.tail = append(l.tail, p...)
}

// Next is proxy.Sequel.
func (l *lens) Next() (more bool, cause proxy.Cause) {
	k := l.k
	if !k.series.next() {
		return false, proxy.None
	}
	if !k.put(&k.series.piece, k.Target) {
		return false, proxy.UpstreamMalformed
	}
	res := k.x.Ask(k.Target.Proxy, &k.request)
	switch {
	case res.Cause != proxy.None:
		return false, res.Cause
	case res.Status < 200 || res.Status >= 300:
		return false, proxy.UpstreamTruncated
	}
	return true, proxy.None
}

// End is proxy.Lens.
func (l *lens) End(cause proxy.Cause) (out []byte, clean bool) {
	r := &l.k.series
	whole := l.k.x.Whole() && !r.left() && !r.broken && (r.begun || !r.on) &&
		(!l.k.events() || bytes.Contains(l.tail, eventDone))
	switch {
	case cause == proxy.Cut:
		cause = proxy.UpstreamMalformed
	case cause == proxy.None && !whole:
		cause = proxy.UpstreamTruncated
	}
	l.k.report(cause)
	if l.out = l.out[:0]; l.k.wraps && whole && cause == proxy.None {
		l.out = l.finish(l.out)
		l.to.Pass(l.out)
	}
	l.to.End(cause, whole)
	return l.out, cause == proxy.None
}

// wrap appends an event with the next bytes of the sound. Its text is whole groups of
// three bytes, so that clients may join the texts.
func (l *lens) wrap(dst, p []byte) []byte {
	if l.left+len(p) < 3 {
		l.left += copy(l.rest[l.left:], p)
		return dst
	}
	dst = append(dst, eventHead...)
	if l.left > 0 {
		var group [3]byte
		n := copy(group[copy(group[:], l.rest[:l.left]):], p)
		dst, p = base64.StdEncoding.AppendEncode(dst, group[:]), p[n:]
	}
	whole := len(p) - len(p)%3
	dst = base64.StdEncoding.AppendEncode(dst, p[:whole])
	l.left = copy(l.rest[:], p[whole:])
	return append(dst, "\"}\n\n"...)
}

// finish appends the last bytes of the sound and the event that ends it. Speech is sold by
// its text, so that it has no tokens.
func (l *lens) finish(dst []byte) []byte {
	if l.left > 0 {
		dst = base64.StdEncoding.AppendEncode(append(dst, eventHead...), l.rest[:l.left])
		dst = append(dst, "\"}\n\n"...)
	}
	return append(dst, `data: {"type":"speech.audio.done","usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0}}`+
		"\n\n"...)
}

const eventHead = `data: {"type":"speech.audio.delta","audio":"`

var (
	_ proxy.Identity = (*lens)(nil)
	_ proxy.Sequel   = (*lens)(nil)
)
