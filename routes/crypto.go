package routes

import (
	"context"
	"strconv"
	"strings"
	"time"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/billing/replay"
	"farebox/config"
	"farebox/providers/jsonrpc"
	"farebox/proxy"
)

// rpcOffer is what a snapshot sells of blockchain calls.
type rpcOffer struct {
	networks *jsonrpc.Networks
	listing  []byte         // body of GET /crypto/rpc/networks
	slots    map[string]int // of each network's usage
	names    []string       // sorted
	limits   int            // slot of the rate windows, common to all networks
	price    money.Pico     // of a credit
	error    int64          // credits of a call that a node answered with an error
	meters   map[string]*rpcMeters
	daily    int64 // credits of an account in 24 hours; 0: any number
	inFlight int   // requests of an account at the same time; 0: any number
	turnWait time.Duration
}

// byCredits are the limits of blockchain requests, common to all networks.
var byCredits = &RateClass{Name: "crypto-rpc", Rate: func(cfg *config.Config) (*config.Rate, bool) {
	rate := &cfg.RPC.Rate
	if *rate == (config.Rate{}) {
		rate = nil
	}
	return rate, len(cfg.RPC.Networks) > 0
}}

// rpcBody is the limit of a call or batch.
func rpcBody(cfg *config.Config) int { return int(cfg.RPC.MaxBody) }

func newRPCOffer(cfg *config.Config, prev *jsonrpc.Networks, g *Gateway) (*rpcOffer, error) {
	l := g.ledger
	networks, err := jsonrpc.NewNetworks(cfg, prev)
	if err != nil {
		return nil, err
	}
	o := &rpcOffer{
		networks: networks, slots: map[string]int{}, meters: map[string]*rpcMeters{}, error: cfg.RPC.ErrorCredits,
		price: cfg.RPC.CreditPrice,
		daily: cfg.RPC.DailyCredits, inFlight: cfg.RPC.MaxInFlight, turnWait: cfg.RPC.TurnWait,
	}
	if len(networks.Sorted) > 0 {
		o.limits = l.Slot(byCredits.Name)
	}
	list := []byte{'['}
	for i, n := range networks.Sorted {
		o.slots[n.Name] = l.Slot(byCredits.Name + "-" + n.Name)
		o.names = append(o.names, n.Name)
		o.meters[n.Name] = g.metrics.network(n.Name)
		list = AppendString(Comma(list, i), n.Name)
	}
	list = append(list, ']')
	if cfg.Compat.RPCNetworks == "object" {
		list = append(append([]byte(`{"networks":`), list...), '}')
	}
	o.listing = list
	return o, nil
}

// serveNetworks answers GET /crypto/rpc/networks (interface.md, Crypto proxy).
func serveNetworks(c *Call) *Error { return c.WriteJSON(c.snap.rpc.listing) }

// rpcPatience is how long a blockchain request with a key can take before
// another node takes the one that leads it for dead.
const rpcPatience = 2 * time.Minute

// rpcCall is the part of a blockchain request. It is pooled.
type rpcCall struct {
	*Call

	job     jsonrpc.Job
	network *jsonrpc.Network
	result  jsonrpc.Result
	want    billing.Admission
	credits int64 // charged
	turn    bool  // it has one of its account's places
	carried bool  // it goes on without its client
}

// Close lets the account's next request have its turn and ends what was begun at
// the nodes.
func (c *rpcCall) Close() {
	if c.turn {
		c.turn = false
		c.Ledger().GiveTurn(c.Key.Account)
	}
	if c.carried {
		c.carried = false
		c.g.rpcAlone.give(c.Key.Account)
	}
	c.job.Close()
}

// Recycle clears it for another request.
func (c *rpcCall) Recycle() {
	g := c.g
	c.job.Reset()
	c.Call, c.network, c.result, c.want, c.credits = nil, nil, jsonrpc.Result{}, billing.Admission{}, 0
	g.rpcCalls.Put(c)
}

// serveRPC answers POST /crypto/rpc/{network}: one JSON-RPC request or a batch
// (interface.md, Crypto proxy; addendum 13).
func serveRPC(call *Call) *Error {
	offer := call.snap.rpc
	name := ViewString(call.Rest())
	network := offer.networks.Find(name)
	if network == nil {
		return &Error{
			Status: 400, Message: "Unsupported RPC network",
			Issues: []Issue{{Code: "invalid_enum_value", Path: "network", Received: Excerpt(ViewBytes(name)), Options: offer.names,
				Message: "There is no network " + Quoted(name) + " here; GET " + Prefix + "/crypto/rpc/networks lists those there are."}},
		}
	}
	c := call.g.rpcCalls.Get().(*rpcCall)
	c.Call, c.network, call.Part = call, network, c
	if e := c.CheckFailures(); e != nil {
		return e
	}
	if e := c.readRPC(network); e != nil {
		return e
	}
	return c.Sell(c, Terms{Patience: rpcPatience, Writes: c.job.Writes()})
}

// readRPC checks the envelope and finds the methods of all calls.
func (c *rpcCall) readRPC(n *jsonrpc.Network) *Error {
	if e := c.WantJSON(); e != nil {
		return e
	}
	body := c.Ctx.Request.Body()
	if most := c.MostBody(); len(body) > most {
		return &Error{Status: 413, Code: "PAYLOAD_TOO_LARGE", Message: "The request body is too large; at most " + config.Size(most).String() + " are taken here.", Uncounted: true}
	}
	job := &c.job
	if fault := job.Scan(body); fault != nil {
		e := Invalid(Issue{Code: fault.Code, Path: fault.Path, Message: fault.Error()})
		e.Message = "Invalid request body: " + fault.Error()
		return e
	}
	if unknown := job.Resolve(n.Family); unknown != nil {
		return unsupportedMethods(job, n, unknown)
	}
	return nil
}

// unsupportedMethods names every method that is not served, and each call that
// asks for one.
func unsupportedMethods(job *jsonrpc.Job, n *jsonrpc.Network, unknown []int) *Error {
	var names []string
	seen := map[string]bool{}
	e := &Error{Status: 400, Code: "INVALID_REQUEST"}
	for _, i := range unknown {
		name := Excerpt(job.MethodName(i))
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
		path := "method"
		if job.Batch {
			path = strconv.Itoa(i) + ".method"
		}
		e.Issues = append(e.Issues, Issue{Code: "custom", Path: path, Received: name, Message: path + ": " + name + " " + n.Family.Reason(job.MethodName(i)) + "."})
	}
	e.Message = "Unsupported RPC methods for " + n.Name + ": " + strings.Join(names, ", ")
	return e
}

// Admit holds what the request costs when every call succeeds, and counts it
// in the limits: a batch as one request. An answer that is given again costs
// nothing, and counts.
func (c *rpcCall) Admit(again bool) *Error {
	offer := c.snap.rpc
	worst := c.job.Credits(c.network.Base)
	if again {
		worst = 0
	}
	sold := offer.sold(worst)
	full := sold.Cost()
	rate, _ := c.Row.Rate.Rate(c.Config())
	c.want = billing.Admission{
		Slot: offer.limits, Rate: rate, Hold: full, Min: full, Credits: worst, DailyCredits: offer.daily,
	}
	denial := c.Call.Admit(&c.want)
	if denial.Code == billing.Admitted {
		c.Hold.Book(offer.slots[c.network.Name])
		return nil
	}
	switch denial.Code {
	case billing.RateRequests, billing.RateTokens:
		return c.limitedRPC(&denial)
	case billing.RateCredits:
		return c.cappedRPC(&denial, worst)
	}
	return c.Denied(&denial)
}

// cappedRPC is a refusal by the daily cap of credits, which has none of the
// headers of the rate limit (addendum 13, 429; D47).
func (c *rpcCall) cappedRPC(d *billing.Denial, worst int64) *Error {
	c.NoteLimit(c.Row.Rate.Name, d.Limit)
	text := "Daily limit of crypto RPC credits exceeded: at most " + strconv.FormatInt(d.Allowed, 10) + " credits in 24 hours, " +
		strconv.FormatInt(d.Remaining, 10) + " are left and this request may cost " + strconv.FormatInt(worst, 10) + "."
	return &Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", Message: text, Custom: text, RetryAfter: max(d.RetryAfter, time.Second)}
}

// turnRPC waits until few enough requests of the account are under way
// (addendum 13, Concurrency).
func (c *rpcCall) turnRPC() *Error {
	offer, ledger := c.snap.rpc, c.Ledger()
	if offer.inFlight == 0 {
		return nil
	}
	account := c.Key.Account
	if c.turn = ledger.TryTurn(account, offer.inFlight); c.turn {
		return nil
	}
	cause := proxy.TotalTimeout
	if offer.turnWait > 0 {
		cause, _ = c.Proxy().Await(c.Ctx, offer.turnWait, func(ctx context.Context) error {
			c.turn = ledger.TakeTurn(ctx, account, offer.inFlight)
			return nil
		})
	}
	switch {
	case cause != proxy.None && cause != proxy.TotalTimeout:
		c.Cause = cause.String()
		return c.Unreachable(&proxy.Result{Cause: cause})
	case c.turn:
		return nil
	}
	text := "Too many crypto RPC requests of this account are under way; at most " + strconv.Itoa(offer.inFlight) + " are served at the same time. A batch counts as one."
	return &Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", Message: text, Custom: text, RetryAfter: RetrySoon}
}

// limitedRPC is a refusal by the rate limit, with its headers (addendum 3.6, 13).
func (c *rpcCall) limitedRPC(d *billing.Denial) *Error {
	c.NoteLimit(c.Row.Rate.Name, d.Limit)
	h := &c.Ctx.Response.Header
	h.Set("X-Ratelimit-Type", d.Scope)
	h.Set("X-RateLimit-Limit", strconv.FormatInt(d.Allowed, 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(d.Remaining, 10))
	h.Set("X-RateLimit-Reset", strconv.FormatInt((d.Reset.UnixNano()+int64(time.Second)-1)/int64(time.Second), 10))
	text := "Rate limit exceeded: " + d.Limit + " of this " + ScopeText(d.Scope) + " for crypto RPC, " + strconv.FormatInt(d.Allowed, 10) + " requests; a batch counts as one."
	return &Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", Message: text, Custom: text, RetryAfter: max(d.RetryAfter, time.Second)}
}

// sold are the lines of a request that took n credits.
func (o *rpcOffer) sold(n int64) (l money.Lines) {
	l.Add(money.RPCCredits, n, o.price)
	return l
}

// CarryOut asks the nodes. A large answer to a single call is relayed as it
// arrives.
func (c *rpcCall) CarryOut() (relayed bool, e *Error) {
	if e := c.turnRPC(); e != nil {
		return false, e
	}
	c.carried = (c.Lead != nil || c.job.Writes()) && c.g.rpcAlone.take(c.Key.Account)
	c.result = c.job.Run(jsonrpc.Trip{
		Proxy: c.Proxy(), Ctx: c.Ctx, Network: c.network, Account: c.Key.Account.ID, ID: c.ID[:], Alone: c.carried,
	})
	c.Attempts = c.job.Attempts
	if c.result.Cause != proxy.None {
		c.Cause = c.result.Cause.String()
		c.leave()
		return false, c.unreachableRPC(&c.result)
	}
	c.bill(c.job.Charge(c.network.Base, c.snap.rpc.error), 0)
	return c.result.Large, nil
}

// bill says what so many credits came to.
func (c *rpcCall) bill(credits int64, flags billing.Flags) {
	c.credits = credits
	c.Sold = Bill{Lines: c.snap.rpc.sold(credits), Credits: credits, Flags: flags, Status: 200}
	c.Sold.Cost = c.Sold.Lines.Cost()
}

// unreachableRPC answers for nodes that gave no answer: 500 whatever it was
// (addendum 13, Upstream). Neither hosts nor their words reach the client.
func (c *rpcCall) unreachableRPC(res *jsonrpc.Result) *Error {
	e := &Error{Status: 500, RetryAfter: res.RetryAfter}
	switch res.Cause {
	case proxy.ClientGone, proxy.ClientStalled:
		return &Error{Status: 499, Code: "CLIENT_CLOSED_REQUEST", Message: "The client closed the request.", Close: true, Uncounted: true}
	case proxy.Shutdown:
		return &Error{Status: 503, Message: "The service is restarting; please retry.", RetryAfter: RetrySoon, Close: true}
	case proxy.FirstByteTimeout, proxy.IdleTimeout, proxy.TotalTimeout, proxy.ConnectTimeout:
		e.Message = "The nodes of " + c.network.Name + " took too long to answer; nothing was charged."
	case proxy.NoTarget, proxy.NoFreeConn:
		e.Message = "The nodes of " + c.network.Name + " have no capacity right now; nothing was charged. Please retry."
		e.RetryAfter = max(e.RetryAfter, RetrySoon)
	default:
		e.Message = "The nodes of " + c.network.Name + " gave no usable answer; nothing was charged."
	}
	return e
}

// KeepAnswer keeps an answer; one that is relayed is recorded on its way.
func (c *rpcCall) KeepAnswer() {
	body := c.result.Body
	if c.result.Large {
		body = nil
	}
	n := &c.snap.names
	c.Keep(JSONType, body,
		replay.Header{Name: string(n.rpcCredits), Value: strconv.FormatInt(c.credits, 10)},
		replay.Header{Name: string(n.rpcCost), Value: string(appendCost(nil, c.Sold.Cost))})
	if c.result.Stream != nil {
		c.Lead.Cut() // too large to be given again
	}
}

// Respond makes the nodes' answer the response.
func (c *rpcCall) Respond() {
	if !c.result.Large && c.Lead != nil && !c.Lead.Kept() {
		c.credits, c.Sold.Cost = 0, 0
	}
	r := &c.Ctx.Response
	r.SetStatusCode(200)
	r.Header.SetContentType(JSONType)
	c.setCharge(c.credits, c.Sold.Cost)
	if c.job.Cached {
		r.Header.SetCanonical(c.snap.names.rpcCache, cacheHit)
	}
	switch {
	case c.result.Large:
		c.relay()
	case c.result.Stream != nil:
		r.SetBodyStream(c.result.Stream, int(c.result.Stream.Size))
	default:
		r.SetBody(c.result.Body)
	}
}

var cacheHit = []byte("HIT")

// setCharge puts the headers that say what was charged.
func (c *Call) setCharge(credits int64, cost billing.Nano) {
	h, n := &c.Ctx.Response.Header, &c.snap.names
	h.SetCanonical(n.rpcCredits, strconv.AppendInt(c.number[:0], credits, 10))
	h.SetCanonical(n.rpcCost, appendCost(c.number[:0], cost))
}

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
func (c *rpcCall) relay() {
	if c.Lead != nil {
		c.job.Tee = c.Lead.Record
	}
	c.job.Relay(c.Ctx, c.relayed, c.OnDone)
	c.Relays()
}

// relayed settles an answer that was relayed.
func (c *rpcCall) relayed(cause proxy.Cause, whole bool) {
	switch {
	case whole:
	case cause == proxy.ClientGone || cause == proxy.ClientStalled:
		// The node did its work, and all that could be delivered was.
		c.Cause, c.Status, c.Sold.Flags = cause.String(), 499, billing.FlagAborted
		if c.Lead != nil {
			c.Lead.Cut()
		}
	default:
		if cause == proxy.None {
			cause = proxy.UpstreamMalformed
		}
		c.Cause = cause.String()
		c.Hold.Void(time.Now().UnixNano())
		return
	}
	if c.Lead != nil {
		c.KeepAnswer()
	}
	c.Settle()
}
