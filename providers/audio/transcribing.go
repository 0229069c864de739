package audio

import (
	"errors"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// Limits of an answer.
const (
	maxTranscript = 32 << 20 // characters with their times, for hours
	maxRefusal    = 64 << 10
)

// Transcribing has targets write down one sound until one has done it. The next one is
// asked only where the last did not take the work: what was listened to twice would be
// paid twice by the operator.
type Transcribing struct {
	Proxy   *proxy.Proxy
	Hearing *Hearing
	ID      []byte // of the request
	Limit   time.Duration
	// Stay is asked when the client left: whether its sound is wanted all the same.
	Stay func() bool

	// What it came to: a Transcript of By, or why it failed.
	Transcript *Transcript
	By         *Target
	Failure    dialect.Failure // where Cause is none
	Cause      proxy.Cause
	Err        error // for the operator
	// Took says that a target may have begun to work.
	Took     bool
	Attempts int
	Tried    []attempt.Tried

	ctx   *fasthttp.RequestCtx
	x     *proxy.Exchange
	ends  time.Time
	words string // of the last refusal
}

var exchanges = sync.Pool{New: func() any { return new(proxy.Exchange) }}

// Do asks the targets for an account.
func (l *Transcribing) Do(ctx *fasthttp.RequestCtx, targets []*Target, account uint64) {
	l.ctx, l.ends = ctx, time.Now().Add(l.Limit)
	l.x = exchanges.Get().(*proxy.Exchange)
	defer func() {
		l.x.Reset()
		exchanges.Put(l.x)
	}()
	var p Picker
	p.Begin(targets, account)
	first := p.Fitting(l, time.Now().UnixNano())
	if first == nil {
		l.Cause, l.Err = proxy.NoTarget, errors.New("no target is available")
		return
	}
	p.Run(l, first)
}

// Fits is attempt.Work: every target of a model takes its sound.
func (l *Transcribing) Fits(t *Target, _ int64) bool { return t.Listener != nil }

// Try is attempt.Work.
func (l *Transcribing) Try(t *Target) attempt.Verdict {
	l.By, l.Cause, l.Err, l.Failure, l.words = t, proxy.None, nil, dialect.Failure{}, ""
	l.Attempts++
	status, v := l.request(t)
	if l.Transcript != nil {
		return v
	}
	tried := attempt.Tried{Upstream: t.Upstream, Status: status, Cause: l.Cause, Words: l.words, At: time.Now()}
	switch {
	case l.Err != nil:
		tried.Words = l.Err.Error()
	case l.words == "":
		tried.Words = l.Failure.Message
	}
	l.Tried = append(l.Tried, tried)
	return v
}

// request sends the sound to a target and reads its answer.
func (l *Transcribing) request(t *Target) (status int, v attempt.Verdict) {
	// An answer begins when all was heard, so that it has the time of the whole.
	limit := time.Until(l.ends)
	if t.Total > 0 {
		limit = min(limit, t.Total)
	}
	limit = max(limit, time.Millisecond)
	r := proxy.Request{ID: l.ID, FirstByte: limit}
	t.Listener.Listen(&r, l.Hearing, t)
	x := l.x
	x.Reset()
	x.DrainOnGone(maxTranscript, func() (time.Duration, bool) {
		return time.Until(l.ends), l.Stay != nil && l.Stay()
	})
	res := l.Proxy.Ask(l.ctx, x, limit, t.Proxy, &r)
	if res.Cause != proxy.None {
		return 0, l.disconnected(res.Cause, res.Err, res.Sent)
	}
	defer x.Close()
	most := maxTranscript
	if res.Status < 200 || res.Status >= 300 {
		most = maxRefusal
	}
	body, cause, err := x.Body(nil, most)
	switch {
	case err == proxy.ErrTooLarge && most == maxRefusal:
		body = nil // of an error that long only the status is reported
	case err == proxy.ErrTooLarge:
		l.Took, l.Failure = true, failed(textBroken)
		return res.Status, l.Failure.Verdict
	case err != nil:
		// What was refused was not listened to, also where its words are cut off.
		return res.Status, l.disconnected(cause, err, most != maxRefusal)
	}
	if most == maxRefusal {
		l.Failure = t.Listener.Error(res.Status, res.RetryAfter, body)
		// No prompt reaches a log, whoever repeats it.
		l.words = dialect.FirstWords(body, []byte(l.Hearing.Prompt), nil)
		return res.Status, l.Failure.Verdict
	}
	l.Took = true
	if l.Transcript = t.Listener.Heard(body, l.Hearing); l.Transcript == nil {
		l.Failure = failed(textBroken)
		return res.Status, l.Failure.Verdict
	}
	return res.Status, attempt.Judge(res.Status, 0)
}

// disconnected is what follows from an attempt without a whole answer.
func (l *Transcribing) disconnected(cause proxy.Cause, err error, sent bool) attempt.Verdict {
	l.Cause, l.Err = cause, err
	v := attempt.Lost(cause)
	if sent {
		l.Took = true
		v.Do = attempt.Fail
	}
	return v
}

const textBroken = "The model's answer cannot be read; nothing was charged. Please retry."

// failed is an answer of 2xx that is of no use: its upstream has worked.
func failed(text string) dialect.Failure {
	v := attempt.Broken()
	v.Do = attempt.Fail
	return dialect.Failure{Status: 502, Code: "ASR_UPSTREAM_FAILED", Type: "server_error", Message: text, Verdict: v}
}
