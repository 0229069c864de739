package chat

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
	"farebox/routes"
)

const (
	// maxFiles is how many file parts of a request are read.
	maxFiles = 5
	// maxFile is the largest of them (addendum 5.2).
	maxFile = 25 << 20
)

// readFiles puts the text of every file part in its place, for models that take none
// (addendum 5.2). It stands before the hold, since what the texts cost is their
// tokens; who has nothing to pay them with is denied without.
func (c *inference) readFiles() *routes.Error {
	if usd, diem, _ := c.call.Key.BalanceAt(c.call.StartNs); usd+diem <= 0 && !c.call.Model.Price.Free {
		return nil
	}
	doc := c.chat.Doc
	var patches []proxy.Patch
	messages := doc.TopIndex(dialect.ChatMessages)
	for m := messages + 1; m < doc.Fields[messages].Next; m = doc.Fields[m].Next {
		content := doc.Member(m, dialect.MessageContent)
		if content < 0 || doc.Fields[content].Kind != scan.Array {
			continue
		}
		for p := content + 1; p < doc.Fields[content].Next; p = doc.Fields[p].Next {
			if string(c.chat.Text(doc.Member(p, dialect.PartType))) != "file" {
				continue
			}
			with, e := c.readFile(p)
			if e != nil {
				return e
			}
			f := &doc.Fields[p]
			patches = append(patches, proxy.Patch{From: int(f.From), To: int(f.To), With: with})
		}
	}
	return c.rewrite(patches)
}

// readFile makes the text part that stands for a file part.
func (c *inference) readFile(part int32) ([]byte, *routes.Error) {
	doc := c.chat.Doc
	file := doc.Member(part, dialect.PartFile)
	at := doc.Member(file, dialect.FileData)
	path := doc.Path(at)
	raw, no := fileBytes(string(dialect.AppendUnescaped(nil, c.chat.Text(at))))
	if no != "" {
		return nil, routes.Invalid(routes.Issue{Code: "custom", Path: path, Message: path + ": " + no})
	}
	text, e := c.of.web.Document(c.call, path, raw)
	if e != nil {
		return nil, e
	}
	head := "The text of an attached file"
	if name := dialect.AppendUnescaped(nil, c.chat.Text(doc.Member(file, dialect.FileName))); len(name) > 0 {
		head += ", " + strconv.Quote(cutText(string(name), 256))
	}
	out := dialect.AppendString([]byte(`{"type":"text","text":`), head+":\n\n"+text)
	if cache := c.chat.Raw(doc.Member(part, dialect.PartCacheControl)); cache != nil {
		out = append(append(out, `,"cache_control":`...), cache...)
	}
	return append(out, '}'), nil
}

// fileBytes is what a data URL holds, or says why it cannot be had.
func fileBytes(data string) (raw []byte, no string) {
	head, data, ok := strings.Cut(data, ",")
	if len(head) < 5 || !strings.EqualFold(head[:5], "data:") || !ok {
		return nil, "must be a data URL; this model follows no links to files."
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
		return nil, "is no data URL: its data cannot be decoded."
	case len(raw) > maxFile:
		return nil, "is too large; a file may have at most " + config.Size(maxFile).String() + "."
	}
	return raw, ""
}

// rewrite makes the body another one. It is read again as if the client had sent it,
// so that what follows (prices, links, every dialect) knows one body.
func (c *inference) rewrite(patches []proxy.Patch) *routes.Error {
	if len(patches) == 0 {
		return nil
	}
	slices.SortStableFunc(patches, func(a, b proxy.Patch) int { return a.From - b.From })
	body := proxy.AppendPatched(make([]byte, 0, proxy.PatchedLen(c.chat.Body, patches)), c.chat.Body, patches)
	if err := c.chat.Doc.Skim(body, c.view.book.Root); err != nil {
		return &routes.Error{Status: http.StatusBadRequest, Code: "INVALID_REQUEST",
			Message: "The request has no room for what is put into it; please shorten it."}
	}
	c.chat.Body = body
	if c.lookup != nil {
		c.lookup.user = c.lastUser()
	}
	return nil
}
