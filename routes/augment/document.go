package augment

import (
	"context"
	"errors"
	"strconv"
	"unicode/utf8"

	"farebox/billing/replay"
	"farebox/config"
	"farebox/providers/fetch"
	"farebox/providers/jail"
	"farebox/providers/parse"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
	"farebox/routes"
)

// maxDocument is the largest file (addendum 12.3).
const maxDocument = 25 << 20

// mostForm is the largest form with such a file.
func mostForm(*config.Config) int { return maxDocument + 64<<10 }

var formats = []string{"json", "text"}

// documentBook describes a form (addendum 12.3).
var documentBook = routes.NewRulebook(
	scan.NewShape(scan.Member{Name: "file"}, scan.Member{Name: "response_format"}),
	map[string]*routes.Rule{
		"file":            {Kinds: routes.String, Required: true, NonEmpty: true, Format: "binary"},
		"response_format": {Kinds: routes.String, Enum: formats, Default: "json"},
	})

// document answers POST /augment/text-parser: the text of a file
// (interface.md, Augment).
func (ca *Capability) document(rc *routes.Call) *routes.Error {
	c := ca.begin(rc, documents)
	file, format, e := readForm(rc)
	if e != nil {
		return e
	}
	parser := c.view.tools.Documents
	return c.sell(parser.Longest(), func() *routes.Error {
		var text parse.Text
		cause, err := ca.attend(rc, parser.Longest(), func(ctx context.Context) (err error) {
			// A client that leaves while others' documents are read owes nothing.
			text, err = parser.Text(jail.OnStart(ctx, func() { c.begun.Store(true) }), file)
			return err
		})
		switch {
		case cause != proxy.None:
			return c.gone(cause)
		case err != nil:
			return noText("file", err)
		}
		answer := &c.sale.Answer
		if text.Truncated {
			answer.Headers = []replay.Header{{Name: string(c.view.truncated), Value: "true"}}
		}
		if format == "text" {
			answer.Body, answer.Type = []byte(text.Text), "text/plain; charset=utf-8"
			return nil
		}
		b := jsontext.Object("{").Text("text", text.Text).Int("tokens", tokensOf(text.Text))
		if text.Truncated {
			b = append(b, `,"truncated":true`...)
		}
		if text.Pages > 0 {
			b = b.Int("pages_read", int64(text.Pages))
		}
		if text.AllPages > 0 {
			b = b.Int("pages_total", int64(text.AllPages))
		}
		answer.Body = append(b, '}')
		return nil
	})
}

// tokensOf is the estimate of the specification: a token has 3.2 characters
// (addendum 12.3).
func tokensOf(text string) int64 { return (int64(utf8.RuneCountInString(text))*10 + 31) / 32 }

// readForm finds the file and the wanted format.
func readForm(c *routes.Call) (file []byte, format string, e *routes.Error) {
	parts, e := c.ReadForm()
	if e != nil {
		return nil, "", e
	}
	format = "json"
	var v routes.Validator
	files := 0
	for i := range parts {
		p := &parts[i]
		switch p.Name {
		case "file":
			files++
			if file = p.Content; !p.IsFile {
				v.Add(routes.Issue{Code: "invalid_type", Path: "file", Expected: "file", Received: "string",
					Message: "file: expected a file with a filename, received a field."})
			}
		case "response_format":
			if format = string(p.Content); format != "json" && format != "text" {
				v.Add(routes.Issue{Code: "invalid_enum_value", Path: p.Name, Received: routes.Excerpt(p.Content),
					Options: formats, Message: p.Name + ": expected json or text, received " + routes.Quoted(format) + "."})
			}
		default:
			v.Unrecognized("", p.Name)
		}
	}
	switch {
	case files == 0:
		v.Add(routes.Issue{Code: "invalid_type", Path: "file", Expected: "file", Received: "undefined",
			Message: "file: is required."})
	case files > 1:
		v.Add(routes.Issue{Code: "too_big", Path: "file", Maximum: "1",
			Message: "file: expected one file, received " + strconv.Itoa(files) + "."})
	case len(file) > maxDocument:
		return nil, "", &routes.Error{Status: 413, Code: "PAYLOAD_TOO_LARGE",
			Message: "The file is too large; at most " + config.Size(maxDocument).String() + " are taken.", Uncounted: true}
	}
	if len(v.Issues) > 0 {
		return nil, "", routes.Invalid(v.Issues...)
	}
	return file, format, nil
}

// noText is the answer when a document has no text that can be had: 400 with the
// reason (addendum 12.3). It costs nothing.
func noText(path string, err error) *routes.Error {
	var refusal *parse.Error
	var link *fetch.Error
	if errors.As(err, &link) && link.Reason != fetch.Busy {
		return routes.Invalid(routes.Issue{Code: "custom", Path: path, Message: path + ": " + link.Text()})
	}
	if !errors.As(err, &refusal) || refusal.Reason == parse.Unavailable {
		return &routes.Error{Status: 503, RetryAfter: routes.RetrySoon,
			Message: "No document can be read at the moment; nothing was charged. Please retry."}
	}
	return routes.Invalid(routes.Issue{Code: "custom", Path: path, Message: path + ": " + refusal.Text()})
}
