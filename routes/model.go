package routes

import (
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/billing/store"
	"farebox/config"
	"farebox/providers"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// UseModel makes a model of a type that was found by name (nil: none was) the one of this
// request, or reports the issues so far in order.
func (c *Call) UseModel(name []byte, typ string, model *dialect.Model, match providers.Match, issues []Issue) *Error {
	c.Model = model
	if e := c.CheckFailures(); e != nil {
		return e
	}
	if len(issues) > 0 {
		return Invalid(issues...)
	}
	switch {
	case match == providers.Gone:
		c.Model = nil
		return &Error{Status: fasthttp.StatusGone, Code: "MODEL_NOT_FOUND",
			Message: "Model " + Excerpt(name) + " has been retired."}
	case match == providers.OtherType:
		return c.wrongType(name, typ)
	case model == nil:
		return &Error{Status: 404, Code: "MODEL_NOT_FOUND", Message: "Unknown model " + Excerpt(name) + "; GET " +
			Prefix + "/models lists the models.", Issues: []Issue{{Code: "custom", Path: "model",
			Message: "model: unknown model " + Excerpt(name) + "."}}}
	case !c.MayUse(model.Config):
		return &Error{Status: 403, Code: "UNAUTHORIZED", Message: "This API key may only use " +
			PrivateScope(c.Key.Privacy) + " that are private; model " + model.ID + " is not."}
	case !c.inRegion(model.Config):
		return &Error{Status: 403, Code: "UNAUTHORIZED", Message: "Model " + model.ID + " is not available in your region."}
	case model.Config.Offline:
		return &Error{Status: 503, Code: "MODEL_OFFLINE", Message: "Model " + model.ID + " is temporarily offline.",
			RetryAfter: OverloadRetry}
	}
	return nil
}

// wrongType refuses a model that an endpoint for another type was asked for.
func (c *Call) wrongType(name []byte, typ string) *Error {
	text := "Model " + Excerpt(name) + " is not of type " + typ
	if other := c.Catalog().Find(string(name), c.Began); other != nil {
		text = "Model " + Excerpt(name) + " is of type " + other.Config.Type
	}
	text += "; this endpoint takes models of type " + typ + ". GET " + Prefix + "/models?type=" + typ + " lists them."
	return &Error{Status: 400, Code: "INVALID_MODEL", Message: text,
		Issues: []Issue{{Code: "custom", Path: "model", Message: "model: " + text}}}
}

// MayUse says whether the key's modelPrivacy lets it use the model (addendum 16.1).
func (c *Call) MayUse(m *config.Model) bool {
	if c.Key == nil {
		return true // the catalog is public
	}
	switch c.Key.Privacy {
	case store.PrivateText:
		return isPrivate(m) || !m.Spec.Text()
	case store.PrivateOnly:
		return isPrivate(m)
	}
	return true
}

// inRegion says whether clients of the request's country may use the model. The country is
// known from a trusted proxy only.
func (c *Call) inRegion(m *config.Model) bool {
	if len(m.Regions) == 0 {
		return true
	}
	country := c.Ctx.Request.Header.Peek(c.Config().Server.CountryHeader)
	return proxy.FromFront(c.Ctx) && slices.ContainsFunc(m.Regions, func(region string) bool {
		return strings.EqualFold(region, string(country))
	})
}

// isPrivate says that no recipient of prompts stores them, or that they go into an enclave.
func isPrivate(m *config.Model) bool {
	text, _ := m.Spec.(*config.Chat)
	return m.Privacy == "private" || text != nil && text.Enclave != nil
}

// PrivateScope names the models that a key may only use where they are private.
func PrivateScope(p store.ModelPrivacy) string {
	if p == store.PrivateText {
		return "text and embedding models"
	}
	return "models"
}

var userSeed = maphash.MakeSeed()

// NoteUser takes the OpenAI user string, whose failures have a budget of their own.
func (c *Call) NoteUser(name []byte) {
	if len(name) > 0 {
		c.user = maphash.Bytes(userSeed, name)
	}
}

// CheckFailures refuses a key that failed, or left, too often.
func (c *Call) CheckFailures() *Error {
	if c.Key == nil {
		return nil
	}
	until, kind := c.failureBlock()
	if until <= 0 {
		return nil
	}
	c.noteLimit(kind)
	c.Ctx.Response.Header.Set("X-Ratelimit-Type", "api_key")
	c.Ctx.Response.Header.Set("X-Ratelimit-Remaining", "0")
	c.Ctx.Response.Header.Set("X-Ratelimit-Resets", strconv.FormatInt(until/1e6, 10))
	text := "Too many failed requests with this API key; it is blocked for this model or endpoint for a short time."
	if kind == billing.AbortedRequests {
		text = "Too many requests with this API key were left before their end; it is blocked for a short time."
	}
	return &Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", RetryAfter: max(RetrySoon, time.Duration(until-c.StartNs)),
		Message: text}
}

// Unreachable answers for upstreams that gave no answer at all. Neither hosts
// nor the transport's own words reach the client.
func (c *Call) Unreachable(res *proxy.Result) *Error {
	switch res.Cause {
	case proxy.ClientGone, proxy.ClientStalled:
		// Nobody reads this; 499 is for the log.
		return &Error{Status: 499, Code: "CLIENT_CLOSED_REQUEST", Message: "The client closed the request.",
			Close: true, Uncounted: true}
	case proxy.FirstByteTimeout, proxy.IdleTimeout, proxy.TotalTimeout:
		return &Error{Status: 504, Code: "REQUEST_TIMEOUT", Message: TooSlow}
	case proxy.Shutdown:
		return &Error{Status: 503, Code: "MODEL_OFFLINE", Message: "The service is restarting; please retry.",
			RetryAfter: RetrySoon, Close: true}
	case proxy.NoTarget, proxy.NoFreeConn:
		return &Error{Status: 503, Code: "MODEL_AT_CAPACITY",
			Message: "The model has no capacity left right now; please retry.", RetryAfter: c.restsFor()}
	}
	return &Error{Status: 503, Code: "MODEL_OFFLINE", Message: "The model cannot be reached right now; please retry.",
		RetryAfter: c.restsFor()}
}

// restsFor is the Retry-After of a model whose targets rest, or cannot be reached.
func (c *Call) restsFor() time.Duration {
	if c.Model == nil {
		return 5 * time.Second
	}
	return max(providers.RestsFor(c.Model, time.Now().UnixNano()), RetrySoon)
}

// TooSlow is the message of 504.
const TooSlow = "The model took too long to answer; please retry."

// OverloadRetry is the Retry-After of an overloaded model (addendum 3.5).
const OverloadRetry = 30 * time.Second
