package scan

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// maxMembers is how many names one Shape can guard; the seen set of an
	// object is two words.
	maxMembers = 128
	// maxName is the longest name in bytes.
	maxName = 128
)

// Shape names the members of an object that somebody will read or change. A guarded name must
// appear at most once in its object, unescaped and in exact case: names that two parsers could
// read differently are refused. Immutable.
type Shape struct {
	members []Member
	lower   []string   // names in lower case, by id
	heads   [256]int16 // by hash: id+1 of the first member, 0 for none
	chain   []int16    // by id: id+1 of the next member with that hash
	frames  int        // most containers of this Shape and its children open at once
	mixed   bool       // a name has capitals, so lower-case keys can be variants too
}

// Member is one guarded name. With a Child the member's value is scanned with
// that Shape in the same pass: the value itself when it is an object, every
// element that is an object when it is an array.
type Member struct {
	Name  string
	Child *Shape
}

// Members are members by their names; below has the Shapes of those that have
// members themselves.
func Members(below map[string]*Shape, names ...string) []Member {
	list := make([]Member, len(names))
	for i, name := range names {
		list[i] = Member{Name: name, Child: below[name]}
	}
	return list
}

// NewShape builds the Shape in which members[i] has the id i. It panics on a
// repeated, empty, overlong, escaped or non-ASCII name and on more than 128 members:
// shapes are written in the source, not by users.
func NewShape(members ...Member) *Shape {
	if len(members) > maxMembers {
		panic(fmt.Sprintf("scan: a shape has %d members, at most %d fit", len(members), maxMembers))
	}
	s := &Shape{members: append([]Member(nil), members...), chain: make([]int16, len(members)), frames: 1}
	for i, m := range s.members {
		if !plainName(m.Name) {
			panic(fmt.Sprintf("scan: %q cannot be a guarded name", m.Name))
		}
		for _, other := range s.members[:i] {
			if strings.EqualFold(m.Name, other.Name) {
				panic(fmt.Sprintf("scan: %q and %q are variants of one name", other.Name, m.Name))
			}
		}
		if m.Child != nil {
			// An array and the object in it.
			s.frames = max(s.frames, 2+m.Child.frames)
		}
		s.mixed = s.mixed || strings.ToLower(m.Name) != m.Name
		s.lower = append(s.lower, strings.ToLower(m.Name))
		h := hash([]byte(m.Name))
		s.chain[i] = s.heads[h]
		s.heads[h] = int16(i + 1)
	}
	if s.frames > MaxDepth {
		panic("scan: shapes are nested deeper than documents may be")
	}
	return s
}

func plainName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

// Len is the number of members; ids run from 0 to Len-1.
func (s *Shape) Len() int { return len(s.members) }

// Name is the name of a member by id.
func (s *Shape) Name(id int) string { return s.members[id].Name }

// Child is the Shape of a member's value, nil for none.
func (s *Shape) Child(id int) *Shape { return s.members[id].Child }

// ID is the id of a name, -1 when it is not guarded.
func (s *Shape) ID(name string) int { return s.find([]byte(name)) }

func (s *Shape) find(key []byte) int {
	if len(key) == 0 {
		return -1
	}
	for id := s.heads[hash(key)]; id != 0; id = s.chain[id-1] {
		if s.members[id-1].Name == string(key) {
			return int(id - 1)
		}
	}
	return -1
}

// hash spreads names by length, both ends and the middle, blind to case; keys
// are short and chosen by us, so that collisions only cost a comparison.
func hash(key []byte) uint8 {
	n := len(key)
	return uint8(n)*31 + (key[0] | 0x20) + (key[n-1]|0x20)*7 + (key[n/2]|0x20)*13
}

// variant is the id of the guarded name that a decoder could take key for, -1
// for none: after unescaping, in other case (also by the Unicode folds of s and
// k, which Go's decoder knows), or cut at a NUL as C strings are.
func (s *Shape) variant(key []byte) int {
	var text [maxName]byte
	n := 0
	for i := 0; i < len(key); {
		r, size := unescape(key[i:])
		i += size
		switch {
		case r == 0:
			i = len(key)
			continue
		case r >= 'A' && r <= 'Z':
			r |= 0x20
		case r == '\u017f':
			r = 's'
		case r == '\u212a':
			r = 'k'
		}
		if r >= utf8.RuneSelf || n == len(text) {
			return -1
		}
		text[n] = byte(r)
		n++
	}
	if n == 0 {
		return -1
	}
	for id := s.heads[hash(text[:n])]; id != 0; id = s.chain[id-1] {
		if s.lower[id-1] == string(text[:n]) {
			return int(id - 1)
		}
	}
	return -1
}

// unescape is the first character of a key's text and the bytes it takes. What
// is broken may become any character that is not ASCII.
func unescape(p []byte) (r rune, size int) {
	if p[0] != '\\' || len(p) == 1 {
		return utf8.DecodeRune(p)
	}
	switch p[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		return hex4(p[2:])
	}
	// \" \\ \/ and, for lenient decoders, any other byte stand for themselves.
	r, size = utf8.DecodeRune(p[1:])
	return r, size + 1
}

// hex4 reads the four digits of a \u escape; size counts the whole escape.
func hex4(p []byte) (r rune, size int) {
	if len(p) < 4 {
		return utf8.RuneError, 2
	}
	for _, c := range p[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return utf8.RuneError, 2
		}
		r = r<<4 | rune(c)
	}
	return r, 6
}
