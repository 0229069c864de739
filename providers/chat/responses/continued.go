package responses

import (
	"bytes"
	"strconv"
	"strings"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// unread names a previous_response_id where no answers are kept.
const unread dialect.Omission = "previous_response_id"

// Previous is the answer that a body goes on from, as between the quotes of a JSON
// string; nil: none.
func Previous(body []byte, doc *scan.Document) []byte {
	return doc.StringAt(body, doc.TopIndex(TopPreviousResponseID))
}

// Own are the items of a body's own input, with commas between them. A plain text is a
// message of the user.
func Own(body []byte, doc *scan.Document) []byte {
	i := doc.TopIndex(TopInput)
	if i < 0 {
		return nil
	}
	f := &doc.Fields[i]
	switch f.Kind {
	case scan.String:
		return append(append([]byte(`{"type":"message","role":"user","content":`), f.Raw(body)...), '}')
	case scan.Array:
		return bytes.TrimSpace(body[f.From+1 : f.To-1])
	}
	return nil
}

// GoOn is the body with the items of earlier turns before its own.
func GoOn(body []byte, doc *scan.Document, earlier, own []byte) []byte {
	f := &doc.Fields[doc.TopIndex(TopInput)]
	out := append(make([]byte, 0, len(body)+len(earlier)+len(own)), body[:f.From]...)
	out = append(append(out, '['), earlier...)
	if len(earlier) > 0 && len(own) > 0 {
		out = append(out, ',')
	}
	return append(append(append(out, own...), ']'), body[f.To:]...)
}

// Output are the items of a response's output, with commas between them.
func Output(response []byte) []byte {
	list := jsontext.MemberOf(response, "output")
	if len(list) < 2 || list[0] != '[' {
		return nil
	}
	return bytes.TrimSpace(list[1 : len(list)-1])
}

// Items appends each of the items of a text with commas between them.
func Items(dst [][]byte, text []byte) [][]byte {
	for i := 0; ; {
		from, to, ok := jsontext.NextElement(text, i)
		if !ok {
			return dst
		}
		dst, i = append(dst, text[from:to]), to
	}
}

// KeepResponse gives the whole answer to k before the client gets its end.
func (f *Form) KeepResponse(k ResponseKeeper) { f.whole = k }

// Continue says that the first items of the input, so many, are of earlier turns.
func (f *Form) Continue(items int) { f.continued, f.earlier = true, items }

// MissPrevious says that the previous_response_id has no effect.
func (f *Form) MissPrevious() { f.stateless = true }

// keepResponse has the answer kept. Some upstreams end a stream without the items that
// they have told before.
func (f *Form) keepResponse(response []byte) {
	if f == nil || f.whole == nil {
		return
	}
	id, list := jsontext.StringIn(response, "id"), jsontext.MemberOf(response, "output")
	if len(id) == 0 {
		return
	}
	if len(list) > 0 && len(Output(response)) == 0 && len(f.heard) > 0 {
		at := cap(response) - cap(list) // it is a piece of the response
		whole := append(bytes.Clone(response[:at]), '[')
		whole = append(append(whole, f.heard[:len(f.heard)-1]...), ']')
		response = append(whole, response[at+len(list):]...)
	}
	if f.waits {
		f.response = bytes.Clone(response)
		return
	}
	f.whole.KeepResponse(id, response)
}

// tells says that answers of an upstream do not report rightly whether they are kept.
func (f *Form) tells() bool { return f != nil && (f.whole != nil || f.continued) }

// stored and previous are members of the answer.
func (f *Form) stored() string { return strconv.FormatBool(f.whole != nil) }

func (f *Form) previous() []byte {
	if !f.continued {
		return nullText
	}
	return f.raw(f.doc.TopIndex(TopPreviousResponseID))
}

// ownPath is the client's name of a path below input.
func (f *Form) ownPath(path string) string {
	rest, ok := strings.CutPrefix(path, "input.")
	if f.earlier == 0 || !ok {
		return path
	}
	digits, rest, more := strings.Cut(rest, ".")
	n, err := strconv.Atoi(digits)
	switch {
	case err != nil:
		return path
	case n < f.earlier:
		return "previous_response_id"
	case more:
		rest = "." + rest
	}
	return "input." + strconv.Itoa(n-f.earlier) + rest
}
