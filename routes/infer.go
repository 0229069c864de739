package routes

import (
	"time"

	"farebox/billing"
	"farebox/providers/dialect"
	"farebox/proxy"
)

const (
	// maxBuffered is the largest non-stream answer that is held in memory; a
	// larger one is relayed as it arrives, metered on the way.
	maxBuffered = 64 << 10
	// maxTranslated bounds an answer that must be whole to be translated into
	// the client's dialect.
	maxTranslated = 32 << 20
	// maxErrorBody bounds what is read of an upstream's error answer.
	maxErrorBody = 64 << 10
	// leastCompletion is how many completion tokens an account must be able to
	// pay for a request to be worth sending.
	leastCompletion = 16
)

// infer takes a validated request with its model through admit, send, relay
// and settle (design.md 2, steps 4 to 8).
func (c *Call) infer() *Error {
	usd, diem, _ := c.key.BalanceAt(c.startNs)
	if e := c.admit(); e != nil {
		return e
	}
	c.allowDrain()
	c.scratch = c.g.scratches.Get().(*dialect.Scratch)
	res := c.g.proxy.Open(c.ctx, &c.x, c)
	if e := c.opened(&res); e != nil {
		return e
	}
	c.setModel()
	c.setQuotaHeaders()
	c.setBalance(usd, diem)
	if c.chat.Stream {
		c.relayStream()
		return nil
	}
	return c.answerWhole()
}

// admit opens the hold that pays for the request, or says why not.
func (c *Call) admit() *Error {
	cfg := c.snap.cfg
	price := c.model.Price
	upper, likely := dialect.EstimatePrompt(&c.chat, cfg.Billing.ImageTokens)
	c.likely = likely
	want := c.completionCap()
	if c.chat.Stream && want > cfg.Billing.SliceTokens {
		want = cfg.Billing.SliceTokens
	}
	c.admission = billing.Admission{
		Key: c.key, Slot: c.model.Slot, Rate: c.model.Rate,
		Tokens: likely + min(want, cfg.Billing.SliceTokens),
		NowNs:  c.startNs, RequestID: c.raw, Stream: c.chat.Stream,
	}
	denial := c.tryHold(upper, want)
	if denial.Code >= billing.InsufficientBalance && denial.Code <= billing.KeyLimitDIEM && !price.Free {
		// The bound of one token a byte is cheap and about four times too
		// high. Money is tight, so counting is worth its time.
		denial = c.tryHold(dialect.BoundPrompt(&c.chat, cfg.Billing.ImageTokens), want)
	}
	if denial.Code != billing.Admitted {
		return c.denied(&denial)
	}
	return nil
}

func (c *Call) tryHold(prompt, want int64) billing.Denial {
	price := c.model.Price
	c.admission.Hold = billing.Worst(price, prompt, want)
	c.admission.Min = billing.Worst(price, prompt, min(want, leastCompletion*c.chat.Choices))
	denial := c.g.ledger.Admit(&c.hold, &c.admission)
	if denial.Code != billing.Admitted {
		return denial
	}
	c.covered = want
	if granted := c.hold.Granted(); granted < c.admission.Hold {
		c.covered = min(want, billing.Affords(price, granted-billing.Worst(price, prompt, 0)))
		if !c.chat.Stream && !c.chat.Embedding {
			// Money is the smaller bound: the upstream must not produce more than is held.
			c.chat.MaxCompletion = max(1, c.covered/c.chat.Choices)
		}
	}
	return denial
}

// completionCap is the most completion tokens of all choices together.
func (c *Call) completionCap() int64 {
	if c.chat.Embedding {
		return 0
	}
	most := c.model.Config.MaxCompletionTokens
	if c.chat.AskedCompletion > 0 {
		most = min(most, c.chat.AskedCompletion)
	}
	return most * c.chat.Choices
}

func (c *Call) denied(d *billing.Denial) *Error {
	topUp := ""
	if url := c.snap.cfg.TopUpURL; url != "" {
		topUp = " Top up at " + url + "."
	}
	switch d.Code {
	case billing.InsufficientBalance:
		return &Error{Status: 402, Code: "INSUFFICIENT_BALANCE", Message: "Insufficient balance to cover this request." + topUp}
	case billing.InDebt:
		return &Error{Status: 402, Code: "INSUFFICIENT_BALANCE", Message: "This account owes " + d.Owed.String() + " USD for earlier requests that cost more than it could cover; a credit pays that first, then requests are served again." + topUp}
	case billing.KeyLimitUSD:
		return &Error{Status: 402, Code: "API_KEY_USD_SPEND_LIMIT_EXCEEDED", Message: keyLimitReached("USD")}
	case billing.KeyLimitDIEM:
		return &Error{Status: 402, Code: "API_KEY_DIEM_SPEND_LIMIT_EXCEEDED", Message: keyLimitReached("DIEM")}
	case billing.LimitsAway:
		return &Error{Status: 503, Message: "Rate limits cannot be checked right now; please retry.", RetryAfter: d.RetryAfter}
	case billing.StoreAway:
		return &Error{Status: 503, Message: "The balance of this account cannot be checked right now; please retry.", RetryAfter: max(d.RetryAfter, time.Second)}
	case billing.NodeFenced:
		return &Error{Status: 503, Message: "This node of the service has been replaced; please retry.", RetryAfter: retrySoon, Close: true}
	case billing.JournalFull:
		return &Error{Status: 503, Message: "The ledger cannot record new charges right now; please retry.", RetryAfter: 5 * time.Second}
	}
	c.noteLimit(d.Limit)
	c.ctx.Response.Header.Set("X-Ratelimit-Type", d.Scope)
	return &Error{
		Status: 429, Code: "RATE_LIMIT_EXCEEDED", RetryAfter: max(d.RetryAfter, time.Second),
		Message: "Rate limit exceeded: " + d.Limit + " of this " + scopeText(d.Scope) + " for model " + c.model.ID + ". Retry after the time in the Retry-After header.",
	}
}

// keyLimitReached says why a key's limit refuses: what a request may cost is
// held before, so a limit also refuses while a little of it is left.
func keyLimitReached(currency string) string {
	return "This API key has reached its " + currency + " consumption limit for the current period, or what is left of it does not cover this request."
}

func scopeText(scope string) string {
	if scope == "api_key" {
		return "API key"
	}
	return "account"
}

// opened judges what the attempts came to.
func (c *Call) opened(res *proxy.Result) *Error {
	if res.Cause == proxy.None && res.Status >= 200 && res.Status < 300 {
		if c.chat.Stream && !isEventStream(c.x.ContentType()) {
			c.cause = proxy.UpstreamMalformed.String()
			return &Error{Status: 502, Code: "INFERENCE_FAILED", Message: "The model did not answer with a stream; nothing was charged. Please retry."}
		}
		return nil
	}
	if res.Cause == proxy.NoTarget && c.unsupported != nil {
		return errUnsupported(c.unsupported.Path, c.unsupported.Text)
	}
	if res.Cause != proxy.None || res.Status == 0 {
		c.cause = res.Cause.String()
		return c.unreachable(res)
	}
	body, _, err := c.x.Body(c.answer[:0], maxErrorBody)
	c.answer = body
	if err != nil {
		body = nil
	}
	return c.rejected(res, body)
}

// rejected maps an upstream's own error answer (addendum 3.4, 3.5).
func (c *Call) rejected(res *proxy.Result, body []byte) *Error {
	f := c.target.Upstream.Dialect.Error(res.Status, res.RetryAfter, body)
	e := &Error{Status: f.Status, Code: f.Code, Message: f.Message, Param: f.Param, RetryAfter: max(f.RetryAfter, res.RetryAfter)}
	if e.Status == 429 && e.RetryAfter == 0 {
		e.RetryAfter = overloadRetry
	}
	e.RequestID = e.Status == 400 && e.Param == ""
	c.cause = "upstream_status"
	return e
}

// overloadRetry is the Retry-After of an overloaded model (addendum 3.5).
const overloadRetry = 30 * time.Second

// unreachable answers for upstreams that gave no answer at all. Neither hosts
// nor the transport's own words reach the client.
func (c *Call) unreachable(res *proxy.Result) *Error {
	switch res.Cause {
	case proxy.ClientGone, proxy.ClientStalled:
		// Nobody reads this; 499 is for the log.
		return &Error{Status: 499, Code: "CLIENT_CLOSED_REQUEST", Message: "The client closed the request.", Close: true, Uncounted: true}
	case proxy.FirstByteTimeout, proxy.IdleTimeout, proxy.TotalTimeout, proxy.ConnectTimeout:
		return &Error{Status: 504, Code: "REQUEST_TIMEOUT", Message: "The model took too long to answer. Stream long answers, or retry."}
	case proxy.Shutdown:
		return &Error{Status: 503, Code: "MODEL_OFFLINE", Message: "The service is restarting; please retry.", RetryAfter: retrySoon, Close: true}
	case proxy.NoTarget, proxy.NoFreeConn:
		return &Error{Status: 503, Code: "MODEL_AT_CAPACITY", Message: "The model has no capacity left right now; please retry.", RetryAfter: max(res.RetryAfter, 5*time.Second)}
	}
	return &Error{Status: 503, Code: "MODEL_OFFLINE", Message: "The model cannot be reached right now; please retry.", RetryAfter: 5 * time.Second}
}

// answerWhole reads a non-stream answer, settles it and makes it the response.
func (c *Call) answerWhole() *Error {
	most := maxBuffered
	if c.target.Upstream.Dialect.Translates() {
		most = maxTranslated
	}
	body, cause, err := c.x.Body(c.answer[:0], most)
	c.answer = body
	if err == proxy.ErrTooLarge && most == maxBuffered {
		return c.relayLarge()
	}
	if err != nil || cause != proxy.None {
		c.cause = cause.String()
		if cause == proxy.ClientGone || cause == proxy.ClientStalled {
			return c.unreachable(&proxy.Result{Cause: cause})
		}
		return &Error{Status: 502, Code: "INFERENCE_FAILED", Message: "The model's answer was cut off or unreadable; nothing was charged. Please retry."}
	}
	out, usage, err := c.target.Upstream.Dialect.Answer(body, &c.chat, c.target, c.scratch)
	if err != nil {
		c.cause = proxy.UpstreamMalformed.String()
		c.g.log.Warn().Err(err).Str("upstream", c.upstream).Bytes("request_id", c.id[:]).Msg("cannot read an upstream's answer")
		return &Error{Status: 502, Code: "INFERENCE_FAILED", Message: "The model's answer could not be read; nothing was charged. Please retry."}
	}
	c.settle(usage, 200, 0)
	r := &c.ctx.Response
	r.Header.SetContentType("application/json")
	if len(out) > 0 && len(c.answer) > 0 && &out[0] == &c.answer[0] {
		c.answer = r.SwapBody(out)[:0]
	} else {
		r.SetBody(out)
	}
	c.compress()
	return nil
}

// settle charges the request, exactly once. Answers without output cost
// nothing (addendum 19.2).
func (c *Call) settle(u dialect.Usage, status int, flags billing.Flags) {
	now := time.Now()
	c.took = now.Sub(c.began)
	c.usage = c.bounded(u)
	c.settled = true
	if c.usage.Estimated {
		flags |= billing.FlagEstimated
	}
	var cost billing.Nano
	if c.usage.Completion > 0 || c.chat.Embedding {
		cost = billing.Cost(c.model.Price, billing.Usage(c.usage))
	}
	c.charged, c.shortfall = c.hold.Settle(billing.Settlement{
		Cost: cost, Usage: billing.Usage(c.usage), Price: c.model.Price, Model: c.model.ID, Flags: flags,
		Status: status, Took: c.took, NowNs: c.startNs + int64(c.took), Tokens: c.usage.Prompt + c.usage.Completion,
	})
	if c.shortfall > 0 {
		c.g.log.Warn().Bytes("request_id", c.id[:]).Str("account", c.key.Account.ID).Str("shortfall_usd", c.shortfall.String()).Msg("a request cost more than its account could cover")
	}
}

// bounded keeps an upstream's usage within what the request can have used, so
// that a broken or hostile upstream cannot empty an account with one number.
func (c *Call) bounded(u dialect.Usage) dialect.Usage {
	m := c.model.Config
	if most := max(m.ContextTokens, m.MaxInputTokens, c.admission.Tokens, int64(len(c.chat.Body))); u.Prompt > most {
		u.Prompt, u.Estimated = most, true
	}
	if most := max(c.completionCap()*2, 4096); !c.chat.Embedding && u.Completion > most {
		u.Completion, u.Estimated = most, true
	}
	u.Cached = min(u.Cached, u.Prompt)
	u.CacheWrite = min(u.CacheWrite, u.Prompt-u.Cached)
	u.Reasoning = min(u.Reasoning, u.Completion)
	return u
}
