package chat

import (
	"encoding/base64"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
	"farebox/routes"
)

const (
	// maxFiles is how many file parts of a request are read.
	maxFiles = 5
	// maxFile is the largest of them (addendum 5.2).
	maxFile = 25 << 20
)

// file is a file part whose data was put aside.
type file struct {
	path string
	data []byte // as it is in the client's body, with JSON's escapes
	link bool
}

// setFilesAside takes the data of the file parts out of the body, for models without file input
// (addendum 5.2). Limits and the hold are asked for the rest; only then are the files read, so
// that nobody has us fetch and read for nothing.
func (c *inference) setFilesAside() *routes.Error {
	var patches []proxy.Patch
	for p := range c.fileParts() {
		at := c.chat.Doc.Member(c.chat.Doc.Member(p, dialect.PartFile), dialect.FileData)
		f := file{path: c.chat.Doc.Path(at), data: c.chat.Text(at)}
		switch head := strings.ToLower(string(jsontext.AppendUnescaped(nil, f.data[:min(len(f.data), 6*len("https://"))]))); {
		case strings.HasPrefix(head, "http://"), strings.HasPrefix(head, "https://"):
			f.link = true
		case !strings.HasPrefix(head, "data:"):
			return routes.Invalid(routes.Issue{Code: "custom", Path: f.path,
				Message: f.path + ": must be a data URL, or a link that begins with https:// or http://."})
		}
		c.files = append(c.files, f)
		value := &c.chat.Doc.Fields[at]
		patches = append(patches, proxy.Patch{From: int(value.From), To: int(value.To), With: []byte(`""`)})
	}
	return c.rewrite(patches)
}

// readFiles puts the texts of the files in the places of their parts, and has the hold
// pay for them.
func (c *inference) readFiles() *routes.Error {
	var patches []proxy.Patch
	next := 0
	for p := range c.fileParts() {
		with, e := c.readFile(p, &c.files[next])
		if e != nil {
			return e
		}
		next++
		f := &c.chat.Doc.Fields[p]
		patches = append(patches, proxy.Patch{From: int(f.From), To: int(f.To), With: with})
	}
	c.files = nil
	if e := c.rewrite(patches); e != nil {
		return e
	}
	return c.cover()
}

// fileParts are the file parts of all messages, in their order.
func (c *inference) fileParts() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		doc := c.chat.Doc
		messages := doc.TopIndex(dialect.ChatMessages)
		for m := messages + 1; m < doc.Fields[messages].Next; m = doc.Fields[m].Next {
			content := doc.Member(m, dialect.MessageContent)
			if content < 0 || doc.Fields[content].Kind != scan.Array {
				continue
			}
			for p := content + 1; p < doc.Fields[content].Next; p = doc.Fields[p].Next {
				if string(c.chat.Text(doc.Member(p, dialect.PartType))) == "file" && !yield(p) {
					return
				}
			}
		}
	}
}

// readFile makes the text part that stands for a file part.
func (c *inference) readFile(part int32, f *file) ([]byte, *routes.Error) {
	data := string(jsontext.AppendUnescaped(nil, f.data))
	source := routes.WebDocument{Path: f.path, Most: maxFile}
	if f.link {
		source.Link = data
	} else {
		raw, reason := fileBytes(data)
		if reason != "" {
			return nil, routes.Invalid(routes.Issue{Code: "custom", Path: f.path, Message: f.path + ": " + reason})
		}
		source.Bytes = raw
	}
	text, e := c.owner.web.Document(c.call, &source)
	if e != nil {
		return nil, e
	}
	doc := c.chat.Doc
	head := "The text of an attached file"
	name := jsontext.AppendUnescaped(nil, c.chat.Text(doc.Member(doc.Member(part, dialect.PartFile), dialect.FileName)))
	if len(name) > 0 {
		head += ", " + strconv.Quote(cutText(string(name), 256))
	}
	out := jsontext.AppendString([]byte(`{"type":"text","text":`), head+":\n\n"+text)
	if cache := c.chat.Raw(doc.Member(part, dialect.PartCacheControl)); cache != nil {
		out = append(append(out, `,"cache_control":`...), cache...)
	}
	return append(out, '}'), nil
}

// fileBytes is the content of a data URL, or the reason that it cannot be read.
func fileBytes(data string) (raw []byte, reason string) {
	head, data, ok := strings.Cut(data, ",")
	if len(head) < 5 || !strings.EqualFold(head[:5], "data:") || !ok {
		return nil, "is not a data URL: it has no data."
	}
	var err error
	if strings.HasSuffix(strings.ToLower(head), ";base64") {
		raw, err = base64.StdEncoding.DecodeString(data)
		if err != nil {
			raw, err = base64.RawStdEncoding.DecodeString(data)
		}
	} else if data, err = url.PathUnescape(data); err == nil {
		raw = []byte(data)
	}
	switch {
	case err != nil:
		return nil, "is not a data URL: its data cannot be decoded."
	case len(raw) > maxFile:
		return nil, "is too large; a file may have at most " + config.Size(maxFile).String() + "."
	}
	return raw, ""
}

// rewrite makes the body another one. It is read again as if the client had sent it, so that all
// later steps (prices, links, every dialect) know one body.
func (c *inference) rewrite(patches []proxy.Patch) *routes.Error {
	if len(patches) == 0 {
		return nil
	}
	slices.SortStableFunc(patches, func(a, b proxy.Patch) int { return a.From - b.From })
	body := proxy.AppendPatched(make([]byte, 0, proxy.PatchedLen(c.chat.Body, patches)), c.chat.Body, patches)
	if err := c.chat.Doc.Skim(body, c.view.book.Root); err != nil {
		return &routes.Error{Status: http.StatusBadRequest, Code: "INVALID_REQUEST",
			Message: "The request has no space for the added text; please shorten it."}
	}
	c.chat.Body = body
	if c.lookup != nil {
		c.lookup.user = c.lastUser()
	}
	return nil
}
