package jsontext

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

var object = []byte(`{"id":"a","n":12,"list":[1,{"x":"}"},"\"]"],"last":null}`)

func TestMembersAndElements(t *testing.T) {
	var names string
	for m := range Members(object, 1) {
		names += string(m.Key) + " "
		if string(m.Key) == "list" {
			var list []string
			for e := range Elements(object[m.From:m.To]) {
				list = append(list, string(e))
			}
			if len(list) != 3 || list[1] != `{"x":"}"}` || list[2] != `"\"]"` {
				t.Errorf("elements %q", list)
			}
		}
	}
	if names != "id n list last " {
		t.Errorf("members %s", names)
	}
}

func TestAnObjectIsWrittenAsItIsRead(t *testing.T) {
	b := Object(`{`).Text("text", "a\"\\\x01\n\r\té\xff\x7f").Int("n", -3).Bool("ok", true).Raw("list", []byte("[]")).End()
	var got struct {
		Text string
		N    int
		OK   bool
		List []int
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	if got.Text != "a\"\\\x01\n\r\té\ufffd\x7f" || got.N != -3 || !got.OK || got.List == nil {
		t.Errorf("%+v of %s", got, b)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	buf, found := make([]byte, 0, 512), 0
	if n := testing.AllocsPerRun(100, func() {
		for m := range Members(object, 1) {
			for range Elements(object[m.From:m.To]) {
				found++
			}
		}
		buf = Object(append(buf[:0], '{')).Text("a", "b\n").Int("n", 1).End()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzWalks(f *testing.F) {
	f.Add(object)
	f.Add([]byte(`[1,2`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for m := range Members(b, 1) {
			for range Elements(b[m.From:m.To]) {
				_ = AppendUnescaped(nil, m.Key)
			}
		}
		text := AppendString(nil, b)
		var back string
		if err := json.Unmarshal(text, &back); err != nil || utf8.Valid(b) && back != string(b) {
			t.Errorf("%q becomes %s, %q (%v)", b, text, back, err)
		}
	})
}

func BenchmarkMembers(b *testing.B) {
	b.Run("iterator", func(b *testing.B) {
		n := 0
		for b.Loop() {
			for m := range Members(object, 1) {
				n += m.To
			}
		}
	})
	b.Run("calls", func(b *testing.B) {
		n := 0
		for b.Loop() {
			var m Member
			for i, ok := NextMember(object, 1, &m); ok; i, ok = NextMember(object, i, &m) {
				n += m.To
			}
		}
	})
}
