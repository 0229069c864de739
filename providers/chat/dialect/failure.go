package dialect

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tidwall/gjson"

	"farebox/providers/attempt"
	"farebox/proxy/jsontext"
)

// Codes of failures (addendum 3.5, error-codes) and their texts. Texts of
// upstreams are shown for rejected requests only: those of failures speak of
// the upstream's hosts, limits and accounts.
const (
	codeContext = "context_length_exceeded"
	codePolicy  = "CONTENT_POLICY_VIOLATION"

	textOffline    = "The model is not available right now; please retry later."
	textOverloaded = "The model is overloaded; please retry."
	textCapacity   = "The model has no capacity left right now; please retry."
	textFailed     = "The model failed to answer; please retry."
	textTimeout    = "The model took too long to answer; please retry."
	textPolicy     = "The request was refused by the model's content policy."
	textContext    = "The prompt is longer than the model's context."
	textRejected   = "The model rejected the request."
	textTooLarge   = "The request is larger than the model accepts."
)

// overloadRest is how long a client is asked to wait without a Retry-After.
const overloadRest = 30 * time.Second

// FailureOf is the failure of an upstream's error answer for the client, by its status
// and text, and for the target, by its status alone.
func FailureOf(status int, retryAfter time.Duration, body []byte) Failure {
	e := readError(body)
	f := e.failure(status)
	f.Verdict = attempt.Judge(status, retryAfter)
	return f
}

func (e *upstreamError) failure(status int) Failure {
	switch {
	case status == 401 || status == 402 || status == 404 || status == 405 || status == 407 || status == 421 ||
		status >= 300 && status < 400 || status == 403 && !e.policy():
		// The operator's key, account, path or model name is wrong there, not
		// the client's request.
		return Failure{Status: 503, Code: "MODEL_OFFLINE", Type: "server_error", Message: textOffline}
	case status == 429 || status == 529:
		return Failure{Status: 429, Code: "MODEL_OVERLOADED", Type: "rate_limit_error", Message: textOverloaded}
	case status == 408 || status == 504 || status == 524:
		return Failure{Status: 504, Code: "REQUEST_TIMEOUT", Type: "server_error", Message: textTimeout}
	case status == 409 || status == 425 || status == 503:
		return Failure{Status: 503, Code: "MODEL_AT_CAPACITY", Type: "server_error", Message: textCapacity}
	case status < 400 || status >= 500:
		return Failure{Status: 500, Code: "INFERENCE_FAILED", Type: "server_error", Message: textFailed}
	case e.context():
		return Failure{Status: 400, Code: codeContext, Type: "invalid_request_error", Param: "messages",
			Message: e.safe(textContext)}
	case e.policy():
		return Failure{Status: 422, Code: codePolicy, Type: "invalid_request_error",
			Message: e.safe(textPolicy)}
	case status == 413:
		return Failure{Status: 413, Code: "PAYLOAD_TOO_LARGE", Type: "invalid_request_error", Message: textTooLarge}
	}
	return Failure{Status: 400, Code: "INVALID_REQUEST", Type: "invalid_request_error", Message: e.safe(textRejected)}
}

// OperatorStatus is the status of a refusal about the operator's key,
// money or model. Vendors of OpenAI's API send those with 400, too. Only codes count, and
// sentences at the very start of a message, where no words of a client can be.
func OperatorStatus(status int, body []byte) int {
	if status != 400 && status != 429 {
		return status
	}
	e := readError(body)
	if of := ofOperator[e.code]; of != 0 {
		return of
	}
	if status != 400 {
		return status
	}
	text := strings.ToLower(e.message[:min(len(e.message), maxWords)])
	for _, s := range operatorSentences {
		if strings.HasPrefix(text, s.start) {
			return s.status
		}
	}
	if noModel.MatchString(text) {
		return 404
	}
	return status
}

var (
	ofOperator = map[string]int{
		"insufficient_quota": 402, "billing_not_active": 402, "billing_hard_limit_reached": 402,
		"invalid_api_key": 401, "account_deactivated": 401, "model_not_found": 404,
	}
	operatorSentences = []struct {
		start  string
		status int
	}{
		{"your credit balance is too low", 402}, {"insufficient balance", 402}, {"insufficient credits", 402},
		{"you exceeded your current quota", 402}, {"incorrect api key provided", 401}, {"model not exist", 404},
	}
	noModel = regexp.MustCompile("^(?:the )?model [`'\"]?[^\\s`'\"]+[`'\"]? (?:does not exist|is not found|was not found)")
)

// ErrorCode and ErrorMessage are those of an upstream's error answer, for
// dialects whose vendors hide in them errors with a status of their own.
func ErrorCode(body []byte) string { e := readError(body); return e.code }

// ErrorNames are the code and the type of an upstream's error answer.
func ErrorNames(body []byte) [2]string {
	e := readError(body)
	return [2]string{e.code, e.kind}
}

// ErrorMessage is the text of an upstream's error answer, as the upstream wrote it.
func ErrorMessage(body []byte) string { e := readError(body); return e.message }

// ErrorStatus is the status of an error that an upstream reports inside an
// answer of 2xx: the one that it names, else that of its code or type, else 500.
func ErrorStatus(body []byte) int {
	e := readError(body)
	if n, err := strconv.Atoi(e.code); err == nil && n >= 400 && n < 600 {
		return n
	}
	for _, word := range []string{e.code, e.kind} {
		if status := errorStatuses[word]; status != 0 {
			return status
		}
	}
	return 500
}

// errorStatuses are the codes and types of OpenAI and Anthropic.
var errorStatuses = map[string]int{
	codeContext: 400, "invalid_request_error": 400, "content_policy_violation": 400, "content_filter": 400,
	"string_above_max_length": 400,
	"invalid_api_key":         401, "authentication_error": 401, "insufficient_quota": 402, "billing_error": 402,
	"permission_error": 403, "model_not_found": 404, "not_found_error": 404, "request_too_large": 413,
	"rate_limit_exceeded": 429, "rate_limit_error": 429, "timeout_error": 504, "overloaded_error": 529,
}

// FirstWords are the first words of an upstream's error answer for the
// operator's log: clipped, and without secrets. Words that the upstream repeats
// from the request end them: no prompt reaches a log. So do those of prompt,
// which was put before the request.
func FirstWords(body, request, prompt []byte) string {
	e := readError(body)
	text := e.message
	if text == "" {
		text = string(body[:min(len(body), maxWords)])
	}
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	if len(prompt) > 0 && repeats(text, prompt) {
		return "…"
	}
	return SafeText(withoutEcho(text, request))
}

// withoutEcho cuts a text off where it begins to repeat the request: three of
// its words in a row, or a long one.
func withoutEcho(text string, request []byte) string {
	words := strings.Fields(text)
	for i, w := range words {
		run := w
		if len(w) < longEcho {
			run = strings.Join(words[i:min(len(words), i+3)], " ")
		}
		if (len(w) >= longEcho || i+3 <= len(words)) && bytes.Contains(request,
			[]byte(strings.Trim(run, "\"'`.,:;…"))) {
			return strings.Join(append(words[:i:i], "…"), " ")
		}
	}
	return text
}

// repeats says that words of an upstream repeat a prompt that is not the client's: three
// words in a row, or a long one. However they are spaced, quoted and escaped, they are
// the same words.
func repeats(text string, prompt []byte) bool {
	words := plainWords(text)
	reported := " " + strings.Join(plainWords(string(prompt)), " ") + " "
	for i, w := range words {
		run := " " + strings.Join(words[i:min(len(words), i+3)], " ") + " "
		if len(w) >= longEcho && strings.Contains(reported, w) || i+3 <= len(words) && strings.Contains(reported, run) {
			return true
		}
	}
	return false
}

// unescaped are the spaces and quotes of texts that are in JSON or in a program's
// notation of a text.
var unescaped = strings.NewReplacer(`\\`, `\`, `\n`, " ", `\r`, " ", `\t`, " ", `\"`, `"`, `\'`, "'")

// plainWords are the words of a text in lower case, without the punctuation around them.
func plainWords(text string) []string {
	return strings.FieldsFunc(strings.ToLower(unescaped.Replace(text)), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// Veil takes the words of a failure from the client where they repeat a prompt that the
// client did not write.
func (f *Failure) Veil(prompt []byte) {
	if len(prompt) == 0 || !repeats(f.Message, prompt) {
		return
	}
	f.Silence()
}

// Silence takes all words of the upstream from a failure; other texts are ours.
func (f *Failure) Silence() {
	switch {
	case f.Code == codeContext:
		f.Message = textContext
	case f.Code == codePolicy:
		f.Message = textPolicy
	case f.Status == 400:
		f.Message = textRejected
	}
}

// longEcho is the length of a word that alone is an echo.
const longEcho = 16

// maxWords is how much of an upstream's error the log shows, in bytes.
const maxWords = 160

// upstreamError has the common members of the field's error bodies.
type upstreamError struct{ message, kind, code string }

// readError knows {"error":{message,type,code}} (OpenAI, Anthropic, vLLM),
// {"error":"…"}, {"object":"error","message":…} and {"detail":…} (FastAPI), also as the message.
func readError(body []byte) (e upstreamError) {
	if !gjson.ValidBytes(clip(body)) {
		return e
	}
	root := gjson.ParseBytes(body)
	at := root.Get("error")
	switch {
	case at.IsObject():
	case at.Type == gjson.String:
		return upstreamError{message: at.Str, code: root.Get("code").String()}
	default:
		at = root
	}
	e = upstreamError{message: errorText(at.Get("message")), kind: at.Get("type").String(), code: at.Get("code").String()}
	if e.message == "" {
		e.message = errorText(root)
	}
	return e
}

// errorText is a text, or the one in detail; a list of details has texts of its own.
func errorText(at gjson.Result) string {
	if at.IsObject() {
		at = at.Get("detail")
	}
	if !at.IsArray() {
		return at.Str
	}
	var texts []string
	for i, d := range at.Array() {
		if text := d.Get("msg").Str; text != "" && i < 4 {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

// maxErrorBody bounds the parsed part of an error body; gjson's check recurses.
const maxErrorBody = 64 << 10

func clip(body []byte) []byte {
	if len(body) > maxErrorBody || bytes.Count(body, []byte("[")) > 1000 || bytes.Count(body, []byte("{")) > 1000 {
		return nil
	}
	return body
}

func (e *upstreamError) mentions(words ...string) bool {
	text := strings.ToLower(e.message + "\n" + e.kind + "\n" + e.code)
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

func (e *upstreamError) context() bool {
	return e.mentions("context_length", "context length", "context window", "maximum context", "prompt is too long",
		"prompt too long", "too many tokens", "input is too long", "input tokens exceed", "token limit",
		"string_above_max_length")
}

func (e *upstreamError) policy() bool {
	return e.mentions("content_policy", "content policy", "content_filter", "content filter",
		"content management policy",
		"safety system", "responsible ai", "responsibleai", "moderation", "flagged", "prohibited_content",
		"data_inspection_failed")
}

func (e *upstreamError) overloaded() bool {
	return e.mentions("overloaded", "rate_limit", "rate limit", "too many requests", "capacity") || e.code == "429" ||
		e.code == "529" || e.code == "503"
}

func (e *upstreamError) safe(otherwise string) string {
	if text := SafeText(e.message); text != "" {
		return text
	}
	return otherwise
}

// Fault is an error inside an answer, in words for the client.
type Fault struct {
	Code, Kind, Message string
	Retry               int // in seconds; 0: it is left out
}

// ErrorEvent appends the event that ends a failed stream, and [DONE] (addendum 5.7).
func ErrorEvent(dst []byte, f *Fault) []byte { return append(f.AppendEvent(dst), DoneEvent...) }

// CodeUpstream is the code of a fault that says no more than that the upstream failed.
const CodeUpstream = "upstream_error"

// DoneEvent is the last event of a stream.
const DoneEvent = "data: [DONE]\n\n"

// AppendEvent appends a fault as chat completions have it in streams, without [DONE].
func (f *Fault) AppendEvent(dst []byte) []byte {
	dst = jsontext.AppendString(append(dst, `data: {"error":{"message":`...), f.Message)
	dst = jsontext.Object(dst).Text("type", f.Kind).Text("code", f.Code)
	if f.Retry > 0 {
		dst = jsontext.Object(dst).Int("retry_after", int64(f.Retry))
	}
	return append(dst, "}}\n\n"...)
}

// FaultOf is an error that an upstream reports inside a stream, for the client. data is
// the event's JSON.
func FaultOf(data []byte) Fault {
	e := readError(data)
	switch {
	case e.policy():
		return Fault{"content_blocked_by_provider", "content_filter_error", textPolicy, 0}
	case e.context():
		return Fault{codeContext, "invalid_request_error", textContext, 0}
	case e.overloaded():
		return Fault{"model_overloaded", "server_error", textOverloaded, int(overloadRest / time.Second)}
	}
	return Fault{CodeUpstream, "server_error", textFailed, 0}
}
