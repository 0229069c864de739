package routes

import (
	"math"
	"strconv"

	"farebox/proxy/scan"
)

// kinds is a set of JSON kinds.
type kinds uint8

const (
	kString kinds = 1 << iota
	kNumber
	kBool
	kNull
	kObject
	kArray
)

var kindNames = [...]struct {
	k    kinds
	name string
}{{kString, "string"}, {kNumber, "number"}, {kBool, "boolean"}, {kNull, "null"}, {kObject, "object"}, {kArray, "array"}}

func (k kinds) String() string {
	text := ""
	for _, n := range kindNames {
		if k&n.k == 0 || n.k == kNull {
			continue
		}
		if text != "" {
			text += " or "
		}
		text += n.name
	}
	return text
}

func kindOf(k scan.Kind) kinds {
	switch k {
	case scan.String:
		return kString
	case scan.Number:
		return kNumber
	case scan.True, scan.False:
		return kBool
	case scan.Null:
		return kNull
	case scan.Object:
		return kObject
	}
	return kArray
}

// rule is what one member of a body must be. Every optional member may also
// be null, which counts as absent.
type rule struct {
	kinds    kinds
	required bool
	integer  bool
	min, max float64 // of numbers; both 0: any
	above    bool    // min itself is out of range
	length   int     // most bytes of a string or elements of an array; 0: any
	nonEmpty bool    // strings and arrays
	enum     []string
}

// rulebook is what a body of one kind must be: the rules of every Shape in
// the tree of its root, by member id.
type rulebook struct {
	root   *scan.Shape
	shapes []shapeRules
}

type shapeRules struct {
	shape    *scan.Shape
	rules    []*rule // by member id, nil: anything
	required []int   // ids of the required members
}

// newRulebook resolves rules, which are keyed by dotted member names without
// array indexes, against the Shape tree under root. It panics on a rule that
// names no member: both are written in the source.
func newRulebook(root *scan.Shape, rules map[string]*rule) *rulebook {
	b := &rulebook{root: root}
	used := 0
	var visit func(s *scan.Shape, path string)
	visit = func(s *scan.Shape, path string) {
		sr := shapeRules{shape: s, rules: make([]*rule, s.Len())}
		for id := range s.Len() {
			r := rules[path+s.Name(id)]
			if r == nil {
				continue
			}
			used++
			sr.rules[id] = r
			if r.required {
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

// of is the rules of one Shape; a handful of them, so a walk beats a map.
func (b *rulebook) of(s *scan.Shape) *shapeRules {
	for i := range b.shapes {
		if b.shapes[i].shape == s {
			return &b.shapes[i]
		}
	}
	return nil
}

// validator collects the issues of one body.
type validator struct {
	body   []byte
	doc    *scan.Document
	book   *rulebook
	issues []Issue
	// oneTokenList says that an embedding's input is the tokens of one text.
	oneTokenList bool
}

// checkAll applies the rules to every field that the scan found.
func (v *validator) checkAll() {
	v.checkRequired(-1, v.book.root)
	fields := v.doc.Fields
	for i := range fields {
		f := &fields[i]
		at := int32(i)
		if f.Name < 0 {
			if f.Kind != scan.Object {
				v.add(Issue{Code: "invalid_type", Path: v.doc.Path(at), Expected: "object", Received: f.Kind.String(), Message: v.doc.Path(at) + ": expected object, received " + f.Kind.String() + "."})
				continue
			}
			v.checkRequired(at, f.Shape)
			continue
		}
		if r := v.book.of(f.Shape).rules[f.Name]; r != nil {
			v.check(at, r)
		}
		if child := f.Shape.Child(int(f.Name)); child != nil && f.Kind == scan.Object {
			v.checkRequired(at, child)
		}
	}
}

func (v *validator) checkRequired(parent int32, s *scan.Shape) {
	for _, id := range v.book.of(s).required {
		if v.doc.Member(parent, id) >= 0 {
			continue
		}
		path := s.Name(id)
		if parent >= 0 {
			path = v.doc.Path(parent) + "." + path
		}
		v.add(Issue{Code: "invalid_type", Path: path, Expected: v.book.of(s).rules[id].kinds.String(), Received: "undefined", Message: path + ": is required."})
	}
}

// member is the field of a parent's member, nil when absent or null.
func (v *validator) member(parent int32, id int) *scan.Field {
	i := v.doc.Member(parent, id)
	if i < 0 || v.doc.Fields[i].Kind == scan.Null {
		return nil
	}
	return &v.doc.Fields[i]
}

// text is the bytes of a string member between its quotes, escapes as written;
// nil when it is absent or no string.
func (v *validator) text(parent int32, id int) []byte {
	f := v.member(parent, id)
	if f == nil || f.Kind != scan.String {
		return nil
	}
	return v.body[f.From+1 : f.To-1]
}

// maxIssues bounds the answer to a body that is wrong in many places.
const maxIssues = 20

func (v *validator) add(i Issue) {
	if len(v.issues) < maxIssues {
		v.issues = append(v.issues, i)
	}
}

// check applies r to a field.
func (v *validator) check(at int32, r *rule) {
	f := &v.doc.Fields[at]
	v.checkValue(kindOf(f.Kind), f.Raw(v.body), int(f.Len), r, place{v.doc, at, -1})
}

// place is where a value stands; its text is only made when something is wrong.
type place struct {
	doc  *scan.Document
	at   int32
	elem int // index in an array without a Shape, -1: the field itself
}

func (p place) String() string {
	if p.elem < 0 {
		return p.doc.Path(p.at)
	}
	return p.doc.Path(p.at) + "." + strconv.Itoa(p.elem)
}

// checkValue applies r to one value of n elements and reports whether it is
// right and not null.
func (v *validator) checkValue(k kinds, raw []byte, n int, r *rule, at place) bool {
	if k == kNull && r.kinds&kNull == 0 && !r.required {
		return false
	}
	if k&r.kinds == 0 {
		want := r.kinds.String()
		if r.integer {
			want = "integer"
		}
		v.add(Issue{Code: "invalid_type", Path: at.String(), Expected: want, Received: k.received(), Message: at.String() + ": expected " + want + ", received " + k.received() + "."})
		return false
	}
	switch k {
	case kNumber:
		return v.checkNumber(raw, r, at)
	case kString:
		return v.checkString(raw, r, at)
	case kArray:
		if r.nonEmpty && n == 0 {
			v.add(Issue{Code: "too_small", Path: at.String(), Minimum: "1", Message: at.String() + ": must have at least 1 element."})
			return false
		} else if r.length > 0 && n > r.length {
			most := strconv.Itoa(r.length)
			v.add(Issue{Code: "too_big", Path: at.String(), Maximum: most, Message: at.String() + ": must have at most " + most + " elements, has " + strconv.Itoa(n) + "."})
			return false
		}
	}
	return k != kNull
}

func (k kinds) received() string {
	if k == kNull {
		return "null"
	}
	return k.String()
}

func (v *validator) checkNumber(raw []byte, r *rule, at place) bool {
	n, err := strconv.ParseFloat(bytesString(raw), 64)
	if err != nil || math.IsInf(n, 0) {
		v.add(Issue{Code: "invalid_type", Path: at.String(), Expected: "number", Received: excerpt(raw), Message: at.String() + ": " + excerpt(raw) + " is not a number that can be represented."})
		return false
	}
	if r.integer && (n != math.Trunc(n) || math.Abs(n) > 1<<53) {
		v.add(Issue{Code: "invalid_type", Path: at.String(), Expected: "integer", Received: excerpt(raw), Message: at.String() + ": expected an integer, received " + excerpt(raw) + "."})
		return false
	}
	if (r.min == 0 && r.max == 0) || (n >= r.min && n <= r.max && !(r.above && n == r.min)) {
		return true
	}
	low, high := strconv.FormatFloat(r.min, 'f', -1, 64), strconv.FormatFloat(r.max, 'f', -1, 64)
	limits := "between " + low + " and " + high
	switch {
	case math.IsInf(r.max, 1) && r.above:
		limits = "greater than " + low
	case math.IsInf(r.max, 1):
		limits = "at least " + low
	case r.above:
		limits = "greater than " + low + " and at most " + high
	case r.min == r.max:
		limits = low
	}
	issue := Issue{Code: "too_small", Path: at.String(), Minimum: low, Message: at.String() + ": must be " + limits + ", is " + excerpt(raw) + "."}
	if n > r.max {
		issue.Code, issue.Minimum, issue.Maximum = "too_big", "", high
	}
	v.add(issue)
	return false
}

func (v *validator) checkString(raw []byte, r *rule, at place) bool {
	text := raw[1 : len(raw)-1]
	if r.nonEmpty && len(text) == 0 {
		v.add(Issue{Code: "too_small", Path: at.String(), Minimum: "1", Message: at.String() + ": must not be empty."})
		return false
	}
	if r.length > 0 && len(text) > r.length {
		most := strconv.Itoa(r.length)
		v.add(Issue{Code: "too_big", Path: at.String(), Maximum: most, Message: at.String() + ": must be at most " + most + " characters."})
		return false
	}
	if r.enum == nil {
		return true
	}
	for _, e := range r.enum {
		if string(text) == e {
			return true
		}
	}
	list := ""
	for i, e := range r.enum {
		if i > 0 {
			list += ", "
		}
		list += e
	}
	v.add(Issue{Code: "invalid_enum_value", Path: at.String(), Received: excerpt(text), Options: r.enum, Message: at.String() + ": " + excerpt(text) + " is not allowed; expected one of " + list + "."})
	return false
}
