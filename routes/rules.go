package routes

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"farebox/proxy/scan"
)

// Kinds is a set of JSON kinds.
type Kinds uint8

// The kinds that a value in JSON can be of.
const (
	String Kinds = 1 << iota
	Number
	Bool
	Null
	Object
	Array
)

var kindNames = [...]struct {
	k    Kinds
	name string
}{{String, "string"}, {Number, "number"}, {Bool, "boolean"}, {Null, "null"}, {Object, "object"}, {Array, "array"}}

func (k Kinds) String() string {
	text := ""
	for _, n := range kindNames {
		if k&n.k == 0 || n.k == Null {
			continue
		}
		if text != "" {
			text += " or "
		}
		text += n.name
	}
	return text
}

func kindOf(k scan.Kind) Kinds {
	switch k {
	case scan.String:
		return String
	case scan.Number:
		return Number
	case scan.True, scan.False:
		return Bool
	case scan.Null:
		return Null
	case scan.Object:
		return Object
	}
	return Array
}

// Rule describes one member of a body, or a parameter of a query. Every optional member may also
// be null, which counts as absent.
type Rule struct {
	Kinds    Kinds
	Required bool
	Integer  bool
	Min, Max float64 // of numbers; both 0: any
	Above    bool    // min itself is out of range
	Length   int     // most bytes of a string or elements of an array; 0: any
	NonEmpty bool    // strings and arrays
	Enum     []string

	// The reader of the value checks the following, in words of its own.
	Characters int    // most characters of a string; 0: any
	Items      int    // most elements of an array that may be a string too; 0: any
	Elements   *Rule  // the rule of each element of an array; nil: anything
	Format     string // of a string: its format
	Default    any    // the value of an absent member
}

// Rulebook describes a body of one kind: the rules of every Shape in the tree of its root, by
// member id.
type Rulebook struct {
	Root   *scan.Shape
	shapes []shapeRules
	// Takes are the ids of the top members that the body may have, and Needs those that it must
	// have and its reader asks for. nil: as the rules say.
	Takes, Needs []int
	open         bool
	// Hints are additions to refusals of members that clients know from other services.
	Hints map[string]string
}

// Only is the rulebook of an operation that takes some of the top members and
// needs some. The others are checked too, so that they are refused by their name.
func (b *Rulebook) Only(takes, needs []int) *Rulebook {
	return &Rulebook{Root: b.Root, shapes: b.shapes, Takes: takes, Needs: needs}
}

// OpenToMore lets other top members pass (interface.md, Chat). All other bodies are strict
// (addendum 22).
func (b *Rulebook) OpenToMore() *Rulebook {
	b.open = true
	return b
}

// takes says that the body may have a top member of the Shape.
func (b *Rulebook) takes(id int) bool {
	return b.Rule(b.Root, id) != nil && (b.Takes == nil || slices.Contains(b.Takes, id))
}

// Field is a member of a body with its rule, for descriptions of it.
type Field struct {
	Path     string // dotted, without the indexes of arrays
	Rule     *Rule
	Required bool
}

// Fields lists the members that have a rule, those of an object behind it.
func (b *Rulebook) Fields() []Field { return b.below(nil, b.Root, "") }

func (b *Rulebook) below(list []Field, s *scan.Shape, path string) []Field {
	top := s == b.Root
	for id := range s.Len() {
		r := b.Rule(s, id)
		if r == nil || top && !b.takes(id) {
			continue
		}
		list = append(list, Field{path + s.Name(id), r, r.Required || top && slices.Contains(b.Needs, id)})
		if child := s.Child(id); child != nil {
			list = b.below(list, child, path+s.Name(id)+".")
		}
	}
	return list
}

// Params are the rules of a query's parameters by their names.
type Params map[string]*Rule

type shapeRules struct {
	shape    *scan.Shape
	rules    []*Rule // by member id, nil: anything
	required []int   // ids of the required members
}

// NewRulebook resolves rules, which are keyed by dotted member names without
// array indexes, against the Shape tree under root. It panics on a rule that
// names no member: both are written in the source.
func NewRulebook(root *scan.Shape, rules map[string]*Rule) *Rulebook {
	b := &Rulebook{Root: root}
	used := 0
	var visit func(s *scan.Shape, path string)
	visit = func(s *scan.Shape, path string) {
		sr := shapeRules{shape: s, rules: make([]*Rule, s.Len())}
		for id := range s.Len() {
			r := rules[path+s.Name(id)]
			if r == nil {
				continue
			}
			used++
			sr.rules[id] = r
			if r.Required {
				sr.required = append(sr.required, id)
			}
		}
		b.shapes = append(b.shapes, sr)
		for id := range s.Len() {
			if child := s.Child(id); child != nil {
				visit(child, path+s.Name(id)+".")
			}
		}
	}
	visit(root, "")
	if used < len(rules) {
		panic("routes: some rules name members that are in no shape")
	}
	return b
}

// Rule is the rule of a member of one Shape in the tree, nil: anything.
func (b *Rulebook) Rule(s *scan.Shape, id int) *Rule { return b.of(s).rules[id] }

// of is the rules of one Shape; a handful of them, so a walk beats a map.
func (b *Rulebook) of(s *scan.Shape) *shapeRules {
	for i := range b.shapes {
		if b.shapes[i].shape == s {
			return &b.shapes[i]
		}
	}
	return nil
}

// Validator collects the issues of one body.
type Validator struct {
	Body   []byte
	Doc    *scan.Document
	Book   *Rulebook
	Issues []Issue
}

// CheckAll applies the rules to every field that the scan found, and refuses top members
// that the operation does not take.
func (v *Validator) CheckAll() {
	v.checkRequired(-1, v.Book.Root)
	fields := v.Doc.Fields
	for i := range fields {
		f := &fields[i]
		at := int32(i)
		if f.Name < 0 {
			if f.Kind != scan.Object {
				v.Add(Issue{Code: "invalid_type", Path: v.Doc.Path(at), Expected: "object", Received: f.Kind.String(),
					Message: v.Doc.Path(at) + ": expected object, received " + f.Kind.String() + "."})
				continue
			}
			v.checkRequired(at, f.Shape)
			continue
		}
		if r := v.Book.of(f.Shape).rules[f.Name]; r != nil {
			v.check(at, r)
		}
		if child := f.Shape.Child(int(f.Name)); child != nil && f.Kind == scan.Object {
			v.checkRequired(at, child)
		}
	}
	if !v.Book.open {
		v.refuseUnrecognized()
	}
}

func (v *Validator) checkRequired(parent int32, s *scan.Shape) {
	for _, id := range v.Book.of(s).required {
		if v.Doc.Member(parent, id) >= 0 {
			continue
		}
		path := s.Name(id)
		if parent >= 0 {
			path = v.Doc.Path(parent) + "." + path
		}
		v.Missing(path, v.Book.of(s).rules[id].Kinds.String(), "is required.")
	}
}

// Member is the field of a parent's member, nil when absent or null.
func (v *Validator) Member(parent int32, id int) *scan.Field {
	i := v.Doc.Member(parent, id)
	if i < 0 || v.Doc.Fields[i].Kind == scan.Null {
		return nil
	}
	return &v.Doc.Fields[i]
}

// Text is the bytes of a string member between its quotes, escapes as written;
// nil when it is absent or no string.
func (v *Validator) Text(parent int32, id int) []byte {
	return v.Doc.StringAt(v.Body, v.Doc.Member(parent, id))
}

// Words is a text member as the client meant it, its escapes resolved; empty
// when it is absent.
func (v *Validator) Words(parent int32, id int) string {
	text := v.Text(parent, id)
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text)
	}
	return gjson.ParseBytes(v.Member(parent, id).Raw(v.Body)).Str
}

// MaxIssues bounds the answer to a body that is wrong in many places.
const MaxIssues = 20

// Add adds an issue of the body.
func (v *Validator) Add(i Issue) {
	if len(v.Issues) < MaxIssues {
		v.Issues = append(v.Issues, i)
	}
}

// Missing notes a member that is not there.
func (v *Validator) Missing(path, expected, text string) {
	v.Add(Issue{Code: "invalid_type", Path: path, Expected: expected, Received: "undefined", Message: path + ": " + text})
}

// Wrong adds an issue of a member with a text of its own.
func (v *Validator) Wrong(path, text string) {
	v.Add(Issue{Code: "custom", Path: path, Message: path + ": " + text})
}

// check applies r to a field.
func (v *Validator) check(at int32, r *Rule) {
	f := &v.Doc.Fields[at]
	v.checkValue(kindOf(f.Kind), f.Raw(v.Body), int(f.Len), r, valuePath{v.Doc, at, -1})
}

// valuePath is where a value stands; its text is only made when something is wrong.
type valuePath struct {
	doc  *scan.Document
	at   int32
	elem int // index in an array without a Shape, -1: the field itself
}

func (p valuePath) String() string {
	if p.elem < 0 {
		return p.doc.Path(p.at)
	}
	return p.doc.Path(p.at) + "." + strconv.Itoa(p.elem)
}

// checkValue applies r to one value of n elements and reports whether it is
// right and not null.
func (v *Validator) checkValue(k Kinds, raw []byte, n int, r *Rule, at valuePath) bool {
	if k == Null && r.Kinds&Null == 0 && !r.Required {
		return false
	}
	if k&r.Kinds == 0 {
		want := r.Kinds.String()
		if r.Integer {
			want = "integer"
		}
		v.Add(Issue{Code: "invalid_type", Path: at.String(), Expected: want, Received: k.received(),
			Message: at.String() + ": expected " + want + ", received " + k.received() + "."})
		return false
	}
	switch k {
	case Number:
		return v.checkNumber(raw, r, at)
	case String:
		return v.checkString(raw, r, at)
	case Array:
		if r.NonEmpty && n == 0 {
			v.Add(Issue{Code: "too_small", Path: at.String(), Minimum: "1",
				Message: at.String() + ": must have at least 1 element."})
			return false
		} else if r.Length > 0 && n > r.Length {
			most := strconv.Itoa(r.Length)
			v.Add(Issue{Code: "too_big", Path: at.String(), Maximum: most,
				Message: at.String() + ": must have at most " + most + " elements, has " + strconv.Itoa(n) + "."})
			return false
		}
	}
	return k != Null
}

func (k Kinds) received() string {
	if k == Null {
		return "null"
	}
	return k.String()
}

func (v *Validator) checkNumber(raw []byte, r *Rule, at valuePath) bool {
	n, err := strconv.ParseFloat(ViewString(raw), 64)
	if err != nil || math.IsInf(n, 0) {
		v.Add(Issue{Code: "invalid_type", Path: at.String(), Expected: "number", Received: Excerpt(raw),
			Message: at.String() + ": " + Excerpt(raw) + " is not a number that can be represented."})
		return false
	}
	if r.Integer && (n != math.Trunc(n) || math.Abs(n) > 1<<53) {
		v.Add(Issue{Code: "invalid_type", Path: at.String(), Expected: "integer", Received: Excerpt(raw),
			Message: at.String() + ": expected an integer, received " + Excerpt(raw) + "."})
		return false
	}
	if (r.Min == 0 && r.Max == 0) || (n >= r.Min && n <= r.Max && !(r.Above && n == r.Min)) {
		return true
	}
	low, high := strconv.FormatFloat(r.Min, 'f', -1, 64), strconv.FormatFloat(r.Max, 'f', -1, 64)
	limits := "between " + low + " and " + high
	switch {
	case math.IsInf(r.Max, 1) && r.Above:
		limits = "greater than " + low
	case math.IsInf(r.Max, 1):
		limits = "at least " + low
	case r.Above:
		limits = "greater than " + low + " and at most " + high
	case r.Min == r.Max:
		limits = low
	}
	issue := Issue{Code: "too_small", Path: at.String(), Minimum: low,
		Message: at.String() + ": must be " + limits + ", is " + Excerpt(raw) + "."}
	if n > r.Max {
		issue.Code, issue.Minimum, issue.Maximum = "too_big", "", high
	}
	v.Add(issue)
	return false
}

func (v *Validator) checkString(raw []byte, r *Rule, at valuePath) bool {
	text := raw[1 : len(raw)-1]
	if r.NonEmpty && len(text) == 0 {
		v.Add(Issue{Code: "too_small", Path: at.String(), Minimum: "1", Message: at.String() + ": must not be empty."})
		return false
	}
	if r.Length > 0 && len(text) > r.Length {
		most := strconv.Itoa(r.Length)
		v.Add(Issue{Code: "too_big", Path: at.String(), Maximum: most,
			Message: at.String() + ": must be at most " + most + " characters."})
		return false
	}
	if r.Enum == nil {
		return true
	}
	if slices.Contains(r.Enum, string(text)) {
		return true
	}
	v.Add(Issue{Code: "invalid_enum_value", Path: at.String(), Received: Excerpt(text), Options: r.Enum,
		Message: at.String() + ": " + Excerpt(text) + " is not allowed; expected one of " + strings.Join(r.Enum, ", ") +
			"."})
	return false
}

// Integer is the value of a top member that passed its rule, else 0.
func (v *Validator) Integer(id int) int64 {
	f := v.Member(-1, id)
	if f == nil || f.Kind != scan.Number {
		return 0
	}
	n, err := strconv.ParseInt(ViewString(f.Raw(v.Body)), 10, 64)
	if err != nil {
		// Written as 1e3 or 12.0: whole, as its rule has checked.
		x, err := strconv.ParseFloat(ViewString(f.Raw(v.Body)), 64)
		if err != nil || x > 1<<53 || x < -(1<<53) {
			return 0
		}
		n = int64(x)
	}
	return n
}

// IsTrue says that a top member is true.
func (v *Validator) IsTrue(id int) bool {
	f := v.Member(-1, id)
	return f != nil && f.Kind == scan.True
}

// CheckItems refuses a top array of more elements than its rule allows. what names the elements
// in its text.
func (v *Validator) CheckItems(id int, what string) {
	i, most := v.Doc.TopIndex(id), v.Book.Rule(v.Book.Root, id).Items
	if i < 0 || v.Doc.Fields[i].Kind != scan.Array || int(v.Doc.Fields[i].Len) <= most {
		return
	}
	name, limit, n := v.Book.Root.Name(id), strconv.Itoa(most), strconv.Itoa(int(v.Doc.Fields[i].Len))
	v.Add(Issue{
		Code: "too_big", Path: name, Maximum: limit,
		Message: name + ": must have at most " + limit + " " + what + ", has " + n + ".",
	})
}

// CheckElements applies the rule of its elements to a top array.
func (v *Validator) CheckElements(id int) {
	i := v.Doc.TopIndex(id)
	if i < 0 || v.Doc.Fields[i].Kind != scan.Array {
		return
	}
	r, n := v.Book.Rule(v.Book.Root, id).Elements, 0
	gjson.Parse(ViewString(v.Doc.Fields[i].Raw(v.Body))).ForEach(func(_, value gjson.Result) bool {
		k, length := Number, 0
		switch value.Type {
		case gjson.String:
			k = String
		case gjson.True, gjson.False:
			k = Bool
		case gjson.Null:
			k = Null
		case gjson.JSON:
			k = Object
			if value.IsArray() {
				k = Array
			}
		}
		raw := ViewBytes(value.Raw)
		v.checkValue(k, raw, length, r, valuePath{v.Doc, i, n})
		n++
		return len(v.Issues) < MaxIssues
	})
}
