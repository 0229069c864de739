package responses

import (
	"encoding/base64"
	"slices"
	"unicode/utf8"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// Models' thoughts go through chat completions as reasoning_content and, for
// going on with them, as reasoning_details. A reasoning item has a summary and one
// opaque string. That string is the details as they are, in base64 behind sealHead, so
// that nothing of them is lost on the way through a client.
const sealHead = "rd1_"

var seal = base64.RawURLEncoding

// appendSealed appends the opaque string for details, entries with commas between.
func appendSealed(dst, details []byte) []byte {
	dst = append(dst, sealHead...)
	from := len(dst)
	dst = append(append(append(dst, '['), details...), ']')
	plain := len(dst) - from
	dst = slices.Grow(dst, seal.EncodedLen(plain))
	// Written behind the plain text, then moved over it.
	coded := dst[len(dst) : len(dst)+seal.EncodedLen(plain)]
	seal.Encode(coded, dst[from:])
	return append(dst[:from], coded...)
}

// sealed is the details in an opaque string that we have made; nil: it is another's.
func (f *Form) sealed(data []byte) []byte {
	if len(data) <= len(sealHead) || string(data[:len(sealHead)]) != sealHead {
		return nil
	}
	out, err := seal.AppendDecode(f.decoded[:0], data[len(sealHead):])
	f.decoded = out
	const deepest = 16
	if err != nil || len(out) < 2 || out[0] != '[' || !utf8.Valid(out) {
		return nil
	}
	if end, why := scan.Value(out, 0, 0, deepest); why != 0 || end != len(out) {
		return nil
	}
	for one := range jsontext.Elements(out) {
		if _, ok := dialect.AppendThought(nil, one); !ok {
			return nil
		}
	}
	return out
}

// thoughts writes the assistant's thoughts before a message.
func (f *Form) thoughts() {
	texts, details := false, false
	for _, i := range f.run {
		if f.kind(i) != "reasoning" {
			continue
		}
		own := false
		f.eachThought(i, func(words []byte) {
			switch {
			case len(words) == 0:
				return
			case !texts:
				f.b = append(f.b, `,"reasoning_content":"`...)
			case own:
				f.b = append(f.b, `\n\n`...)
			}
			texts, own = true, true
			f.b = append(f.b, words...)
		})
	}
	if texts {
		f.b = append(f.b, '"')
	}
	for _, i := range f.run {
		if f.kind(i) == "reasoning" {
			details = f.details(i, details)
		}
	}
	if details {
		f.b = append(f.b, ']')
	}
}

// eachThought calls do with the texts of a reasoning item, as they are between their
// quotes: its content, else its summary.
func (f *Form) eachThought(i int32, do func(words []byte)) {
	if at := f.doc.Member(i, ItemContent); at >= 0 && f.doc.Fields[at].Kind == scan.Array && f.doc.Fields[at].Len > 0 {
		for p := at + 1; p < f.doc.Fields[at].Next; p = f.doc.Fields[p].Next {
			do(f.text(f.member(p, PartText)))
		}
		return
	}
	if list := f.raw(f.doc.Member(i, ItemSummary)); len(list) > 0 && list[0] == '[' {
		eachSummary(list, do)
	}
}

// eachSummary calls do with the texts of a summary, escaped as in JSON.
func eachSummary(list []byte, do func(words []byte)) {
	for part := range jsontext.Elements(list) {
		switch part[0] {
		case '"':
			do(part[1 : len(part)-1])
		case '{':
			do(jsontext.StringIn(part, "text"))
		}
	}
}

// details writes the details of one reasoning item, and says whether any are there.
func (f *Form) details(i int32, begun bool) bool {
	data := f.text(f.doc.Member(i, ItemEncryptedContent))
	if len(data) == 0 {
		return begun
	}
	entry := func() {
		if begun {
			f.b = append(f.b, ',')
		} else {
			f.b = append(f.b, `,"reasoning_details":[`...)
		}
		begun = true
	}
	list := f.sealed(data)
	if list == nil {
		entry()
		f.b = append(append(f.b, `{"type":"reasoning.encrypted","data":"`...), data...)
		f.b = append(f.b, `","format":"openai-responses-v1"`...)
		if id := f.raw(f.doc.Member(i, ItemID)); id != nil {
			f.b = append(append(f.b, `,"id":`...), id...)
		}
		f.b = append(f.b, '}')
		return begun
	}
	for one := range jsontext.Elements(list) {
		entry()
		f.b, _ = dialect.AppendThought(f.b, one)
		f.b = f.b[:len(f.b)-1]
		// A streamed entry has no text of its own: the item's summary is that.
		if string(jsontext.StringIn(one, "type")) == "reasoning.text" && jsontext.StringIn(one, "text") == nil {
			f.b = append(f.b, `,"text":"`...)
			f.eachThought(i, func(words []byte) { f.b = append(f.b, words...) })
			f.b = append(f.b, '"')
		}
		f.b = append(f.b, '}')
	}
	return begun
}
