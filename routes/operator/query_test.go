package operator

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/billing"
)

// Texts of paths and query strings become JSON of the member's type, or are refused.
func TestTextsHaveTheTypeOfTheirMember(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of         any
		text, want string // empty: refused
	}{
		{"", `a"b`, `"a\"b"`}, {"", "", `""`}, {0, "12", "12"}, {0, "-3", "-3"}, {0, "1.5", ""}, {0, "1e3", ""}, {0, "", ""}, {0, "null", ""},
		{uint8(0), "256", ""}, {int64(0), "9223372036854775808", ""}, {true, "true", "true"}, {true, "1", ""}, {true, "TRUE", ""},
		{billing.Nano(0), "1.50", `"1.50"`}, {time.Time{}, "2026-01-02T03:04:05Z", `"2026-01-02T03:04:05Z"`},
		{[]string{}, "a,b", `["a","b"]`}, {[]int{}, "1,2", "[1,2]"}, {[]int{}, "1,x", ""}, {new(int), "7", "7"},
		{struct{ A int }{}, "{}", ""}, {map[string]string{}, "{}", ""}, {0.5, "0.5", ""},
	} {
		got, err := typed(reflect.TypeOf(c.of), c.text)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q as %T: %s, %v", c.text, c.of, got, err)
		}
	}
}

// No cell begins a formula; numbers stay numbers.
func TestCells(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{`"=1"`: "'=1", `"+1"`: "'+1", `"-1"`: "-1", `"-1.50"`: "-1.50", `"-a"`: "'-a", `"@a"`: "'@a",
		`"\t=1"`: "'\t=1", `"\r=1"`: "'\r=1", `"a=1"`: "a=1", `-5`: "-5", `true`: "true", `null`: "", `{"a":"=1"}`: `{"a":"=1"}`, `"-1-1"`: "'-1-1"} {
		if got := cell(gjson.Parse(text).String()); got != want {
			t.Errorf("%s is %q, expected %q", text, got, want)
		}
	}
}

// An accepted body is one JSON object in UTF-8 that has each member once, for every reader.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1}`, `{"a":{"b":[1,{"c":null}]}}`, `{"a":1,"a":2}`, `{"a":1,"A":2}`, `{"a":{"x":1,"X":2}}`, `[]`, `1`, `{} {}`,
		`{"a":1}x`, "{\"a\":\"\xff\"}", `{"\u0061":1,"a":2}`, `{"ſ":1,"s":2}`, strings.Repeat(`{"a":`, 40), strings.Repeat("[", 1000), `{"a":1e999}`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		q := query{}
		if q.addBody(body) != nil {
			return
		}
		if !json.Valid(body) {
			t.Fatalf("%q is taken", body)
		}
		n := 0
		gjson.ParseBytes(body).ForEach(func(key, value gjson.Result) bool {
			n++
			if _, ok := q[key.String()]; !ok {
				t.Errorf("%q: %q is lost", body, key.String())
			}
			return true
		})
		if n != len(q) {
			t.Errorf("%q has %d members, %d are taken", body, n, len(q))
		}
	})
}

// Names that are the same for encoding/json are the same here.
func TestNamesAreFoldedAsTheyAreRead(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"s":1,"S":2}`, `{"s":1,"ſ":2}`, `{"a":{"key":1,"\u212Aey":2}}`, `{"a":[{"b":1,"\u0062":2}]}`} {
		if unambiguous([]byte(body)) == nil {
			t.Errorf("%s is taken", body)
		}
	}
}

// Query strings with repeated or unknown members are refused.
func FuzzQueryString(f *testing.F) {
	for _, seed := range []string{"", "a=1", "a=1&b=x", "a=1&a=2", "a=%zz", "b=%00", "c=1", "a=1;b=2", "b=a+b", "&&", "=", "a"} {
		f.Add(seed)
	}
	known := []member{{name: "a", typ: reflect.TypeFor[int]()}, {name: "b", typ: reflect.TypeFor[string]()}}
	f.Fuzz(func(t *testing.T, text string) {
		q := query{}
		if q.addString(known, text) != nil {
			return
		}
		for name, value := range q {
			if name != "a" && name != "b" || !json.Valid(value) {
				t.Errorf("%q gives %s: %s", text, name, value)
			}
		}
	})
}
