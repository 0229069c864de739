package jobs

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"farebox/proxy/scan"
	"farebox/routes"
)

// form is a body about a job, checked as far as no model is needed for it. Mistakes are
// in its issues until the model is known.
type form struct {
	routes.Validator
	kind *kind
	spec any    // of the model, once that is chosen
	id   string // of the model
}

// maxQueueID leaves room beyond the 36 characters of a UUID: a longer id is too long, any other
// that is no UUID is malformed.
const maxQueueID = 64

var (
	ruleModel   = &routes.Rule{Kinds: routes.String, Required: true, NonEmpty: true}
	ruleQueueID = &routes.Rule{Kinds: routes.String, Required: true, NonEmpty: true, Length: maxQueueID, Format: "uuid"}
)

// read reads a body by the rules of its endpoint.
func (k *kind) read(c *routes.Call) (*form, *routes.Error) {
	if e := c.ReadJSON(k.shape); e != nil {
		return nil, e
	}
	return k.newForm(c.Body, &c.Doc, c.Rules()), nil
}

// newForm checks a body that was scanned.
func (k *kind) newForm(body []byte, doc *scan.Document, book *routes.Rulebook) *form {
	f := &form{Validator: routes.Validator{Body: body, Doc: doc, Book: book}, kind: k}
	f.CheckAll()
	k.check(f)
	return f
}

// choose reads a body, finds the model that it names, and refuses all issues so far.
func (k *kind) choose(c *routes.Call) (*form, *routes.Error) {
	f, e := k.read(c)
	if e != nil {
		return nil, e
	}
	name := []byte(f.words(k.memberModel))
	model, match := c.Catalog().Resolve(name, k.Name)
	if e := c.UseModel(name, k.Name, model, match, f.Issues); e != nil {
		return nil, e
	}
	f.spec, f.id = model.Config.Spec, model.ID
	return f, nil
}

// has says that a member is there and not null.
func (f *form) has(id int) bool { return f.Member(-1, id) != nil }

// words is a text member; empty when it is absent.
func (f *form) words(id int) string { return f.Words(-1, id) }

// checkText refuses a text that is too long, or blank where it must not be.
func (f *form) checkText(id, most int, mayBeBlank bool) {
	name, text := f.kind.shape.Name(id), f.words(id)
	if n := utf8.RuneCountInString(text); n > most {
		f.Add(tooLong(name, int64(n), int64(most), ""))
	} else if !mayBeBlank && text != "" && strings.TrimSpace(text) == "" {
		f.Add(routes.Issue{Code: "too_small", Path: name, Minimum: "1", Message: name + ": must not be blank."})
	}
}

func tooLong(name string, n, most int64, of string) routes.Issue {
	limit := strconv.FormatInt(most, 10)
	return routes.Issue{Code: "too_big", Path: name, Maximum: limit,
		Message: name + ": must have at most " + limit + " characters" + of + ", has " + strconv.FormatInt(n, 10) + "."}
}

// unsupported refuses a feature that the model lacks; it counts into the budget of refused
// features.
func (f *form) unsupported(id int, what string) *routes.Error {
	return routes.Unsupported(f.kind.shape.Name(id), "Model "+f.id+" does not support "+what+".")
}

// oneOf is the client's choice from a list of the model; empty: it did not choose.
func (f *form) oneOf(id int, options []string, what string) (string, *routes.Error) {
	value := f.words(id)
	switch {
	case value == "":
		return "", nil
	case len(options) == 0:
		return "", f.unsupported(id, what)
	case slices.Contains(options, value):
		return value, nil
	}
	name := f.kind.shape.Name(id)
	return "", routes.Invalid(routes.Issue{Code: "invalid_enum_value", Path: name, Received: value, Options: options,
		Message: name + ": model " + f.id + " takes one of " + strings.Join(options, ", ") + ", not " + value + "."})
}
