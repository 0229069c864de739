package messages

import (
	"testing"

	"farebox/routes"
)

// The tool loops of Anthropic's packages continue without a thread after these words.
func TestRefusedFeaturesAreInAnthropicsWords(t *testing.T) {
	e := routes.Unsupported("thread", "no threads")
	e.Refused = "thread_unsupported_request"
	const want = `{"type":"error","error":{"type":"invalid_request_error","message":"no threads","details":` +
		`{"error_code":"thread_unsupported_request","unsupported":["thread"]}},"request_id":"r"}`
	if got := string(routes.AppendError(nil, e, shape{}, []byte("r"))); got != want {
		t.Errorf("the body is %s\n want %s", got, want)
	}
}
