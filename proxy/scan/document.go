package scan

import (
	"strconv"
)

const (
	// MaxDepth is how deep brackets may nest, the top object included.
	MaxDepth = 512
	// MaxFields is how many members and elements one body may have that a
	// Shape asks for: 40 bytes each, so that 2-byte elements cannot blow a
	// small body up into gigabytes.
	MaxFields = 1 << 17
	// keepFields is the most room for fields a reused Document keeps (160 KiB).
	keepFields = 4 << 10
)

// Kind is the JSON type of a value.
type Kind uint8

// The kinds of values. The zero Kind belongs to no value.
const (
	String Kind = iota + 1
	Number
	True
	False
	Null
	Object
	Array
)

func (k Kind) String() string {
	switch k {
	case String:
		return "string"
	case Number:
		return "number"
	case True, False:
		return "boolean"
	case Null:
		return "null"
	case Object:
		return "object"
	case Array:
		return "array"
	}
	return "nothing"
}

// Field is one guarded member, or one element of an array that is scanned with
// a child Shape. Fields are in the order of the body, parents before their
// children, so that Fields[i+1:Fields[i].Next] is the subtree of Fields[i].
type Field struct {
	// Shape lists the member; for an element it is the Shape its members are
	// looked up in.
	Shape *Shape
	// Name is the id of the member in Shape, -1 for an array element.
	Name int16
	Kind Kind
	// Parent is the index in Fields of the object or array that holds this
	// field; -1 in the top object. The parent of messages[0].role is the
	// element messages[0], whose parent is messages.
	Parent int32
	// Elem is the index of an array element, -1 for a member.
	Elem int32
	// Len is the number of elements of an array or members of an object,
	// guarded or not.
	Len int32
	// KeyFrom is the offset of the key's opening quote, for an element of its
	// value. From and To enclose the value with its quotes or brackets.
	KeyFrom, From, To int32
	// Next is the index in Fields of the first field after this one's subtree.
	Next int32
}

// Raw is the text of the value in the body that was scanned.
func (f *Field) Raw(body []byte) []byte { return body[f.From:f.To] }

// Document holds the members that Skim found in one body. It is reused: fields are valid until
// the next Skim or Reset. The zero value is ready.
type Document struct {
	// Fields are all fields in order. Read only.
	Fields []Field
	// Open is the offset just after the top object's opening bracket, Close
	// the offset of its closing one: where members can be inserted.
	Open, Close int
	// Members is the number of members of the top object, guarded or not; 0
	// says that an inserted member needs no comma.
	Members int

	top   [maxMembers]int32 // by id: index in Fields + 1, 0 for absent
	stack []frame           // shape.frames of them
	depth int               // how many are open
}

// Top is the member of the top object with that id.
func (d *Document) Top(id int) (Field, bool) {
	if i := d.top[id]; i != 0 {
		return d.Fields[i-1], true
	}
	return Field{}, false
}

// TopIndex is the index in Fields of the top member with that id, -1 if absent.
func (d *Document) TopIndex(id int) int32 { return d.top[id] - 1 }

// Member is the index in Fields of a member of the object Fields[parent], -1
// if it has none with that id. The parent -1 is the top object, so that callers
// look first whether a parent is there.
func (d *Document) Member(parent int32, id int) int32 {
	if parent < 0 {
		return d.TopIndex(id)
	}
	end := d.Fields[parent].Next
	for i := parent + 1; i < end; i = d.Fields[i].Next {
		if int(d.Fields[i].Name) == id {
			return i
		}
	}
	return -1
}

// StringAt is the raw content of a string field of body, between its quotes; nil if i is -1 or the
// field is not a string.
func (d *Document) StringAt(body []byte, i int32) []byte {
	if i < 0 || d.Fields[i].Kind != String {
		return nil
	}
	return body[d.Fields[i].From+1 : d.Fields[i].To-1]
}

// RawAt is the text of a field's value in body; nil if i is -1 or the value is null.
func (d *Document) RawAt(body []byte, i int32) []byte {
	if i < 0 || d.Fields[i].Kind == Null {
		return nil
	}
	return d.Fields[i].Raw(body)
}

// Named is how many members of the object Fields[i], -1 for the top one, its Shape names.
func (d *Document) Named(i int32) (n int32) {
	end := int32(len(d.Fields))
	if i >= 0 {
		end = d.Fields[i].Next
	}
	for i++; i < end; i = d.Fields[i].Next {
		n++
	}
	return n
}

// AllNamed says that every object that a Shape asks for has no other members than those
// that it names; if not, i is the first one that has, -1 for the top object.
func (d *Document) AllNamed() (i int32, all bool) {
	if int(d.Named(-1)) != d.Members {
		return -1, false
	}
	for i := range d.Fields {
		f := &d.Fields[i]
		if f.Kind == Object && (f.Name < 0 || f.Shape.Child(int(f.Name)) != nil) && d.Named(int32(i)) != f.Len {
			return int32(i), false
		}
	}
	return 0, true
}

// Reset forgets the body; buffers that grew beyond ordinary requests are given back.
func (d *Document) Reset() {
	if cap(d.Fields) > keepFields {
		d.Fields = nil
	}
	d.Fields = d.Fields[:0]
	d.top = [maxMembers]int32{}
	d.Open, d.Close, d.Members = 0, 0, 0
}

// AppendPath appends the path of Fields[i] as clients write it, such as
// messages.0.content.2.image_url.
func (d *Document) AppendPath(dst []byte, i int32) []byte {
	var up [MaxDepth]int32
	n := 0
	for ; i >= 0 && n < len(up); i = d.Fields[i].Parent {
		up[n] = i
		n++
	}
	for n--; n >= 0; n-- {
		f := &d.Fields[up[n]]
		if f.Elem >= 0 {
			dst = strconv.AppendInt(dst, int64(f.Elem), 10)
		} else {
			dst = append(dst, f.Shape.Name(int(f.Name))...)
		}
		if n > 0 {
			dst = append(dst, '.')
		}
	}
	return dst
}

// Path is AppendPath as a string.
func (d *Document) Path(i int32) string { return string(d.AppendPath(nil, i)) }

// Span is a byte range of the body.
type Span struct{ From, To int }

// AppendCuts appends the sorted, disjoint ranges whose removal takes the given
// members out of their object and leaves valid JSON. fields are indices in
// Fields of members of one object, ascending; neighbours are cut as one.
func (d *Document) AppendCuts(dst []Span, body []byte, fields ...int32) []Span {
	return appendCuts(dst, body, len(fields), func(i int) Span {
		f := &d.Fields[fields[i]]
		return Span{int(f.KeyFrom), int(f.To)}
	})
}

// AppendCuts is that of Document for members of which no Shape knows, each from its key's
// opening quote to the end of its value.
func AppendCuts(dst []Span, body []byte, members ...Span) []Span {
	return appendCuts(dst, body, len(members), func(i int) Span { return members[i] })
}

func appendCuts(dst []Span, body []byte, n int, member func(i int) Span) []Span {
	for i := 0; i < n; {
		from, last := member(i).From, member(i).To
		end, more := afterComma(body, last)
		for i++; more && i < n && member(i).From == end; i++ {
			last = member(i).To
			end, more = afterComma(body, last)
		}
		to := end
		if !more {
			// The last member goes: so does the comma before the run, if any.
			to = last
			before := from - 1
			for space(body[before]) {
				before--
			}
			if body[before] == ',' {
				from = before
			}
		}
		dst = append(dst, Span{from, to})
	}
	return dst
}

// afterComma finds the key that follows a value, or says that none does.
func afterComma(body []byte, i int) (key int, more bool) {
	i = skipSpace(body, i)
	if body[i] != ',' {
		return i, false
	}
	return skipSpace(body, i+1), true
}
