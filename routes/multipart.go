package routes

import (
	"bytes"
	"errors"
	"mime"
	"strconv"
)

// Limits of a multipart body (RFC 7578).
const (
	MaxParts      = 128     // fields and files
	maxPartHead   = 4 << 10 // bytes of a part's headers
	maxPartFields = 16      // headers of a part
)

// FormPart is one field or file of a multipart body. Everything of it but the name
// is a slice of the body: mime/multipart would copy each file.
type FormPart struct {
	Name    string
	IsFile  bool
	Content []byte
}

var (
	errBoundary   = errors.New("the Content-Type names no boundary of 1 to 70 characters")
	errParts      = errors.New("the body has too many parts; at most 128 are taken")
	errPartHead   = errors.New("the headers of a part cannot be read")
	errPartName   = errors.New("a part has no name in its Content-Disposition")
	errPartCoding = errors.New("a part has a Content-Transfer-Encoding; send its bytes as they are")
	errPartEnd    = errors.New("the body ends before its last boundary")
)

// BoundaryOf is the boundary between the parts; empty when contentType is not
// multipart/form-data.
func BoundaryOf(contentType []byte) (boundary string, err error) {
	media, params, err := mime.ParseMediaType(string(contentType))
	if media != "multipart/form-data" {
		return "", nil
	}
	boundary = params["boundary"]
	if err != nil || boundary == "" || len(boundary) > 70 {
		return "", errBoundary
	}
	return boundary, nil
}

// ReadParts reads a form by the result of BoundaryOf.
func (c *Call) ReadParts(boundary string, err error) ([]FormPart, *Error) {
	var parts []FormPart
	if err == nil {
		parts, err = ParseParts(c.Ctx.Request.Body(), boundary)
	}
	if err != nil {
		e := InvalidBody("", err.Error())
		e.Uncounted = true
		return nil, e
	}
	return parts, nil
}

// ReadForm reads the body of a row that takes nothing but forms.
func (c *Call) ReadForm() ([]FormPart, *Error) {
	h := &c.Ctx.Request.Header
	boundary, err := BoundaryOf(h.ContentType())
	if boundary == "" && err == nil || len(h.ContentEncoding()) > 0 {
		return nil, &Error{Status: 415, Code: "INVALID_CONTENT_TYPE", Uncounted: true,
			Message: "Content-Type must be multipart/form-data, is " + strconv.Quote(Excerpt(h.ContentType())) + "."}
	}
	return c.ReadParts(boundary, err)
}

// ParseParts cuts a body into its parts without copying them.
func ParseParts(body []byte, boundary string) (parts []FormPart, err error) {
	between := []byte("\r\n--" + boundary)
	// Bytes before the first boundary are nobody's; mostly there are none.
	rest, ok := bytes.CutPrefix(body, between[2:])
	if !ok {
		if _, rest, ok = bytes.Cut(body, between); !ok {
			return nil, errPartEnd
		}
	}
	for {
		rest = bytes.TrimLeft(rest, " \t")
		switch {
		case bytes.HasPrefix(rest, []byte("--")):
			return parts, nil
		case !bytes.HasPrefix(rest, []byte("\r\n")):
			return nil, errPartEnd
		case len(parts) == MaxParts:
			return nil, errParts
		}
		content, more, ok := bytes.Cut(rest, between)
		if !ok {
			return nil, errPartEnd
		}
		p, err := parsePart(content)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
		rest = more
	}
}

// parsePart reads a part, from the line end behind its boundary on.
func parsePart(p []byte) (FormPart, error) {
	if bytes.HasPrefix(p, []byte("\r\n\r\n")) {
		return FormPart{}, errPartName
	}
	at := bytes.Index(p[:min(len(p), maxPartHead)], []byte("\r\n\r\n"))
	if at < 0 {
		return FormPart{}, errPartHead
	}
	lines := bytes.Split(p[2:at], []byte("\r\n"))
	if len(lines) > maxPartFields {
		return FormPart{}, errPartHead
	}
	found := FormPart{Content: p[at+4:]}
	named := false
	for _, line := range lines {
		field, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !isToken(field) {
			return FormPart{}, errPartHead // a folded line, among others
		}
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(field, []byte("Content-Disposition")):
			media, params, err := mime.ParseMediaType(string(value))
			if err != nil || media != "form-data" || named {
				return FormPart{}, errPartHead
			}
			named = true
			found.Name = params["name"]
			_, found.IsFile = params["filename"]
		case bytes.EqualFold(field, []byte("Content-Transfer-Encoding")):
			if !bytes.EqualFold(value, []byte("binary")) && !bytes.EqualFold(value, []byte("8bit")) &&
				!bytes.EqualFold(value, []byte("7bit")) {
				return FormPart{}, errPartCoding
			}
		}
	}
	if found.Name == "" {
		return FormPart{}, errPartName
	}
	return found, nil
}

// isToken says that a header's name has only characters of a token.
func isToken(name []byte) bool {
	for _, c := range name {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return len(name) > 0
}
