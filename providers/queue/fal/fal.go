// Package fal has jobs done at fal's queue: submit, ask for the status,
// fetch the result. The base URL is https://queue.fal.run, the key goes into a fixed
// header (Authorization: Key …), the target's model name is the app with its path
// (fal-ai/minimax-music/v2).
//
// A target's options are those of queue.Names, since each app has an input of its own.
// The names of an app's fields are in its schema at fal.ai.
//
// A run that failed is COMPLETED there, like one that did not: its result tells. The
// queue takes no idempotency keys.
package fal

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"farebox/config/asyncjob"
	"farebox/providers/chat/dialect"
	"farebox/providers/queue"
	"farebox/proxy"
	"farebox/proxy/jsontext"
)

// Dialect implements queue.Dialect.
type Dialect struct{}

var _ queue.Dialect = Dialect{}

// names are the most common names of fields in fal's apps.
var names = func() queue.Names {
	n := maps.Clone(queue.CommonNames)
	n["lyrics"] = "lyrics_prompt"
	return n
}()

// The parts of a poll.
const (
	partStatus = iota
	partResult
)

// maxInline bounds a result: it may hold the media as a data URL.
const maxInline = 32 << 20

// grace is how long a job that was just taken may be unknown to the queue.
const grace = time.Minute

// Terms are those of a queue without idempotency keys.
func (Dialect) Terms(*queue.Target) queue.Terms { return queue.Terms{} }

// Reach is the support for the fields that the target's options name.
func (Dialect) Reach(o *queue.Order, t *queue.Target) *dialect.Unsupported { return names.Reach(o, t) }

// Submit posts the input to the app.
func (Dialect) Submit(s *queue.Step, o *queue.Order, t *queue.Target, id queue.Ident) {
	path := "/" + t.Model
	if id.Hook != "" {
		path += "?fal_webhook=" + url.QueryEscape(id.Hook)
	}
	body, _ := json.Marshal(names.Input(o, t))
	s.Request = proxy.Request{Path: []byte(path), Body: body}
}

// Submitted reads {request_id, status_url, response_url, cancel_url}.
func (Dialect) Submitted(r *queue.Reply, t *queue.Target) (*queue.Taken, bool) {
	m := queue.Members(r.Body)
	taken := &queue.Taken{Handle: queue.Handle{ID: jsontext.Unquoted(m["request_id"])}}
	if !queue.Plain(taken.Handle.ID) {
		return nil, false
	}
	h := &taken.Handle
	for name, to := range map[string]*string{
		"status_url": &h.Status, "response_url": &h.Result, "cancel_url": &h.Cancel,
	} {
		if path, ok := t.Own(jsontext.Unquoted(m[name])); ok {
			*to = path
		}
	}
	return taken, true
}

// Refused is by the status. A queue that names an error_type has not taken the request.
func (Dialect) Refused(r *queue.Reply, _ *queue.Target) (*asyncjob.Refused, bool) {
	refusal, certain := queue.RefusedBy(r)
	if r.Status == 503 && jsontext.Unquoted(queue.Members(r.Body)["error_type"]) != "" {
		certain = true
	}
	return refusal, certain
}

// Path is the path of a job, as the queue has named it or else as it is built: status,
// result and cancellation are at the app, for all of its endpoints.
func Path(named string, h *queue.Handle, t *queue.Target, rest string) []byte {
	if named != "" {
		return []byte(named)
	}
	n := 2
	if strings.HasPrefix(t.Model, "workflows/") || strings.HasPrefix(t.Model, "comfy/") {
		n = 3
	}
	parts := strings.SplitN(t.Model, "/", n+1)
	return []byte("/" + strings.Join(parts[:min(n, len(parts))], "/") + "/requests/" + h.ID + rest)
}

// Poll asks for the status.
func (Dialect) Poll(s *queue.Step, h *queue.Handle, t *queue.Target) {
	s.Part = partStatus
	s.Request = proxy.Request{Method: "GET", Path: Path(h.Status, h, t, "/status")}
}

// Polled reads {status, queue_position}, and the result of a job that is COMPLETED.
func (Dialect) Polled(s *queue.Step, r *queue.Reply, h *queue.Handle, t *queue.Target) (*asyncjob.Status, error) {
	if r.Part == partResult {
		return result(r, h, t)
	}
	if r.Status/100 != 2 {
		return queue.Unanswered(r, h, grace)
	}
	m := queue.Members(r.Body)
	switch status := jsontext.Unquoted(m["status"]); status {
	case "IN_QUEUE", "IN_PROGRESS":
		return &asyncjob.Status{Progress: -1, Retry: r.RetryAfter}, nil
	case "COMPLETED":
		s.Part, s.Most = partResult, maxInline
		s.Request = proxy.Request{Method: "GET", Path: Path(h.Result, h, t, "")}
		return nil, nil
	default:
		return nil, fmt.Errorf("the upstream's status is not known: %.40q", status)
	}
}

// result reads the output of a run, or why it failed. An answer of the server's own, in
// JSON, is the run's; one of a proxy before it is not.
func result(r *queue.Reply, h *queue.Handle, t *queue.Target) (*asyncjob.Status, error) {
	if r.Status/100 == 2 {
		if queue.Members(r.Body) == nil {
			return nil, errors.New("the upstream's result cannot be read")
		}
		return queue.Made(r.Body, t.Kind, t.Options[queue.OutputOption]), nil
	}
	m := queue.Members(r.Body)
	switch {
	case r.Status == 400 || r.Status == 422 || r.Status == 413:
		refusal, _ := queue.RefusedBy(r)
		return &asyncjob.Status{Progress: -1, Failed: refusal}, nil
	case m["detail"] != nil && r.Status >= 500, m["error_type"] != nil, len(r.Header("x-fal-error-type")) > 0:
		return &asyncjob.Status{Progress: -1, Failed: queue.Failure()}, nil
	}
	return queue.Unanswered(r, h, grace)
}

// The parts of a cancellation. The queue's answer to it does not always tell whether the run
// had begun, so that the status is asked before and after it.
const (
	partBefore = iota
	partQueued // it is cancelled, and waited in the queue before
	partBegun  // it is cancelled, and ran before, or that is not known
	partAfter
)

// Cancel asks for the status first.
func (d Dialect) Cancel(s *queue.Step, h *queue.Handle, t *queue.Target) bool {
	d.Poll(s, h, t)
	s.Part = partBefore
	return true
}

// Cancelled goes through the parts. A run is over for nothing where the queue says that it
// took the job out (OK), or, of one that waited, that it ended by our cancellation without a
// second at a runner. All else has to be taken for work that is charged.
func (d Dialect) Cancelled(s *queue.Step, r *queue.Reply, h *queue.Handle, t *queue.Target) (queue.Stop, error) {
	m := queue.Members(r.Body)
	status := jsontext.Unquoted(m["status"])
	switch {
	case r.Part == partBefore, r.Part == partAfter:
		return d.cancelling(s, r, h, t, m)
	case status == "OK" && r.Status/100 == 2:
		return queue.Free, nil
	case status == "CANCELLATION_REQUESTED", status == "ALREADY_COMPLETED", m["success"] != nil && r.Status/100 == 2:
		if r.Part == partBegun {
			return queue.Charged, nil
		}
		d.Poll(s, h, t)
		s.Part = partAfter
		return queue.Asking, nil
	case status == "NOT_FOUND", r.Status == 404, r.Status == 410, r.Status == 400:
		return queue.Charged, nil
	}
	return queue.Charged, fmt.Errorf("the upstream answered a cancellation with status %d", r.Status)
}

// cancelling reads the status before or after a cancellation.
func (Dialect) cancelling(s *queue.Step, r *queue.Reply, h *queue.Handle, t *queue.Target, m map[string][]byte) (
	queue.Stop, error) {
	status := jsontext.Unquoted(m["status"])
	switch {
	case r.Status/100 == 2 && status == "COMPLETED": // maybe by a cancellation whose answer was lost
		seconds, err := strconv.ParseFloat(string(queue.Members(m["metrics"])["inference_time"]), 64)
		worked := queue.Members(m["metrics"])["inference_time"] != nil && (err != nil || seconds != 0)
		return queue.FreeIf(jsontext.Unquoted(m["error_type"]) == "client_cancelled" && !worked), nil
	case r.Part == partAfter && status == "IN_QUEUE":
		return queue.Charged, errors.New("the upstream has not cancelled the job yet")
	case r.Part == partAfter:
		return queue.Charged, nil
	}
	if s.Part = partBegun; r.Status/100 == 2 && status == "IN_QUEUE" {
		s.Part = partQueued
	}
	s.Request = proxy.Request{Method: "PUT", Path: Path(h.Cancel, h, t, "/cancel")}
	return queue.Asking, nil
}
