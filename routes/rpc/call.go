package rpc

import (
	"strconv"
	"strings"
	"time"

	"farebox/billing"
	"farebox/billing/journal"
	"farebox/billing/replay"
	"farebox/config"
	"farebox/providers/rpc"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// patience is how long a blockchain request with a key can take before
// another node takes the one that leads it for dead.
const patience = 2 * time.Minute

// request is the part of a blockchain request. It is pooled.
type request struct {
	owner   *Capability
	call    *routes.Call
	view    *view
	job     rpc.Job
	network *rpc.Network
	result  rpc.Result
	want    billing.Admission
	credits int64    // charged
	carried bool     // it goes on without its client
	number  [24]byte // as a header has it
}

// Close ends the job's calls, and gives back its slot for work without a client.
func (r *request) Close() {
	if r.carried {
		r.carried = false
		r.owner.alone.Give(r.call.Owner(), 1)
	}
	r.job.Close()
}

// Recycle clears it for another request.
func (r *request) Recycle() {
	r.job.Reset()
	r.call, r.view, r.network, r.result, r.want, r.credits = nil, nil, nil, rpc.Result{}, billing.Admission{}, 0
	r.owner.requests.Put(r)
}

// serve answers POST /crypto/rpc/{network}: one JSON-RPC request or a batch
// (interface.md, Crypto proxy; addendum 13).
func (c *Capability) serve(call *routes.Call) *routes.Error {
	v := call.Own(c).(*view)
	name := routes.ViewString(call.Rest())
	network := v.networks.Find(name)
	if network == nil || network.Config.Private {
		return &routes.Error{
			Status: 400, Message: "Unsupported RPC network",
			Issues: []routes.Issue{{Code: "invalid_enum_value", Path: "network",
				Received: routes.Excerpt(routes.ViewBytes(name)), Options: v.names,
				Message: "There is no network " + routes.Quoted(name) + " here; GET " + routes.Prefix +
					"/crypto/rpc/networks lists those there are."}},
		}
	}
	r := c.requests.Get().(*request)
	r.call, r.view, r.network, call.Part = call, v, network, r
	unknown, e := r.read(network)
	switch {
	case e != nil:
		return e
	case len(unknown) > 0 && !r.job.Batch:
		return r.noMethod()
	case len(unknown) > 0:
		return unsupportedMethods(&r.job, network, unknown)
	}
	return call.Sell(r, routes.Terms{Patience: patience, Writes: call.Keyed() && r.job.Once(network.Family)})
}

// noMethod answers a single call of a method that is not served as a node answers it, so
// that clients try another way (interface.md, Errors). It costs nothing.
func (r *request) noMethod() *routes.Error {
	c := r.call
	if d := c.Count(byCredits, 1); d.Code != billing.Admitted {
		return c.Overrun(byCredits, &d, c.Row.Path)
	}
	h := &c.Ctx.Response.Header
	h.SetCanonical(r.view.creditsHeader, []byte("0"))
	h.SetCanonical(r.view.costHeader, appendCost(r.number[:0], 0))
	b := append(append([]byte(`{"jsonrpc":"2.0","id":`), r.job.ID(0)...), `,"error":{"code":-32601,"message":`...)
	b = jsontext.AppendString(b, "the method "+routes.Excerpt(r.job.MethodName(0))+" does not exist/is not available")
	return c.WriteJSON(append(b, "}}"...))
}

// read checks the envelope and finds the methods of all calls; unknown are the calls of
// methods that are not served.
func (r *request) read(n *rpc.Network) (unknown []int, e *routes.Error) {
	if e := r.call.WantJSON(); e != nil {
		return nil, e
	}
	body := r.call.Ctx.Request.Body()
	if most := r.call.MostBody(); len(body) > most {
		return nil, &routes.Error{Status: 413, Code: "PAYLOAD_TOO_LARGE",
			Message:   "The request body is too large; at most " + config.Size(most).String() + " are taken here.",
			Uncounted: true}
	}
	job := &r.job
	if fault := job.Scan(body); fault != nil {
		e := routes.Invalid(routes.Issue{Code: fault.Code, Path: fault.Path, Message: fault.Error()})
		e.Message = "Invalid request body: " + fault.Error()
		return nil, e
	}
	return job.Resolve(n.Family), nil
}

// unsupportedMethods names every method that is not served, and each call that
// asks for one.
func unsupportedMethods(job *rpc.Job, n *rpc.Network, unknown []int) *routes.Error {
	var names []string
	seen := map[string]bool{}
	e := &routes.Error{Status: 400, Code: "INVALID_REQUEST"}
	for _, i := range unknown {
		name := routes.Excerpt(job.MethodName(i))
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
		path := "method"
		if job.Batch {
			path = strconv.Itoa(i) + ".method"
		}
		e.Issues = append(e.Issues, routes.Issue{Code: "custom", Path: path, Received: name,
			Message: path + ": " + name + " " + n.Family.Reason(job.MethodName(i)) + "."})
	}
	e.Message = "Unsupported RPC methods for " + n.Name + ": " + strings.Join(names, ", ")
	return e
}

// Admit holds the price of the request if every call succeeds, and counts it in the limits: a
// batch as one request. An answer that is given again costs nothing, and counts.
func (r *request) Admit(again bool) *routes.Error {
	v := r.view
	worst := r.job.Credits(r.network.Base)
	if again {
		worst = 0
	}
	sold := v.sold(worst)
	full := sold.Cost()
	r.want = billing.Admission{
		Hold: full, Min: full, Credits: worst, DailyCredits: v.daily,
	}
	denial := r.call.Admit(&r.want)
	if denial.Code == billing.Admitted {
		r.call.Hold().Book(v.slots[r.network.Name])
		return nil
	}
	switch denial.Code {
	case billing.RateRequests, billing.RateTokens:
		return r.limited(&denial)
	case billing.RateCredits:
		return r.capped(&denial, worst)
	}
	return r.call.Denied(&denial)
}

// capped is a refusal by the daily cap of credits, without the headers of the rate limit
// (addendum 13, 429; D47).
func (r *request) capped(d *billing.Denial, worst int64) *routes.Error {
	text := "Daily limit of crypto RPC credits exceeded: at most " + strconv.FormatInt(d.Allowed, 10) +
		" credits in 24 hours, " +
		strconv.FormatInt(d.Remaining, 10) + " are left and this request may cost " + strconv.FormatInt(worst, 10) + "."
	return r.call.Limited(r.call.Row.Rate.Name, d, text)
}

// occupy waits until few enough requests of the account are under way
// (addendum 13, Concurrency).
func (r *request) occupy() *routes.Error {
	v := r.view
	if v.inFlight == 0 {
		return nil
	}
	ok, cause := r.call.Occupy(v.inFlight, v.slotWait)
	switch {
	case cause != proxy.None && cause != proxy.TotalTimeout:
		r.call.Cause = cause.String()
		return r.call.Unreachable(&proxy.Result{Cause: cause})
	case ok:
		return nil
	}
	text := "Too many crypto RPC requests of this account are under way; at most " + strconv.Itoa(v.inFlight) +
		" are served at the same time. A batch counts as one."
	return &routes.Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", Message: text, Custom: text,
		RetryAfter: routes.RetrySoon}
}

// limited is a refusal by the rate limit, with its headers (addendum 3.6, 13).
func (r *request) limited(d *billing.Denial) *routes.Error {
	r.call.SetWindow(d)
	text := "Rate limit exceeded: " + d.Limit + " of this " + routes.ScopeText(d.Scope) + " for crypto RPC, " +
		strconv.FormatInt(d.Allowed, 10) + " requests; a batch counts as one."
	return r.call.Limited(r.call.Row.Rate.Name, d, text)
}

// CarryOut asks the nodes. A large answer to a single call is relayed as it
// arrives.
func (r *request) CarryOut() (relayed bool, e *routes.Error) {
	if e := r.occupy(); e != nil {
		r.call.NothingDone()
		return false, e
	}
	r.carried = (r.call.Keeps() || r.job.Writes()) && r.owner.alone.Take(r.call.Owner(), 1)
	r.result = r.job.Run(rpc.ClientContext{
		Proxy: r.call.Proxy(), Ctx: r.call.Ctx, Network: r.network, Account: r.call.Key.Account.ID, ID: r.call.ID[:],
		Owner: r.call.Owner(), Alone: r.carried,
	})
	r.call.Attempts, r.call.Upstream = r.job.Attempts, r.job.Node
	if r.result.Cause != proxy.None {
		r.call.Cause = r.result.Cause.String()
		if !r.job.Begun {
			r.call.NothingDone()
		}
		r.settleDisconnect()
		return false, r.unreachable(&r.result)
	}
	r.bill(r.job.Charge(r.network.Base, r.view.error), 0)
	return r.result.Large, nil
}

// bill sets the charge of so many credits.
func (r *request) bill(credits int64, flags journal.Flags) {
	r.credits = credits
	r.call.Sold = routes.Bill{Lines: r.view.sold(credits), Credits: credits, Flags: flags, Status: 200}
	r.call.Sold.Cost = r.call.Sold.Lines.Cost()
}

// unreachable answers for nodes that gave no answer: 500 whatever it was
// (addendum 13, Upstream). Neither hosts nor their words reach the client.
func (r *request) unreachable(res *rpc.Result) *routes.Error {
	e := &routes.Error{Status: 500, RetryAfter: res.RetryAfter}
	switch res.Cause {
	case proxy.ClientGone, proxy.ClientStalled:
		return &routes.Error{Status: 499, Code: "CLIENT_CLOSED_REQUEST", Message: "The client closed the request.",
			Close: true, Uncounted: true}
	case proxy.Shutdown:
		return &routes.Error{Status: 503, Message: "The service is restarting; please retry.",
			RetryAfter: routes.RetrySoon, Close: true}
	case proxy.FirstByteTimeout, proxy.IdleTimeout, proxy.TotalTimeout, proxy.ConnectTimeout:
		e.Message = "The nodes of " + r.network.Name + " took too long to answer; nothing was charged."
	case proxy.NoTarget, proxy.NoFreeConn:
		e.Message = "The nodes of " + r.network.Name + " have no capacity right now; nothing was charged. Please retry."
		e.RetryAfter = max(e.RetryAfter, routes.RetrySoon)
	default:
		e.Message = "The nodes of " + r.network.Name + " gave no usable answer; nothing was charged."
	}
	if r.job.Begun {
		e.Message += " Whether a call that changes the chain was carried out is not known."
	}
	return e
}

// KeepAnswer keeps an answer; one that is relayed is recorded on its way.
func (r *request) KeepAnswer() {
	body := r.result.Body
	if r.result.Large {
		body = nil
	}
	r.call.Keep(routes.JSONType, body,
		replay.Header{Name: string(r.view.creditsHeader), Value: strconv.FormatInt(r.credits, 10)},
		replay.Header{Name: string(r.view.costHeader), Value: string(appendCost(nil, r.call.Sold.Cost))})
	if r.result.Stream != nil {
		r.call.CutKept() // too large to be given again
	}
}

// Respond makes the nodes' answer the response.
func (r *request) Respond() {
	if !r.result.Large && r.call.Freed() {
		r.credits, r.call.Sold.Cost = 0, 0
	}
	answer := &r.call.Ctx.Response
	answer.SetStatusCode(200)
	answer.Header.SetContentType(routes.JSONType)
	answer.Header.SetCanonical(r.view.creditsHeader, strconv.AppendInt(r.number[:0], r.credits, 10))
	answer.Header.SetCanonical(r.view.costHeader, appendCost(r.number[:0], r.call.Sold.Cost))
	if r.job.Cached {
		answer.Header.SetCanonical(r.view.cacheHeader, cacheHit)
	}
	switch {
	case r.result.Large:
		r.relay()
	case r.result.Stream != nil:
		answer.SetBodyStream(r.result.Stream, int(r.result.Stream.Size))
	default:
		answer.SetBody(r.result.Body)
	}
}

var cacheHit = []byte("HIT")

// appendCost writes USD with 8 decimals, rounded half up (addendum 13).
func appendCost(b []byte, cost billing.Nano) []byte {
	const decimals, scale = 8, 100_000_000
	n := (int64(cost) + 5) / 10
	b = strconv.AppendInt(b, n/scale, 10)
	b = append(b, '.')
	var room [20]byte
	digits := strconv.AppendInt(room[:0], scale+n%scale, 10)
	return append(b, digits[1:1+decimals]...)
}

// relay attaches a large answer to the response. It is judged to its end while it
// goes out.
func (r *request) relay() {
	if r.call.Keeps() {
		r.job.Tee = r.call.Record
	}
	r.job.Relay(r.call.Ctx, r.relayed, r.call.OnDone)
	r.call.Relays()
}

// relayed settles an answer that was relayed.
func (r *request) relayed(cause proxy.Cause, whole bool) {
	switch {
	case whole:
	case cause == proxy.ClientGone || cause == proxy.ClientStalled:
		// The node did its work, and all that could be delivered was.
		r.call.Cause, r.call.Status, r.call.Sold.Flags = cause.String(), 499, journal.FlagAborted
		r.call.CutKept()
	default:
		if cause == proxy.None {
			cause = proxy.UpstreamMalformed
		}
		r.call.Cause = cause.String()
		r.call.Sold = routes.Bill{}
		r.call.Settle()
		return
	}
	if r.call.Keeps() {
		r.KeepAnswer()
	}
	r.call.Settle()
}

// settleDisconnect charges a request whose client left for calls that nodes may have made: the
// full price of calls that were sent to one. Unsent calls cost nothing.
func (r *request) settleDisconnect() {
	credits := r.job.Charge(r.network.Base, r.view.error)
	if !r.call.Left() || credits == 0 {
		return
	}
	r.bill(credits, journal.FlagAborted)
	if r.call.Keeps() {
		r.KeepAnswer()
		r.call.CutKept() // a second try must not run it again
	}
	r.call.Settle()
}
