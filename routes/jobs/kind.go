package jobs

import (
	"cmp"
	"slices"
	"strconv"

	"farebox/billing"
	"farebox/billing/job"
	"farebox/config"
	"farebox/proxy/scan"
	"farebox/routes"
)

// kind describes one kind of jobs: its endpoints, its rules, its prices, and its answers.
type kind struct {
	*config.JobKind
	operation string
	queueBody func(*config.Config) int // the limit of a body that orders a job
	quoteBody func(*config.Config) int
	probes    []*routes.RateClass // that quotes and orders count in besides

	shape                *scan.Shape // of all its bodies
	quoteBook, queueBook *routes.Rulebook
	once                 *routes.Rule // of delete_media_on_completion

	check   func(*form) // checks beyond the rules
	quote   func(*Capability, *routes.Call, *form) ([]byte, *routes.Error)
	sell    func(*Capability, *routes.Call, *form) *routes.Error
	failed  func(*routes.Call, *job.View) *routes.Error
	link    func(*routes.Call, *job.View) []byte // the answer that has a link instead of the media
	deliver func(*Capability, *routes.Call, *job.View) routes.MediaPeek

	// Set by newKind.
	memberModel, memberQueueID, memberDelete int
	retrieveBook, completeBook               *routes.Rulebook
	quotes, retrievals, completions          *routes.RateClass
}

// newKind adds the common parts of all kinds.
func newKind(k kind) *kind {
	const once = "delete_media_on_completion"
	k.memberModel, k.memberQueueID, k.memberDelete = k.shape.ID("model"), k.shape.ID("queue_id"), k.shape.ID(once)
	k.retrieveBook = routes.NewRulebook(k.shape, map[string]*routes.Rule{
		"model": ruleModel, "queue_id": ruleQueueID, once: k.once,
	})
	k.completeBook = routes.NewRulebook(k.shape, map[string]*routes.Rule{"model": ruleModel, "queue_id": ruleQueueID})
	name := k.Path[1:]
	k.quotes, k.retrievals = class(name+"-quote", k.JobKind, 120), class(name+"-retrieve", k.JobKind, 120)
	k.completions = class(name+"-complete", k.JobKind, 120)
	return &k
}

// class is a limit of an account for requests that cost nothing (addendum 3.6).
func class(name string, of *config.JobKind, rpm int64) *routes.RateClass {
	rate := &config.Rate{RPM: rpm}
	return &routes.RateClass{Name: name, Rate: func(cfg *config.Config) (*config.Rate, bool) {
		return rate, slices.ContainsFunc(cfg.Models, func(m config.Model) bool { return m.Type == of.Name })
	}}
}

// rows are the endpoints of a kind (interface.md, Music; addendum 9.4 to 9.8 and 10).
// Queueing counts in the limits of its model.
func (k *kind) rows(ca *Capability) []routes.Row {
	row := func(name string, serve func(*routes.Call) *routes.Error) routes.Row {
		return routes.Row{Method: "POST", Path: k.Path + name, Access: routes.Bearer, Wallet: true,
			Form: routes.JSONBody, Limit: routes.SmallBody, Serve: serve}
	}
	quote := row("/quote", func(c *routes.Call) *routes.Error { return k.serveQuote(ca, c) })
	quote.Access, quote.Limit, quote.Counts = routes.Catalog, k.quoteBody, k.probes
	quote.Rate, quote.Rules = k.quotes, routes.Always(k.quoteBook)
	order := row("/queue", func(c *routes.Call) *routes.Error { return k.serveQueue(ca, c) })
	order.Limit, order.Counts, order.Operation = k.queueBody, k.probes, k.operation
	order.Rate, order.Rules = routes.ByModel, routes.Always(k.queueBook)
	retrieve := row("/retrieve", func(c *routes.Call) *routes.Error { return k.serveRetrieve(ca, c) })
	retrieve.Rate, retrieve.Rules = k.retrievals, routes.Always(k.retrieveBook)
	complete := row("/complete", k.serveComplete)
	complete.Rate, complete.Rules = k.completions, routes.Always(k.completeBook)
	return []routes.Row{quote, order, retrieve, complete}
}

// serveQuote answers POST …/quote: the price of a job. It holds and changes nothing.
func (k *kind) serveQuote(ca *Capability, c *routes.Call) *routes.Error {
	f, e := k.choose(c)
	if e != nil {
		return e
	}
	if d := c.Count(k.quotes, 1); d.Code != billing.Admitted {
		return c.Overrun(k.quotes, &d, c.Row.Path)
	}
	body, e := k.quote(ca, c, f)
	if e != nil {
		return e
	}
	return c.WriteJSON(body)
}

// serveQueue answers POST …/queue. The price is held, and charged when the job is queued.
func (k *kind) serveQueue(ca *Capability, c *routes.Call) *routes.Error {
	f, e := k.choose(c)
	if e != nil {
		return e
	}
	return k.sell(ca, c, f)
}

// serveRetrieve answers POST …/retrieve. It costs nothing, so that neither a balance nor
// a key's limit of spending is asked.
func (k *kind) serveRetrieve(ca *Capability, c *routes.Call) *routes.Error {
	f, v, e := k.find(c, k.retrievals)
	if e != nil {
		return e
	}
	// Media for a single download are delivered here: a link to them would lead nowhere.
	once := f.IsTrue(k.memberDelete)
	switch {
	case v.Failed():
		return k.failed(c, v)
	case !v.Completed():
		return c.WriteJSON(append(routes.AppendJobProgress(c.JobStatus(routes.JobProcessing), v), '}'))
	case linked(v), v.URL != "" && !once:
		return c.WriteJSON(append(k.link(c, v), '}'))
	}
	return c.DeliverMedia(v, once, k.deliver(ca, c, v))
}

// serveComplete answers POST …/complete (addendum 9.8, 10.4).
func (k *kind) serveComplete(c *routes.Call) *routes.Error {
	_, v, e := k.find(c, k.completions)
	if e != nil {
		return e
	}
	done, e := c.ReleaseJob(v)
	if e != nil {
		return e
	}
	return c.WriteJSON(append(strconv.AppendBool([]byte(`{"success":`), done), '}'))
}

// find is the job that a body names, within the limits of a class.
func (k *kind) find(c *routes.Call, class *routes.RateClass) (*form, *job.View, *routes.Error) {
	f, e := k.read(c)
	if e != nil {
		return nil, nil, e
	}
	if len(f.Issues) > 0 {
		return nil, nil, routes.Invalid(f.Issues...)
	}
	if d := c.Count(class, 1); d.Code != billing.Admitted {
		return nil, nil, c.Overrun(class, &d, c.Row.Path)
	}
	v, e := c.FindJob(k.JobKind, f.words(k.memberModel), f.words(k.memberQueueID), k.Path+"/queue")
	return f, v, e
}

const (
	failedCode = "INFERENCE_FAILED" // where an upstream gave no reason
	policyCode = "CONTENT_POLICY_VIOLATION"
)

// failure is why nothing was made.
func failure(v *job.View, text string) (code, message string) {
	return cmp.Or(v.Code, failedCode), cmp.Or(v.Message, text)
}
