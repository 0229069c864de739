package messages

import (
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// shape is Anthropic's {"type":"error","error":{type,message},"request_id"}.
type shape struct{}

// IDHeader is routes.ErrorShape's.
func (shape) IDHeader() []byte { return requestHeader }

// Append is routes.ErrorShape's.
func (shape) Append(b []byte, e *routes.Error, requestID []byte) []byte {
	b = append(append(b, `{"type":"error","error":{"type":"`...), errorType(e)...)
	b = jsontext.AppendString(append(b, `","message":`...), e.Text())
	if e.Refused != "" {
		b = jsontext.AppendString(append(b, `,"details":{"error_code":`...), e.Refused)
		b = jsontext.AppendString(append(b, `,"unsupported":[`...), e.Issues[0].Path)
		b = append(b, `]}`...)
	}
	b = jsontext.AppendString(append(b, `},"request_id":`...), string(requestID))
	return append(b, '}')
}

// errorType is Anthropic's word for an error.
func errorType(e *routes.Error) string {
	switch {
	case e.Status == 401:
		return "authentication_error"
	case e.Status == 402:
		return "billing_error"
	case e.Status == 403:
		return "permission_error"
	case e.Status == 404, e.Status == 410:
		return "not_found_error"
	case e.Status == 413:
		return "request_too_large"
	case e.Code == "MODEL_OVERLOADED", e.Status == 503:
		return "overloaded_error"
	case e.Status == 429:
		return "rate_limit_error"
	case e.Status == 504:
		return "timeout_error"
	case e.Status >= 500:
		return "api_error"
	}
	return "invalid_request_error"
}
