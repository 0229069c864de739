package scan

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// The shapes of the tests are cut from a chat request.
var (
	urlShape     = NewShape(Member{Name: "url"})
	partShape    = NewShape(Member{Name: "type"}, Member{Name: "text"}, Member{Name: "image_url", Child: urlShape})
	messageShape = NewShape(Member{Name: "role"}, Member{Name: "content", Child: partShape})
	optionsShape = NewShape(Member{Name: "include_usage"})
	chatShape    = NewShape(
		Member{Name: "model"}, Member{Name: "messages", Child: messageShape}, Member{Name: "stream"},
		Member{Name: "stream_options", Child: optionsShape}, Member{Name: "n"}, Member{Name: "stop"},
	)
)

const (
	chatModel = iota
	chatMessages
	chatStream
	chatOptions
	chatN
	chatStop
)

func TestFieldsOfAChatRequest(t *testing.T) {
	body := []byte(` {"model" : "m", "x":{"model":1,"a":[{},[],{"b":"]}"}]},
	 "messages":[{"role":"user","content":[{"type":"text","text":"\"hi\\"},7,{"image_url":{"url":"u"}}]},{},"s",null,[1]],
	 "stream":true,"stop":["a","b"],"n":-1.5e+3,"café":1,"caf\u00e9":2,"stream_options":{} } `)
	var d Document
	if err := d.Skim(body, chatShape); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for i := range d.Fields {
		f := &d.Fields[i]
		fmt.Fprintf(&got, "%s %s %d %q\n", d.Path(int32(i)), f.Kind, f.Len, f.Raw(body))
	}
	want := `model string 0 "\"m\""
messages array 5 "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\\\"hi\\\\\"},7,{\"image_url\":{\"url\":\"u\"}}]},{},\"s\",null,[1]]"
messages.0 object 2 "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\\\"hi\\\\\"},7,{\"image_url\":{\"url\":\"u\"}}]}"
messages.0.role string 0 "\"user\""
messages.0.content array 3 "[{\"type\":\"text\",\"text\":\"\\\"hi\\\\\"},7,{\"image_url\":{\"url\":\"u\"}}]"
messages.0.content.0 object 2 "{\"type\":\"text\",\"text\":\"\\\"hi\\\\\"}"
messages.0.content.0.type string 0 "\"text\""
messages.0.content.0.text string 0 "\"\\\"hi\\\\\""
messages.0.content.1 number 0 "7"
messages.0.content.2 object 1 "{\"image_url\":{\"url\":\"u\"}}"
messages.0.content.2.image_url object 1 "{\"url\":\"u\"}"
messages.0.content.2.image_url.url string 0 "\"u\""
messages.1 object 0 "{}"
messages.2 string 0 "\"s\""
messages.3 null 0 "null"
messages.4 array 1 "[1]"
stream boolean 0 "true"
stop array 2 "[\"a\",\"b\"]"
n number 0 "-1.5e+3"
stream_options object 0 "{}"
`
	if got.String() != want {
		t.Fatalf("got\n%s\nwant\n%s", got.String(), want)
	}
	if d.Members != 9 || body[d.Open-1] != '{' || body[d.Close] != '}' || d.Close != len(body)-2 {
		t.Fatalf("members %d, open %d, close %d", d.Members, d.Open, d.Close)
	}
	if f, ok := d.Top(chatN); !ok || string(f.Raw(body)) != "-1.5e+3" {
		t.Fatalf("n: %v %v", f, ok)
	}
	if _, ok := d.Top(chatOptions); !ok {
		t.Fatal("stream_options was not found")
	}
	if i := d.Member(d.TopIndex(chatMessages)+1, 1); d.Path(i) != "messages.0.content" {
		t.Fatalf("content of the first message is at %d", i)
	}
	if i := d.Member(-1, chatStream); d.Path(i) != "stream" {
		t.Fatalf("stream is at %d", i)
	}
}

func TestAmbiguousBodiesAreRefused(t *testing.T) {
	var d Document
	f := func(body string, reason Reason, path string) {
		t.Helper()
		err := d.Skim([]byte(body), chatShape)
		var e *Error
		if !errors.As(err, &e) || e.Reason != reason || e.Path != path {
			t.Errorf("%s: got %v (%+v), want %v at %q", body, err, e, reason, path)
		}
	}
	f(`{"model":"cheap","model":"dear"}`, Duplicate, "model")
	f(`{"messages":[{},{"role":"user","role":"system"}]}`, Duplicate, "messages.1.role")
	f(`{"messages":[{"content":[{"image_url":{"url":1,"url":2}}]}]}`, Duplicate, "messages.0.content.0.image_url.url")
	f(`{"stream_options":{"include_usage":true,"include_usage":false}}`, Duplicate, "stream_options.include_usage")
	f(`{"MODEL":1}`, Variant, "model")
	f(`{"Model":1}`, Variant, "model")
	f(`{"mod\u0065l":1}`, Variant, "model")
	f(`{"m\u006Fdel":1}`, Variant, "model")
	f(`{"\u004dodel":1}`, Variant, "model")
	f("{\"\u017ftream\":true}", Variant, "stream")
	f(`{"\u017Ftream":true}`, Variant, "stream")
	f(`{"\stream":true}`, Variant, "stream")
	f(`{"model\u0000":1}`, Variant, "model")
	f("{\"model\x00x\":1}", Variant, "model")
	f(`{"messages":[{"Role":1}]}`, Variant, "messages.0.role")
	f(`{"a":1}{"b":2}`, Trailing, "")
	f(`{"a":1} x`, Trailing, "")
	f(`{"a":1,}`, Syntax, "")
	f(`{,"a":1}`, Syntax, "")
	f(`{"a":1 "b":2}`, Syntax, "")
	f(`{"a"}`, Syntax, "")
	f(`{"a":}`, Syntax, "")
	f(`{'a':1}`, Syntax, "")
	f(`{"a":1/*,"model":"x"*/}`, Syntax, "")
	f(`{"a":NaN}`, Syntax, "")
	f(`{"a":+1}`, Syntax, "")
	f(`{"a":01}`, Syntax, "")
	f(`{"a":1.}`, Syntax, "")
	f(`{"a":.5}`, Syntax, "")
	f(`{"a":1e}`, Syntax, "")
	f(`{"a":-}`, Syntax, "")
	f(`{"a":True}`, Syntax, "")
	f(`{"a":truex}`, Syntax, "")
	f(`{"a":[1,]}`, Syntax, "")
	f(`{"a":[1}}`, Syntax, "")
	f(`{"a":{"b":1]}`, Syntax, "")
	f(`{"messages":[1,]}`, Syntax, "messages")
	f(`{"messages":[{"role":1,}]}`, Syntax, "messages.0")
	f(`{"messages":[}`, Syntax, "messages")
	f(`{"messages":{]}`, Syntax, "messages")
	f(`[]`, NotObject, "")
	f(`"x"`, NotObject, "")
	f("\ufeff{}", NotObject, "")
	f("{\x00}\x00", Syntax, "")
}

func TestTruncatedBodiesAreRefusedAtEveryByte(t *testing.T) {
	body := []byte(`{"model":"m\"","messages":[{"role":"user","content":[{"text":"x"},{"image_url":{"url":"u"}}]}],"a":{"b":[1.5e3,true,null,{}]},"n":2}`)
	var d Document
	if err := d.Skim(body, chatShape); err != nil {
		t.Fatal(err)
	}
	for i := range body {
		err := d.Skim(body[:i:i], chatShape)
		var e *Error
		if !errors.As(err, &e) || e.Reason != Truncated {
			t.Fatalf("%q: %v", body[:i], err)
		}
	}
}

func TestLikenessesOfGuardedNamesPass(t *testing.T) {
	var d Document
	for _, body := range []string{
		`{"models":1,"mode":2,"mode\u0000l":3}`, `{"caf\u00e9":1}`, `{"":1}`, `{"\\":1}`, `{"\"model\"":1}`,
		`{"model ":1}`,
		`{"mod\ud800l":1}`, `{"x":{"MODEL":1,"model":1,"model":2}}`, `{"messages":{"MODEL":1}}`, `{"\u0000model":1}`,
		"{\"\xff\xfe\":1}",
	} {
		if err := d.Skim([]byte(body), chatShape); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestCutMembersLeaveValidObjects(t *testing.T) {
	all := []string{`"model" : "m"`, `"x":{"n":1}`, `"n":[1]`, `"stop":"," `, `"stream":true`}
	var d Document
	for set := range 1 << len(all) {
		var keep []string
		var cut []int32
		body := []byte("{ " + strings.Join(all, " , ") + " }")
		if err := d.Skim(body, chatShape); err != nil {
			t.Fatal(err)
		}
		for i, m := range all {
			if set>>i&1 == 0 {
				keep = append(keep, m)
				continue
			}
			name, _, _ := strings.Cut(m[1:], `"`)
			if id := chatShape.ID(name); id >= 0 {
				cut = append(cut, d.TopIndex(id))
			} else {
				keep = append(keep, m)
			}
		}
		out := body
		spans := d.AppendCuts(nil, body, cut...)
		for i := len(spans) - 1; i >= 0; i-- {
			out = append(append([]byte(nil), out[:spans[i].From]...), out[spans[i].To:]...)
		}
		got := strings.Join(strings.Fields(string(out)), "")
		want := "{" + strings.Join(strings.Fields(strings.Join(keep, ",")), "") + "}"
		if got != want {
			t.Errorf("cut %b: got %s want %s", set, got, want)
		}
	}
}

func TestLimitsAtTheirEdges(t *testing.T) {
	var d Document
	deep := func(n int) []byte {
		return []byte(`{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`)
	}
	if err := d.Skim(deep(MaxDepth), chatShape); err != nil {
		t.Fatalf("%d levels: %v", MaxDepth, err)
	}
	if err := d.Skim(deep(MaxDepth+1), chatShape); err == nil || err.(*Error).Reason != TooDeep {
		t.Fatalf("%d levels: %v", MaxDepth+1, err)
	}
	inner := func(n int) []byte {
		return []byte(`{"messages":[{"content":[{"x":` + strings.Repeat(`{"a":`, n-5) + "1" + strings.Repeat("}", n-5) +
			`}]}]}`)
	}
	if err := d.Skim(inner(MaxDepth), chatShape); err != nil {
		t.Fatalf("%d levels inside shapes: %v", MaxDepth, err)
	}
	if err := d.Skim(inner(MaxDepth+1), chatShape); err == nil || err.(*Error).Reason != TooDeep {
		t.Fatalf("%d levels inside shapes: %v", MaxDepth+1, err)
	}
	many := func(n int) []byte {
		return []byte(`{"messages":[` + strings.Repeat("1,", n-2) + `1]}`)
	}
	if err := d.Skim(many(MaxFields), chatShape); err != nil {
		t.Fatalf("%d fields: %v", MaxFields, err)
	}
	if err := d.Skim(many(MaxFields+1), chatShape); err == nil || err.(*Error).Reason != TooMany {
		t.Fatalf("%d fields: %v", MaxFields+1, err)
	}
	d.Reset()
	if cap(d.Fields) > keepFields {
		t.Fatalf("a huge body left a capacity of %d fields", cap(d.Fields))
	}
}

// Eight million brackets overflowed the stack of a recursive validator and
// killed the process.
func TestMillionsOfBracketsAreRefusedAtOnce(t *testing.T) {
	var d Document
	for _, body := range [][]byte{
		bytes.Repeat([]byte("["), 8<<20),
		append([]byte(`{"a":`), bytes.Repeat([]byte("["), 8<<20)...),
		bytes.Repeat([]byte(`{"a":`), 2<<20),
		append([]byte(`{"messages":[`), bytes.Repeat([]byte(`{"content":[`), 1<<20)...),
	} {
		if err := d.Skim(body, chatShape); err == nil {
			t.Fatalf("%.20q… was accepted", body)
		}
	}
}

func TestShapesThatCannotBe(t *testing.T) {
	f := func(name string, members ...Member) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s was accepted", name)
			}
		}()
		NewShape(members...)
	}
	f("an empty name", Member{Name: ""})
	f("an escaped name", Member{Name: `a\b`})
	f("a repeated name", Member{Name: "a"}, Member{Name: "a"})
	f("a variant", Member{Name: "a"}, Member{Name: "A"})
	f("129 members", make([]Member, maxMembers+1)...)
}

func TestNamesWithCapitals(t *testing.T) {
	s := NewShape(Member{Name: "topK"})
	var d Document
	if err := d.Skim([]byte(`{"topK":1}`), s); err != nil || d.TopIndex(0) != 0 {
		t.Fatal(err)
	}
	for _, body := range []string{`{"topk":1}`, `{"TOPK":1}`, `{"topK":1,"topk":2}`, "{\"top\u212a\":1}"} {
		if err := d.Skim([]byte(body), s); err == nil {
			t.Errorf("%s was accepted", body)
		}
	}
}
