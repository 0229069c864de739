package scan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestInvalidTextIsRefusedByPlace(t *testing.T) {
	f := func(body, want string) {
		t.Helper()
		var d Document
		err := d.SkimStrict([]byte(body), chatShape)
		if got := ""; err != nil {
			got = err.Error()
			if got != want {
				t.Errorf("%q\n got %s\nwant %s", body, got, want)
			}
		} else if want != "" {
			t.Errorf("%q is accepted", body)
		}
	}
	const control = " has a raw control character inside a string; write it as an escape such as \\n (at byte "
	f("{\"messages\":[{\"content\":\"a\nb\"}]}", "messages.0.content"+control+"26)")
	f("{\n\t\"messages\":[\r\n{\"content\":[{\"text\":\"a\x00\"}]}]}", "messages.0.content.0.text"+control+"39)")
	f("{\"x\":{\"y\":\"\x1f\"}}", "the request body"+control+"11)")
	f("{\"a\tb\":1}", "the request body"+control+"3)")
	f("{\"stop\":[\"\x1b\"]}", "stop"+control+"10)")
	f("{\"model\":\"\xff\"}", "model is not valid UTF-8 (at byte 10)")
	f("{\"x\":\"\xed\xa0\x80\"}", "the request body is not valid UTF-8 (at byte 6)")
	f("{\n\t\"model\": \"\u00fc\u6771\U0001f600 \\n \x7f\",\r\n\t\"x\": \"\\\"\" }", "")
	f("{\"model\":\""+strings.Repeat("x", 1000)+"\"}", "")
}

// FuzzStrict: accepted text is UTF-8, and valid JSON except for its escapes. Valid JSON
// in UTF-8 is accepted.
func FuzzStrict(f *testing.F) {
	for _, s := range []string{`{}`, "{\n\"a\":\"b\"}", "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}", `{"a":"\\\""}`,
		"{\"" + strings.Repeat("ab", 40) + "\x01\":1}"} {
		f.Add([]byte(s))
	}
	var d Document
	f.Fuzz(func(t *testing.T, body []byte) {
		if d.Skim(body, chatShape) != nil {
			return
		}
		err := d.SkimStrict(body, chatShape)
		if err != nil && json.Valid(body) && utf8.Valid(body) {
			t.Fatalf("%q is refused: %v", body, err)
		}
		if err == nil && (!utf8.Valid(body) || !bytes.Contains(body, []byte(`\`)) && !json.Valid(body)) {
			t.Fatalf("%q is accepted", body)
		}
		if e, ok := err.(*Error); err != nil && (!ok || e.Offset >= len(body) || e.Reason != Control &&
			e.Reason != Encoding) {
			t.Fatalf("%q: odd refusal %v", body, err)
		}
	})
}
