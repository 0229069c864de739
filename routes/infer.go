package routes

import (
	"time"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/providers"
	"farebox/providers/attempt"
	"farebox/providers/dialect"
	"farebox/providers/health"
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

// infer sells a validated request with its model (design.md 2, steps 4 to 8).
func (c *inference) infer() *Error {
	return c.sell(c, terms{patience: c.patience(), compress: !c.chat.Stream})
}

// carryOut asks the upstreams until one has an answer.
func (c *inference) carryOut() (relayed bool, e *Error) {
	c.carryOn()
	c.scratch = c.g.scratches.Get().(*dialect.Scratch)
	res := c.ask(c.ctx, 0)
	if e := c.opened(&res); e != nil {
		return false, e
	}
	c.router = c.target.Upstream.Config.Router
	if c.chat.Stream || c.reply.begun {
		return true, nil
	}
	c.x.Close()
	var flags billing.Flags
	if gone := c.x.Why(); gone == proxy.ClientGone || gone == proxy.ClientStalled {
		flags, c.cause = billing.FlagAborted, gone.String()
	}
	c.status = 200
	if c.snap.cfg.Compat.AnswerExtras && !c.chat.Embedding {
		inPlace := c.inPlace()
		if c.reply.out = c.appendExtras(c.reply.out, flags); inPlace {
			c.answer = c.reply.out // it may have grown out of its place
		}
	}
	c.bill(c.reply.usage, flags)
	return false, nil
}

// inPlace says that the answer stands in the buffer that it was read into.
func (c *inference) inPlace() bool {
	out := c.reply.out
	return len(out) > 0 && len(c.answer) > 0 && &out[0] == &c.answer[0]
}

func (c *inference) keepAnswer() { c.keep(jsonType, c.reply.out) }

// respond makes the answer the response.
func (c *inference) respond() {
	c.setCap()
	r := &c.ctx.Response
	switch {
	case c.chat.Stream:
		c.relayStream()
	case c.reply.begun:
		c.relayLarge()
	case c.inPlace():
		r.Header.SetContentType(jsonType)
		c.answer = r.SwapBody(c.reply.out)[:0]
		c.compress()
	default:
		r.Header.SetContentType(jsonType)
		r.SetBody(c.reply.out)
		c.compress()
	}
}

// admit opens the hold that pays for the request, or says why not. What is held
// bounds what the operator can lose: the whole cap that is sent upstream where
// the answer is whole or the model may think unseen, else a slice of it, which
// grows with what is seen.
func (c *inference) admit(again bool) *Error {
	if again {
		return c.admitAgain(1)
	}
	cfg := c.snap.cfg
	upper, likely := dialect.EstimatePrompt(&c.chat, cfg.Billing.ImageTokens)
	want := c.completionCap(upper)
	c.likely = likely
	c.full = !c.chat.Stream || c.model.Config.HoldsFull()
	c.chat.MostPrompt = c.mostPrompt(upper)
	c.admission = billing.Admission{
		Key: c.key, Slot: c.model.Slot, Rate: c.model.Rate,
		Tokens: likely + min(want, cfg.Billing.SliceTokens),
		NowNs:  c.startNs, RequestID: c.raw, Stream: c.chat.Stream,
		Loose: money.Worst(c.model.Price, upper, 0),
	}
	denial := c.tryHold(upper, want)
	if denial.Code == billing.CountFirst || denial.Code.OfMoney() && !c.model.Price.Free {
		// The bound of one token a byte is cheap and about four times too
		// high. Money is tight, so counting is worth its time.
		c.admission.Loose = 0
		denial = c.tryHold(c.boundPrompt(), want)
	}
	if denial.Code != billing.Admitted {
		return c.denied(&denial)
	}
	return nil
}

// tryHold asks for the price of a prompt and as much of want completion tokens
// as is held ahead. The cap that goes upstream is what can be paid for.
func (c *inference) tryHold(prompt, want int64) billing.Denial {
	price, ahead := c.model.Price, want
	if !c.full {
		ahead = min(want, c.snap.cfg.Billing.SliceTokens)
		c.admission.Reach = money.Worst(price, prompt, want)
	}
	c.admission.Hold = money.Worst(price, prompt, ahead)
	c.admission.Min = money.Worst(price, prompt, min(want, leastCompletion*c.chat.Choices))
	denial := c.g.ledger.Admit(&c.hold, &c.admission)
	if denial.Code != billing.Admitted || c.chat.Embedding {
		return denial
	}
	c.covered = ahead
	most := want
	if granted := c.hold.Granted(); granted < c.admission.Hold {
		c.covered = min(ahead, money.Affords(price, granted-money.Worst(price, prompt, 0)))
		most = c.covered
	} else if reach := c.hold.Reach(); reach < c.admission.Reach {
		most = min(want, money.Affords(price, reach-money.Worst(price, prompt, 0)))
	}
	c.chat.MaxCompletion = max(1, most/c.chat.Choices)
	c.chat.Cap = c.chat.MaxCompletion * c.chat.Choices
	c.lowered = most < want
	return denial
}

// completionCap is the most completion tokens of all choices together: what the
// client named, else what the operator lets pass unasked, and no more than the
// model's context has room for.
func (c *inference) completionCap(upper int64) int64 {
	if c.chat.Embedding {
		return 0
	}
	m := c.model.Chat
	most := m.MaxCompletionTokens
	if asked := c.chat.AskedCompletion; asked > 0 {
		return min(most, asked) * c.chat.Choices
	}
	most = min(most, c.snap.cfg.Billing.DefaultCap)
	if m.ContextTokens-upper < most {
		// Servers refuse a cap that does not fit beside the prompt.
		room := m.ContextTokens - c.boundPrompt()
		most = min(most, max(room, leastCompletion))
	}
	return most * c.chat.Choices
}

// boundPrompt counts the prompt.
func (c *inference) boundPrompt() int64 {
	var bound int64
	permille := c.snap.models[c.model.Index].prompts.permille(c.model)
	bound, c.counted = dialect.BoundPrompt(&c.chat, c.snap.cfg.Billing.ImageTokens, permille)
	return bound
}

// promptSlack is how many tokens an upstream may add to a prompt of text, for
// its template and its own instructions.
const promptSlack = 512

// mostPrompt is the most prompt tokens that are charged. What images, files and
// sound come to is the upstream's to say, up to the model's context.
func (c *inference) mostPrompt(upper int64) int64 {
	if upper == int64(len(c.chat.Body)+len(c.chat.SystemPrompt)) {
		return upper + promptSlack
	}
	return max(c.model.Room, upper+promptSlack)
}

func (c *Call) denied(d *billing.Denial) *Error {
	topUp := ""
	if url := c.snap.cfg.TopUpURL; url != "" {
		topUp = " Top up at " + url + "."
	}
	switch d.Code {
	case billing.BelowMinimum:
		return &Error{Status: 402, Code: "INSUFFICIENT_BALANCE", Message: "The balance of this account is below the minimum of " + c.snap.cfg.Billing.MinimumBalance.String() + " USD." + topUp}
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
func (c *inference) opened(res *proxy.Result) *Error {
	switch {
	case res.Cause == proxy.NoTarget && c.unsupported != nil:
		return errUnsupported(c.unsupported.Path, c.unsupported.Text)
	case res.Cause != proxy.None:
		c.cause = res.Cause.String()
		return c.unreachable(res)
	case c.reply.refused:
		return c.rejected()
	case c.reply.cause != proxy.None:
		c.cause = c.reply.cause.String()
		return c.unusable(c.reply.cause)
	}
	return nil
}

// rejected maps an upstream's own error answer (addendum 3.4, 3.5).
func (c *inference) rejected() *Error {
	f := &c.reply.failure
	c.cause = "upstream_status"
	e := &Error{Status: f.Status, Code: f.Code, Message: f.Message, Param: f.Param, RetryAfter: f.RetryAfter}
	if f.Verdict.Do == attempt.Retry {
		e.RetryAfter = max(e.RetryAfter, min(f.Verdict.Rest, health.MaxCoolDown))
	}
	switch e.Status {
	case 400:
		e.RequestID = e.Param == ""
	case 429:
		if e.RetryAfter == 0 {
			e.RetryAfter = overloadRetry
		}
	case 504:
		e.Message = c.tooSlow()
	}
	return e
}

// unusable answers for an answer of 2xx that broke off or cannot be read, after
// all other targets.
func (c *inference) unusable(cause proxy.Cause) *Error {
	text := "The model's answer was cut off or unreadable; nothing was charged. Please retry."
	if gone := c.x.Why(); gone.Final() {
		cause = gone
	}
	switch {
	case cause.Final():
		return c.unreachable(&proxy.Result{Cause: cause})
	case cause == proxy.UpstreamMalformed && c.chat.Stream:
		text = "The model did not answer with a stream; nothing was charged. Please retry."
	case cause == proxy.UpstreamMalformed:
		text = "The model's answer could not be read; nothing was charged. Please retry."
	}
	return &Error{Status: 502, Code: "INFERENCE_FAILED", Message: text}
}

// overloadRetry is the Retry-After of an overloaded model (addendum 3.5).
const overloadRetry = 30 * time.Second

// tooSlow is the message of 504.
const tooSlow = "The model took too long to answer; please retry."

// tooSlow is the message of 504: only who can stream and does not is told to.
func (c *inference) tooSlow() string {
	if c.chat.Stream || c.chat.Embedding {
		return tooSlow
	}
	return "The model took too long to answer. Stream long answers, or retry."
}

// unreachable answers for upstreams that gave no answer at all. Neither hosts
// nor the transport's own words reach the client.
func (c *Call) unreachable(res *proxy.Result) *Error {
	switch res.Cause {
	case proxy.ClientGone, proxy.ClientStalled:
		// Nobody reads this; 499 is for the log.
		return &Error{Status: 499, Code: "CLIENT_CLOSED_REQUEST", Message: "The client closed the request.", Close: true, Uncounted: true}
	case proxy.FirstByteTimeout, proxy.IdleTimeout, proxy.TotalTimeout:
		return &Error{Status: 504, Code: "REQUEST_TIMEOUT", Message: tooSlow}
	case proxy.Shutdown:
		return &Error{Status: 503, Code: "MODEL_OFFLINE", Message: "The service is restarting; please retry.", RetryAfter: retrySoon, Close: true}
	case proxy.NoTarget, proxy.NoFreeConn:
		return &Error{Status: 503, Code: "MODEL_AT_CAPACITY", Message: "The model has no capacity left right now; please retry.", RetryAfter: c.restsFor()}
	}
	return &Error{Status: 503, Code: "MODEL_OFFLINE", Message: "The model cannot be reached right now; please retry.", RetryAfter: c.restsFor()}
}

// unreachable answers like Call.unreachable, and charges a client that left.
func (c *inference) unreachable(res *proxy.Result) *Error {
	if res.Cause == proxy.ClientGone || res.Cause == proxy.ClientStalled {
		c.leave()
	}
	e := c.Call.unreachable(res)
	if e.Status == 504 {
		e.Message = c.tooSlow()
	}
	return e
}

// restsFor is the Retry-After of a model whose targets rest, or cannot be reached.
func (c *Call) restsFor() time.Duration {
	if c.model == nil {
		return 5 * time.Second
	}
	return max(providers.RestsFor(c.model, time.Now().UnixNano()), retrySoon)
}

// costOf is what a usage costs. Answers without output cost nothing (addendum
// 19.2), unless it was their client who left.
func (c *inference) costOf(u *dialect.Usage, flags billing.Flags) (sold money.Lines, cost billing.Nano) {
	used := money.Usage{Prompt: u.Prompt, Cached: u.Cached, CacheWrite: u.CacheWrite, Completion: u.Completion}
	if c.chat.Embedding {
		sold = money.Embedding(c.model.Price, used)
	} else {
		sold = money.Text(c.model.Price, used)
	}
	if u.Completion > 0 || c.chat.Embedding || flags&billing.FlagAborted != 0 {
		cost = sold.Cost()
	}
	return sold, cost
}

// bill says what a usage came to.
func (c *inference) bill(u dialect.Usage, flags billing.Flags) {
	if u.Estimated {
		flags |= billing.FlagEstimated
	}
	c.usage = u
	c.sold = bill{tokens: u.Prompt + u.Completion, reasoning: u.Reasoning, flags: flags, status: c.status}
	c.sold.lines, c.sold.cost = c.costOf(&u, flags)
	if u.Claimed > 0 {
		c.g.log.Warn().Bytes("request_id", c.id[:]).Str("upstream", c.upstream).Str("model", c.model.ID).Int64("claimed_tokens", u.Claimed).
			Msg("an upstream reported more tokens than the request allowed; they are not charged")
	}
}
