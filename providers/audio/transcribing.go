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
func (tr *Transcribing) Do(ctx *fasthttp.RequestCtx, targets []*Target, account uint64) {
	tr.ctx, tr.ends = ctx, time.Now().Add(tr.Limit)
	tr.x = exchanges.Get().(*proxy.Exchange)
	defer func() {
		tr.x.Reset()
		exchanges.Put(tr.x)
	}()
	var p Picker
	p.Begin(targets, account)
	first := p.Fitting(tr, time.Now().UnixNano())
	if first == nil {
		tr.Cause, tr.Err = proxy.NoTarget, errors.New("no target is available")
		return
	}
	p.Run(tr, first)
}

// Fits is attempt.Work: every target of a model takes its sound.
func (tr *Transcribing) Fits(t *Target, _ int64) bool { return t.Listener != nil }

// Try is attempt.Work.
func (tr *Transcribing) Try(t *Target) attempt.Verdict {
	tr.By, tr.Cause, tr.Err, tr.Failure, tr.words = t, proxy.None, nil, dialect.Failure{}, ""
	tr.Attempts++
	status, v := tr.request(t)
	if tr.Transcript != nil {
		return v
	}
	tried := attempt.Tried{Upstream: t.Upstream, Status: status, Cause: tr.Cause, Words: tr.words, At: time.Now()}
	switch {
	case tr.Err != nil:
		tried.Words = tr.Err.Error()
	case tr.words == "":
		tried.Words = tr.Failure.Message
	}
	tr.Tried = append(tr.Tried, tried)
	return v
}

// request sends the sound to a target and reads its answer.
func (tr *Transcribing) request(t *Target) (status int, v attempt.Verdict) {
	// An answer begins when all was heard, so that it has the time of the whole.
	limit := time.Until(tr.ends)
	if t.Total > 0 {
		limit = min(limit, t.Total)
	}
	limit = max(limit, time.Millisecond)
	r := proxy.Request{ID: tr.ID, FirstByte: limit}
	t.Listener.Listen(&r, tr.Hearing, t)
	x := tr.x
	x.Reset()
	x.DrainOnGone(maxTranscript, func() (time.Duration, bool) {
		return time.Until(tr.ends), tr.Stay != nil && tr.Stay()
	})
	res := tr.Proxy.Ask(tr.ctx, x, limit, t.Proxy, &r)
	if res.Cause != proxy.None {
		return 0, tr.disconnected(res.Cause, res.Err, res.Sent)
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
		tr.Took, tr.Failure = true, failed(textBroken)
		return res.Status, tr.Failure.Verdict
	case err != nil:
		// What was refused was not listened to, also where its words are cut off.
		return res.Status, tr.disconnected(cause, err, most != maxRefusal)
	}
	if most == maxRefusal {
		tr.Failure = t.Listener.Error(res.Status, res.RetryAfter, body)
		// No prompt reaches a log, whoever repeats it.
		tr.words = dialect.FirstWords(body, []byte(tr.Hearing.Prompt), nil)
		return res.Status, tr.Failure.Verdict
	}
	tr.Took = true
	if tr.Transcript = t.Listener.Heard(body, tr.Hearing); tr.Transcript == nil {
		tr.Failure = failed(textBroken)
		return res.Status, tr.Failure.Verdict
	}
	return res.Status, attempt.Judge(res.Status, 0)
}

// disconnected is what follows from an attempt without a whole answer.
func (tr *Transcribing) disconnected(cause proxy.Cause, err error, sent bool) attempt.Verdict {
	tr.Cause, tr.Err = cause, err
	v := attempt.Lost(cause)
	if sent {
		tr.Took = true
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
