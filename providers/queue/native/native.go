// Package native has jobs done at an upstream that speaks this very
// specification (interface.md, Music; addendum 9 and 10): another farebox, or the service
// whose interface it is. The base URL ends in /api/v1.
//
// A target's option idempotent: "true" says that the upstream takes an order once for one
// Idempotency-Key, as farebox does. An order whose outcome is not known is handed over
// again then; elsewhere it would be made twice.
//
// The result is in the answer to its request, or as a link in that answer or in the one
// to the order.
package native

import (
	"encoding/json"
	"fmt"
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

var (
	_ queue.Dialect = Dialect{}
	_ queue.Own     = Dialect{}
)

// names are the members of the specification.
var names = queue.Names{
	"prompt": "prompt", "negative_prompt": "negative_prompt",
	"lyrics": "lyrics_prompt", "lyrics_optimizer": "lyrics_optimizer", "seconds": "duration_seconds:number",
	"instrumental": "force_instrumental", "loop": "loop", "voice": "voice", "language": "language_code",
	"speed": "speed", "format": "",
	"duration": "duration:raw", "aspect_ratio": "aspect_ratio", "resolution": "resolution",
	"upscale_factor": "upscale_factor", "audio": "audio", "bitrate_mode": "bitrate_mode", "image": "image_url",
	"end_image": "end_image_url", "sound": "audio_url", "footage": "video_url", "images": "reference_image_urls",
	"videos": "reference_video_urls", "sounds": "reference_audio_urls", "documents": "reference_document_urls",
	"elements": "elements", "scenes": "scene_image_urls", "keyframes": "keyframes",
	"reference": "omni_reference_task_type", "consents": "",
}

// grace is how long a job that was just taken may be unknown to the upstream.
const grace = time.Minute

// Terms are as the operator says.
func (Dialect) Terms(t *queue.Target) queue.Terms {
	return queue.Terms{Idempotent: t.Options["idempotent"] == "true"}
}

// Reach knows all that can be ordered.
func (Dialect) Reach(o *queue.Order, t *queue.Target) *dialect.Unsupported {
	return names.Reach(o, bare(t))
}

// bare is t without its options, which name no fields here.
func bare(t *queue.Target) *queue.Target {
	one := *t
	one.Options = nil
	return &one
}

// Submit posts to …/queue.
func (Dialect) Submit(s *queue.Step, o *queue.Order, t *queue.Target, id queue.Ident) {
	in := names.Input(o, bare(t))
	in["model"] = t.Model
	for name, value := range t.Kind.Required {
		if _, ordered := in[name]; !ordered {
			in[name] = value
		}
	}
	if len(o.Consents) > 0 {
		all := map[string]any{}
		for _, provider := range o.Consents {
			all[provider] = map[string]bool{"confirmed_terms_and_privacy": true, "confirmed_legal_right": true,
				"confirmed_screening_acknowledged": true}
		}
		in["consents"] = all
	}
	body, _ := json.Marshal(in)
	s.Request = proxy.Request{Path: []byte(t.Kind.Path + "/queue"), Body: body}
	if id.Key != "" {
		s.Request.Further = proxy.Fields{{"Idempotency-Key", id.Key}}
	}
}

// Submitted reads {queue_id, download_url}.
func (Dialect) Submitted(r *queue.Reply, _ *queue.Target) (*queue.Taken, bool) {
	m := queue.Members(r.Body)
	h := queue.Handle{ID: jsontext.Unquoted(m["queue_id"]), Link: jsontext.Unquoted(m["download_url"])}
	if !queue.Plain(h.ID) {
		return nil, false
	}
	if len(h.Link) > maxLink {
		h.Link = ""
	}
	return &queue.Taken{Handle: h}, true
}

// maxLink is the longest link that is kept.
const maxLink = 2 << 10

// refusedBy is queue.RefusedBy, where 422 without a code of its own is the policy's (addendum 3.5).
func refusedBy(r *queue.Reply) (refusal *asyncjob.Refused, certain bool) {
	refusal, certain = queue.RefusedBy(r)
	if r.Status == 422 && refusal.Code == "INVALID_REQUEST" {
		refusal = queue.Policy()
	}
	return refusal, certain
}

// Refused is by the status. A conflict that wants a consent is the last word on the order.
func (Dialect) Refused(r *queue.Reply, _ *queue.Target) (*asyncjob.Refused, bool) {
	refusal, certain := refusedBy(r)
	m := queue.Members(r.Body)
	if r.Status == 409 && jsontext.Unquoted(queue.Members(m["error"])["code"]) == "needs_consent" {
		refusal.Status, refusal.Code, refusal.Message = 409, "needs_consent", "The model's provider wants a consent to its terms."
		certain = true
	}
	advise(refusal, m)
	return refusal, certain
}

// advise reads the changes that the upstream suggests.
func advise(refusal *asyncjob.Refused, m map[string][]byte) {
	if refusal.Suggestion = jsontext.Unquoted(m["suggested_prompt"]); len(refusal.Suggestion) > maxSuggestion {
		refusal.Suggestion = ""
	}
	refusal.Recommend = jsontext.Unquoted(m["recommended_model"])
	if refusal.Recommend == "" {
		refusal.Recommend = jsontext.Unquoted(queue.Members(m["error"])["recommended_model"])
	}
}

// maxSuggestion is the longest prompt that is suggested to a customer.
const maxSuggestion = 4 << 10

// identity is the body of …/retrieve and …/complete.
func identity(h *queue.Handle, t *queue.Target, retrieve bool) []byte {
	in := map[string]any{"model": t.Model, "queue_id": h.ID}
	if retrieve {
		in["delete_media_on_completion"] = false // it may have to be asked for again
	}
	body, _ := json.Marshal(in)
	return body
}

// Poll asks …/retrieve.
func (Dialect) Poll(s *queue.Step, h *queue.Handle, t *queue.Target) {
	s.Request = proxy.Request{Path: []byte(t.Kind.Path + "/retrieve"), Body: identity(h, t, true)}
	s.Media = true
}

// Fetch is queue.Own: the request of Poll, once more.
func (d Dialect) Fetch(s *queue.Step, h *queue.Handle, t *queue.Target) { d.Poll(s, h, t) }

// Polled reads {status, url}, or holds the bytes of the result.
func (Dialect) Polled(_ *queue.Step, r *queue.Reply, h *queue.Handle, t *queue.Target) (*asyncjob.Status, error) {
	m := queue.Members(r.Body)
	switch {
	case r.Media != nil:
		return queue.Delivered(r), nil
	case r.Status == 422:
		refusal, _ := refusedBy(r)
		advise(refusal, m)
		return &asyncjob.Status{Progress: -1, Failed: refusal}, nil
	case r.Status == 500 && jsontext.Unquoted(m["code"]) == "INFERENCE_FAILED":
		return &asyncjob.Status{Progress: -1, Failed: queue.Failure()}, nil
	case r.Status/100 != 2:
		return queue.Unanswered(r, h, grace)
	}
	switch status := strings.ToUpper(jsontext.Unquoted(m["status"])); status {
	case "QUEUED", "PROCESSING":
		return &asyncjob.Status{Progress: queue.Percent(m["progress_percent"]), Retry: r.RetryAfter}, nil
	case "COMPLETED":
		for _, link := range [...]string{jsontext.Unquoted(m["url"]), jsontext.Unquoted(m["download_url"]), h.Link} {
			if link != "" {
				return queue.Linked(link, ""), nil
			}
		}
		return &asyncjob.Status{Progress: -1, Failed: queue.Wrong()}, nil
	case "FAILED":
		return &asyncjob.Status{Progress: -1, Failed: failed(m)}, nil
	default:
		return nil, fmt.Errorf("the upstream's status is not known: %.40q", status)
	}
}

// failed reads {error, error_code} of a job that failed.
func failed(m map[string][]byte) *asyncjob.Refused {
	refusal := queue.Failure()
	code := jsontext.Unquoted(m["error_code"])
	if code == "" {
		code = jsontext.Unquoted(m["code"])
	}
	if strings.Contains(strings.ToUpper(code), "POLICY") || strings.Contains(strings.ToUpper(code), "CONTENT") {
		refusal = queue.Policy()
	}
	advise(refusal, m)
	return refusal
}

// Cancel releases the job, which ends it.
func (Dialect) Cancel(s *queue.Step, h *queue.Handle, t *queue.Target) bool {
	s.Request = proxy.Request{Path: []byte(t.Kind.Path + "/complete"), Body: identity(h, t, false)}
	return true
}

// Cancelled reads {success}. That a job was not charged has to be said.
func (Dialect) Cancelled(_ *queue.Step, r *queue.Reply, _ *queue.Handle, _ *queue.Target) (queue.Stop, error) {
	m := queue.Members(r.Body)
	switch {
	case r.Status == 404 || r.Status == 410:
		return queue.Charged, nil
	case r.Status/100 != 2 || string(m["success"]) == "false":
		return queue.Charged, fmt.Errorf("the upstream answered a release with status %d", r.Status)
	}
	return queue.FreeIf(string(m["credits_refunded"]) == "true"), nil
}
