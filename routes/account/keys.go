package account

import (
	"errors"
	"math"
	"time"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/routes"
)

// Pages of GET /api_keys (addendum 16.2).
var keysParams = routes.Params{
	"page":  {Kinds: routes.Number, Integer: true, Min: 1, Max: math.Inf(1), Default: 1},
	"limit": {Kinds: routes.Number, Integer: true, Min: 1, Max: 500, Default: 100},
}

// serveKeys answers GET /api_keys?page=&limit=.
func serveKeys(c *routes.Call) *routes.Error {
	q := c.Query()
	page, limit := int(q.Integer("page")), int(q.Integer("limit"))
	if e := q.Refusal(); e != nil {
		return e
	}
	list, err := c.Accounts().Keyring(c.Key.Account, page, limit)
	if err != nil {
		return keyError(c, err)
	}
	b, end := []byte("["), "]"
	if c.Config().Compat.APIKeyList == "envelope" {
		b, end = []byte(`{"object":"list","data":[`), "]}"
	}
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendKey(b, &list[i].KeyInfo, &list[i])
	}
	return c.WriteJSON(append(b, end...))
}

// serveKey answers GET /api_keys/{id}.
func serveKey(c *routes.Call) *routes.Error {
	id, _ := c.Ctx.UserValue("id").(string)
	k, err := c.Accounts().KeyOf(c.Key.Account, id)
	if err != nil {
		return keyError(c, err)
	}
	return c.WriteJSON(append(appendKey([]byte(`{"data":`), &k.KeyInfo, &k), '}'))
}

// createKey answers POST /api_keys; its answer is the only place where the
// secret is ever shown.
func createKey(c *routes.Call) *routes.Error {
	b, e := readKeyBody(c)
	if e != nil {
		return e
	}
	return makeKey(c, c.Key.Account.ID, b, "")
}

// makeKey makes the key that a body asks for.
func makeKey(c *routes.Call, account string, b *keyBody, description string) *routes.Error {
	n := billing.NewKey{Account: account, Type: b.typ, Description: description}
	if n.Type == 0 {
		n.Type = store.Inference
	}
	change := &b.change
	if change.Description != nil {
		n.Description = *change.Description
	}
	if change.ExpiresAt != nil {
		n.ExpiresAt = *change.ExpiresAt
	}
	if change.Period != nil {
		n.Period = *change.Period
	}
	if change.Privacy != nil {
		n.Privacy = *change.Privacy
	}
	var usd, diem money.Limit
	if change.USD != nil {
		usd = *change.USD
	}
	if change.DIEM != nil {
		diem = *change.DIEM
	}
	n.SetLimits(usd, diem)
	info, secret, err := c.Accounts().MakeKey(n)
	if err != nil {
		return keyError(c, err)
	}
	c.Ctx.Response.Header.Set("Cache-Control", "no-store")
	return c.WriteJSON(appendNewKey(nil, &info, secret))
}

// updateKey answers PATCH /api_keys.
func updateKey(c *routes.Call) *routes.Error {
	b, e := readKeyBody(c)
	if e != nil {
		return e
	}
	info, err := c.Accounts().UpdateKey(c.Key.Account, b.id, b.change)
	if err != nil {
		return keyError(c, err)
	}
	return c.WriteJSON(append(appendKey([]byte(`{"success":true,"data":`), &info, nil), '}'))
}

// deletionParams are those of DELETE /api_keys.
var deletionParams = routes.Params{"id": {Kinds: routes.String}}

// deleteKey answers DELETE /api_keys?id=; the id may be in the body instead.
// Some packages send an empty object along with the query.
func deleteKey(c *routes.Call) *routes.Error {
	q := c.Query()
	id, _ := q.Text("id")
	if e := q.Refusal(); e != nil {
		return e
	}
	if len(c.Ctx.Request.Body()) > 0 {
		b, e := readKeyBody(c)
		if e != nil {
			return e
		}
		if id != "" && b.id != "" && id != b.id {
			return routes.Invalid(routes.Issue{Code: "custom", Path: "id",
				Message: "id: the query and the body name different keys; give one of them."})
		}
		if b.id != "" {
			id = b.id
		}
	}
	if id == "" {
		return routes.Invalid(routes.Issue{Code: "invalid_type", Path: "id", Expected: "string", Received: "undefined",
			Message: "id: is required, as ?id= or in the body."})
	}
	if err := c.Accounts().DeleteKey(c.Key.Account, id); err != nil {
		return keyError(c, err)
	}
	return c.WriteJSON([]byte(`{"success":true}`))
}

// keyError is the answer to a ledger error about a key.
func keyError(c *routes.Call, err error) *routes.Error {
	var soon *billing.TooSoon
	switch {
	case errors.Is(err, billing.ErrNoKey):
		return &routes.Error{Status: 404, Code: "NOT_FOUND", Message: "This account has no API key with that id."}
	case errors.Is(err, store.ErrManyKeys):
		return &routes.Error{Status: 400, Code: "INVALID_REQUEST",
			Message: "The account has 500 active API keys, the most allowed; delete one first."}
	case errors.Is(err, billing.ErrSuspended), errors.Is(err, billing.ErrClosed):
		return routes.Disabled(err)
	case errors.As(err, &soon):
		return &routes.Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED",
			Message:    "Rate limit exceeded: at most 20 API keys of an account can be made a minute.",
			RetryAfter: max(routes.RetrySoon, soon.After)}
	}
	c.Logger().Error().Err(err).Bytes("request_id", c.ID[:]).Msg("cannot read or write API keys")
	return &routes.Error{Status: 503, Message: "The key store cannot be used right now; please retry.",
		RetryAfter: 5 * time.Second}
}
