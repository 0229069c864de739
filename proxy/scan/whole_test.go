package scan

import (
	"strings"
	"testing"
)

func TestSkimWholeChecksUnnamedMembers(t *testing.T) {
	shape := NewShape(Members(nil, "name")...)
	for body, want := range map[string]Reason{
		` {"name": "a", "other": [1, {"x": "\u00e9"}]} `:                                  0,
		`{"name": "a", "other": 01}`:                                                      Syntax,
		`{"name": "a", "other": "\q"}`:                                                    Syntax,
		`{"name": "a", "other": ` + strings.Repeat("[", 4) + strings.Repeat("]", 4) + `}`: TooDeep,
		`{"name": "a"} {}`:                                                                Trailing,
		`{"name": "a", "name": "b"}`:                                                      Duplicate,
		"{\"name\": \"a\", \"o\": \"\t\"}":                                                Control,
		"{\"name\": \"\xff\"}":                                                            Encoding,
	} {
		var d Document
		err := d.SkimWhole([]byte(body), shape, 4)
		if why := Reason(0); err != nil {
			why = err.(*Error).Reason
			if why != want {
				t.Errorf("%q: %v; expected reason %d", body, err, want)
			}
		} else if want != 0 {
			t.Errorf("%q is accepted; expected reason %d", body, want)
		}
	}
}

func TestTextOfAMember(t *testing.T) {
	shape := NewShape(Members(nil, "plain", "escaped", "broken", "number", "missing")...)
	body := []byte(`{"plain": "aé", "escaped": "a\"\ud83d\ude00", "broken": "\q", "number": 1}`)
	var d Document
	if err := d.SkimStrict(body, shape); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"plain": "aé", "escaped": "a\"😀"} {
		if text, ok := d.Text(body, d.TopIndex(shape.ID(name))); !ok || text != want {
			t.Errorf("%s is %q, %v; expected %q", name, text, ok, want)
		}
	}
	for _, name := range []string{"broken", "number", "missing"} {
		if text, ok := d.Text(body, d.TopIndex(shape.ID(name))); ok {
			t.Errorf("%s is the text %q; expected no text", name, text)
		}
	}
}
