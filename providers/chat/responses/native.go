package responses

import (
	"bytes"
	"errors"
	"time"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

// Native speaks to upstreams that take POST /responses themselves. The client's own body
// goes out but for members that would reach into the operator's account there
// (native_request.go), and answers come back as they are but for the model's name, the
// operator's instructions and the words of failures.
type Native struct{}

var _ dialect.Dialect = Native{}

// Takes is dialect.Choosy: an upstream takes responses where the operator says so.
func (Native) Takes(_ *dialect.Chat, t *dialect.Target) bool { return t.Upstream.Config.Responses }

// Translates is true: whole answers are looked into, and held until they are there.
func (Native) Translates() bool { return true }

// Error reads an upstream's error answer.
func (Native) Error(status int, retryAfter time.Duration, body []byte) dialect.Failure {
	return dialect.FailureOf(dialect.OperatorStatus(status, body), retryAfter, body)
}

var errNoResponse = errors.New("the answer is not a response")

// Answer is dialect.Dialect.
func (Native) Answer(body []byte, c *dialect.Chat, t *dialect.Target,
	s *dialect.Scratch) ([]byte, dialect.Usage, error) {
	var u dialect.Usage
	from := jsontext.SkipSpace(body, 0)
	if from >= len(body) || body[from] != '{' || jsontext.SkipValue(body, from) < 0 {
		return nil, u, errNoResponse
	}
	r := readResponse(body[from:])
	switch {
	case r.failed():
		return nil, u, &dialect.Failed{JSON: failureOf(r.failure)}
	case len(r.output) == 0 || r.output[0] != '[':
		return nil, u, errNoResponse
	}
	m := meter{Meter: dialect.Meter{Chat: c}}
	defer m.Text.Release()
	readNativeUsage(r.usage, &m.Last)
	m.output(r.output, seenWhole)
	f, _ := c.Form.(*Form)
	if f != nil {
		for item := range jsontext.Objects(r.output) {
			f.keep(item)
		}
	}
	u = m.Settled(true)
	if r.changes(c, t, f) || !u.Seen {
		s.Out = appendPatched(s.Out[:0], body[from:], c, t, f, nil, &u)
		body, from = s.Out, 0
	}
	f.keepResponse(body[from:])
	return body, u, nil
}

// nativeResponse is a response object as far as it is read.
type nativeResponse struct{ status, failure, output, usage, model, instructions []byte }

func readResponse(object []byte) (r nativeResponse) {
	for m := range jsontext.Members(object, 1) {
		value := object[m.From:m.To]
		switch string(m.Key) {
		case "status":
			r.status = value
		case "error":
			r.failure = value
		case "output":
			r.output = value
		case "usage":
			r.usage = value
		case "model":
			r.model = value
		case "instructions":
			r.instructions = value
		}
	}
	return r
}

// failed says that there is an error in the place of an answer.
func (r *nativeResponse) failed() bool {
	return string(r.status) == `"failed"` || len(r.failure) > 2 && (r.failure[0] == '{' || r.failure[0] == '"')
}

// changes says that the client gets the response in other words than the upstream's.
func (r *nativeResponse) changes(c *dialect.Chat, t *dialect.Target, f *Form) bool {
	return t.Renames && r.model != nil || len(c.SystemPrompt) > 0 && r.instructions != nil || f.tells()
}

// failureOf is an upstream's error object as one that is in an answer.
func failureOf(object []byte) []byte {
	if len(object) == 0 {
		object = nullText
	}
	return append(append([]byte(`{"error":`), object...), '}')
}

// appendPatched appends a response with the client's name of the model and instructions,
// safe words of a failure, and the usage that is charged where the upstream told none;
// nil: as the upstream wrote them. f tells whether the response is kept here; nil: it is not.
func appendPatched(dst, object []byte, c *dialect.Chat, t *dialect.Target, f *Form, fault *dialect.Fault,
	u *dialect.Usage) []byte {
	at, reported := 0, u == nil || u.Seen
	for m := range jsontext.Members(object, 1) {
		value := object[m.From:m.To]
		name := string(m.Key)
		switch {
		case name == "model" && t.Renames && value[0] == '"':
		case name == "instructions" && len(c.SystemPrompt) > 0:
		case name == "error" && fault != nil && value[0] == '{':
		case name == "usage" && !reported:
			reported = true
		case (name == "store" || name == "previous_response_id") && f.tells():
		default:
			continue
		}
		dst = append(dst, object[at:m.From]...)
		switch at = m.To; name {
		case "model":
			dst = append(dst, t.QuotedID...)
		case "instructions":
			dst = append(dst, orNull(c.ToldDoc.RawAt(c.Told, c.ToldDoc.TopIndex(TopInstructions)))...)
		case "error":
			dst = append(append(dst, `{"code":"`...), errorCode([]byte(fault.Code))...)
			dst = append(append(append(dst, `","message":"`...), fault.Message...), `"}`...)
		case "usage":
			dst = appendNativeUsage(dst, u)
		case "store":
			dst = append(dst, f.stored()...)
		case "previous_response_id":
			dst = append(dst, f.previous()...)
		}
	}
	if end := bytes.LastIndexByte(object, '}'); !reported && end >= at {
		dst = appendNativeUsage(append(append(dst, object[at:end]...), `,"usage":`...), u)
		at = end
	}
	return append(dst, object[at:]...)
}
