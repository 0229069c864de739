package chat

import (
	"slices"
	"time"

	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/providers"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// progressEvery is how often a stream's cost so far goes into the journal, so that a crash
// charges the produced tokens.
const progressEvery = int64(5 * time.Second)

// progressStep is how many tokens pass between two looks at the clock.
const progressStep = 64

// relayStream attaches the upstream's SSE answer to the response.
func (c *inference) relayStream() {
	r := &c.call.Ctx.Response
	r.SetStatusCode(200)
	r.Header.SetContentType("text/event-stream")
	r.Header.Set("Cache-Control", "no-cache")
	r.Header.Set("X-Accel-Buffering", "no")
	c.giveScratch()
	if form, ok := c.chat.Form.(dialect.Keeping); ok {
		form.Take()
	}
	c.attach()
}

// relayLarge relays a non-stream answer that is too large to hold, metered on
// the way: memory stays flat whatever its size.
func (c *inference) relayLarge() {
	c.call.Ctx.Response.Header.SetContentType("application/json")
	if !c.chat.Verbatim {
		c.call.CompressRelayed()
	}
	c.stream = providers.NewBodyMeter(&c.chat, c.target)
	c.sized = c.x.ContentLength() >= 0 // at most maxRelayed
	c.enclave.stream, _ = c.stream.(dialect.Enclosed)
	c.attach()
}

func (c *inference) attach() {
	c.progressNs = c.call.StartNs
	c.call.KeepRelayed(c.view.webHeader, c.view.leftHeader)
	c.x.Relay(c.call.Ctx, c, c.call.OnDone)
	c.call.Relays()
}

// Pass is proxy.Lens: bytes of the answer on their way to the client.
func (c *inference) Pass(p []byte) (out []byte, stop bool) {
	out, stop = c.pass(p)
	return c.call.Compressed(out), stop
}

// pass meters bytes of the answer. It extends the hold slice by slice and stops
// the stream when that is refused.
func (c *inference) pass(p []byte) (out []byte, stop bool) {
	if out = p; c.reply.held {
		c.reply.held = false // its beginning, which was judged
	} else {
		out = c.stream.Pass(p)
	}
	produced := c.stream.Produced()
	if c.size += int64(len(p)); produced >= c.nextMark || c.size > maxLine {
		out = c.bound(out, produced)
	}
	if c.eventless && hasObject(p) {
		c.timeFirst(c.target, time.Now().UnixNano())
	}
	out = c.edit(out)
	if c.chat.Client != nil {
		out = c.chat.Client.Pass(out)
	}
	c.call.Record(out)
	if c.sum(out); c.isUnsealed() {
		return out, true
	}
	if !c.finished && c.stream.Finished() {
		c.finished = true
		c.finishing.Store(true)
	}
	if c.finished && !c.marked && c.stream.Done() {
		c.markEnd()
	}
	if produced >= c.covered && !c.extend(produced) {
		c.cut = true
		return out, true
	}
	if produced >= c.nextMark {
		c.nextMark = produced + progressStep
		c.progress(produced)
	}
	return out, c.endless
}

const (
	// capSlack is how many tokens and events an answer may have above its cap and
	// an eighth of it before it is ended: events without text count, too.
	capSlack = 64
	// maxLine bounds an event behind the first maxLine bytes of a stream, maxRelayed the
	// whole answer: pictures, sound and files have no other bound.
	maxLine    = 32 << 20
	maxRelayed = 256 << 20
)

// bound ends an answer that goes on far beyond its cap, with the finish_reason length where that
// can be written. A whole answer is delivered whole where its end is known, and where it cannot
// be ended: tokens beyond the cap are not charged. Answers without bounds are broken off.
func (c *inference) bound(out []byte, produced int64) []byte {
	if c.line == 0 || c.stream.AtBoundary() {
		c.line = c.size
	}
	most := c.chat.Cap + c.chat.Cap/8 + capSlack
	if c.chat.Cap > 0 && produced > most && !c.sized && c.stream.Exceeds(most) {
		c.chat.BrokenOff = true // so that the end tells the usage that is charged
		if short, end := c.stream.Cut(out); end != nil {
			c.endless, c.cap = true, end
			return short
		}
		c.endless = c.chat.Stream && c.stream.AtBoundary()
	}
	if !c.sized && (c.chat.Stream && c.size-c.line > maxLine || c.size > maxRelayed) {
		c.endless = true
	}
	c.chat.BrokenOff = c.endless
	return out
}

// progress journals the cost so far, at most every progressEvery. A stream that
// has produced nothing costs nothing (addendum 19.2), after a crash, too; nor
// does one with an idempotency key, since it is carried out again.
func (c *inference) progress(produced int64) {
	now := time.Now().UnixNano()
	if now-c.progressNs < progressEvery || produced == 0 || c.chat.Embedding || c.call.Keeps() {
		return
	}
	c.progressNs = now
	sold := money.Text(c.call.Model.Price, money.Usage{Prompt: c.likely, Completion: produced})
	c.lookup.bill(&sold, 0)
	c.call.Progress(&sold)
}

// markEnd journals the cost of an answer whose end is about to go out, so that a crash
// between that and its settlement charges the same.
func (c *inference) markEnd() {
	c.marked = true
	if c.stream.Failed() || c.call.Keeps() {
		return
	}
	u := c.stream.Usage()
	if sold, cost := c.costOf(&u, 0); cost > 0 {
		c.call.Progress(&sold)
	}
}

// extend makes the hold pay for more than produced tokens, or reports that the
// account cannot. Beyond the cap nothing is charged, so nothing is held.
func (c *inference) extend(produced int64) bool {
	price := c.call.Model.Price
	if price.Free || c.full || c.covered >= c.chat.Cap {
		c.covered = int64(1) << 62
		return true
	}
	behind := max(0, produced-c.covered)
	more := min(behind+c.call.Config().Billing.SliceTokens, c.chat.Cap-c.covered)
	least := min(behind+leastCompletion/4, more)
	if got := c.call.Hold().ExtendUpTo(money.Worst(price, 0, more), money.Worst(price, 0, least)); got > 0 {
		c.covered += min(more, money.Affords(price, got))
		return true
	}
	// The prompt was held at a generous bound; its unused part still pays for output.
	prompt := money.AddNano(c.lookup.worst(), money.Worst(price, c.boundPrompt(), 0))
	if more := money.Affords(price, c.call.Hold().Granted()-prompt); more > c.covered {
		c.covered = more
		return c.covered > produced
	}
	return false
}

// End is proxy.Lens: the answer is over. The charge is in the journal before
// the client's last byte leaves.
func (c *inference) End(cause proxy.Cause) (out []byte, clean bool) {
	gone := cause == proxy.ClientGone || cause == proxy.ClientStalled
	complete := cause == proxy.None || gone && c.x.Whole()
	c.tail = c.edit(append(c.tail[:0], c.stream.Finish(complete)...))
	usage := c.stream.Usage()
	c.ended(cause)
	var flags journal.Flags
	if c.isUnsealed() {
		c.withhold()
	}
	switch {
	case c.enclave.withheld:
		flags, c.call.Cause, complete = journal.FlagIncomplete, codeUnsealed, false
	case c.cut:
		flags, c.call.Cause = journal.FlagCut, "insufficient_balance"
	case c.cap != nil:
		c.call.Cause = "beyond_cap"
	case c.endless:
		flags, c.call.Cause, complete = journal.FlagIncomplete, "beyond_cap", false
	case gone:
		flags, c.call.Cause, c.call.Status = journal.FlagAborted, cause.String(), 499
		if !complete && !c.finished {
			usage = c.completeUsage(usage)
		}
	case !complete:
		flags, c.call.Cause = journal.FlagIncomplete, cause.String()
	case c.chat.Stream && !c.stream.Done():
		flags, c.call.Cause, complete = journal.FlagIncomplete, proxy.UpstreamTruncated.String(), false
	}
	out, clean = c.ending(gone, complete)
	if complete && !c.stream.Failed() {
		c.sum(out)
		c.noteAnswer()
	}
	c.call.RecordEnd(out, clean)
	c.bill(usage, flags)
	c.call.Settle()
	return c.call.CompressedEnd(out, clean), clean
}

// How streams end that failed.
var (
	spent = dialect.Fault{Code: "insufficient_balance", Kind: "insufficient_quota",
		Message: "The balance of this account is used up; the answer was ended here and charged to this point."}
	beyondCap = dialect.Fault{Code: dialect.CodeUpstream, Kind: "server_error",
		Message: "The model went on beyond the most tokens that this request allows; the answer was ended here."}
	brokenOff = dialect.Fault{Code: dialect.CodeUpstream, Kind: "server_error",
		Message: "The model's answer was cut off before its end."}
)

// ending is the client's last bytes, and whether its body ends properly with
// them. Where the answer was read to its end for nobody, they are only kept.
func (c *inference) ending(gone, complete bool) (out []byte, clean bool) {
	client := c.chat.Client
	between := c.chat.Stream && (client != nil || c.stream.AtBoundary())
	switch {
	case gone && !complete:
		return nil, false
	case c.enclave.withheld:
		return c.endWith(&notSealed), true
	case c.cut:
		return c.endWith(&spent), true
	case c.cap != nil && client == nil:
		return c.cap, true
	case c.cap != nil:
		c.tail = slices.Clone(client.Pass(c.cap))
		return append(c.tail, client.Finish()...), true
	case complete && client != nil:
		c.tail = slices.Clone(client.Pass(c.tail))
		return append(c.tail, client.Finish()...), true
	case complete:
		return c.tail, true
	case c.endless && between:
		return c.endWith(&beyondCap), true
	case between:
		return c.endWith(&brokenOff), true
	}
	return nil, false
}

// endWith appends an event for a fault after the last bytes.
func (c *inference) endWith(f *dialect.Fault) []byte {
	switch {
	case c.chat.Client != nil:
		c.tail = slices.Clone(c.chat.Client.Pass(c.tail))
		return append(c.tail, c.chat.Client.Fail(f)...)
	case c.native:
		return c.chat.Form.AppendError(c.tail, &c.chat, f)
	}
	return dialect.ErrorEvent(c.tail, f)
}
