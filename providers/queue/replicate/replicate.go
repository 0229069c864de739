// Package replicate has jobs done by predictions at Replicate. The base URL
// is https://api.replicate.com/v1; the target's model name is owner/name for models that
// Replicate keeps warm, owner/name:version for all others, or deployments/owner/name.
//
// A target's options are those of queue.Names, since each model has an input of its own.
// Predictions take no idempotency keys. Results are kept for an hour, so they are fetched
// as soon as they are there.
package replicate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
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

// names are the most common names of fields in Replicate's models.
var names = func() queue.Names {
	n := maps.Clone(queue.CommonNames)
	maps.Copy(n, queue.Names{"duration": "duration:number", "image": "image", "end_image": "last_frame_image",
		"footage": "video", "sound": "audio", "images": "reference_images"})
	return n
}()

const (
	// maxPrediction bounds a prediction, which repeats its input and has its log.
	maxPrediction = 32 << 20
	// grace is how long a prediction that was just made may be unknown.
	grace = time.Minute
)

// Terms are those of a queue without idempotency keys.
func (Dialect) Terms(*queue.Target) queue.Terms { return queue.Terms{} }

// Reach is the support for the fields that the target's options name.
func (Dialect) Reach(o *queue.Order, t *queue.Target) *dialect.Unsupported { return names.Reach(o, t) }

// Submit makes a prediction.
func (Dialect) Submit(s *queue.Step, o *queue.Order, t *queue.Target, id queue.Ident) {
	body := map[string]any{"input": names.Input(o, t)}
	if id.Hook != "" {
		body["webhook"], body["webhook_events_filter"] = id.Hook, []string{"completed"}
	}
	path := "/models/" + t.Model + "/predictions"
	if _, version, ok := strings.Cut(t.Model, ":"); ok {
		path, body["version"] = "/predictions", version
	} else if strings.HasPrefix(t.Model, "deployments/") {
		path = "/" + t.Model + "/predictions"
	} else if !strings.Contains(t.Model, "/") {
		path, body["version"] = "/predictions", t.Model
	}
	text, _ := json.Marshal(body)
	s.Request = proxy.Request{Path: []byte(path), Body: text, Further: proxy.Fields{{"Prefer", "respond-async"}}}
	s.Most = maxPrediction
}

// Submitted reads the prediction's id and urls.
func (Dialect) Submitted(r *queue.Reply, t *queue.Target) (*queue.Taken, bool) {
	m := queue.Members(r.Body)
	taken := &queue.Taken{Handle: queue.Handle{ID: jsontext.Unquoted(m["id"])}}
	if !queue.Plain(taken.Handle.ID) {
		return nil, false
	}
	urls := queue.Members(m["urls"])
	if path, ok := t.Own(jsontext.Unquoted(urls["get"])); ok {
		taken.Handle.Status = path
	}
	if path, ok := t.Own(jsontext.Unquoted(urls["cancel"])); ok {
		taken.Handle.Cancel = path
	}
	return taken, true
}

// Refused is by the status.
func (Dialect) Refused(r *queue.Reply, _ *queue.Target) (*asyncjob.Refused, bool) {
	return queue.RefusedBy(r)
}

// Poll gets the prediction.
func (Dialect) Poll(s *queue.Step, h *queue.Handle, _ *queue.Target) {
	s.Request = proxy.Request{Method: "GET", Path: []byte(h.Status)}
	if h.Status == "" {
		s.Request.Path = []byte("/predictions/" + h.ID)
	}
	s.Most = maxPrediction
}

// Polled reads {status, output, error, logs}.
func (Dialect) Polled(_ *queue.Step, r *queue.Reply, h *queue.Handle, t *queue.Target) (*asyncjob.Status, error) {
	if r.Status/100 != 2 {
		return queue.Unanswered(r, h, grace)
	}
	m := queue.Members(r.Body)
	switch status := jsontext.Unquoted(m["status"]); status {
	case "starting", "processing":
		return &asyncjob.Status{Progress: progress(m["logs"]), Retry: r.RetryAfter}, nil
	case "succeeded":
		return queue.Made(m["output"], t.Kind, t.Options[queue.OutputOption]), nil
	case "failed":
		return &asyncjob.Status{Progress: -1, Failed: failure(m["error"])}, nil
	case "canceled", "aborted":
		return &asyncjob.Status{Progress: -1, Failed: queue.Failure()}, nil
	default:
		return nil, fmt.Errorf("the upstream's status is not known: %.40q", status)
	}
}

// failure is why a prediction failed. Models say in words of their own that they make no
// such thing.
func failure(text []byte) *asyncjob.Refused {
	said := strings.ToLower(jsontext.Unquoted(text))
	for _, word := range []string{"flagged", "nsfw", "sensitive", "content policy", "moderation", "safety"} {
		if strings.Contains(said, word) {
			return queue.Policy()
		}
	}
	return queue.Failure()
}

// percent is how models write their progress into their logs.
var percent = regexp.MustCompile(`(?m)^\s*(\d{1,3})%\s*\|`)

// progress reads the last line of progress in a log.
func progress(logs []byte) int {
	const tail = 4 << 10
	if len(logs) > tail {
		logs = logs[len(logs)-tail:]
	}
	text := bytes.ReplaceAll(bytes.ReplaceAll(logs, []byte(`\n`), []byte("\n")), []byte(`\r`), []byte("\n"))
	all := percent.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		return -1
	}
	n, err := strconv.Atoi(string(all[len(all)-1][1]))
	if err != nil || n > 100 {
		return -1
	}
	return n
}

// Cancel stops the prediction.
func (Dialect) Cancel(s *queue.Step, h *queue.Handle, _ *queue.Target) bool {
	s.Request = proxy.Request{Method: "POST", Path: []byte(h.Cancel)}
	if h.Cancel == "" {
		s.Request.Path = []byte("/predictions/" + h.ID + "/cancel")
	}
	s.Most = maxPrediction
	return true
}

// Cancelled reads the prediction. One that was aborted, or cancelled before it had a start,
// is not charged.
func (Dialect) Cancelled(_ *queue.Step, r *queue.Reply, _ *queue.Handle, _ *queue.Target) (queue.Stop, error) {
	m := queue.Members(r.Body)
	switch status := jsontext.Unquoted(m["status"]); {
	case r.Status/100 == 2 && status == "starting": // it will be cancelled, or has just begun
		return queue.Charged, errors.New("the upstream has not cancelled the prediction yet")
	case r.Status/100 == 2:
		unbegun := status == "canceled" && string(m["started_at"]) == "null" && queue.Members(m["metrics"])["predict_time"] == nil
		return queue.FreeIf(status == "aborted" || unbegun), nil
	case r.Status == 404 || r.Status == 410 || r.Status == 400 || r.Status == 422:
		return queue.Charged, nil
	}
	return queue.Charged, fmt.Errorf("the upstream answered a cancellation with status %d", r.Status)
}
