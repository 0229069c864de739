package routes

import (
	"bytes"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"farebox/proxy/scan"
)

// Excerpt shortens text from a client for an error message, where it is put into a sentence; clip
// bounds the sum of them.
func Excerpt(s []byte) string {
	const most = 67
	if len(s) > most {
		s = s[:min(len(s), most+utf8.UTFMax)] // no copy of megabytes
	}
	return clip(string(s), most)
}

// ViewString is b as text without a copy: read only, and no longer used than b.
func ViewString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// ViewBytes is the bytes of s without a copy: read only.
func ViewBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// ReadJSON checks the content type and scans the body once.
func (c *Call) ReadJSON(shape *scan.Shape) *Error {
	if e := c.WantJSON(); e != nil {
		return e
	}
	return c.UseJSON(c.Ctx.Request.Body(), shape)
}

// UseJSON makes a text the body, also in the place of the client's own.
func (c *Call) UseJSON(body []byte, shape *scan.Shape) *Error {
	if len(body) == 0 {
		return InvalidBody("", "the request body is empty; a JSON object is expected")
	}
	if err := c.Doc.SkimStrict(body, shape); err != nil {
		se := err.(*scan.Error)
		e := InvalidBody(se.Path, se.Error())
		e.Uncounted = se.Reason != scan.Duplicate && se.Reason != scan.Variant
		return e
	}
	c.Body = body
	return nil
}

// ReadBody reads the body by the rules of the row, and refuses bodies that break them.
func (c *Call) ReadBody() (*Validator, *Error) {
	book := c.Rules()
	if e := c.ReadJSON(book.Root); e != nil {
		return nil, e
	}
	v := &Validator{Body: c.Body, Doc: &c.Doc, Book: book}
	if v.CheckAll(); len(v.Issues) > 0 {
		return nil, Invalid(v.Issues...)
	}
	return v, nil
}

// WantJSON refuses a body of another content type than JSON.
func (c *Call) WantJSON() *Error {
	h := &c.Ctx.Request.Header
	contentType := h.ContentType()
	if c.Row.Form == RawJSON {
		// A client library adds its own type to the one its user set.
		contentType, _, _ = bytes.Cut(contentType, []byte(","))
	}
	refuse := func(text string) *Error {
		return &Error{Status: 415, Code: "INVALID_CONTENT_TYPE", Message: text, Uncounted: true}
	}
	if !IsMedia(contentType, "application/json") {
		return refuse("Content-Type must be application/json, is " + strconv.Quote(Excerpt(h.ContentType())) + ".")
	}
	if coding := h.ContentEncoding(); len(coding) > 0 && !bytes.EqualFold(coding, []byte("identity")) {
		return refuse("Content-Encoding " + strconv.Quote(Excerpt(coding)) +
			" is not accepted on requests; send the JSON as it is.")
	}
	return nil
}

// IsMedia says that a Content-Type is of a media type, whatever its parameters.
func IsMedia(contentType []byte, want string) bool {
	media, _, _ := bytes.Cut(contentType, []byte(";"))
	return bytes.EqualFold(bytes.TrimSpace(media), ViewBytes(want))
}

// WriteJSON makes a body the answer.
func (c *Call) WriteJSON(body []byte) *Error {
	c.Ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	c.Ctx.Response.SetBodyRaw(body)
	return nil
}

// JSONType is the media type of JSON.
const JSONType = "application/json"
