package routes

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"farebox/billing/job"
	"farebox/config"
	"farebox/proxy/jsontext"
)

// uuid is the form of an id of a job.
var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// FindJob is Job for a model by any of its names: jobs know it by its id, and by the name under
// which they were queued, whatever that means since. An id that is not a UUID is refused by its
// name; from is the endpoint that gives ids.
func (c *Call) FindJob(kind *config.JobKind, name, id, from string) (*job.View, *Error) {
	wanted := bytes.ToLower([]byte(id))
	if !uuid.Match(wanted) {
		text := "queue_id: must be the id that " + from + " gave, a UUID."
		return nil, &Error{Status: 400, Code: "REQUEST_ID_NOT_FOUND", Message: "Invalid request parameters: " + text,
			Issues: []Issue{{Code: "invalid_string", Path: "queue_id", Message: text}}}
	}
	v, e := c.Job(kind, []byte(name), wanted)
	if e == nil || e.Status != 404 {
		return v, e
	}
	if m, _ := c.Catalog().Resolve([]byte(name), kind.Name); m != nil && m.ID != name {
		if v, again := c.Job(kind, []byte(m.ID), wanted); again == nil {
			return v, nil
		}
	}
	return nil, e
}

// The states of a job as its customer knows them (interface.md, Music job).
const (
	JobProcessing = "processing"
	JobFailed     = "failed"
	JobCompleted  = "completed"
)

// JobStatus begins the answer about a job, with its state as compat.job_status has it
// (design.md 7).
func (c *Call) JobStatus(state string) []byte { return jobStatus(c.Config().Compat.JobStatus, state) }

// Queued begins the answer of a job that was ordered just now (addendum 9.6).
func (c *Call) Queued(id string) []byte {
	status := "queued"
	if c.Config().Compat.JobStatus == "upper" {
		status = "QUEUED"
	}
	b := jsontext.Object("{").Text("model", c.Model.ID)
	return jsontext.AppendString(append(jsontext.AppendString(append(b, `,"queue_id":`...), id), `,"status":`...), status)
}

func jobStatus(form, state string) []byte {
	if form == "upper" {
		state = strings.ToUpper(state)
	}
	return jsontext.AppendString([]byte(`{"status":`), state)
}

// AppendJobProgress appends the progress of a job that is being made, and the average and current
// durations.
func AppendJobProgress(b []byte, v *job.View) []byte {
	if !v.Completed() {
		b = jsontext.Object(b).Int("progress_percent", int64(min(max(v.Progress, 0), 99)))
	}
	b = jsontext.Object(b).Int("average_execution_time", v.Average.Milliseconds())
	return strconv.AppendInt(append(b, `,"execution_duration":`...), v.Took.Milliseconds(), 10)
}

// AppendJobLink appends the link to a job's media, and its expiry.
func AppendJobLink(b []byte, v *job.View) []byte {
	b = jsontext.Object(b).Text("url", v.URL)
	return jsontext.AppendString(append(b, `,"expires_at":`...), v.ExpiresAt.UTC().Format(isoMillis))
}

// isoMillis is how times are written in answers about jobs.
const isoMillis = "2006-01-02T15:04:05.000Z"
