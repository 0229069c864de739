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

// maxRefusal bounds an answer that is a refusal.
const maxRefusal = 64 << 10

// Whole is work whose answer is read whole: targets are asked until one has done it. The
// next one is asked only if the last one did not take the work: the operator would pay
// twice for work done twice.
type Whole struct {
	Proxy *proxy.Proxy
	ID    []byte // of the request
	Limit time.Duration

	// By has done the work, or failed last.
	By       *Target
	Failure  dialect.Failure // of an answer; empty if Cause is set
	Cause    proxy.Cause
	Err      error // for the operator
	Begun    bool  // a target may have begun to work
	Attempts int
	Tried    []attempt.Tried

	ends  time.Time
	words string // of the last refusal
}

var exchanges = sync.Pool{New: func() any { return new(proxy.Exchange) }}

// run asks the targets for an account, as one says.
func (w *Whole) run(one attempt.Work[*Target], targets []*Target, account uint64) {
	w.ends = time.Now().Add(w.Limit)
	var p Picker
	p.Begin(targets, account)
	first := p.Fitting(one, time.Now().UnixNano())
	if first == nil {
		w.Cause, w.Err = proxy.NoTarget, errors.New("no target is available")
		return
	}
	p.Run(one, first)
}

// question is the request to one target.
type question struct {
	ctx     *fasthttp.RequestCtx // nil: no client waits
	request proxy.Request
	limit   time.Duration
	most    int    // of an answer of 2xx, in bytes
	broken  string // the code of an answer of 2xx that is of no use
	// stay is asked when the client left: whether the answer is wanted all the same.
	stay    func() bool
	refused func(status int, retryAfter time.Duration, body []byte) dialect.Failure
	read    func(body []byte) bool // false: the answer is of no use
}

// try asks t.
func (w *Whole) try(t *Target, q *question) attempt.Verdict {
	w.By, w.Cause, w.Err, w.Failure, w.words = t, proxy.None, nil, dialect.Failure{}, ""
	w.Attempts++
	status, v := w.exchange(t, q)
	if v.Do == attempt.Accept {
		return v
	}
	tried := attempt.Tried{Upstream: t.Upstream, Status: status, Cause: w.Cause, Words: w.words, At: time.Now()}
	switch {
	case w.Err != nil:
		tried.Words = w.Err.Error()
	case w.words == "":
		tried.Words = w.Failure.Message
	}
	w.Tried = append(w.Tried, tried)
	return v
}

// exchange sends a request and reads its answer.
func (w *Whole) exchange(t *Target, q *question) (status int, v attempt.Verdict) {
	x := exchanges.Get().(*proxy.Exchange)
	defer func() {
		x.Reset()
		exchanges.Put(x)
	}()
	if q.stay != nil {
		x.DrainOnGone(int64(q.most), func() (time.Duration, bool) { return time.Until(w.ends), q.stay() })
	}
	limit := max(q.limit, time.Millisecond)
	q.request.FirstByte = limit // an answer begins when the work is done
	res := w.Proxy.Ask(q.ctx, x, limit, t.Proxy, &q.request)
	if res.Cause != proxy.None {
		return 0, w.disconnected(res.Cause, res.Err, res.Sent)
	}
	defer x.Close()
	refused := res.Status < 200 || res.Status >= 300
	most := q.most
	if refused {
		most = maxRefusal
	}
	body, cause, err := x.Body(nil, most)
	switch {
	case err == proxy.ErrTooLarge:
		body = nil // of an error that long only the status is reported
	case err != nil:
		// Refused work was not done, also if the refusal was cut off.
		return res.Status, w.disconnected(cause, err, !refused)
	}
	if refused {
		w.Failure = q.refused(res.Status, res.RetryAfter, body)
		return res.Status, w.Failure.Verdict
	}
	w.Begun = true
	if err != nil || !q.read(body) {
		w.Failure = broken(q.broken)
		return res.Status, w.Failure.Verdict
	}
	return res.Status, attempt.Judge(res.Status, 0)
}

// disconnected is the verdict on an attempt without a whole answer.
func (w *Whole) disconnected(cause proxy.Cause, err error, sent bool) attempt.Verdict {
	w.Cause, w.Err = cause, err
	v := attempt.Lost(cause)
	if sent {
		w.Begun = true
		v.Do = attempt.Fail
	}
	return v
}

// broken is an answer of 2xx that is of no use: its upstream has worked.
func broken(code string) dialect.Failure {
	v := attempt.Broken()
	v.Do = attempt.Fail
	return dialect.Failure{Status: 502, Code: code, Type: "server_error", Verdict: v,
		Message: "The model's answer cannot be read; nothing was charged. Please retry."}
}
