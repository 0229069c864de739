package audio

import (
	"bytes"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

const (
	maxErrorBody = 64 << 10
	// refusalWait is how long the body of a refusal may take: it is wanted for its
	// words, and another target may be waiting to be asked.
	refusalWait = 2 * time.Second
	// keptScratch is the largest request that is kept for the next one.
	keptScratch = 64 << 10
)

// ClientContext is on whose behalf a Talk asks.
type ClientContext struct {
	Proxy   *proxy.Proxy
	Ctx     *fasthttp.RequestCtx
	ID      []byte // of the request
	Account uint64
	Began   int64 // Unix ns
}

// SpeechStream asks targets for a Speech until one sends sound, or none is left. It is
// meant to be part of a pooled value; the zero value is ready, and one goroutine owns it.
type SpeechStream struct {
	Attempts int
	Tried    []attempt.Tried
	// Target is the last one that was asked, and Result how its request went.
	Target *Target
	Result proxy.Result
	// Sent says that some upstream may have begun to work.
	Sent bool
	// Unsupported is why a target could not be asked at all.
	Unsupported *dialect.Unsupported
	// Refused says that the last target said no, in the words of Failure; else Cause is
	// why its answer is of no use. Neither: it sounds.
	Refused bool
	Failure dialect.Failure
	Cause   proxy.Cause

	x       proxy.Exchange
	trip    ClientContext
	speech  *Speech
	targets []*Target
	picker  Picker
	request proxy.Request
	scratch []byte // of request
	head    []byte // first bytes, where they had to be gathered
	words   []byte // of a refusal
	series  series
	wraps   bool   // the upstream sends sound, and the client gets events
	plain   Speech // the request to such an upstream
	lens    lens
}

// Begin opens the conversation. may is proxy.Exchange.DrainOnGone's.
func (ss *SpeechStream) Begin(trip ClientContext, s *Speech, may func() (time.Duration, bool)) {
	ss.trip, ss.speech = trip, s
	ss.Result = proxy.Result{Cause: proxy.NoTarget}
	ss.x.DrainOnGone(0, may)
	trip.Proxy.Open(trip.Ctx, &ss.x, 0)
}

// Targets is an empty list with room, for Ask.
func (ss *SpeechStream) Targets() []*Target { return ss.targets[:0] }

// Ask asks the targets.
func (ss *SpeechStream) Ask(targets []*Target) {
	ss.targets = targets
	ss.picker.Begin(targets, ss.trip.Account)
	ss.picker.Run(ss, ss.picker.Fitting(ss, ss.trip.Began))
	if ss.Result.Cause != proxy.None || ss.Refused || ss.Cause != proxy.None {
		ss.x.Close()
	}
}

// Sounds says that the answer is there to be relayed.
func (ss *SpeechStream) Sounds() bool {
	return ss.Result.Cause == proxy.None && !ss.Refused && ss.Cause == proxy.None
}

// Why is the cause that ended the exchange early, of its client or its upstream.
func (ss *SpeechStream) Why() proxy.Cause { return ss.x.Why() }

// End gives everything back. It may be called after all is over, too.
func (ss *SpeechStream) End() {
	defer ss.picker.End()
	ss.x.Close()
}

// Reset clears it for the next request.
func (ss *SpeechStream) Reset() {
	ss.x.Reset()
	if cap(ss.scratch) > keptScratch {
		ss.scratch = nil
	}
	clear(ss.scratch[:cap(ss.scratch)]) // no text stays in memory that others use
	clear(ss.targets)
	ss.series.reset()
	ss.targets, ss.scratch, ss.head, ss.words = ss.targets[:0], ss.scratch[:0], ss.head[:0], ss.words[:0]
	ss.lens = lens{tail: ss.lens.tail[:0], out: ss.lens.out[:0]}
	ss.wraps, ss.plain = false, Speech{}
	ss.Attempts, ss.Tried, ss.Target, ss.Result, ss.Sent = 0, ss.Tried[:0], nil, proxy.Result{}, false
	ss.Unsupported, ss.Refused, ss.Failure, ss.Cause = nil, false, dialect.Failure{}, proxy.None
	ss.trip, ss.speech, ss.request, ss.picker = ClientContext{}, nil, proxy.Request{}, Picker{}
}

// Fits is attempt.Work: it puts the request into the target's dialect.
func (ss *SpeechStream) Fits(t *Target, now int64) bool {
	if ss.Attempts > 0 && t.Total > 0 && now-ss.trip.Began >= int64(t.Total) {
		return false // its limit is one for all attempts together
	}
	if !t.makes(ss.speech.Format) {
		ss.Unsupported = &dialect.Unsupported{Path: "response_format",
			Text: "The model cannot make " + ss.speech.Format + " right now."}
		return false
	}
	s := ss.speech
	if ss.wraps = s.Events && t.Options["sse"] != "true"; ss.wraps {
		ss.plain = *s
		ss.plain.Events = false
		s = &ss.plain
	}
	ss.series.begin(s, t)
	if ss.series.on {
		s = &ss.series.piece
	}
	return ss.put(s, t)
}

// put makes the request of s.
func (ss *SpeechStream) put(s *Speech, t *Target) bool {
	var refusal *dialect.Unsupported
	ss.request = proxy.Request{ID: ss.trip.ID}
	if ss.scratch, refusal = t.Speaker.Speak(&ss.request, ss.scratch[:0], s, t); refusal != nil {
		ss.Unsupported = refusal
	}
	return refusal == nil
}

// Try is attempt.Work.
func (ss *SpeechStream) Try(t *Target) attempt.Verdict {
	ss.Target, ss.Refused, ss.Cause = t, false, proxy.None
	ss.Attempts++
	ss.words = ss.words[:0]
	ss.Result = ss.x.Ask(t.Proxy, &ss.request)
	v := ss.judge()
	// A refused text was not spoken, also if the refusal was not read to its end.
	ss.Sent = ss.Sent || ss.Result.Sent && !ss.Refused && ss.Result.Status < 300
	if v.Do == attempt.Retry {
		ss.noteFailure()
	}
	if ss.x.Why().Final() {
		v.Do = attempt.Fail
	}
	return v
}

// judge reads the answer far enough to know whether it is sound.
func (ss *SpeechStream) judge() attempt.Verdict {
	switch {
	case ss.Result.Cause != proxy.None:
		return ss.disconnected(ss.Result.Cause)
	case ss.Result.Status < 200 || ss.Result.Status >= 300:
		return ss.refusal(ss.Result.Status, ss.Result.RetryAfter, nil)
	}
	ss.head = ss.head[:0]
	for {
		p, done, cause := ss.x.First()
		whole := p
		if len(ss.head) > 0 {
			ss.head = append(ss.head, p...)
			whole = ss.head
		}
		kind := ss.sniff(whole, done)
		switch {
		case kind == sounds:
			return ss.sound(whole)
		case cause != proxy.None:
			return ss.disconnected(cause)
		case kind == speaks:
			return ss.spoken(whole)
		case kind == strange || done || len(whole) > mostHead:
			ss.Cause = proxy.UpstreamMalformed
			return attempt.Broken()
		case len(ss.head) == 0:
			ss.head = append(ss.head, p...)
		}
	}
}

// events says whether the upstream answers with events.
func (ss *SpeechStream) events() bool { return ss.speech.Events && !ss.wraps }

func (ss *SpeechStream) sniff(head []byte, done bool) sniffed {
	if ss.events() {
		return sniffEvents(ss.x.ContentType(), head, done)
	}
	kind := sniff(ss.speech.Format, ss.x.ContentType(), head, done)
	if kind == sounds && ss.series.on && !ss.series.opens(head) && !done {
		return unclear // the bytes before its sound are not complete
	}
	return kind
}

// sound accepts an answer that begins with head.
func (ss *SpeechStream) sound(head []byte) attempt.Verdict {
	if ss.series.on {
		ss.head = append(ss.head[:0], head...)
		head = ss.head
	}
	ss.x.Hold(head)
	return attempt.Verdict{Health: attempt.Begun}
}

// spoken reads an answer of 2xx that is text: an error in its place.
func (ss *SpeechStream) spoken(begun []byte) attempt.Verdict {
	head := append([]byte(nil), begun...)
	if ss.events() {
		if words := eventWords(head); words != nil {
			return ss.refusal(dialect.ErrorStatus(words), 0, words)
		}
	}
	return ss.refusal(0, 0, head)
}

// refusal judges an answer that is an error. status 0: it is in the body, which is words
// and the unread rest.
func (ss *SpeechStream) refusal(status int, retryAfter time.Duration, words []byte) attempt.Verdict {
	ss.x.Limit(refusalWait)
	body, cause, err := ss.x.ReadAll(ss.words[:0], maxErrorBody)
	if cause.Final() {
		return ss.disconnected(cause)
	}
	if err != nil {
		body = nil // its status alone is reported
	}
	if len(words) > 0 {
		body = append(slices.Clone(words), body...)
	}
	ss.words = body
	if status == 0 {
		if begin := bytes.TrimLeft(body, " \t\r\n"); !textual(body) || begin[0] == '<' {
			ss.Cause = proxy.UpstreamMalformed // a page
			return attempt.Broken()
		}
		status = dialect.ErrorStatus(body)
	}
	ss.Refused = true
	ss.Failure = ss.Target.Speaker.Error(status, retryAfter, body)
	return ss.Failure.Verdict
}

func (ss *SpeechStream) disconnected(cause proxy.Cause) attempt.Verdict {
	ss.Cause = cause
	if cause == proxy.TotalTimeout && ss.Attempts > 1 {
		// The failed attempts before had used up the time for all attempts.
		return attempt.Verdict{Do: attempt.Fail}
	}
	return attempt.Lost(cause)
}

// noteFailure keeps for the log how a target failed.
func (ss *SpeechStream) noteFailure() {
	t := attempt.Tried{Upstream: ss.Target.Upstream, Status: ss.Result.Status, Cause: ss.Cause, At: time.Now()}
	switch {
	case len(ss.words) > 0:
		t.Words = dialect.FirstWords(ss.words, ss.request.Body, nil)
	case ss.Result.Err != nil:
		t.Words = ss.Result.Err.Error()
	}
	ss.Tried = append(ss.Tried, t)
}

// report updates the target's health by the end of an answer that had sound.
func (ss *SpeechStream) report(cause proxy.Cause) {
	v := attempt.Lost(cause)
	if cause == proxy.None {
		v = attempt.Judge(200, 0)
	}
	ss.picker.Report(ss.Target, v, time.Now().UnixNano())
}
