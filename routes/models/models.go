package models

import (
	"slices"
	"strings"
	"time"

	"farebox/billing/store"
	"farebox/providers"
	"farebox/routes"
)

// Capability is the type that main registers.
type Capability struct{}

// New makes the capability.
func New() Capability { return Capability{} }

// Open is routes.Capability.
func (Capability) Open(*routes.Gateway) []routes.Row {
	return []routes.Row{
		{Method: "GET", Path: "/models", Access: routes.Catalog, Wallet: true,
			Form: routes.NoBody, Params: modelParams, Serve: list},
		{Method: "GET", Path: "/models/traits", Access: routes.Catalog, Wallet: true,
			Form: routes.NoBody, Params: modelParams,
			Serve: traits},
		{Method: "GET", Path: "/models/compatibility_mapping", Access: routes.Catalog, Wallet: true, Form: routes.NoBody,
			Params: modelParams, Serve: compatibility},
		{Method: "GET", Path: "/models/{id:*}", Access: routes.Catalog, Wallet: true, Form: routes.NoBody, Serve: one},
	}
}

// list answers GET /models?type= (addendum 7.1).
func list(c *routes.Call) *routes.Error {
	typ, e := modelType(c)
	if e != nil {
		return e
	}
	if c.Key != nil && (c.Key.Privacy == store.PrivateText || c.Key.Privacy == store.PrivateOnly) {
		// Models that the key may not use are hidden from it.
		body, ok := c.Catalog().ListOf(typ, time.Now(), c.MayUse)
		return write(c, typ, body, ok)
	}
	body, ok := c.Catalog().List(typ, time.Now())
	return write(c, typ, body, ok)
}

// one answers GET /models/{id}, which OpenAI's packages call for
// models.retrieve, with the record of GET /models.
func one(c *routes.Call) *routes.Error {
	id, _ := c.Ctx.UserValue("id").(string)
	model := c.Catalog().Find(id, time.Now())
	if model == nil || c.Key != nil && !c.MayUse(model.Config) {
		return &routes.Error{Status: 404, Code: "MODEL_NOT_FOUND",
			Message: "Unknown model " + routes.Excerpt(routes.ViewBytes(id)) + "; GET " + routes.Prefix +
				"/models lists the models."}
	}
	c.Ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	c.Ctx.Response.SetBodyRaw(c.Catalog().Record(model))
	return nil
}

// traits answers GET /models/traits?type= (addendum 7.5).
func traits(c *routes.Call) *routes.Error {
	typ, e := modelType(c)
	if e != nil {
		return e
	}
	body, ok := c.Catalog().Traits(typ)
	return write(c, typ, body, ok)
}

// compatibility answers GET /models/compatibility_mapping?type= (addendum 7.6).
func compatibility(c *routes.Call) *routes.Error {
	typ, e := modelType(c)
	if e != nil {
		return e
	}
	body, ok := c.Catalog().Compatibility(typ)
	return write(c, typ, body, ok)
}

var modelParams = routes.Params{"type": {Kinds: routes.String, Enum: providers.Types, Default: "text"}}

func modelType(c *routes.Call) (string, *routes.Error) {
	args := c.Ctx.QueryArgs()
	if !args.Has("type") {
		return c.Row.Params["type"].Default.(string), nil
	}
	typ := args.Peek("type")
	if slices.Contains(providers.Types, string(typ)) {
		return string(typ), nil
	}
	return "", routes.Invalid(routes.Issue{
		Code: "invalid_enum_value", Path: "type", Received: routes.Excerpt(typ), Options: providers.Types,
		Message: "Unknown model type " + routes.Excerpt(typ) +
			"; expected one of " + strings.Join(providers.Types, ", ") + ".",
	})
}

func write(c *routes.Call, typ string, body []byte, ok bool) *routes.Error {
	if !ok {
		return routes.Invalid(routes.Issue{Code: "invalid_enum_value", Path: "type", Received: typ, Options: providers.Types,
			Message: "This list does not exist for type " + typ + "."})
	}
	c.Ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	c.Ctx.Response.SetBodyRaw(body)
	return nil
}
