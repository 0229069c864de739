package spec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// mismatch says how a value is not as expected; empty: it is. Texts are patterns of these kinds:
//
//	exists, !exists         it is there, it is not there
//	!=TEXT                  it is there and is not TEXT
//	~PATTERN                a text or number that the pattern finds
//	type:number, type:string?  its type, with ? also null
//	>1, >=1, <1, <=1        a number
//	len:3                   so many characters, elements or members
//	has:a,b                 an object with at least these members
//	keys:a,b                an object with these members alone
//	holds:X                 a list with the text X
//	lacks:X                 a list or text without X
//	iso, date, uuid, unix   a time, a day, an id, Unix seconds of the last minute
//	base64                  a text in base64
//	sorted                  a list of texts in order
func mismatch(got gjson.Result, want any) string {
	no := func(format string, args ...any) string { return fmt.Sprintf(format, args...) }
	text, isText := want.(string)
	if !isText {
		if !got.Exists() {
			return no("is absent, not %v", want)
		}
		return equal(got, want)
	}
	switch {
	case text == "exists":
		if !got.Exists() {
			return "is absent"
		}
		return ""
	case text == "!exists":
		if got.Exists() {
			return no("is %.200s, not absent", got.Raw)
		}
		return ""
	}
	if !got.Exists() {
		return no("is absent, not %s", text)
	}
	kind, of, _ := strings.Cut(text, ":")
	number := func(holds func(a, b float64) bool, of string) string {
		limit, err := strconv.ParseFloat(of, 64)
		if err != nil || (got.Type != gjson.Number && got.Type != gjson.String) || !holds(got.Float(), limit) {
			return no("is %.200s, not %s", got.Raw, text)
		}
		return ""
	}
	var holds bool
	switch {
	case strings.HasPrefix(text, "!="):
		holds = got.String() != text[2:]
	case strings.HasPrefix(text, "~"):
		holds = regexp.MustCompile(text[1:]).MatchString(got.String())
	case strings.HasPrefix(text, ">="):
		return number(func(a, b float64) bool { return a >= b }, text[2:])
	case strings.HasPrefix(text, "<="):
		return number(func(a, b float64) bool { return a <= b }, text[2:])
	case strings.HasPrefix(text, ">"):
		return number(func(a, b float64) bool { return a > b }, text[1:])
	case strings.HasPrefix(text, "<"):
		return number(func(a, b float64) bool { return a < b }, text[1:])
	case kind == "type":
		name, null := strings.CutSuffix(of, "?")
		holds = null && got.Type == gjson.Null || name == typeOf(got)
		if name == "integer" {
			holds = holds || got.Type == gjson.Number && got.Float() == float64(got.Int())
		}
	case kind == "len":
		n := len([]rune(got.Str))
		switch {
		case got.IsArray():
			n = len(got.Array())
		case got.IsObject():
			n = len(got.Map())
		}
		holds = strconv.Itoa(n) == of
	case kind == "has", kind == "keys":
		have := got.Map()
		names := strings.Split(of, ",")
		holds = got.IsObject()
		for _, name := range names {
			_, there := have[strings.TrimSpace(name)]
			if !there {
				return no("has no %s: %.300s", name, got.Raw)
			}
		}
		holds = holds && (kind == "has" || len(have) == len(names))
	case kind == "holds":
		holds = slices.ContainsFunc(got.Array(), func(r gjson.Result) bool { return r.String() == of })
	case kind == "lacks":
		holds = !strings.Contains(got.String(), of)
	case text == "iso":
		_, err := time.Parse(time.RFC3339Nano, got.Str)
		holds = err == nil && strings.HasSuffix(got.Str, "Z")
	case text == "date":
		_, err := time.Parse(time.DateOnly, got.Str)
		holds = err == nil
	case text == "uuid":
		holds = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(got.String())
	case text == "unix":
		holds = got.Type == gjson.Number && time.Since(time.Unix(got.Int(), 0)).Abs() < 2*time.Minute
	case text == "base64":
		holds = regexp.MustCompile(`^[A-Za-z0-9+/]+=*$`).MatchString(got.Str)
	case text == "sorted":
		var list []string
		for _, e := range got.Array() {
			list = append(list, e.String())
		}
		holds = len(list) > 0 && slices.IsSorted(list)
	default:
		return equal(got, want)
	}
	if !holds {
		return no("is %.300s, not %s", got.Raw, text)
	}
	return ""
}

func typeOf(r gjson.Result) string {
	switch {
	case r.IsArray():
		return "array"
	case r.IsObject():
		return "object"
	case r.IsBool():
		return "boolean"
	}
	return strings.ToLower(r.Type.String())
}

// equal compares values of JSON.
func equal(got gjson.Result, want any) string {
	text, err := json.Marshal(want)
	if err != nil {
		return err.Error()
	}
	var a, b any
	if json.Unmarshal([]byte(got.Raw), &a) != nil || json.Unmarshal(text, &b) != nil || !reflect.DeepEqual(a, b) {
		return fmt.Sprintf("is %.300s, not %.300s", got.Raw, text)
	}
	return ""
}
