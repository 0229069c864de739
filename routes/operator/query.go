package operator

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// member is a field of a query or an answer, by its name in JSON.
type member struct {
	name     string
	typ      reflect.Type
	optional bool
}

// membersOf are the members of a struct, in its order.
func membersOf(t reflect.Type) (list []member) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "":
			list = append(list, membersOf(f.Type)...)
		case f.IsExported():
			if name == "" {
				name = f.Name
			}
			list = append(list, member{name, f.Type, strings.Contains(rest, "omit")})
		}
	}
	return list
}

// query holds the members of a call by name, from its path, its query string and its body.
type query map[string]json.RawMessage

// invalid is a mistake in a query that names the member.
type invalid struct {
	member, why string
}

func (i *invalid) Error() string { return i.member + ": " + i.why }

// add adds a text of the path or the query string as the member's type has it in JSON.
func (q query) add(known []member, name, text string) error {
	for i := range known {
		if m := &known[i]; m.name == name {
			if _, again := q[name]; again {
				return &invalid{name, "is given twice; expected it once"}
			}
			value, err := typed(m.typ, text)
			if err != nil {
				return &invalid{name, err.Error()}
			}
			q[name] = value
			return nil
		}
	}
	return &invalid{name, "is not known here; expected one of " + names(known)}
}

func names(known []member) string {
	var list []string
	for _, m := range known {
		list = append(list, m.name)
	}
	if list == nil {
		return "none"
	}
	return strings.Join(list, ", ")
}

var textReader = reflect.TypeFor[encoding.TextUnmarshaler]()

func isText(t reflect.Type) bool {
	return t.Kind() == reflect.String || reflect.PointerTo(t).Implements(textReader)
}

// typed writes a text as a type has it in JSON.
func typed(t reflect.Type, text string) (json.RawMessage, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if isText(t) {
		return json.Marshal(text)
	}
	switch t.Kind() {
	case reflect.Slice:
		list := []json.RawMessage{}
		for one := range strings.SplitSeq(text, ",") {
			value, err := typed(t.Elem(), one)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return json.Marshal(list)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return nil, errors.New("expected true or false")
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16,
		reflect.Uint32, reflect.Uint64:
		v := reflect.New(t)
		if json.Unmarshal([]byte(text), v.Interface()) != nil || text == "null" {
			return nil, fmt.Errorf("expected a whole number")
		}
	default:
		return nil, errors.New("is not one value; expected it in the body")
	}
	return json.RawMessage(text), nil
}

// addString adds a query string.
func (q query) addString(known []member, text string) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return &invalid{"query string", "cannot be read; expected name=value with %XX for other characters"}
	}
	for name, list := range values {
		if len(list) > 1 {
			return &invalid{name, "is given twice; expected it once"}
		}
		if err := q.add(known, name, list[0]); err != nil {
			return err
		}
	}
	return nil
}

// mostDepth is deeper than any query.
const mostDepth = 16

// addBody adds the members of a JSON object. JSON that two parsers could read differently is
// refused.
func (q query) addBody(body []byte) error {
	if err := unambiguous(body); err != nil {
		return &invalid{"body", err.Error()}
	}
	members := query{}
	if json.Unmarshal(body, &members) != nil || members == nil {
		return &invalid{"body", "expected a JSON object"}
	}
	for name, value := range members {
		if _, again := q[name]; again {
			return &invalid{name, "is in the body and in the address; expected it once"}
		}
		q[name] = value
	}
	return nil
}

// unambiguous refuses text that is not JSON in UTF-8, or has a member twice, also in another case.
func unambiguous(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	type level struct {
		seen map[string]bool // nil: a list
		name bool            // a name comes next
	}
	var open []*level
	for {
		token, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return errors.New("is not JSON")
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 && open[len(open)-1].seen != nil {
			top := open[len(open)-1]
			if top.name = !top.name; !top.name {
				name := strings.Map(folded, token.(string))
				if top.seen[name] {
					return fmt.Errorf("has the member %q twice", token)
				}
				top.seen[name] = true
				continue
			}
		}
		switch token {
		case json.Delim('{'):
			open = append(open, &level{seen: map[string]bool{}, name: true})
		case json.Delim('['):
			open = append(open, &level{})
		}
		if len(open) > mostDepth {
			return fmt.Errorf("has more than %d levels", mostDepth)
		}
	}
}

// folded is the first of the letters that encoding/json takes for the same one: S, s and ſ.
func folded(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}

// texts are the members in order, as "member: value".
func (q query) texts() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		list = append(list, name+": "+gjson.ParseBytes(q[name]).String())
	}
	return list
}
