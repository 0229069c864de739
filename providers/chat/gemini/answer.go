package gemini

import (
	"errors"
	"fmt"
	"strconv"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

var errNoAnswer = errors.New("the answer has no candidates")

// Answer writes the chat completion for a whole answer.
func (Dialect) Answer(body []byte, c *dialect.Chat, _ *dialect.Target, scratch *dialect.Scratch) ([]byte, dialect.Usage,
	error) {
	s := streams.Get().(*stream)
	defer s.Release()
	s.OpenWhole(c, s, scratch.Out[:0])
	s.single = wantsOne(c)
	if err := s.scanned.Skim(body, answerShape); err != nil {
		return nil, dialect.Usage{}, fmt.Errorf("cannot read the answer: %w", err)
	}
	s.read = read{&s.scanned, body}
	if i := s.doc.TopIndex(answerError); i >= 0 && s.doc.Fields[i].Kind == scan.Object {
		return nil, dialect.Usage{}, &dialect.Failed{JSON: body}
	}
	if !s.answers() && !isBlocked(&s.read) {
		return nil, dialect.Usage{}, errNoAnswer
	}
	if s.take(body); s.Failed() {
		return nil, dialect.Usage{}, &dialect.Failed{JSON: s.FailedWith()}
	}
	var u dialect.Usage
	scratch.Out, u = s.Whole()
	return scratch.Out, u, nil
}

// answers says that one of the candidates was asked for.
func (s *stream) answers() bool {
	list := s.doc.TopIndex(answerCandidates)
	if list < 0 || s.doc.Fields[list].Kind != scan.Array {
		return false
	}
	for i := list + 1; i < s.doc.Fields[list].Next; i = s.doc.Fields[i].Next {
		if s.doc.Fields[i].Kind == scan.Object && s.index(i) < max(1, s.Chat.Choices) {
			return true
		}
	}
	return false
}

// isBlocked says that the prompt was refused and nothing was answered.
func isBlocked(r *read) bool {
	i := r.doc.TopIndex(answerFeedback)
	if i < 0 || r.doc.Fields[i].Kind != scan.Object {
		return false
	}
	reason := r.string(r.doc.Member(i, 0))
	return len(reason) > 0 && string(reason) != "BLOCKED_REASON_UNSPECIFIED"
}

// index is a candidate's place; the vendor leaves out a 0.
func (r *read) index(candidate int32) int64 {
	n, _ := jsontext.ReadCount(r.raw(r.doc.Member(candidate, candidateIndex)))
	return n
}

// appendCallID appends the vendor's id of a call, or one made of the answer's and
// the call's place in it, which is the same whenever it is made.
func (r *read) appendCallID(dst []byte, call int32, answer []byte, choice, n int64) []byte {
	if id := r.string(r.doc.Member(call, callID)); len(id) > 0 {
		return append(dst, id...)
	}
	dst = append(append(append(dst, "call_"...), answer...), '_')
	if choice > 0 {
		dst = append(strconv.AppendInt(dst, choice, 10), '_')
	}
	return strconv.AppendInt(dst, n, 10)
}

// appendArguments appends a call's arguments as they are in a JSON string.
func (r *read) appendArguments(dst []byte, call int32) []byte {
	if args := r.raw(r.doc.Member(call, callArgs)); args != nil {
		return jsontext.AppendEscaped(dst, args)
	}
	return append(dst, "{}"...)
}
