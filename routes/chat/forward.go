package chat

import (
	"bytes"
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/providers"
	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// runAttempts has targets asked until the answer of one is for the client or there is
// nothing more to try. ctx is whose client waits; limit is for all attempts
// together, 0: none but the targets' own.
func (c *inference) runAttempts(ctx *fasthttp.RequestCtx, limit time.Duration) {
	c.res, c.limit = proxy.Result{Cause: proxy.NoTarget}, limit
	c.call.Proxy().Open(ctx, &c.x, limit)
	providers.Pick(&c.targets, c.call.Model, c.candidates(), c.call.Key.Account.Number(), c.chat.Stream)
	c.targets.Run(c, c.targets.Fitting(c, c.call.StartNs))
	if c.res.Cause != proxy.None {
		c.x.Close()
	}
}

// Try is attempt.Work.
func (c *inference) Try(t *dialect.Target) attempt.Verdict {
	c.target, c.call.Upstream = t, t.Upstream.Name
	c.native = c.nativeOf(t) != nil
	c.call.Attempts++
	c.res = c.x.Ask(t.Upstream.Proxy, &c.request)
	v := c.judge()
	if c.res.Cause == proxy.TotalTimeout && c.limit > 0 {
		v = attempt.Verdict{Do: attempt.Fail} // that we wait no longer says nothing of the target
	}
	if v.Do == attempt.Retry {
		c.noteFailure()
	}
	if c.x.Why().Final() {
		v.Do = attempt.Fail
	}
	v.AtNs = time.Now().UnixNano()
	c.time(t, v)
	return v
}

// Fits is attempt.Work: it puts the request into the target's dialect.
func (c *inference) Fits(t *dialect.Target, now int64) bool {
	total := t.Upstream.Config.Timeouts.Total
	if c.call.Attempts > 0 && total > 0 && now-c.call.StartNs >= int64(total) {
		return false // its limit is one for all attempts together
	}
	if !c.mayAsk(t) {
		return false
	}
	c.request.Patches = c.request.Patches[:0]
	c.request.Body, c.request.ID, c.request.Further = c.chat.Body, c.call.ID[:], proxy.Fields{}
	if refusal := c.checkLinks(t); refusal != nil {
		c.unsupported = refusal
		return false
	}
	if refusal := c.untold(t); refusal != nil {
		c.unsupported = refusal
		return false
	}
	c.chat.LeftOut = c.abridged(t)
	err := c.speaks(t).Request(&c.request, &c.chat, t, c.scratch)
	// Another dialect may be able to express the request: the next target is asked.
	if err != nil && !errors.As(err, &c.unsupported) {
		c.call.Logger().Warn().Err(err).Str("upstream", t.Upstream.Name).Bytes("request_id", c.call.ID[:]).
			Msg("cannot make the upstream request")
	}
	if err == nil {
		c.enclave.complete(&c.request)
		if c.targets.Fast {
			t.Pace(c.chat.Stream).Ask(now)
		}
	}
	return err == nil
}

// judge reads as much of the answer as tells whether it is of use, and has the
// failure policy judge it.
func (c *inference) judge() attempt.Verdict {
	c.reply = reply{}
	switch {
	case c.res.Cause != proxy.None:
		return c.unanswered(c.res.Cause)
	case c.res.Status < 200 || c.res.Status >= 300:
		return c.readRefusal()
	case c.chat.Sealed && !c.applied():
		return c.unsealed()
	case c.chat.Stream:
		return c.beginStream()
	}
	return c.readWhole()
}

// reply is the last attempt's answer, as far as it had to be read before any of it may go to the
// client. The zero value is not an answer.
type reply struct {
	begun   bool            // it goes on and is to be relayed
	held    bool            // …after the events that the stream has passed already
	out     []byte          // a whole answer, as the client gets it
	usage   dialect.Usage   // of out
	refused bool            // the upstream said no: failure
	failure dialect.Failure // …in its words for the client
	words   []byte          // …and in its own
	cause   proxy.Cause     // why an answer is of no use, None: it is
}

// unanswered judges an attempt without a whole answer.
func (c *inference) unanswered(cause proxy.Cause) attempt.Verdict {
	c.reply.cause = cause
	if cause == proxy.TotalTimeout && c.call.Attempts > 1 {
		// Earlier attempts had used most of the time for all attempts.
		return attempt.Verdict{Do: attempt.Fail}
	}
	return attempt.Lost(cause)
}

// broken judges an answer that the target's dialect cannot read.
func (c *inference) broken() attempt.Verdict {
	c.reply.cause = proxy.UpstreamMalformed
	return attempt.Broken()
}

// refusalWait is how long the body of an upstream's refusal may take: it is
// wanted for its words, and another target may be waiting to be asked.
const refusalWait = 2 * time.Second

// readRefusal reads an answer that is not of 2xx.
func (c *inference) readRefusal() attempt.Verdict {
	c.x.Limit(refusalWait)
	body, cause, err := c.x.ReadAll(c.answer[:0], maxErrorBody)
	c.answer = body
	if cause.Final() {
		return c.unanswered(cause)
	}
	if err != nil {
		body = nil // its status alone is reported
	}
	return c.refuse(c.res.Status, c.res.RetryAfter, body)
}

// refuse judges an upstream's words in place of an answer.
func (c *inference) refuse(status int, retryAfter time.Duration, body []byte) attempt.Verdict {
	c.reply.refused, c.reply.words = true, body
	c.reply.failure = c.speaks(c.target).Error(status, retryAfter, body)
	c.reply.failure.Veil(c.chat.SystemPrompt)
	if c.chat.Sealed {
		c.silence(body)
	}
	return c.reply.failure.Verdict
}

// readWhole reads an answer that is not a stream. One that is too large to be held
// is good when it begins well.
func (c *inference) readWhole() attempt.Verdict {
	d := c.speaks(c.target)
	most, whole := max(maxBuffered, c.room), d.Translates() || c.chat.Form != nil || c.schema != nil
	if whole {
		most = maxTranslated
	}
	if c.x.ContentLength() > maxRelayed {
		return c.broken()
	}
	body, cause, err := c.x.ReadAll(c.answer[:0], most)
	if err == proxy.ErrTooLarge && !whole {
		if len(body) == 0 {
			body, _ = c.x.More(body)
		}
		c.answer = body
		if begin := bytes.TrimLeft(body, " \t\r\n"); len(begin) == 0 || begin[0] != '{' {
			return c.broken()
		}
		c.reply.begun = true
		return attempt.Verdict{Health: attempt.Begun}
	}
	c.answer = body
	if cause != proxy.None {
		return c.unanswered(cause)
	}
	if err != nil {
		return c.broken()
	}
	if c.chat.Said = nil; c.chat.Form != nil && !c.native {
		c.said, c.chat.Said = dialect.Completion{}, &c.said
	}
	out, usage, err := d.Answer(body, &c.chat, c.target, c.scratch)
	if err != nil {
		return c.unread(err)
	}
	c.reply.out, c.reply.usage = out, usage
	return attempt.Judge(200, 0)
}

// unread judges an answer of 2xx that holds none.
func (c *inference) unread(err error) attempt.Verdict {
	var failed *dialect.Failed
	if errors.As(err, &failed) {
		return c.refuse(failed.Status(), 0, failed.JSON)
	}
	return c.broken()
}

// beginStream reads on until the stream has something for the client. One that
// breaks, fails or ends before is of no use.
func (c *inference) beginStream() attempt.Verdict {
	if !isEventStream(c.x.ContentType()) {
		return c.broken()
	}
	c.releaseStream()
	if form, ok := c.chat.Form.(dialect.Keeping); ok {
		form.Attempt()
	}
	if c.chat.Form != nil && !c.native {
		c.chat.Client = dialect.OpenForm(&c.chat)
		c.cites.forget()
	}
	c.stream = c.speaks(c.target).Stream(&c.chat, c.target)
	if c.chat.Verbatim {
		var ok bool
		if c.enclave.stream, ok = c.stream.(dialect.Enclosed); !ok {
			return c.broken() // the config does not let such an upstream be one
		}
	}
	c.answer = c.answer[:0]
	for {
		p, done, cause := c.x.First()
		out := c.stream.Pass(p)
		switch {
		case c.isUnsealed() && len(out) == 0:
			return c.unsealed()
		case c.isUnsealed():
		case c.stream.Failed():
			words := c.stream.FailedWith()
			if v := c.refuse(dialect.ErrorStatus(words), 0, words); v.Do != attempt.Accept {
				return v
			}
			c.reply = reply{} // the client's own fault, which the stream tells it
		case cause != proxy.None:
			return c.unanswered(cause)
		case c.stream.Done() && !hasObject(p) && !hasObject(c.answer):
			return c.broken() // an end and nothing before it
		case len(out) == 0 && !done:
			c.answer = append(c.answer, p...)
			continue
		case len(out) == 0 && !c.endsWell(append(c.answer, p...)):
			return c.broken()
		}
		c.reply.begun = true
		c.eventless = !hasObject(out) && !hasObject(c.answer)
		if len(out) > 0 {
			c.reply.held = true
			c.x.Hold(out)
		}
		return attempt.Verdict{Health: attempt.Begun}
	}
}

// endsWell says that a stream of which nothing was passed on yet, and which is
// over, still has something to say: some servers leave out the last empty line.
func (c *inference) endsWell(all []byte) bool {
	client := c.chat.Client
	c.chat.Client = nil // it gets the answer once
	defer func() { c.chat.Client = client }()
	s := c.speaks(c.target).Stream(&c.chat, c.target)
	defer s.Release()
	s.Pass(all)
	return hasObject(all) && len(s.Finish(true)) > 0 && !s.Failed()
}

// hasObject says that some event may say something: [DONE] alone does not.
func hasObject(p []byte) bool { return bytes.IndexByte(p, '{') >= 0 }

func (c *inference) releaseStream() {
	if c.stream != nil {
		c.stream.Release()
		c.stream, c.enclave.stream = nil, nil
	}
	if c.chat.Client != nil {
		c.chat.Client.Release()
		c.chat.Client = nil
	}
}

// noteFailure keeps for the log how a target failed.
func (c *inference) noteFailure() {
	t := attempt.Tried{Upstream: c.call.Upstream, Status: c.res.Status, Cause: c.reply.cause, At: time.Now()}
	switch {
	case c.chat.Verbatim && len(c.reply.words) > 0:
		// The answer of an enclave may quote the sealed request.
	case len(c.reply.words) > 0:
		t.Words = dialect.FirstWords(c.reply.words, c.chat.Body, c.chat.SystemPrompt)
	case c.res.Err != nil:
		t.Words = c.res.Err.Error()
	}
	c.call.Tried = append(c.call.Tried, t)
}

// ended tells the target's breaker how an answer ended that was relayed.
func (c *inference) ended(cause proxy.Cause) {
	v := attempt.Lost(cause)
	switch {
	case cause != proxy.None:
	case !c.stream.Done():
		v = attempt.Lost(proxy.UpstreamTruncated)
	case c.stream.Failed():
		v = attempt.Judge(dialect.ErrorStatus(c.stream.FailedWith()), 0)
	default:
		v = attempt.Judge(200, 0)
	}
	now := time.Now().UnixNano()
	c.timeEnd(v, now)
	c.targets.Report(c.target, v, now)
}

func isEventStream(contentType []byte) bool {
	media, _, _ := bytes.Cut(contentType, []byte(";"))
	return bytes.EqualFold(bytes.TrimSpace(media), []byte("text/event-stream"))
}

var _ proxy.Lens = (*inference)(nil)
