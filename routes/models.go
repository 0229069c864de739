package routes

import (
	"time"

	"farebox/billing"
)

// serveModels answers GET /models?type= (addendum 7.1).
func serveModels(_ *Gateway, c *Call) *Error {
	typ, e := c.modelType()
	if e != nil {
		return e
	}
	if c.key != nil && (c.key.Privacy == billing.PrivateText || c.key.Privacy == billing.PrivateOnly) {
		// What the key may not use is not there for it.
		body, ok := c.snap.catalog.ListOf(typ, time.Now(), c.mayUse)
		return c.writeCatalog(typ, body, ok)
	}
	body, ok := c.snap.catalog.List(typ, time.Now())
	return c.writeCatalog(typ, body, ok)
}

// serveModel answers GET /models/{id}, which OpenAI's packages call for
// models.retrieve, with the record of GET /models.
func serveModel(_ *Gateway, c *Call) *Error {
	id, _ := c.ctx.UserValue("id").(string)
	model := c.snap.catalog.Find(id, time.Now())
	if model == nil || c.key != nil && !c.mayUse(model.Config) {
		return &Error{Status: 404, Code: "MODEL_NOT_FOUND", Message: "Unknown model " + excerpt(stringBytes(id)) + "; GET " + prefix + "/models lists the models."}
	}
	c.ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	c.ctx.Response.SetBodyRaw(c.snap.catalog.Record(model))
	return nil
}

// serveTraits answers GET /models/traits?type= (addendum 7.5).
func serveTraits(_ *Gateway, c *Call) *Error {
	typ, e := c.modelType()
	if e != nil {
		return e
	}
	body, ok := c.snap.catalog.Traits(typ)
	return c.writeCatalog(typ, body, ok)
}

// serveCompatibility answers GET /models/compatibility_mapping?type= (addendum 7.6).
func serveCompatibility(_ *Gateway, c *Call) *Error {
	typ, e := c.modelType()
	if e != nil {
		return e
	}
	body, ok := c.snap.catalog.Compatibility(typ)
	return c.writeCatalog(typ, body, ok)
}

// modelTypes are the values of the `type` query; text is the default.
var modelTypes = []string{"all", "asr", "code", "embedding", "image", "inpaint", "music", "text", "tts", "upscale", "video"}

func (c *Call) modelType() (string, *Error) {
	args := c.ctx.QueryArgs()
	if !args.Has("type") {
		return "text", nil
	}
	typ := args.Peek("type")
	for _, t := range modelTypes {
		if string(typ) == t {
			return t, nil
		}
	}
	return "", errInvalid(Issue{
		Code: "invalid_enum_value", Path: "type", Received: excerpt(typ), Options: modelTypes,
		Message: "Unknown model type " + excerpt(typ) + "; expected one of all, asr, code, embedding, image, inpaint, music, text, tts, upscale, video.",
	})
}

func (c *Call) writeCatalog(typ string, body []byte, ok bool) *Error {
	if !ok {
		return errInvalid(Issue{Code: "invalid_enum_value", Path: "type", Received: typ, Options: modelTypes, Message: "This list does not exist for type " + typ + "."})
	}
	c.ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	c.ctx.Response.SetBodyRaw(body)
	return nil
}
