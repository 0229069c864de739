package routes

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"farebox/billing/job"
	"farebox/config"
	"farebox/providers"
	"farebox/providers/media"
)

// openJobs makes the machine that drives jobs. It does nothing until Begin.
func (g *Gateway) openJobs(o *Options, cfg *config.Config) {
	g.media = o.Media
	maker := o.Maker
	if maker == nil {
		maker = providers.NewQueue(g.proxy, cfg.Fetch, func() *providers.Catalog { return g.live.Load().catalog },
			g.hookOf, int64(cfg.Media.MaxBytes))
	}
	g.jobs = job.New(job.Options{Store: g.ledger.Jobs(), Maker: maker, Keeper: o.Media,
		Node: g.ledger.NodeNo(), Shared: g.ledger.NodeLabel() != "", Terms: jobTerms(cfg), Log: g.log})
	g.meterJobs()
}

// jobTerms are those of a config.
func jobTerms(cfg *config.Config) job.Terms {
	j, m := &cfg.Jobs, &cfg.Media
	return job.Terms{PollMin: j.PollMin, PollMax: j.PollMax, Timeout: j.Timeout, PerAccount: j.PerAccount,
		Total: j.Total, Keep: m.Keep, AccountBytes: int64(m.AccountBytes), TotalBytes: int64(m.TotalBytes),
		MaxBytes: int64(m.MaxBytes)}
}

// Begin goes on with the jobs and payments that earlier processes left.
func (g *Gateway) Begin() error {
	if g.jobs != nil {
		if err := g.jobs.Begin(); err != nil {
			return fmt.Errorf("cannot go on with the jobs of the ledger: %w", err)
		}
	}
	return g.payments.Begin()
}

// Close ends the machines of jobs and payments, before the ledger is closed. The next process
// goes on with them.
func (g *Gateway) Close() {
	g.closePayments()
	if g.jobs != nil {
		g.jobs.Close()
	}
	g.sampler.flush()
}

// A sweep keeps media that may still be on their way: this is a constant below 0, and does not
// compile, where that may take longer.
const _ = uint64(media.Grace - job.FetchLimit)

// Upstreams may say that a job has changed, at an address that names it and that nobody
// else can make up. Whatever they say, all that follows is that they are asked.

const hookBytes = 16 + 12 // an id, and a part of its MAC

func (g *Gateway) hookMAC(raw []byte) []byte {
	mac := hmac.New(sha256.New, g.ledger.DeriveSecret("reports on jobs"))
	mac.Write(raw)
	return mac.Sum(nil)[:hookBytes-16]
}

// hookOf is where upstreams report on a job; empty: nowhere.
func (g *Gateway) hookOf(queueID string) string {
	s := g.live.Load()
	if s == nil || s.cfg.Jobs.WebhookURL == "" {
		return ""
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(queueID, "-", ""))
	if err != nil || len(raw) != 16 {
		return ""
	}
	return s.cfg.Jobs.WebhookURL + Prefix + hookPath + base64.RawURLEncoding.EncodeToString(append(raw, g.hookMAC(raw)...))
}

const hookPath = "/jobs/hook/"

// jobHooks is the endpoint of such reports.
type jobHooks struct{ g *Gateway }

// Open is Capability.
func (h *jobHooks) Open(*Gateway) []Row {
	return []Row{{Method: "POST", Path: hookPath + "{token}", Access: Public, Form: RawJSON, Limit: hookLimit,
		Offered: func(cfg *config.Config) bool { return cfg.Jobs.WebhookURL != "" }, Serve: h.serve}}
}

// hookLimit is more than upstreams send: an answer with its logs.
func hookLimit(*config.Config) int { return 256 << 10 }

// serve has an upstream asked that says that a job changed.
func (h *jobHooks) serve(c *Call) *Error {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(string(c.Rest()))
	if err != nil || len(raw) != hookBytes || !hmac.Equal(raw[16:], h.g.hookMAC(raw[:16])) {
		return NoEndpoint(c.Ctx)
	}
	h.g.jobs.Poke(formatUUID(raw[:16]))
	c.Ctx.Response.Header.SetContentType("application/json")
	c.Ctx.Response.SetBodyString("{}")
	return nil
}
