package dialect

import (
	"bytes"

	"farebox/proxy/jsontext"
)

// Enclosed is a Stream of an answer that comes from an enclave (Chat.Verbatim).
type Enclosed interface {
	// ID is the completion's own, empty until it is known.
	ID() []byte
	// Unsealed says that something of the answer to a sealed chat (Chat.Sealed) is not known
	// to be sealed. Neither the event that has it nor any behind it was passed on.
	Unsealed() bool
	// Betrayed says that it was the answer's own content, which no parameter of a request
	// can make an enclave tell in the clear.
	Betrayed() bool
}

// MaxID is the longest id of a completion that is taken for one.
const MaxID = 256

// IsID says that a text may be one, escaped as in JSON.
func IsID(text []byte) bool {
	return len(text) <= MaxID && string(text) != "." && string(text) != ".." && // it goes into a path
		!bytes.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' })
}

// CompletionID is the id of a completion or of a chunk of one, as the upstream wrote it;
// empty if absent, or one that is not plain text.
func CompletionID(data []byte) []byte {
	i := jsontext.SkipSpace(data, 0)
	if i >= len(data) || data[i] != '{' {
		return nil
	}
	for m := range jsontext.Members(data, i+1) {
		if string(m.Key) != "id" {
			continue
		}
		if data[m.From] != '"' || !IsID(data[m.From+1:m.To-1]) {
			return nil
		}
		return data[m.From+1 : m.To-1]
	}
	return nil
}
