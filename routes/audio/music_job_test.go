package audio

import (
	"testing"
	"time"

	"farebox/billing/job"
	"farebox/config"
	"farebox/routes"
)

// The three shapes of a retrieve, letter by letter (addendum 9.7).
func TestShapesOfAJob(t *testing.T) {
	t.Parallel()
	f := func(got []byte, want string) {
		t.Helper()
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	running := &job.View{Progress: 40, Average: 20 * time.Second, Took: 8123456 * time.Microsecond}
	f(appendProcessing(nil, running, "processing"), `{"status":"processing","progress_percent":40,`+
		`"average_execution_time":20000,"execution_duration":8123}`)
	f(appendProcessing(nil, &job.View{Progress: 100}, "PROCESSING"), `{"status":"PROCESSING","progress_percent":99,`+
		`"average_execution_time":0,"execution_duration":0}`)
	f(appendProcessing(nil, &job.View{Progress: -1}, "processing"), `{"status":"processing","progress_percent":0,`+
		`"average_execution_time":0,"execution_duration":0}`)

	refused := &job.View{Code: "CONTENT_POLICY_VIOLATION", Message: `No "such" songs.`, Suggestion: "a kind song"}
	f(appendFailed(nil, refused, "failed"), `{"status":"failed","error":"No \"such\" songs.",`+
		`"error_code":"CONTENT_POLICY_VIOLATION","suggested_prompt":"a kind song"}`)
	f(appendFailed(nil, &job.View{}, "FAILED"), `{"status":"FAILED","error":"The track could not be made.",`+
		`"error_code":"INFERENCE_FAILED"}`)
	if e := jobFailure(refused); e.Status != 422 || string(routes.AppendError(nil, e, routes.ShapeString, nil)) !=
		`{"error":"No \"such\" songs.","code":"CONTENT_POLICY_VIOLATION","suggested_prompt":"a kind song"}` {
		t.Errorf("a refusal is %+v", e)
	}
	if e := jobFailure(&job.View{Code: "REQUEST_TIMEOUT"}); e.Status != 500 || e.Code != "REQUEST_TIMEOUT" {
		t.Errorf("a failure is %+v", e)
	}

	done := &job.View{URL: "https://x.example/a?b=1&c=2", ExpiresAt: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.FixedZone("", 3600))}
	f(appendLink(nil, done, "completed"),
		`{"status":"completed","url":"https://x.example/a?b=1&c=2","expires_at":"2026-01-02T02:04:05.006Z"}`)

	if s := jobStatus(&config.Compat{JobStatus: "upper"}, "completed"); s != "COMPLETED" {
		t.Errorf("upper case is %s", s)
	}
	f(appendMillis(nil, 8123456*time.Microsecond), "8.123")
}
