package image

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"farebox/config"
	"farebox/providers/image/picture"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
	"farebox/routes"
)

// imageForm is the body of a request for pictures, JSON or multipart, after
// the rules of its endpoint were applied.
type imageForm struct {
	v routes.Validator
	// files are pictures that came as parts of a multipart body, or as text
	// fields of one: base64 or links.
	files []formFile
}

type formFile struct {
	id int // of the member
	routes.FormPart
}

// severalPictures is the limit of a form with several pictures: four of the
// largest. The cap of forms is one of 25 MB a file (addendum 3.1), so that they
// may have more than JSON.
func severalPictures(cfg *config.Config) int {
	return min(4*picture.MaxSize+1<<20, int(cfg.Server.MaxInFlight))
}

// pictureMembers are those that a multipart body may have as files.
var pictureMembers = []int{imageImage, imageImage2, imageImage3, imageImages, imageMask, imageURL}

// readForm reads and checks a body. Mistakes that need the model to be
// told come later; until then they are in issues.
func readForm(c *routes.Call, book *routes.Rulebook) (*imageForm, *routes.Error) {
	f := &imageForm{v: routes.Validator{Doc: &c.Doc, Book: book}}
	var e *routes.Error
	takesForms, contentType := c.Row.Form == routes.JSONOrForm, c.Ctx.Request.Header.ContentType()
	if boundary, err := routes.BoundaryOf(contentType); takesForms && (boundary != "" || err != nil) {
		e = f.readParts(c, boundary, err)
	} else if e = c.ReadJSON(imageShape); e == nil {
		f.v.Body = c.Body
	} else if takesForms && e.Status == 415 && len(c.Ctx.Request.Header.ContentEncoding()) == 0 {
		e.Message = "Content-Type must be application/json or multipart/form-data, is " +
			strconv.Quote(routes.Excerpt(contentType)) + "."
	}
	if e != nil {
		return nil, e
	}
	f.v.CheckAll()
	c.NoteUser(f.v.Text(-1, imageUser))
	return f, nil
}

// readParts makes JSON of the fields of a multipart body, so that one set of
// rules holds for both forms, and keeps the files where they are.
func (f *imageForm) readParts(c *routes.Call, boundary string, err error) *routes.Error {
	parts, e := c.ReadParts(boundary, err)
	if e != nil {
		return e
	}
	body := []byte{'{'}
	for _, p := range parts {
		// OpenAI's packages write image[] for several.
		id := imageShape.ID(strings.TrimSuffix(p.Name, "[]"))
		r := f.ruleOf(id)
		switch {
		case slices.Contains(pictureMembers, id) && r != nil && (p.IsFile || id != imageURL):
			f.files = append(f.files, formFile{id, p})
			continue
		case p.IsFile:
			name := routes.Excerpt([]byte(p.Name))
			f.v.Add(routes.Issue{Code: "custom", Named: name, Message: name + ": is not a file field here."})
			continue
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(jsontext.AppendString(body, p.Name), ':')
		body = appendField(body, p.Content, r)
	}
	f.v.Body = append(body, '}')
	if err := c.Doc.Skim(f.v.Body, imageShape); err != nil {
		se := err.(*scan.Error)
		return routes.InvalidBody(se.Path, se.Error())
	}
	return nil
}

// appendField writes a field of a form as the JSON value that its rule asks for.
func appendField(b, text []byte, r *routes.Rule) []byte {
	switch {
	case r != nil && r.Kinds&routes.Number != 0 && isNumber(text), r != nil && r.Kinds == routes.Bool &&
		(string(text) == "true" || string(text) == "false"):
		return append(b, text...)
	}
	return jsontext.AppendString(b, string(text))
}

func isNumber(text []byte) bool {
	return len(text) < 32 && len(text) > 0 && (text[0] == '-' || text[0] >= '0' && text[0] <= '9') &&
		gjson.ValidBytes(text)
}

func (f *imageForm) ruleOf(id int) *routes.Rule {
	if id < 0 {
		return nil
	}
	return f.v.Book.Rule(imageShape, id)
}

// words is a text member as the client meant it; empty when it is absent.
func (f *imageForm) words(id int) string { return f.v.Words(-1, id) }

// prompt is the text of a member, no longer than its rule says and not blank.
func (f *imageForm) prompt(id int) string {
	text := f.words(id)
	if n, most := utf8.RuneCountInString(text), f.ruleOf(id).Characters; n > most {
		f.tooLong(id, n, int64(most), "")
	} else if text != "" && strings.TrimSpace(text) == "" {
		f.v.Add(routes.Issue{Code: "too_small", Path: imageShape.Name(id), Minimum: "1",
			Message: imageShape.Name(id) + ": must not be blank."})
	}
	return text
}

func (f *imageForm) tooLong(id, n int, most int64, of string) {
	name, limit := imageShape.Name(id), strconv.FormatInt(most, 10)
	f.v.Add(routes.Issue{Code: "too_big", Path: name, Maximum: limit,
		Message: name + ": must have at most " + limit + " characters" + of + ", has " + strconv.Itoa(n) + "."})
}

// flag is a boolean member, also one that is written as text.
func (f *imageForm) flag(id int, otherwise bool) bool {
	field := f.v.Member(-1, id)
	if field == nil {
		return otherwise
	}
	switch field.Kind {
	case scan.True:
		return true
	case scan.False:
		return false
	}
	return string(f.v.Text(-1, id)) == "true"
}

// number is a number member that passed its rule.
func (f *imageForm) number(parent int32, id int) (x float64, ok bool) {
	field := f.v.Member(parent, id)
	if field == nil || field.Kind != scan.Number {
		return 0, false
	}
	x, err := strconv.ParseFloat(routes.ViewString(field.Raw(f.v.Body)), 64)
	return x, err == nil
}

// has says that a member is there and not null.
func (f *imageForm) has(id int) bool { return f.v.Member(-1, id) != nil }

// choice is a text member, or its default.
func (f *imageForm) choice(id int, otherwise string) string {
	return cmp.Or(f.words(id), otherwise)
}

// together refuses two spellings of one thing that differ.
func (f *imageForm) together(a, b int) {
	x, isNumber := f.number(-1, a)
	y, areNumbers := f.number(-1, b)
	if isNumber && areNumbers && x == y {
		return
	}
	if f.has(a) && f.has(b) && !bytes.Equal(f.v.Member(-1, a).Raw(f.v.Body), f.v.Member(-1, b).Raw(f.v.Body)) {
		name, other := imageShape.Name(a), imageShape.Name(b)
		f.v.Wrong(other, "says something else than "+name+"; give one of them.")
	}
}

// source is a picture of the client as it came.
type source struct {
	path   string
	quoted []byte // text of a JSON string as it is in the body, or a field of a form
	file   []byte // a part of a form; quoted is nil then
}

// pictures are the sources of a member, in order.
func (f *imageForm) pictures(id int) (list []source) {
	name := imageShape.Name(id)
	for i := range f.files {
		file := &f.files[i]
		if file.id != id {
			continue
		}
		if file.IsFile {
			list = append(list, source{path: name, file: file.Content})
		} else {
			list = append(list, source{path: name, quoted: file.Content})
		}
	}
	field := f.v.Member(-1, id)
	if field == nil {
		return list
	}
	raw := field.Raw(f.v.Body)
	switch field.Kind {
	case scan.String:
		return append(list, source{path: name, quoted: raw[1 : len(raw)-1]})
	case scan.Array:
		gjson.Parse(routes.ViewString(raw)).ForEach(func(_, value gjson.Result) bool {
			path := name + "." + strconv.Itoa(len(list))
			if value.Type != gjson.String || len(value.Raw) <= 2 {
				f.v.Add(routes.Issue{Code: "invalid_type", Path: path, Expected: "string",
					Message: path + ": expected a picture as base64 text or link."})
				return false
			}
			text := routes.ViewBytes(value.Raw)
			list = append(list, source{path: path, quoted: text[1 : len(text)-1]})
			return len(list) <= routes.MaxParts
		})
	}
	return list
}

// noPicture notes that a picture is missing.
func (f *imageForm) noPicture(name string) {
	f.v.Missing(name, "string", "is required: base64 text, a link, or a file of a multipart form.")
}

// unquoted is the text of a JSON string without its quotes.
func unquoted(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted)
	}
	return gjson.Parse(`"` + string(quoted) + `"`).Str
}
