package jobs

import (
	"testing"
	"time"

	"farebox/billing/job"
	"farebox/routes"
)

// The answers for a track, letter by letter (addendum 9.7).
func TestShapesOfAJob(t *testing.T) {
	t.Parallel()
	f := func(got []byte, want string) {
		t.Helper()
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	refused := &job.View{Code: "CONTENT_POLICY_VIOLATION", Message: `No "such" songs.`, Suggestion: "a kind song"}
	f(appendFailed(nil, refused), `,"error":"No \"such\" songs.",`+
		`"error_code":"CONTENT_POLICY_VIOLATION","suggested_prompt":"a kind song"}`)
	f(appendFailed(nil, &job.View{}), `,"error":"The track could not be made.",`+
		`"error_code":"INFERENCE_FAILED"}`)
	if e := jobFailure(refused); e.Status != 422 || string(routes.AppendError(nil, e, routes.ShapeString, nil)) !=
		`{"error":"No \"such\" songs.","code":"CONTENT_POLICY_VIOLATION","suggested_prompt":"a kind song"}` {
		t.Errorf("a refusal is %+v", e)
	}
	if e := jobFailure(&job.View{Code: "REQUEST_TIMEOUT"}); e.Status != 500 || e.Code != "REQUEST_TIMEOUT" {
		t.Errorf("a failure is %+v", e)
	}

	f(appendMillis(nil, 8123456*time.Microsecond), "8.123")
}
