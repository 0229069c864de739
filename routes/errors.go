package routes

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/proxy/jsontext"
)

// Error is a refusal or failure on its way to the client. It is the only thing
// that handlers return for one, and writeError is the only place that turns it
// into bytes (addendum 3.4, 3.5).
type Error struct {
	Status  int
	Code    string // machine code of the addendum's error-codes list; may be empty
	Message string
	// Issues make the body the detailed validation shape.
	Issues []Issue
	// Param makes the body the nested OpenAI shape (context overflow).
	Param string
	// RequestID puts the request id into the body (upstream rejection).
	RequestID bool
	// Refused is the code by which Anthropic's packages know that they can go on without
	// the feature that the first issue names.
	Refused string
	// Custom is sent as customMessage (addendum 13, 429).
	Custom string
	// Suggestion is a prompt that would be taken, sent as suggested_prompt (addendum 3.4).
	Suggestion string
	// RetryAfter is sent as whole seconds, at least 1, when positive.
	RetryAfter time.Duration
	// Uncounted errors do not count into the failed-request budget
	// (addendum 3.6: no credential, wrong content type, invalid JSON, oversize).
	Uncounted bool
	// Unsupported counts into the unsupported-feature budget instead.
	Unsupported bool
	// Body is the whole answer of those that have one of their own (addendum 14.3,
	// 14.4), whatever shape the client's package expects.
	Body []byte
	// Close ends the client's connection after the answer.
	Close bool
	// key is the one that is known and may not be used; nil if absent.
	key *billing.RefusedKey
}

func (e *Error) Error() string { return e.Message }

// counts says that e counts into the budget of failed requests: errors of the client that it may
// repeat at once. Limits and an empty account have answers of their own, and disconnects have a
// budget of their own.
func (e *Error) counts() bool {
	return e.Status >= 400 && e.Status < 500 && e.Status != 402 && e.Status != 429 && e.Status != 499 && !e.Uncounted
}

// Issue is one entry of the flat validation list.
type Issue struct {
	// invalid_type, too_small, too_big, invalid_enum_value, unrecognized_keys, invalid_string, invalid_union, custom
	Code     string
	Path     string // dotted: messages.0.content
	Named    string // the member below Path that the client named, whose dots and digits are its own
	Message  string
	Expected string
	Received string
	Minimum  string // JSON number text
	Maximum  string
	Options  []string
}

func errAuthentication(text string) *Error {
	return &Error{Status: 401, Code: "AUTHENTICATION_FAILED", Message: text, Uncounted: true}
}

// Invalid is the answer to parameters with issues.
func Invalid(issues ...Issue) *Error {
	// The first issue is in the text, too: SDKs show their users no more.
	return &Error{Status: 400, Code: "INVALID_REQUEST", Message: "Invalid request parameters: " + issues[0].Message,
		Issues: issues}
}

// InvalidBody is the answer to a body that cannot be read.
func InvalidBody(path, text string) *Error {
	return &Error{
		Status: 400, Code: "INVALID_REQUEST", Message: "Invalid request body: " + text,
		Issues: []Issue{{Code: "custom", Path: path, Message: text}}, Uncounted: true,
	}
}

// Unsupported is the answer to a feature that the model or this service lacks.
func Unsupported(path, text string) *Error {
	return &Error{
		Status: 400, Code: "INVALID_REQUEST", Message: text,
		Issues: []Issue{{Code: "custom", Path: path, Message: text}}, Unsupported: true,
	}
}

// Text is the message as bodies have it.
func (e *Error) Text() string { return clip(e.Message, maxMessage) }

// ErrorShape writes errors as the clients of an endpoint read them.
type ErrorShape interface {
	// Append appends the body of an error.
	Append(b []byte, e *Error, requestID []byte) []byte
	// IDHeader is a header that repeats the request's id; nil if absent.
	IDHeader() []byte
}

// openAIShape has the error as a text or as an object.
type openAIShape struct{ object bool }

// IDHeader is ErrorShape's.
func (openAIShape) IDHeader() []byte { return nil }

var (
	// ShapeString is the specification's: error text plus top-level code.
	ShapeString ErrorShape = openAIShape{}
	// ShapeObject is OpenAI's {"error":{message,type,param,code}}; some typed
	// clients cannot decode anything else.
	ShapeObject ErrorShape = openAIShape{object: true}
)

// shapeFor picks the shape for one request. OpenAI's own packages, and those
// that were made of them, expect an object: openai-go fails to decode a string
// at all, openai-python drops its text, openai-node the code, the AI SDK shows
// "Bad Request". They name themselves, so they get the object unless the
// operator decided otherwise.
func shapeFor(setting string, h *fasthttp.RequestHeader) ErrorShape {
	switch setting {
	case "openai":
		return ShapeObject
	case "string":
		return ShapeString
	}
	if FromOpenAI(h) {
		return ShapeObject
	}
	return ShapeString
}

// FromOpenAI says that OpenAI's own packages, or clients that parse as those do, sent a
// request.
func FromOpenAI(h *fasthttp.RequestHeader) bool {
	userAgent := h.UserAgent()
	for _, prefix := range ofOpenAI {
		if bytes.HasPrefix(userAgent, prefix) {
			return true
		}
	}
	return len(h.Peek("X-Stainless-Lang")) > 0 // also where a page cannot set its User-Agent
}

var ofOpenAI = [][]byte{
	[]byte("OpenAI/"), []byte("AsyncOpenAI/"), []byte("Agents/"), []byte("ai/"), []byte("ai-sdk"), []byte("openai-go/"), []byte("codex"),
}

// Limits of an error body, for any request text that it quotes. Every text passes through clip on
// its way out, here and nowhere else.
const (
	maxMessage    = 4 << 10  // bytes of the error's own text
	maxSuggestion = 32 << 10 // of a prompt
	maxIssueText  = 1 << 10  // bytes of each text of an issue
	maxPathParts  = 12       // members on the path of an issue; our own paths have 6
	maxPathPart   = 68       // bytes of one of them; an excerpt has 67
	maxListed     = 100      // issues, and the options of one
	maxIssueBytes = 24 << 10 // of all issues as JSON
)

// clip cuts a text that is longer than most bytes, between two characters.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	most -= len("…")
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// writeError makes e the response. It keeps the headers that are already set.
func writeError(ctx *fasthttp.RequestCtx, e *Error, shape ErrorShape, requestID []byte) {
	r := &ctx.Response
	r.ResetBody()
	r.SetStatusCode(e.Status)
	r.Header.SetContentType("application/json; charset=utf-8")
	wait := e.RetryAfter
	if wait <= 0 && e.Status == fasthttp.StatusTooManyRequests {
		wait = OverloadRetry
	}
	if wait > 0 {
		secs := int64((wait + time.Second - 1) / time.Second)
		r.Header.Set("Retry-After", strconv.FormatInt(secs, 10))
	}
	if e.Status == fasthttp.StatusUnauthorized {
		r.Header.Set("WWW-Authenticate", "Bearer")
	}
	if header := shape.IDHeader(); header != nil {
		r.Header.SetCanonical(header, requestID)
	}
	if e.Close {
		r.SetConnectionClose()
	}
	r.SetBodyRaw(AppendError(nil, e, shape, requestID))
}

// AppendError appends the body of e in a shape.
func AppendError(b []byte, e *Error, shape ErrorShape, requestID []byte) []byte {
	if e.Body != nil {
		return append(b, e.Body...)
	}
	return shape.Append(b, e, requestID)
}

// Append is ErrorShape's.
func (s openAIShape) Append(b []byte, e *Error, requestID []byte) []byte {
	b = append(b, `{"error":`...)
	if s.object || e.Param != "" {
		b = jsontext.Object(append(b, '{')).Text("message", e.Text()).
			Text("type", openAIType(e.Status))
		b = append(b, `,"param":`...)
		switch {
		case e.Param != "":
			b = jsontext.AppendString(b, clip(e.Param, maxIssueText))
		case len(e.Issues) > 0:
			b = jsontext.AppendString(b, clip(e.Issues[0].place(), maxIssueText))
		default:
			b = append(b, `""`...)
		}
		b = jsontext.Object(b).Text("code", e.Code).End()
	} else {
		b = jsontext.AppendString(b, e.Text())
	}
	if e.Code != "" && e.Param == "" {
		b = jsontext.Object(b).Text("code", e.Code)
	}
	if e.Custom != "" {
		b = jsontext.Object(b).Text("customMessage", clip(e.Custom, maxMessage))
	}
	if e.Suggestion != "" {
		b = jsontext.Object(b).Text("suggested_prompt", clip(e.Suggestion, maxSuggestion))
	}
	if len(e.Issues) > 0 {
		list, n := appendIssues(nil, e.Issues)
		b = appendDetails(append(b, `,"details":`...), e.Issues[:n])
		b = append(b, `,"issues":`...)
		b = append(b, list...)
	}
	if e.RequestID && len(requestID) > 0 {
		b = jsontext.Object(b).Text("request_id", string(requestID))
	}
	return append(b, '}')
}

func openAIType(status int) string {
	switch {
	case status == 401:
		return "authentication_error"
	case status == 402:
		return "insufficient_quota"
	case status == 403:
		return "permission_error"
	case status == 404:
		return "not_found_error"
	case status == 429:
		return "rate_limit_error"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

// appendIssues appends as many issues as an error may have, the first always.
func appendIssues(b []byte, issues []Issue) (_ []byte, n int) {
	b = append(b, '[')
	for n < min(len(issues), maxListed) {
		before := len(b)
		if n > 0 {
			b = append(b, ',')
		}
		if b = appendIssue(b, &issues[n]); n > 0 && len(b) > maxIssueBytes {
			b = b[:before]
			break
		}
		n++
	}
	return append(b, ']'), n
}

func appendIssue(b []byte, s *Issue) []byte {
	b = jsontext.Object(append(b, '{')).Text("code", s.Code)
	b = append(b, `,"path":[`...)
	parts, named := s.pathParts()
	for i, part := range parts {
		if i > 0 {
			b = append(b, ',')
		}
		if isIndex(part) && i != named {
			b = append(b, part...)
		} else {
			b = jsontext.AppendString(b, part)
		}
	}
	b = jsontext.AppendString(append(b, `],"message":`...), clip(s.Message, maxIssueText))
	for _, kv := range [...]struct{ k, v string }{{"expected", s.Expected}, {"received", s.Received}} {
		if kv.v != "" {
			b = jsontext.AppendString(append(b, `,"`+kv.k+`":`...), clip(kv.v, maxIssueText))
		}
	}
	if s.Minimum != "" {
		b = append(b, `,"minimum":`...)
		b = append(b, s.Minimum...)
	}
	if s.Maximum != "" {
		b = append(b, `,"maximum":`...)
		b = append(b, s.Maximum...)
	}
	if len(s.Options) > 0 {
		b = append(b, `,"options":[`...)
		for i, o := range s.Options[:min(len(s.Options), maxListed)] {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsontext.AppendString(b, clip(o, maxIssueText))
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// appendDetails writes the nested form of the issues: an object keyed by
// field, each level with its `_errors`. The tree is walked by its links and not
// by calls, so that its depth costs no stack.
func appendDetails(b []byte, issues []Issue) []byte {
	tree := detailTree{{}}
	for i := range issues {
		at := 0
		parts, _ := issues[i].pathParts()
		for _, part := range parts {
			at = tree.child(at, part)
		}
		tree[at].errors = append(tree[at].errors, clip(issues[i].Message, maxIssueText))
	}
	b = tree.open(b, 0)
	for at := 0; ; {
		next := tree[at].first
		for next == 0 {
			b = append(b, '}')
			if at == 0 {
				return b
			}
			next, at = tree[at].next, tree[at].parent
		}
		at = next
		b = jsontext.AppendString(append(b, ','), tree[at].name)
		b = append(b, ':')
		b = tree.open(b, at)
	}
}

// detailTree is the nodes of the nested form; the first is the body itself. A
// link of 0 leads nowhere.
type detailTree []detail

type detail struct {
	name                      string
	errors                    []string
	parent, first, last, next int
}

// child finds the node of a name below another, or makes it.
func (t *detailTree) child(at int, name string) int {
	for c := (*t)[at].first; c != 0; c = (*t)[c].next {
		if (*t)[c].name == name {
			return c
		}
	}
	c := len(*t)
	*t = append(*t, detail{name: name, parent: at})
	if last := (*t)[at].last; last != 0 {
		(*t)[last].next = c
	} else {
		(*t)[at].first = c
	}
	(*t)[at].last = c
	return c
}

// open begins the object of a node with its errors.
func (t detailTree) open(b []byte, at int) []byte {
	b = append(b, `{"_errors":[`...)
	for i, text := range t[at].errors {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsontext.AppendString(b, text)
	}
	return append(b, ']')
}

// pathParts splits messages.0.content; an empty path has no parts. Levels below maxPathParts are
// one part, clipped like the others. named is the index of the part that the client named, which
// is never split; -1: none.
func (s *Issue) pathParts() (parts []string, named int) {
	named = -1
	if s.Path != "" {
		parts = strings.SplitN(s.Path, ".", maxPathParts)
	}
	if s.Named != "" {
		named = len(parts)
		parts = append(parts, s.Named)
	}
	for i := range parts {
		parts[i] = clip(parts[i], maxPathPart)
	}
	return parts, named
}

// place is the path in one piece, for people.
func (s *Issue) place() string {
	if s.Path == "" || s.Named == "" {
		return s.Path + s.Named
	}
	return s.Path + "." + s.Named
}

func isIndex(s string) bool {
	if s == "" || len(s) > 9 {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
