package replay

import (
	"bytes"
	"testing"

	"farebox/config"
)

// Reading any file of keys ends and returns only whole records, which are replayed or
// refused.
func FuzzFile(f *testing.F) {
	var file []byte
	add := func(r record, body []byte) {
		if r.kind == kindDone {
			r.keep(&Answer{Status: 200, Header: []Header{{"A", "b"}}, Body: body}, body)
		}
		file = append(file, r.bytes()...)
		f.Add(append([]byte(fileMagic), file...))
	}
	add(record{kind: kindPending, id: requestID{1}, atMs: 1 << 40, patienceMs: 5}, nil)
	add(record{kind: kindDone, id: requestID{1}, atMs: 1 << 40}, []byte(`{"jsonrpc":"2.0"}`))
	add(record{kind: kindDone, id: requestID{2}, atMs: 1 << 40}, bytes.Repeat([]byte("ab"), 2000))
	add(record{kind: kindForgotten, id: requestID{1}}, nil)
	f.Add([]byte(fileMagic))
	f.Add([]byte{})
	most := int(config.Default[config.Idempotency]().MaxAnswer)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, bodies := range []bool{true, false} {
			at := int64(len(fileMagic))
			end, err := scan(bytes.NewReader(data), int64(len(data)), bodies, func(r *record, place int64) {
				if place != at {
					t.Fatalf("a record at %d, expected at %d", place, at)
				}
				at += headSize + int64(r.size)
				if at > int64(len(data)) {
					t.Fatalf("a record ends at %d of %d", at, len(data))
				}
				var whole record
				if !whole.parse(data[place:at]) {
					if bodies {
						t.Fatal("a damaged record was given")
					}
					return
				}
				if !bytes.Equal(whole.bytes(), data[place:at]) {
					t.Fatal("a record changes when it is written again")
				}
				if whole.kind != kindDone {
					return
				}
				if a, err := whole.answer(most); err == nil && len(a.Body) > most {
					t.Fatalf("an answer of %d bytes", len(a.Body))
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if end > int64(len(data)) || end != at && end != 0 {
				t.Fatalf("the end is at %d, the records end at %d of %d", end, at, len(data))
			}
		}
	})
}
