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

// SpeechStream has targets asked for a Speech until one begins to sound, or none is left. It is
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
	plain   Speech // what such an upstream is asked
	lens    lens
}

// Begin opens the conversation. may is proxy.Exchange.DrainOnGone's.
func (k *SpeechStream) Begin(trip ClientContext, s *Speech, may func() (time.Duration, bool)) {
	k.trip, k.speech = trip, s
	k.Result = proxy.Result{Cause: proxy.NoTarget}
	k.x.DrainOnGone(0, may)
	trip.Proxy.Open(trip.Ctx, &k.x, 0)
}

// Targets is an empty list with room, for Ask.
func (k *SpeechStream) Targets() []*Target { return k.targets[:0] }

// Ask asks the targets.
func (k *SpeechStream) Ask(targets []*Target) {
	k.targets = targets
	k.picker.Begin(targets, k.trip.Account)
	k.picker.Run(k, k.picker.Fitting(k, k.trip.Began))
	if k.Result.Cause != proxy.None || k.Refused || k.Cause != proxy.None {
		k.x.Close()
	}
}

// Sounds says that the answer is there to be relayed.
func (k *SpeechStream) Sounds() bool {
	return k.Result.Cause == proxy.None && !k.Refused && k.Cause == proxy.None
}

// Why is what ended the conversation early, of its client or its upstream.
func (k *SpeechStream) Why() proxy.Cause { return k.x.Why() }

// End gives everything back. It may be called after all is over, too.
func (k *SpeechStream) End() {
	defer k.picker.End()
	k.x.Close()
}

// Reset clears it for the next request.
func (k *SpeechStream) Reset() {
	k.x.Reset()
	if cap(k.scratch) > keptScratch {
		k.scratch = nil
	}
	clear(k.scratch[:cap(k.scratch)]) // no text stays in memory that others use
	clear(k.targets)
	k.series.reset()
	k.targets, k.scratch, k.head, k.words = k.targets[:0], k.scratch[:0], k.head[:0], k.words[:0]
	k.lens = lens{tail: k.lens.tail[:0], out: k.lens.out[:0]}
	k.wraps, k.plain = false, Speech{}
	k.Attempts, k.Tried, k.Target, k.Result, k.Sent = 0, k.Tried[:0], nil, proxy.Result{}, false
	k.Unsupported, k.Refused, k.Failure, k.Cause = nil, false, dialect.Failure{}, proxy.None
	k.trip, k.speech, k.request, k.picker = ClientContext{}, nil, proxy.Request{}, Picker{}
}

// Fits is attempt.Work: it puts the request into the target's dialect.
func (k *SpeechStream) Fits(t *Target, now int64) bool {
	if k.Attempts > 0 && t.Total > 0 && now-k.trip.Began >= int64(t.Total) {
		return false // its limit is one for all attempts together
	}
	if !t.makes(k.speech.Format) {
		k.Unsupported = &dialect.Unsupported{Path: "response_format",
			Text: "The model cannot make " + k.speech.Format + " right now."}
		return false
	}
	s := k.speech
	if k.wraps = s.Events && t.Options["sse"] != "true"; k.wraps {
		k.plain = *s
		k.plain.Events = false
		s = &k.plain
	}
	k.series.begin(s, t)
	if k.series.on {
		s = &k.series.piece
	}
	return k.put(s, t)
}

// put makes the request of s.
func (k *SpeechStream) put(s *Speech, t *Target) bool {
	var refusal *dialect.Unsupported
	k.request = proxy.Request{ID: k.trip.ID}
	if k.scratch, refusal = t.Speaker.Speak(&k.request, k.scratch[:0], s, t); refusal != nil {
		k.Unsupported = refusal
	}
	return refusal == nil
}

// Try is attempt.Work.
func (k *SpeechStream) Try(t *Target) attempt.Verdict {
	k.Target, k.Refused, k.Cause = t, false, proxy.None
	k.Attempts++
	k.words = k.words[:0]
	k.Result = k.x.Ask(t.Proxy, &k.request)
	v := k.judge()
	// What was refused was not spoken, also where its words were not read to their end.
	k.Sent = k.Sent || k.Result.Sent && !k.Refused && k.Result.Status < 300
	if v.Do == attempt.Retry {
		k.noteFailure()
	}
	if k.x.Why().Final() {
		v.Do = attempt.Fail
	}
	return v
}

// judge reads as much of the answer as tells whether it is sound.
func (k *SpeechStream) judge() attempt.Verdict {
	switch {
	case k.Result.Cause != proxy.None:
		return k.disconnected(k.Result.Cause)
	case k.Result.Status < 200 || k.Result.Status >= 300:
		return k.refusal(k.Result.Status, k.Result.RetryAfter, nil)
	}
	k.head = k.head[:0]
	for {
		p, done, cause := k.x.First()
		whole := p
		if len(k.head) > 0 {
			k.head = append(k.head, p...)
			whole = k.head
		}
		kind := k.sniff(whole, done)
		switch {
		case kind == sounds:
			return k.sound(whole)
		case cause != proxy.None:
			return k.disconnected(cause)
		case kind == speaks:
			return k.spoken(whole)
		case kind == strange || done || len(whole) > mostHead:
			k.Cause = proxy.UpstreamMalformed
			return attempt.Broken()
		case len(k.head) == 0:
			k.head = append(k.head, p...)
		}
	}
}

// events says whether the upstream answers with events.
func (k *SpeechStream) events() bool { return k.speech.Events && !k.wraps }

func (k *SpeechStream) sniff(head []byte, done bool) sniffed {
	if k.events() {
		return sniffEvents(k.x.ContentType(), head, done)
	}
	kind := sniff(k.speech.Format, k.x.ContentType(), head, done)
	if kind == sounds && k.series.on && !k.series.opens(head) && !done {
		return unclear // what precedes its sound is not all there
	}
	return kind
}

// sound accepts an answer that begins with head.
func (k *SpeechStream) sound(head []byte) attempt.Verdict {
	if k.series.on {
		k.head = append(k.head[:0], head...)
		head = k.head
	}
	k.x.Hold(head)
	return attempt.Verdict{Health: attempt.Begun}
}

// spoken reads an answer of 2xx that is text: an error in its place.
func (k *SpeechStream) spoken(begun []byte) attempt.Verdict {
	head := append([]byte(nil), begun...)
	if k.events() {
		if words := eventWords(head); words != nil {
			return k.refusal(dialect.ErrorStatus(words), 0, words)
		}
	}
	return k.refusal(0, 0, head)
}

// refusal judges an answer that says no. status 0 is that of its words, which are words
// and what still comes.
func (k *SpeechStream) refusal(status int, retryAfter time.Duration, words []byte) attempt.Verdict {
	k.x.Limit(refusalWait)
	body, cause, err := k.x.ReadAll(k.words[:0], maxErrorBody)
	if cause.Final() {
		return k.disconnected(cause)
	}
	if err != nil {
		body = nil // its status alone is reported
	}
	if len(words) > 0 {
		body = append(slices.Clone(words), body...)
	}
	k.words = body
	if status == 0 {
		if begin := bytes.TrimLeft(body, " \t\r\n"); !textual(body) || begin[0] == '<' {
			k.Cause = proxy.UpstreamMalformed // a page
			return attempt.Broken()
		}
		status = dialect.ErrorStatus(body)
	}
	k.Refused = true
	k.Failure = k.Target.Speaker.Error(status, retryAfter, body)
	return k.Failure.Verdict
}

func (k *SpeechStream) disconnected(cause proxy.Cause) attempt.Verdict {
	k.Cause = cause
	if cause == proxy.TotalTimeout && k.Attempts > 1 {
		// It had what the others left it of the time for all attempts.
		return attempt.Verdict{Do: attempt.Fail}
	}
	return attempt.Lost(cause)
}

// noteFailure keeps for the log how a target failed.
func (k *SpeechStream) noteFailure() {
	t := attempt.Tried{Upstream: k.Target.Upstream, Status: k.Result.Status, Cause: k.Cause, At: time.Now()}
	switch {
	case len(k.words) > 0:
		t.Words = dialect.FirstWords(k.words, k.request.Body, nil)
	case k.Result.Err != nil:
		t.Words = k.Result.Err.Error()
	}
	k.Tried = append(k.Tried, t)
}

// report tells the target's health how an answer ended that sounded.
func (k *SpeechStream) report(cause proxy.Cause) {
	v := attempt.Lost(cause)
	if cause == proxy.None {
		v = attempt.Judge(200, 0)
	}
	k.picker.Report(k.Target, v, time.Now().UnixNano())
}
