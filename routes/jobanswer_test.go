package routes

import (
	"testing"
	"time"

	"farebox/billing/job"
)

// The answers for a job, letter by letter (addendum 9.7, 10.3).
func TestShapesOfAJob(t *testing.T) {
	t.Parallel()
	f := func(got []byte, want string) {
		t.Helper()
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	running := &job.View{Progress: 40, Average: 20 * time.Second, Took: 8123456 * time.Microsecond}
	f(AppendJobProgress(jobStatus("lower", JobProcessing), running), `{"status":"processing","progress_percent":40,`+
		`"average_execution_time":20000,"execution_duration":8123`)
	f(AppendJobProgress(nil, &job.View{Progress: 100}), `,"progress_percent":99,"average_execution_time":0,`+
		`"execution_duration":0`)
	f(AppendJobProgress(nil, &job.View{Progress: -1}), `,"progress_percent":0,"average_execution_time":0,`+
		`"execution_duration":0`)
	done := &job.View{URL: "https://x.example/a?b=1&c=2",
		ExpiresAt: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.FixedZone("", 3600))}
	f(AppendJobLink(jobStatus("upper", JobCompleted), done),
		`{"status":"COMPLETED","url":"https://x.example/a?b=1&c=2","expires_at":"2026-01-02T02:04:05.006Z"`)
}
