package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"farebox/providers/jail"
)

// work is the name of the children's work.
const work = "schemas"

const (
	compileJob = "schema-compile" // is it a schema?
	checkJob   = "schema-check"   // do answers follow it?

	codeSchema = "schema"
	codeAnswer = "answer"
)

// maxDepth is how deep a schema may be nested.
const maxDepth = 64

// Work does the work of this process, and does not return, where it is a child that
// checks answers. In any other it does nothing.
func Work() {
	if jail.IsChild(work) {
		jail.Main(jail.Jobs{compileJob: compileOnly, checkJob: checkAll})
	}
}

// task is the input of a child.
type task struct {
	Schema  json.RawMessage
	Answers []string
}

func (t *task) encode() []byte {
	in, err := json.Marshal(t)
	if err != nil {
		return nil // the child says that it is not one
	}
	return in
}

func compileOnly(in []byte, _ string) ([]byte, error) {
	var t task
	if err := json.Unmarshal(in, &t); err != nil {
		return nil, err
	}
	_, err := compile(t.Schema)
	return nil, err
}

func checkAll(in []byte, _ string) ([]byte, error) {
	var t task
	if err := json.Unmarshal(in, &t); err != nil {
		return nil, err
	}
	s, err := compile(t.Schema)
	if err != nil {
		return nil, err
	}
	for i, answer := range t.Answers {
		if reason := check(s, answer); reason != "" {
			which := "The answer"
			if len(t.Answers) > 1 {
				which = "Choice " + strconv.Itoa(i)
			}
			return nil, &jail.Refusal{Code: codeAnswer, Text: which + " does not follow its schema: " + reason}
		}
	}
	return nil, nil
}

// errRemote is the answer to every reference that leads out of the schema.
var errRemote = errors.New("references may lead within the schema only")

type nothing struct{}

func (nothing) Load(string) (any, error) { return nil, errRemote }

// compile makes a schema ready; the error is a *jail.Refusal for its author.
func compile(raw []byte) (*jsonschema.Schema, error) {
	bad := func(text string) error { return &jail.Refusal{Code: codeSchema, Text: text} }
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, bad("is not JSON.")
	}
	if deeper(doc, maxDepth) {
		return nil, bad("is nested deeper than " + strconv.Itoa(maxDepth) + " levels.")
	}
	const here = "schema:///answer"
	c := jsonschema.NewCompiler()
	c.UseLoader(nothing{})
	if err := c.AddResource(here, doc); err != nil {
		return nil, bad("cannot be used: " + short(err.Error()))
	}
	s, err := c.Compile(here)
	var invalid *jsonschema.SchemaValidationError
	var inner *jsonschema.ValidationError
	var remote *jsonschema.LoadURLError
	switch {
	case err == nil && counter{}.steps(s) > maxSteps:
		return nil, bad("needs too many steps to be checked: more than " + strconv.Itoa(maxSteps) +
			" subschemas, with all references followed.")
	case err == nil:
		return s, nil
	case errors.As(err, &remote):
		return nil, bad("has a reference that leads out of it; " + errRemote.Error() + ".")
	case errors.As(err, &invalid) && errors.As(invalid.Err, &inner):
		return nil, bad("is not a JSON schema: " + first(inner))
	}
	return nil, bad("is not a JSON schema: " + short(strings.ReplaceAll(err.Error(), here, "")))
}

// check says how an answer breaks its schema; empty: it does not.
func check(s *jsonschema.Schema, answer string) string {
	d := json.NewDecoder(strings.NewReader(answer))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return "it is not JSON."
	}
	if _, err := d.Token(); err != io.EOF {
		return "it has text after its JSON."
	}
	var wrong *jsonschema.ValidationError
	switch err := s.Validate(value); {
	case err == nil:
		return ""
	case errors.As(err, &wrong):
		return first(wrong)
	default:
		return short(err.Error())
	}
}

var english = message.NewPrinter(language.English)

// first says where and how, of the first thing that is wrong.
func first(e *jsonschema.ValidationError) string {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	at := "at its top"
	if len(e.InstanceLocation) > 0 {
		at = "at /" + strings.Join(e.InstanceLocation, "/")
	}
	return short(fmt.Sprintf("%s: %s", at, e.ErrorKind.LocalizedString(english))) + "."
}

// short cuts a text of any length, between two characters.
func short(text string) string {
	const most = 300
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// deeper says that a value is nested deeper than so many levels.
func deeper(v any, most int) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if most == 0 || deeper(member, most-1) {
				return true
			}
		}
	case []any:
		for _, element := range v {
			if most == 0 || deeper(element, most-1) {
				return true
			}
		}
	}
	return false
}
