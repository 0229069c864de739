package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/tidwall/sjson"
)

// tables is the folder of the rows, read when the test runs.
var tables = os.DirFS("tests/spec")

// chapter is a file of rows.
type chapter struct {
	name string
	// Bases are requests that rows begin with.
	Bases map[string]Step
	Rows  []row
}

// row is one statement, or with one of the rules below, as many as those have cases.
type row struct {
	At     string // interface: HEADING, a number of the addendum, D and a row of its section 2, or a data file
	Says   string // the statement in our words
	Config string // which gateway; empty: the usual one
	With   string // the base
	Steps  []Step // carried out one after the other; the row's own request is the last
	Step   `yaml:",inline"`

	// Rules of a member. Names are paths with dots; ?name is of the query, {name} of the path.
	Required []string // each is needed
	Nullable []string // null is as if it were absent
	Range    *bounds  // of a number
	Length   *bounds  // of a text
	Each     *cases   // values that are taken, and values that are not
	Strict   bool     // unknown members are refused
	Sent     bool     // values that are taken reach the upstream as they are

	// Differs says that it is so on purpose, and why.
	Differs *difference
	Silent  bool   // the specification does not say it
	Wrong   string // the deviation from the specification; the row asserts today's behaviour
}

// difference is a line of the page.
type difference struct {
	Does, Why, Switch string
}

type bounds struct {
	Field    string
	Min, Max *float64
	Above    bool    // Min itself is refused
	Step     float64 // between a bound and a value beyond it; default 0.01, or 1 with Whole
	Whole    bool    // numbers with a fraction are refused
}

type cases struct {
	Field     string
	Good, Bad []any
}

// Step is a request and its expected answer.
type Step struct {
	Do      string // METHOD path, below the prefix of the API unless it begins with two slashes
	As      string // whose key: inference, admin, none or another of the world; empty: inference
	Body    any    // members over those of the base, or a list or text as it is
	Drop    []string
	Form    map[string]any // a text, or {file, of, type}
	Headers map[string]string

	Status   int            // 200 by default
	Code     string         // of an error
	Error    string         // a pattern of its text
	JSON     map[string]any // by paths of gjson
	Header   map[string]any
	Upstream any    // by paths of the upstream's request; none: it got nothing
	Charged  string // USD, = and prices of tokens, or any; errors are free; checked at the end
	Keep     map[string]string
	Until    map[string]any // the request is repeated until it answers so
	Times    int            // it is sent so often, and the last answer counts
	After    int            // so often it is answered with another status first
	Together int            // so many are sent at once; one of those with the status counts
	Within   int            // so often it is sent at most until it has the status
	Pause    string         // before it
}

// statement is a row that is ready to be carried out.
type statement struct {
	*row
	chapter, name string
	steps         []Step
}

func readTables() (list []*chapter, err error) {
	files, err := fs.Glob(tables, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if name == "sections.yaml" {
			continue
		}
		text, err := fs.ReadFile(tables, name)
		if err != nil {
			return nil, err
		}
		c := &chapter{name: strings.TrimSuffix(name, ".yaml")}
		if err := yaml.UnmarshalWithOptions(text, c, yaml.Strict(), yaml.AllowDuplicateMapKey()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, c)
	}
	return list, nil
}

// over is a request with the members of another one.
func (s Step) over(with Step) Step {
	out := with
	if out.Do == "" {
		out.Do = s.Do
	}
	if out.As == "" {
		out.As = s.As
	}
	if base, ok := s.Body.(map[string]any); ok {
		switch own := with.Body.(type) {
		case nil:
			out.Body = clone(base)
		case string:
			if own == "none" {
				out.Body = nil
			}
		case map[string]any:
			merged := clone(base)
			maps.Copy(merged, own)
			out.Body = merged
		}
	} else if out.Body == nil {
		out.Body = s.Body
	} else if own, ok := out.Body.(map[string]any); ok {
		out.Body = clone(own)
	}
	if body, ok := out.Body.(map[string]any); ok {
		for _, name := range out.Drop {
			delete(body, name)
		}
	}
	if s.Form != nil {
		form := clone(s.Form)
		maps.Copy(form, with.Form)
		for _, name := range out.Drop {
			delete(form, name)
		}
		out.Form = form
	}
	if s.Headers != nil {
		headers := maps.Clone(s.Headers)
		maps.Copy(headers, with.Headers)
		out.Headers = headers
	}
	return out
}

// clone is a copy that shares nothing.
func clone(v map[string]any) map[string]any {
	return changed(v, func(text []byte) ([]byte, error) { return text, nil })
}

// changed is a copy whose JSON was changed.
func changed(v any, how func([]byte) ([]byte, error)) (out map[string]any) {
	text, err := json.Marshal(v)
	if err == nil {
		text, err = how(text)
	}
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		err = d.Decode(&out)
	}
	if err != nil {
		panic(err)
	}
	return out
}

// with sets a member of the request.
func (s Step) with(field string, value any) Step {
	out := Step{}.over(s)
	switch {
	case strings.HasPrefix(field, "{"):
		out.Do = strings.ReplaceAll(s.Do, field, fmt.Sprint(value))
	case strings.HasPrefix(field, "?"):
		path, query, _ := strings.Cut(s.Do, "?")
		values, _ := url.ParseQuery(query)
		values.Set(field[1:], fmt.Sprint(value))
		out.Do = path + "?" + strings.NewReplacer("%24%7B", "${", "%7D", "}", "%3A", ":").Replace(values.Encode())
	case s.Form != nil:
		out.Form = clone(s.Form)
		out.Form[field] = value
	default:
		out.Body = changed(s.Body, func(text []byte) ([]byte, error) { return sjson.SetBytes(text, field, value) })
	}
	return out
}

// lastOf is the name at the end of a path.
func lastOf(field string) string {
	parts := strings.FieldsFunc(field, func(r rune) bool { return r == '.' || r == '?' })
	for _, p := range slices.Backward(parts) {
		if strings.Trim(p, "0123456789") != "" {
			return p
		}
	}
	return field
}

// refused is the step for a request that has to be refused: no upstream is asked, and it is free.
func (s Step) refused(field string) Step {
	if s.Status < 400 {
		s.Status, s.JSON, s.Header, s.Charged, s.Upstream, s.Keep, s.Until = 400, nil, nil, "0", "none", nil, nil
		if s.Code == "" {
			s.Code = "INVALID_REQUEST"
		}
		if s.Error == "" {
			s.Error = lastOf(field)
		}
	}
	return s
}

// statements makes of a row all that it says.
func (c *chapter) statements(r *row) (list []statement, err error) {
	base, ok := c.Bases[r.With]
	if !ok && r.With != "" {
		return nil, fmt.Errorf("%s: %q has no base %q", c.name, r.Says, r.With)
	}
	if r.At == "" || r.Says == "" {
		return nil, fmt.Errorf("%s: a row says nothing: %+v", c.name, r)
	}
	own := base.over(r.Step)
	var before []Step
	for _, s := range r.Steps {
		before = append(before, base.over(s))
	}
	add := func(name string, last Step) {
		list = append(list, statement{row: r, chapter: c.name, name: strings.TrimSpace(r.Says + " " + name),
			steps: append(slices.Clone(before), last)})
	}
	good := func(field string, value any) {
		s := own.with(field, value)
		if r.Sent {
			s.Upstream = map[string]any{field: value}
		}
		add(field+"="+brief(value), s)
	}
	bad := func(field string, value any) {
		add("not "+field+"="+brief(value), own.with(field, value).refused(field))
	}
	for _, name := range r.Required {
		add("not without "+name, Step{}.over(own).dropped(name).refused(name))
	}
	for _, name := range r.Nullable {
		good(name, nil)
	}
	if b := r.Range; b != nil {
		if b.Step == 0 {
			b.Step = 0.01
			if b.Whole {
				b.Step = 1
			}
		}
		if b.Min != nil {
			if b.Above {
				bad(b.Field, *b.Min)
				good(b.Field, *b.Min+b.Step)
			} else {
				good(b.Field, *b.Min)
				bad(b.Field, *b.Min-b.Step)
			}
		}
		if b.Max != nil {
			good(b.Field, *b.Max)
			bad(b.Field, *b.Max+b.Step)
		}
		if b.Whole && b.Min != nil {
			bad(b.Field, *b.Min+1.5)
		}
	}
	if b := r.Length; b != nil {
		if b.Min != nil {
			if *b.Min > 0 {
				bad(b.Field, strings.Repeat("x", int(*b.Min)-1))
			}
			good(b.Field, strings.Repeat("x", int(*b.Min)))
		}
		if b.Max != nil {
			good(b.Field, strings.Repeat("x", int(*b.Max)))
			bad(b.Field, strings.Repeat("x", int(*b.Max)+1))
		}
	}
	if e := r.Each; e != nil {
		for _, v := range e.Good {
			good(e.Field, v)
		}
		for _, v := range e.Bad {
			bad(e.Field, v)
		}
	}
	if r.Strict {
		s := own.with("nonsense_member", 1).refused("nonsense_member")
		add("", s)
	}
	if len(list) == 0 {
		add("", own)
	}
	return list, nil
}

// brief is the beginning of a value.
func brief(v any) string { return fmt.Sprintf("%.40s", fmt.Sprint(v)) }

// dropped is a request without a member.
func (s Step) dropped(name string) Step {
	if strings.HasPrefix(name, "?") {
		path, query, _ := strings.Cut(s.Do, "?")
		values, _ := url.ParseQuery(query)
		values.Del(name[1:])
		if s.Do = path; len(values) > 0 {
			s.Do += "?" + values.Encode()
		}
		return s
	}
	if s.Body != nil {
		s.Body = changed(s.Body, func(text []byte) ([]byte, error) { return sjson.DeleteBytes(text, name) })
	}
	if s.Form != nil {
		form := clone(s.Form)
		delete(form, name)
		s.Form = form
	}
	return s
}
