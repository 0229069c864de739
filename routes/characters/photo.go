package characters

import (
	"bytes"

	"farebox/routes"
)

// photo answers GET /characters/{slug}/photo with the picture of a character. Under an
// address with its digest, as records have it, it is the same for good.
func (ca *Capability) photo(c *routes.Call) *routes.Error {
	r, e := ca.snapshot(c).find(c)
	if e != nil {
		return e
	}
	if r.Picture == nil {
		return &routes.Error{Status: 404, Code: "CHARACTER_NOT_FOUND",
			Message: "The character " + r.Slug + " has no picture."}
	}
	h := &c.Ctx.Response.Header
	tag := `"` + r.Picture.Digest + `"`
	h.Set("ETag", tag)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	if string(c.Ctx.QueryArgs().Peek("v")) == r.Picture.Digest {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "public, max-age=300")
	}
	if bytes.Contains(c.Ctx.Request.Header.Peek("If-None-Match"), []byte(tag)) {
		c.Ctx.SetStatusCode(304)
		return nil
	}
	h.SetContentType(r.Picture.Type)
	c.Ctx.Response.SetBodyRaw(r.Picture.Data)
	return nil
}
