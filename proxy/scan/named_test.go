package scan

import "testing"

// Members that no Shape names are counted, and removed with the right comma.
func TestMembersThatNoShapeNames(t *testing.T) {
	t.Parallel()
	inner := NewShape(Members(nil, "a", "b")...)
	shape := NewShape(Members(map[string]*Shape{"o": inner, "list": inner}, "o", "list", "x")...)
	f := func(body string, want bool, path string) {
		t.Helper()
		var d Document
		if err := d.Skim([]byte(body), shape); err != nil {
			t.Fatal(err)
		}
		if i, all := d.AllNamed(); all != want || !all && d.Path(i) != path {
			t.Errorf("%s: %v at %q, expected %v at %q", body, all, d.Path(i), want, path)
		}
	}
	f(`{"o":{"a":{"any":1}},"list":[{"b":1},3,{}],"x":{"any":{}}}`, true, "")
	f(`{"o":{},"y":1}`, false, "")
	f(`{"x":1,"o":{"a":1,"c":2}}`, false, "o")
	f(`{"x":1,"list":[{"a":1},{"a":1,"b":2,"c":3}]}`, false, "list.1")

	body := []byte(`{"a":1, "b" : [2],"c":{}}`)
	a, b, c := Span{1, 6}, Span{8, 17}, Span{18, 24}
	for _, x := range []struct {
		cut  []Span
		want string
	}{{[]Span{a}, `{"b" : [2],"c":{}}`}, {[]Span{b}, `{"a":1, "c":{}}`}, {[]Span{c}, `{"a":1, "b" : [2]}`},
		{[]Span{a, b}, `{"c":{}}`}, {[]Span{b, c}, `{"a":1}`}, {[]Span{a, c}, `{"b" : [2]}`}, {[]Span{a, b, c}, `{}`}} {
		got, at := "", 0
		for _, cut := range AppendCuts(nil, body, x.cut...) {
			got, at = got+string(body[at:cut.From]), cut.To
		}
		if got += string(body[at:]); got != x.want {
			t.Errorf("%v leaves %s, expected %s", x.cut, got, x.want)
		}
	}
}
