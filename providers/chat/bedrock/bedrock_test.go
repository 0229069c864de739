package bedrock

import (
	"strings"
	"testing"

	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
)

// AWS reports faults in a form of its own, with 403 and 400 for most faults of the
// operator's account. None of it is about the client's request.
func TestErrorsOfAWSAreTheOperators(t *testing.T) {
	t.Parallel()
	f := func(status int, body string, want int, code string) {
		t.Helper()
		for _, d := range []dialect.Dialect{OpenAI{}, Anthropic{}, Native{}} {
			got := d.Error(status, 0, []byte(body))
			if got.Status != want || got.Code != code {
				t.Errorf("%T: %d %s: %+v", d, status, body, got)
			}
			for _, secret := range []string{"arn:", "123456789012", "operator-role"} {
				if strings.Contains(got.Message, secret) {
					t.Errorf("%T: the message is %q", d, got.Message)
				}
			}
		}
	}
	f(403, `{"message":"User: arn:aws:sts::123456789012:assumed-role/operator-role is not authorized","__type":"AccessDeniedException"}`,
		503, "MODEL_OFFLINE")
	f(400, `{"__type":"com.amazon.coral.service#UnrecognizedClientException","message":"The security token included in the request is invalid."}`,
		503, "MODEL_OFFLINE")
	f(400, `{"__type":"ExpiredTokenException","message":"expired"}`, 503, "MODEL_OFFLINE")
	f(400, `{"message":"The provided model identifier is invalid."}`, 503, "MODEL_OFFLINE")
	f(400, `{"message":"Invocation of model ID arn:aws:bedrock:us-east-1:123456789012:x with on-demand throughput isn’t supported."}`,
		503, "MODEL_OFFLINE")
	f(400, `{"code":"ThrottlingException","message":"Too many tokens per day"}`, 429, "MODEL_OVERLOADED")
	f(400, `{"message":"arn:aws:bedrock:us-east-1:123456789012:guardrail/operator-role refuses"}`, 400, "INVALID_REQUEST")
	f(424, `{"__type":"ModelErrorException","message":"x"}`, 500, "INFERENCE_FAILED")
	f(408, `{"__type":"ModelTimeoutException","message":"x"}`, 504, "REQUEST_TIMEOUT")
	f(500, `<html>arn:aws:123456789012</html>`, 500, "INFERENCE_FAILED")
}

// An error of a model's endpoint about the request goes the way of its own dialect.
func TestErrorsOfModelsAreTheClients(t *testing.T) {
	t.Parallel()
	for _, d := range []dialect.Dialect{OpenAI{}, Anthropic{}, Native{}} {
		f := d.Error(400, 0, []byte(`{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: must be at least 1"}}`))
		if f.Status != 400 || f.Verdict != attempt.Judge(400, 0) {
			t.Errorf("%T: %+v", d, f)
		}
	}
}

// Whatever AWS answers, its account's names stay here.
func FuzzError(f *testing.F) {
	f.Add(400, []byte(`{"__type":"a#ValidationException","message":"arn:aws:iam::1:role/x"}`))
	f.Add(403, []byte(`{"code":7,"message":[]}`))
	f.Add(200, []byte(`{"error":null}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		_, kept := ownError(status, body)
		if len(kept) > 0 && string(kept) != string(body) {
			t.Errorf("%s of %s", kept, body)
		}
		if got := (OpenAI{}).Error(status, 0, body); got.Status < 400 || got.Code == "" || got.Message == "" {
			t.Errorf("%+v", got)
		}
	})
}
