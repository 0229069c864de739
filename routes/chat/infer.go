package chat

import (
	"farebox/billing"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/replay"
	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/providers/health"
	"farebox/proxy"
	"farebox/routes"
)

const (
	// maxBuffered is the largest non-stream answer that is held in memory; a
	// larger one is relayed as it arrives, metered on the way.
	maxBuffered = 64 << 10
	// maxTranslated bounds an answer that must be whole to be translated into
	// the client's dialect.
	maxTranslated = 32 << 20
	// maxErrorBody bounds the read bytes of an upstream's error answer.
	maxErrorBody = 64 << 10
	// leastCompletion is how many completion tokens an account must be able to
	// pay for a request to be worth sending.
	leastCompletion = 16
)

// infer sells a validated request with its model (design.md 2, steps 4 to 8).
func (c *inference) infer() *routes.Error {
	return c.call.Sell(c, routes.Terms{Patience: c.patience(), Compress: !c.chat.Stream && !c.chat.Verbatim})
}

// CarryOut asks the upstreams until one has an answer.
func (c *inference) CarryOut() (relayed bool, e *routes.Error) {
	if e := c.prepare(); e != nil {
		return false, e
	}
	if c.parses {
		if e := c.readFiles(); e != nil {
			return false, e
		}
	}
	if c.lookup != nil {
		if e := c.lookUp(); e != nil {
			return false, e
		}
		c.cite()
	}
	if c.chat.Form != nil {
		c.chat.Adds = c.additions()
	}
	c.carryOn()
	c.scratch = c.owner.scratches.Get().(*dialect.Scratch)
	c.runAttempts(c.call.Ctx, 0)
	if e := c.opened(); e != nil {
		return false, e
	}
	c.call.Router = c.target.Upstream.Config.Router
	if c.chat.Stream || c.reply.begun {
		return true, nil
	}
	c.x.Close()
	var flags journal.Flags
	if gone := c.x.Why(); gone == proxy.ClientGone || gone == proxy.ClientStalled {
		flags, c.call.Cause = journal.FlagAborted, gone.String()
	}
	c.call.Status = 200
	if e := c.readSaid(); e != nil {
		return false, e
	}
	if violated, e := c.violated(); violated || e != nil {
		if e == nil {
			c.bill(c.reply.usage, flags)
		}
		return false, e
	}
	if c.chat.Verbatim {
		c.enclave.id = append(c.enclave.id[:0], dialect.CompletionID(c.reply.out)...)
		c.sum(c.reply.out)
		c.noteAnswer()
		c.bill(c.reply.usage, flags)
		return false, nil
	}
	switch tells := c.call.Config().Compat.AnswerExtras || c.lookup.tells(); {
	case c.chat.Said != nil:
		if e := c.retell(flags); e != nil {
			return false, e
		}
	case tells && !c.chat.Embedding && !c.native:
		inPlace := c.inPlace()
		if c.reply.out = c.appendExtras(c.reply.out, flags); inPlace {
			c.answer = c.reply.out // it may have grown out of its place
		}
	}
	c.bill(c.reply.usage, flags)
	return false, nil
}

// prepare finishes the request once it is paid for. Answers of an enclave are not kept for a
// repeat.
func (c *inference) prepare() *routes.Error {
	if !c.chat.Verbatim {
		return c.strict()
	}
	c.call.CutKept()
	if c.chat.Sealed {
		return c.sealTurns()
	}
	return nil
}

// inPlace says that the answer is in the buffer that it was read into.
func (c *inference) inPlace() bool {
	out := c.reply.out
	return len(out) > 0 && len(c.answer) > 0 && &out[0] == &c.answer[0]
}

func (c *inference) KeepAnswer() {
	var headers []replay.Header
	if c.lookup != nil {
		headers = append(headers, replay.Header{Name: string(c.view.webHeader), Value: c.lookup.outcome()})
	}
	if left := c.chat.LeftOut.String(); left != "" {
		headers = append(headers, replay.Header{Name: string(c.view.leftHeader), Value: left})
	}
	c.call.Keep(routes.JSONType, c.reply.out, headers...)
	if c.call.Status == 422 {
		c.call.KeepStatus(422)
	}
}

// Respond makes the answer the response.
func (c *inference) Respond() {
	c.setCap()
	c.setLeftOut()
	c.setLookup()
	c.setEnclave()
	r := &c.call.Ctx.Response
	if c.call.Status == 422 {
		r.SetStatusCode(422)
	}
	switch {
	case c.chat.Stream:
		c.relayStream()
	case c.reply.begun:
		c.relayLarge()
	case c.inPlace():
		r.Header.SetContentType(routes.JSONType)
		c.answer = r.SwapBody(c.reply.out)[:0]
		c.compress()
	default:
		r.Header.SetContentType(routes.JSONType)
		r.SetBody(c.reply.out)
		c.compress()
	}
}

// compress makes a whole answer smaller, but for one that is signed for as it is.
func (c *inference) compress() {
	if !c.chat.Verbatim {
		c.call.Compress()
	}
}

// Admit opens the hold that pays for the request, or says why not. The hold bounds the operator's
// loss: the whole cap that is sent upstream where the answer is whole or the model may think
// unseen, else a slice of it, which grows with the produced tokens.
func (c *inference) Admit(again bool) *routes.Error {
	if again {
		return c.call.AdmitCost(true, 0, 1)
	}
	if c.missing != nil {
		return c.missing
	}
	if c.parses {
		if e := c.setFilesAside(); e != nil {
			return e
		}
	}
	if c.parses || c.lookup.reads() || c.schemaAt() >= 0 {
		if e := c.call.MayWork(); e != nil {
			return e
		}
	}
	upper, want := c.measure()
	c.full = !c.chat.Stream || c.call.Model.Config.HoldsFull()
	c.want = billing.Admission{
		Tokens: c.likely + c.added() + min(want, c.call.Config().Billing.SliceTokens),
		Stream: c.chat.Stream, Loose: money.Worst(c.call.Model.Price, upper, 0),
	}
	denial := c.tryHold(upper, want)
	if denial.Code == billing.CountFirst || denial.Code.OfMoney() && !c.call.Model.Price.Free {
		// The bound of one token a byte is cheap and about four times too
		// high. Money is tight, so counting is worth its time.
		c.want.Loose = 0
		denial = c.tryHold(c.boundPrompt(), want)
	}
	if denial.Code != billing.Admitted {
		return c.call.Denied(&denial)
	}
	return nil
}

// measure says how many tokens the prompt has at most, and how many the answer may have.
func (c *inference) measure() (upper, want int64) {
	upper, c.likely = dialect.EstimatePrompt(&c.chat, c.call.Config().Billing.ImageTokens)
	room := c.added()
	c.chat.MostPrompt = c.mostPrompt(upper) + room
	upper += room
	return upper, c.completionCap(upper)
}

// cover has the hold pay for a prompt that has grown since it was opened, by the texts
// of files, and for as much of the answer as can be paid for beside it.
func (c *inference) cover() *routes.Error {
	_, want := c.measure()
	price, hold := c.call.Model.Price, c.call.Hold()
	fixed := money.AddNano(c.lookup.worst(), money.Worst(price, c.boundPrompt(), 0))
	ahead, least := want, min(want, leastCompletion*c.chat.Choices)
	if !c.full {
		ahead = min(want, c.call.Config().Billing.SliceTokens)
	}
	more := func(tokens int64) money.Nano {
		return money.AddNano(fixed, money.Worst(price, 0, tokens)) - hold.Granted()
	}
	c.covered = ahead
	if need := more(ahead); need > 0 && hold.ExtendUpTo(need, more(least)) < need {
		if more(least) > 0 {
			refusal := c.call.Key.Shortage(more(least), c.call.StartNs)
			return c.call.Denied(&refusal)
		}
		c.covered = min(ahead, money.Affords(price, hold.Granted()-fixed))
	}
	most := want
	switch reach := hold.Reach(); {
	case c.full || c.covered < ahead:
		most = c.covered
	case !price.Free && reach < money.AddNano(fixed, money.Worst(price, 0, want)):
		most = min(want, max(c.covered, money.Affords(price, reach-fixed)))
	}
	c.capAt(most)
	return nil
}

// capAt has upstreams asked for at most so many completion tokens of all choices.
func (c *inference) capAt(most int64) {
	c.chat.MaxCompletion = max(1, most/c.chat.Choices)
	c.chat.Cap = c.chat.MaxCompletion * c.chat.Choices
}

// tryHold asks for the price of a prompt and as many of want completion tokens as are held ahead.
// The cap that goes upstream is the number that can be paid for.
func (c *inference) tryHold(prompt, want int64) billing.Denial {
	price, ahead, web := c.call.Model.Price, want, c.lookup.worst()
	if !c.full {
		ahead = min(want, c.call.Config().Billing.SliceTokens)
		c.want.Reach = money.AddNano(web, money.Worst(price, prompt, want))
	}
	if c.parses { // the tokens of files are not known yet
		c.want.Reach = money.AddNano(web, money.Worst(price, max(prompt, c.call.Model.Room), want))
	}
	c.want.Hold = money.AddNano(web, money.Worst(price, prompt, ahead))
	c.want.Min = money.AddNano(web, money.Worst(price, prompt, min(want, leastCompletion*c.chat.Choices)))
	denial := c.call.Admit(&c.want)
	if denial.Code != billing.Admitted || c.chat.Embedding {
		return denial
	}
	c.covered = ahead
	most := want
	if granted := c.call.Hold().Granted(); granted < c.want.Hold {
		c.covered = min(ahead, money.Affords(price, granted-web-money.Worst(price, prompt, 0)))
		most = c.covered
	} else if reach := c.call.Hold().Reach(); reach < c.want.Reach {
		most = min(want, money.Affords(price, reach-web-money.Worst(price, prompt, 0)))
	}
	c.capAt(most)
	return denial
}

// completionCap is the most completion tokens of all choices together: the client's number, else
// the operator's default, and no more than the model's context has room for.
func (c *inference) completionCap(upper int64) int64 {
	if c.chat.Embedding {
		return 0
	}
	m := c.call.Model.Chat
	if asked := c.chat.AskedCompletion; asked > 0 {
		return min(m.MaxCompletionTokens, asked) * c.chat.Choices
	}
	most := c.call.Model.DefaultCompletion
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
	permille := c.view.meters[c.call.Model.Index].prompts.permille(c.call.Model)
	bound, c.counted = dialect.BoundPrompt(&c.chat, c.call.Config().Billing.ImageTokens, permille)
	return bound + c.added()
}

// added is the prompt beyond the body that was made: pages that are looked up, unread parts of
// the client's own body, and additions of upstreams.
func (c *inference) added() int64 {
	n := c.lookup.needs() + c.beyond()
	if m := c.call.Model.Chat; m != nil {
		n += m.PromptOverhead
	}
	return n
}

// promptSlack is how many tokens an upstream may add to a prompt of text, for
// its template and its own instructions.
const promptSlack = 512

// mostPrompt is the most prompt tokens that are charged. The upstream counts images, files and
// sound, up to the model's context.
func (c *inference) mostPrompt(upper int64) int64 {
	if c.chat.Sealed || upper == int64(len(c.chat.Body)+len(c.chat.SystemPrompt)) {
		return upper + promptSlack
	}
	return max(c.call.Model.Room, upper+promptSlack)
}

// opened judges the result of the attempts.
func (c *inference) opened() *routes.Error {
	switch {
	case c.res.Cause == proxy.NoTarget && c.unsupported != nil:
		return c.ownDoing(routes.Unsupported(c.unsupported.Path, c.unsupported.Text))
	case c.enclave.withheld && !c.reply.begun:
		c.call.Cause = codeUnsealed
		return errUnsealed()
	case c.res.Cause == proxy.NoTarget && c.enclave.unready:
		return c.offline()
	case c.res.Cause != proxy.None:
		c.call.Cause = c.res.Cause.String()
		return c.unreachable(&c.res)
	case c.reply.refused:
		return c.ownDoing(c.rejected())
	case c.reply.cause != proxy.None:
		c.call.Cause = c.reply.cause.String()
		return c.unusable(c.reply.cause)
	}
	return nil
}

// rejected maps an upstream's own error answer (addendum 3.4, 3.5).
func (c *inference) rejected() *routes.Error {
	f := &c.reply.failure
	c.call.Cause = "upstream_status"
	e := &routes.Error{Status: f.Status, Code: f.Code, Message: f.Message, Param: f.Param, RetryAfter: f.RetryAfter}
	if f.Verdict.Do == attempt.Retry {
		e.RetryAfter = max(e.RetryAfter, min(f.Verdict.Rest, health.MaxCoolDown))
	}
	c.sayTooLong(e)
	switch e.Status {
	case 400:
		e.RequestID = e.Param == ""
	case 504:
		e.Message = c.tooSlow()
	}
	return e
}

// unusable answers for an answer of 2xx that broke off or cannot be read, after
// all other targets.
func (c *inference) unusable(cause proxy.Cause) *routes.Error {
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
	return &routes.Error{Status: 502, Code: "INFERENCE_FAILED", Message: text}
}

// tooSlow is the message of 504: it advises to stream where the client could and did not.
func (c *inference) tooSlow() string {
	if c.chat.Stream || c.chat.Embedding {
		return routes.TooSlow
	}
	return "The model took too long to answer. Stream long answers, or retry."
}

// unreachable answers like Call.unreachable, and charges a client that left.
func (c *inference) unreachable(res *proxy.Result) *routes.Error {
	if res.Cause == proxy.ClientGone || res.Cause == proxy.ClientStalled {
		c.settleDisconnect()
	}
	e := c.call.Unreachable(res)
	if e.Status == 504 {
		e.Message = c.tooSlow()
	}
	return e
}

// costOf is the cost of a usage. Answers without output cost only their lookups (addendum 19.2),
// unless the client left.
func (c *inference) costOf(u *dialect.Usage, flags journal.Flags) (sold money.Lines, cost billing.Nano) {
	used := money.Usage{Prompt: u.Prompt, Cached: u.Cached, CacheWrite: u.CacheWrite, Completion: u.Completion}
	if c.chat.Embedding {
		sold = money.Embedding(c.call.Model.Price, used)
	} else {
		sold = money.Text(c.call.Model.Price, used)
	}
	c.lookup.bill(&sold, u.Sources)
	if u.Completion > 0 || c.chat.Embedding || flags&journal.FlagAborted != 0 {
		return sold, sold.Cost()
	}
	if c.lookup.bought() && flags&journal.FlagIncomplete == 0 && c.answered() {
		sold = money.Lines{}
		c.lookup.bill(&sold, u.Sources)
		return sold, sold.Cost()
	}
	return sold, 0
}

// answered says that the model did not fail, or failed on the client's input: a stream that has
// begun tells that at its end.
func (c *inference) answered() bool {
	if c.stream == nil || !c.stream.Failed() {
		return true
	}
	words := c.stream.FailedWith()
	return clientsDoing(c.speaks(c.target).Error(dialect.ErrorStatus(words), 0, words).Status)
}

// clientsDoing says that a refusal is about the client's request, which all other targets would
// refuse too.
func clientsDoing(status int) bool { return status == 400 || status == 413 || status == 422 }

// ownDoing ends a request that was refused for its content after a lookup: the lookup is charged.
// Else searches were free with a body that models refuse.
func (c *inference) ownDoing(e *routes.Error) *routes.Error {
	if !c.lookup.bought() || !clientsDoing(e.Status) || !c.call.Hold().Open() {
		return e
	}
	e.Message += " What was looked up for it is charged."
	c.call.Ctx.Response.Header.SetCanonical(c.view.webHeader, routes.ViewBytes(c.lookup.outcome()))
	c.call.CutKept()
	c.call.Sold = routes.Bill{Lines: c.lookup.sold, Cost: c.lookup.sold.Cost(), Flags: journal.FlagIncomplete,
		Status: e.Status}
	c.call.Settle()
	return e
}

// bill sets the charge of a usage.
func (c *inference) bill(u dialect.Usage, flags journal.Flags) {
	if u.Estimated {
		flags |= journal.FlagEstimated
		if l := c.lookup; l != nil && l.x && flags&(journal.FlagAborted|journal.FlagCut) != 0 {
			u.Sources = c.view.meters[c.call.Model.Index].sources.usual(l.xMost)
		}
	}
	c.usage = u
	c.call.Sold = routes.Bill{Tokens: u.Prompt + u.Completion, Reasoning: u.Reasoning, Flags: flags,
		Status: c.call.Status}
	c.call.Sold.Lines, c.call.Sold.Cost = c.costOf(&u, flags)
	if u.Claimed > 0 {
		c.call.Logger().Warn().Bytes("request_id", c.call.ID[:]).Str("upstream", c.call.Upstream).Str("model",
			c.call.Model.ID).Int64("claimed_tokens", u.Claimed).
			Msg("an upstream reported more tokens than the request allowed; they are not charged")
	}
}
