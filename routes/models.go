package routes

import (
	"time"

	"farebox/billing"
)

// serveModels answers GET /models?type= (addendum 7.1).
func serveModels(c *Call) *Error {
	typ, e := c.modelType()
	if e != nil {
		return e
	}
	if c.Key != nil && (c.Key.Privacy == billing.PrivateText || c.Key.Privacy == billing.PrivateOnly) {
		// What the key may not use is not there for it.
		body, ok := c.Catalog().ListOf(typ, time.Now(), c.MayUse)
		return c.writeCatalog(typ, body, ok)
	}
	body, ok := c.Catalog().List(typ, time.Now())
	return c.writeCatalog(typ, body, ok)
}

// serveModel answers GET /models/{id}, which OpenAI's packages call for
// models.retrieve, with the record of GET /models.
func serveModel(c *Call) *Error {
	id, _ := c.Ctx.UserValue("id").(string)
	model := c.Catalog().Find(id, time.Now())
	if model == nil || c.Key != nil && !c.MayUse(model.Config) {
		return &Error{Status: 404, Code: "MODEL_NOT_FOUND", Message: "Unknown model " + Excerpt(ViewBytes(id)) + "; GET " + Prefix + "/models lists the models."}
	}
	c.Ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	c.Ctx.Response.SetBodyRaw(c.Catalog().Record(model))
	return nil
}

// serveTraits answers GET /models/traits?type= (addendum 7.5).
func serveTraits(c *Call) *Error {
	typ, e := c.modelType()
	if e != nil {
		return e
	}
	body, ok := c.Catalog().Traits(typ)
	return c.writeCatalog(typ, body, ok)
}

// serveCompatibility answers GET /models/compatibility_mapping?type= (addendum 7.6).
func serveCompatibility(c *Call) *Error {
	typ, e := c.modelType()
	if e != nil {
		return e
	}
	body, ok := c.Catalog().Compatibility(typ)
	return c.writeCatalog(typ, body, ok)
}

// modelTypes are the values of the `type` query.
var modelTypes = []string{"all", "asr", "code", "embedding", "image", "inpaint", "music", "text", "tts", "upscale", "video"}

var modelParams = Params{"type": {Kinds: String, Enum: modelTypes, Default: "text"}}

func (c *Call) modelType() (string, *Error) {
	args := c.Ctx.QueryArgs()
	if !args.Has("type") {
		return c.Row.Params["type"].Default.(string), nil
	}
	typ := args.Peek("type")
	for _, t := range modelTypes {
		if string(typ) == t {
			return t, nil
		}
	}
	return "", Invalid(Issue{
		Code: "invalid_enum_value", Path: "type", Received: Excerpt(typ), Options: modelTypes,
		Message: "Unknown model type " + Excerpt(typ) + "; expected one of all, asr, code, embedding, image, inpaint, music, text, tts, upscale, video.",
	})
}

func (c *Call) writeCatalog(typ string, body []byte, ok bool) *Error {
	if !ok {
		return Invalid(Issue{Code: "invalid_enum_value", Path: "type", Received: typ, Options: modelTypes, Message: "This list does not exist for type " + typ + "."})
	}
	c.Ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	c.Ctx.Response.SetBodyRaw(body)
	return nil
}
