package billing

import (
	"bytes"
	"testing"

	"farebox/config"
)

// Whatever lies in a file of keys: reading it ends, gives only whole records,
// and those can be answered with or are refused.
func FuzzKeyedFile(f *testing.F) {
	var file []byte
	add := func(r keyedRecord, body []byte) {
		if r.kind == keyedDone {
			r.keep(&Answer{Status: 200, Header: []AnswerHeader{{"A", "b"}}, Body: body}, body)
		}
		file = append(file, r.bytes()...)
		f.Add(append([]byte(keyedMagic), file...))
	}
	add(keyedRecord{kind: keyedPending, id: keyedID{1}, atMs: 1 << 40, patienceMs: 5}, nil)
	add(keyedRecord{kind: keyedDone, id: keyedID{1}, atMs: 1 << 40}, []byte(`{"jsonrpc":"2.0"}`))
	add(keyedRecord{kind: keyedDone, id: keyedID{2}, atMs: 1 << 40}, bytes.Repeat([]byte("ab"), 2000))
	add(keyedRecord{kind: keyedForgotten, id: keyedID{1}}, nil)
	f.Add([]byte(keyedMagic))
	f.Add([]byte{})
	most := int(config.DefaultIdempotency().MaxAnswer)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, bodies := range []bool{true, false} {
			at := int64(len(keyedMagic))
			end, err := scanKeyed(bytes.NewReader(data), int64(len(data)), bodies, func(r *keyedRecord, place int64) {
				if place != at {
					t.Fatalf("a record at %d, expected at %d", place, at)
				}
				at += keyedHead + int64(r.size)
				if at > int64(len(data)) {
					t.Fatalf("a record ends at %d of %d", at, len(data))
				}
				var whole keyedRecord
				if !whole.read(data[place:at]) {
					if bodies {
						t.Fatal("a damaged record was given")
					}
					return
				}
				if !bytes.Equal(whole.bytes(), data[place:at]) {
					t.Fatal("a record changes when it is written again")
				}
				if whole.kind != keyedDone {
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
