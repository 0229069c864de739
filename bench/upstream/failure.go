package upstream

import "strconv"

// failure is an error answer before it has a dialect.
type failure struct {
	text  string
	kind  string // OpenAI's type
	code  string
	param string
}

// failureFor is a real server's answer with this status. The texts hold an
// organisation and a host on purpose: neither may reach a gateway's client.
func failureFor(sc *Scenario, model string) failure {
	switch sc.Kind {
	case "context":
		return failure{
			text: "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 " +
				"tokens. Please reduce the length of the messages.",
			kind:  "invalid_request_error",
			code:  "context_length_exceeded",
			param: "messages",
		}
	case "policy":
		return failure{
			text: "Your request was rejected as a result of our safety system.",
			kind: "invalid_request_error", code: codePolicy,
		}
	case "quota":
		return failure{
			text: "You exceeded your current quota, please check your plan and billing details (org-simsecret0001).",
			kind: "insufficient_quota", code: "insufficient_quota",
		}
	}
	switch sc.Status {
	case 400:
		return failure{text: "Invalid value for 'temperature': expected a number between 0 and 2.",
			kind: "invalid_request_error", code: "invalid_value", param: "temperature"}
	case 401:
		return badKey([]byte("sk-simsecret0001"))
	case 404:
		return failure{text: "The model `" + model + "` does not exist or you do not have access to it.",
			kind: "invalid_request_error", code: "model_not_found"}
	case 429:
		return failure{
			text: "Rate limit reached for " + model +
				" in organization org-simsecret0001 on requests per min (RPM): Limit 3, Used 3, Requested 1. Please " +
				"try again in 20s.",
			kind: "requests", code: "rate_limit_exceeded",
		}
	case 500:
		return failure{text: "The server had an error while processing your request. Sorry about that! " +
			"(backend-7.internal.simulated:9000)", kind: "server_error"}
	case 502:
		return failure{}
	case 503:
		return failure{text: "The engine is currently overloaded, please try again later", kind: "server_error",
			code: "service_unavailable"}
	}
	return failure{text: "simulated failure", kind: "server_error"}
}

// notJSON is OpenAI's error for a body that it cannot read.
var notJSON = failure{kind: "invalid_request_error", text: "We could not parse the JSON body of your request."}

const codePolicy = "content_policy_violation"

// azureFiltered is the error of Azure's content filter for a prompt.
func azureFiltered() []byte {
	return []byte(`{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content ` +
		`management policy. Please modify your prompt and retry. To learn more about our content filtering policies ` +
		`please read our documentation: https://go.microsoft.com/fwlink/?linkid=2198766","type":null,"param":"prompt",` +
		`"code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation",` +
		`"content_filter_result":{"hate":{"filtered":true,"severity":"high"}}}}}`)
}

func badKey(key []byte) failure {
	shown := "***"
	if len(key) > 7 {
		shown = string(key[:3]) + "***" + string(key[len(key)-4:])
	}
	return failure{
		text: "Incorrect API key provided: " + shown +
			". You can find your API key at https://platform.simulated.example/account/api-keys.",
		kind: "invalid_request_error", code: "invalid_api_key",
	}
}

func unknownURL(method, path string) failure {
	return failure{text: "Invalid URL (" + method + " " + path + ")", kind: "invalid_request_error"}
}

func (f failure) openai() []byte {
	out := []byte(`{"error":{"message":`)
	out = appendString(out, f.text)
	out = append(out, `,"type":`...)
	out = appendString(out, f.kind)
	out = append(out, `,"param":`...)
	out = appendStringOrNull(out, f.param)
	out = append(out, `,"code":`...)
	out = appendStringOrNull(out, f.code)
	return append(out, "}}"...)
}

var anthropicErrors = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
	404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 503: "overloaded_error",
	504: "timeout_error", 529: "overloaded_error",
}

func (f failure) anthropic(status int) []byte {
	kind, known := anthropicErrors[status]
	if !known {
		kind = "api_error"
	}
	out := []byte(`{"type":"error","error":{"type":"` + kind + `","message":`)
	out = appendString(out, f.text)
	return append(out, `},"request_id":"req_sim`+strconv.Itoa(status)+`"}`...)
}

func appendStringOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, s)
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string; other characters than the ones
// JSON forbids stay as they are, as model servers send them.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

func appendEscaped(dst []byte, s string) []byte {
	for i := range len(s) {
		switch b := s[i]; {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b == '\n':
			dst = append(dst, '\\', 'n')
		case b < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
		default:
			dst = append(dst, b)
		}
	}
	return dst
}
