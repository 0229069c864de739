package search

import (
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/providers/attempt"
	"farebox/proxy"
)

const (
	// MaxLimit is how many results a search can ask for (addendum 12.2).
	MaxLimit = 20
	// maxAnswer bounds the bytes read of an answer.
	maxAnswer = 4 << 20
	// maxShares divides the time of a search, so that one service that hangs leaves a share
	// for the next.
	maxShares = 3
	// maxError bounds the bytes read of a refusal, whose connection is used again.
	maxError = 64 << 10
)

// Query is one search.
type Query struct {
	Provider string
	Text     string
	Limit    int    // 1 to MaxLimit
	Account  uint64 // whose search it is
	ID       []byte // of the request
	// Stay is asked when the client left whether the search goes on.
	Stay func() (time.Duration, bool)
}

// Found is the outcome of a search.
type Found struct {
	Results []Result
	// Cause is why there are no results; None with a Status of 2xx: there are, or the
	// service found nothing.
	Cause      proxy.Cause
	Status     int           // of the last answer; 0: no answer
	RetryAfter time.Duration // that it asked for
	Upstream   *Upstream     // the last that was asked
	Sent       bool          // an upstream may have begun to work on it
	Attempts   int
	Tried      []attempt.Tried
}

// OK says that a service has answered.
func (f *Found) OK() bool { return f.Cause == proxy.None && f.Status >= 200 && f.Status < 300 }

// Find asks the upstreams of a provider for q while the client stays. They see the
// words and the number of results, and nothing of the client.
func (s *Service) Find(p *proxy.Proxy, client *fasthttp.RequestCtx, q *Query) *Found {
	w := &work{q: q, x: s.exchanges.Get().(*proxy.Exchange)}
	defer func() {
		w.x.Reset()
		s.exchanges.Put(w.x)
	}()
	w.found.Cause = proxy.NoTarget
	if q.Stay != nil {
		w.x.DrainOnGone(0, q.Stay)
	}
	p.Open(client, w.x, s.timeout)
	list := s.lists[q.Provider]
	if n := time.Duration(len(list)); n > 1 {
		w.share = s.timeout / min(n, maxShares)
	}
	var picker attempt.ByPriority[*Upstream]
	picker.Begin(list, q.Account)
	defer picker.End()
	picker.Run(w, picker.Fitting(w, time.Now().UnixNano()))
	return &w.found
}

// work is one search on its way.
type work struct {
	q     *Query
	x     *proxy.Exchange
	share time.Duration // of the time, for an answer to begin; 0: all of it
	found Found
}

// Fits is attempt.Work: every upstream takes every search.
func (w *work) Fits(*Upstream, int64) bool { return true }

// Try is attempt.Work.
func (w *work) Try(u *Upstream) attempt.Verdict {
	f := &w.found
	f.Upstream = u
	f.Attempts++
	r := u.request(w.q)
	r.FirstByte = w.share
	res := w.x.Ask(u.Endpoint, &r)
	f.Cause, f.Status, f.RetryAfter = res.Cause, res.Status, res.RetryAfter
	f.Sent = f.Sent || res.Sent
	v, body := w.read(&res)
	if v.Do == attempt.Accept && f.OK() {
		if f.Results = u.results(body, w.q.Limit); f.Results == nil {
			f.Cause, v = proxy.UpstreamMalformed, attempt.Broken()
		}
	}
	if !f.OK() {
		f.Tried = append(f.Tried, attempt.Tried{Upstream: u.Name, Status: res.Status, Cause: f.Cause, At: time.Now()})
	}
	return v
}

// read judges an attempt and reads the answer, whole.
func (w *work) read(res *proxy.Result) (attempt.Verdict, []byte) {
	if res.Cause != proxy.None {
		return attempt.Lost(res.Cause), nil
	}
	most := maxAnswer
	v := attempt.Judge(res.Status, res.RetryAfter)
	if v.Health != attempt.Good {
		// Of a refusal only the status is reported: its words may repeat the query.
		most = maxError
		if v.Do == attempt.Accept {
			v.Do = attempt.Fail
		}
	}
	body, cause, err := w.x.ReadAll(nil, most)
	switch {
	case v.Health != attempt.Good:
		return v, nil
	case err != nil:
		if w.found.Cause = cause; cause == proxy.None {
			w.found.Cause = proxy.UpstreamMalformed // too large
			return attempt.Broken(), nil
		}
		return attempt.Lost(cause), nil
	}
	return v, slices.Clip(body)
}
