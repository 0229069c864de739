package scan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// FuzzSkim compares the scan with encoding/json: valid JSON is only refused for a stated
// reason, and accepted JSON has the members that a decoder finds, at the bytes where it
// finds them.
func FuzzSkim(f *testing.F) {
	for _, s := range []string{
		`{}`, ` {"model":"m","messages":[{"role":"user","content":"x"}]} `,
		`{"messages":[{"content":[{"type":"text","text":"\"\\\""},7,{"image_url":{"url":"u"}}]},{},null,[1]]}`,
		`{"model":1,"model":2}`, `{"MODEL":1}`, `{"mod\u0065l":1}`, "{\"\u017ftream\":1}",
		`{"stream_options":{"include_usage":true}}`,
		`{"a":[[],{},[{"b":-0.5e-7}]],"n":1E+2}`, `{"a":"\\","b":"\\\""}`, `{"messages":{"role":1}}`, `{"a":1}}`,
		`{"a":tru`,
	} {
		f.Add([]byte(s))
	}
	var d Document
	f.Fuzz(func(t *testing.T, body []byte) {
		err := d.Skim(body, chatShape)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Reason == 0 || e.Offset > len(body) {
				t.Fatalf("%q: odd refusal %v", body, err)
			}
			if !json.Valid(body) {
				return
			}
			want := e.Reason
			_, why := reference(body)
			if why != want {
				t.Fatalf("%q: valid JSON refused: %v, the reference says %v", body, err, why)
			}
			return
		}
		for i := range d.Fields {
			if fl := &d.Fields[i]; fl.Next <= int32(i) || int(fl.Next) > len(d.Fields) || fl.From >= fl.To ||
				int(fl.To) > len(body) {
				t.Fatalf("%q: field %d is %+v", body, i, fl)
			}
		}
		if !json.Valid(body) {
			return // the inside of strings is not compared here
		}
		want, why := reference(body)
		if why != 0 {
			t.Fatalf("%q: accepted, though %v", body, why)
		}
		var got []string
		for i := range d.Fields {
			fl := &d.Fields[i]
			got = append(got, fmt.Sprintf("%s %s %s", d.Path(int32(i)), fl.Kind, fl.Raw(body)))
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%q:\ngot  %q\nwant %q", body, got, want)
		}
		decoded(t, body)
		var cut []int32
		for i := range d.Fields {
			if d.Fields[i].Parent < 0 && i%2 == 0 {
				cut = append(cut, int32(i))
			}
		}
		left := body
		spans := d.AppendCuts(nil, body, cut...)
		for i := len(spans) - 1; i >= 0; i-- {
			left = append(append([]byte(nil), left[:spans[i].From]...), left[spans[i].To:]...)
		}
		if !json.Valid(left) {
			t.Fatalf("%q without %d members is %q", body, len(cut), left)
		}
	})
}

// decoded reads the body as a Go service does, which accepts other spellings of a name,
// and compares.
func decoded(t *testing.T, body []byte) {
	var v struct {
		Model   json.RawMessage `json:"model"`
		Stream  json.RawMessage `json:"stream"`
		N       json.RawMessage `json:"n"`
		Options json.RawMessage `json:"stream_options"`
	}
	if json.Unmarshal(body, &v) != nil {
		t.Fatalf("%q: cannot be decoded", body)
	}
	var d Document
	if err := d.Skim(body, chatShape); err != nil {
		t.Fatal(err)
	}
	for id, raw := range map[int]json.RawMessage{chatModel: v.Model, chatStream: v.Stream, chatN: v.N,
		chatOptions: v.Options} {
		fl, ok := d.Top(id)
		if !ok && raw == nil || ok && bytes.Equal(fl.Raw(body), raw) {
			continue
		}
		t.Fatalf("%q: a decoder reads %s as %q, the scan as %q", body, chatShape.Name(id), raw, fl.Raw(body))
	}
}

// reference finds the same fields with encoding/json's token reader, slowly.
func reference(body []byte) (fields []string, why Reason) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var top json.RawMessage
	if err := dec.Decode(&top); err != nil {
		return nil, Syntax
	}
	if top[0] != '{' {
		return nil, NotObject
	}
	why = object(top, chatShape, "", &fields)
	if why == 0 && depth(body) > MaxDepth {
		why = TooDeep
	}
	return fields, why
}

func depth(body []byte) int {
	dec := json.NewDecoder(bytes.NewReader(body))
	open, most := 0, 0
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			return most
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			open++
			most = max(most, open)
		case json.Delim('}'), json.Delim(']'):
			open--
		}
	}
}

func object(raw []byte, s *Shape, path string, fields *[]string) Reason {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.Token()
	seen := map[string]bool{}
	for dec.More() {
		start := dec.InputOffset()
		tok, _ := dec.Token()
		key, _ := tok.(string)
		keyRaw := raw[start:dec.InputOffset()]
		keyRaw = keyRaw[bytes.IndexByte(keyRaw, '"')+1 : len(keyRaw)-1]
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return Syntax
		}
		key, _, _ = strings.Cut(key, "\x00")
		name := ""
		for i := range s.Len() {
			if strings.EqualFold(key, s.Name(i)) {
				name = s.Name(i)
			}
		}
		if name == "" {
			continue
		}
		if string(keyRaw) != name {
			return Variant
		}
		if seen[name] {
			return Duplicate
		}
		seen[name] = true
		if why := value1(value, s.Child(s.ID(name)), path+name, fields); why != 0 {
			return why
		}
	}
	return 0
}

func value1(raw json.RawMessage, child *Shape, path string, fields *[]string) Reason {
	*fields = append(*fields, fmt.Sprintf("%s %s %s", path, kindAt[raw[0]], raw))
	if child == nil {
		return 0
	}
	if raw[0] == '{' {
		return object(raw, child, path+".", fields)
	}
	if raw[0] != '[' {
		return 0
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.Token()
	for i := 0; dec.More(); i++ {
		var e json.RawMessage
		if dec.Decode(&e) != nil {
			return Syntax
		}
		p := fmt.Sprintf("%s.%d", path, i)
		if e[0] == '{' {
			if why := value1(e, child, p, fields); why != 0 {
				return why
			}
		} else {
			*fields = append(*fields, fmt.Sprintf("%s %s %s", p, kindAt[e[0]], e))
		}
	}
	return 0
}
