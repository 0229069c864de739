package upstream

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// nativeJob says that a path is that of a job of the specification.
func nativeJob(path string) bool {
	for _, kind := range []string{"/audio/", "/video/"} {
		for _, step := range []string{"queue", "retrieve", "complete"} {
			if strings.HasSuffix(path, kind+step) {
				return true
			}
		}
	}
	return false
}

// nativeJob answers …/queue, …/retrieve and …/complete.
func (c *conn) nativeJob(x *exchange, path string, asked gjson.Result) (int, bool, error) {
	refuse := func(status int, code, text, more string) (int, bool, error) {
		return c.sayJob(x, status, `{"error":`+jsonText(text)+`,"code":"`+code+`"`+more+`}`)
	}
	if !c.authorized() || c.req.scheme != "bearer" {
		return refuse(401, "AUTHENTICATION_FAILED", "Authentication failed", "")
	}
	kind := "music"
	if strings.Contains(path, "/video/") {
		kind = "video"
	}
	if strings.HasSuffix(path, "/queue") {
		if x.sc.Status >= 400 && (x.sc.At == "" || x.sc.At == "submit") {
			more := ""
			if x.sc.Kind == "policy" {
				more = `,"suggested_prompt":"a kind song"`
			}
			return refuse(x.sc.Status, "INFERENCE_FAILED", "submit failed on worker-3.internal.simulated", more)
		}
		if wrong := c.check(Call{API: "native_" + kind, Asked: asked}).Text; wrong != "" {
			return refuse(400, "INVALID_REQUEST", wrong, "")
		}
		return c.nativeTake(x, kind, asked)
	}
	if wrong := c.check(Call{API: "native_job", Asked: asked}).Text; wrong != "" {
		return refuse(400, "INVALID_REQUEST", wrong, "")
	}
	o := c.order(x, asked.Get("queue_id").Str)
	if o == nil || o.Kind != kind {
		return refuse(404, "MEDIA_NOT_FOUND", "Media not found", "")
	}
	if strings.HasSuffix(path, "/complete") {
		if o.sc.Job == "refuse_cancel" {
			return c.sayJob(x, 200, `{"success":false}`)
		}
		more := ""
		if stopped, free := c.stop(o); stopped && free {
			more = `,"credits_refunded":true`
		}
		return c.sayJob(x, 200, `{"success":true`+more+`}`)
	}
	if hit(&o.sc, "status") {
		return refuse(o.sc.Status, "INTERNAL", "status failed", "")
	}
	return c.nativeStatus(x, o)
}

func (c *conn) nativeTake(x *exchange, kind string, asked gjson.Result) (int, bool, error) {
	o := order{Ordered: Ordered{Door: "native", Kind: kind, Prompt: asked.Get("prompt").Str, Key: c.req.idempotency,
		Seconds: asked.Get("duration_seconds").Float()}, format: "mp3"}
	if kind == "video" {
		o.format, o.Seconds = "mp4", float64(number0(strings.TrimSuffix(asked.Get("duration").Str, "s")))
	}
	kept := c.take(x, o)
	if c.swallowed(x) {
		return 0, false, nil
	}
	return c.sendTaken(x, []byte(`{"model":`+jsonText(asked.Get("model").Str)+`,"queue_id":"`+kept.ID+
		`","status":"QUEUED"}`))
}

func (c *conn) nativeStatus(x *exchange, o *order) (int, bool, error) {
	upper := len(o.ID)%2 == 0 // either case is seen in the wild
	said := func(status string) string {
		if upper {
			status = strings.ToUpper(status)
		}
		return `{"status":"` + status + `"`
	}
	switch c.stands(o) {
	case jobDone:
		if o.sc.Link != "" {
			return c.sayJob(x, 200, said("completed")+`,"url":`+jsonText(o.sc.Link)+`,"expires_at":"2030-01-01T00:00:00Z"}`)
		}
		c.srv.mu.Lock()
		o.Fetched++
		c.srv.mu.Unlock()
		return c.sendFile(x, o)
	case jobFailed, jobCancelled:
		if o.sc.Kind == "policy" && o.Kind == "video" {
			return c.sayJob(x, 422, `{"error":{"message":"The provider refused the content","type":"provider_content_policy",`+
				`"recommended_model":"sim-video-other","credits_refunded":true}}`)
		}
		if o.sc.Kind == "policy" {
			return c.sayJob(x, 422, `{"error":"Content policy violation","suggested_prompt":"a kind song"}`)
		}
		return c.sayJob(x, 200, said("failed")+
			`,"error":"failed on gpu-3.internal.simulated","error_code":"INFERENCE_FAILED"}`)
	case jobOdd:
		return c.sayJob(x, 200, said("reconsidering")+`}`)
	}
	body := said("processing") + `,"average_execution_time":20000,"execution_duration":` +
		strconv.Itoa(500) + `,"progress_percent":25}`
	if o.sc.Job == "twice" {
		body = `{"status":"COMPLETED","url":"` + elsewhere + `",` + body[1:]
	}
	return c.sayJob(x, 200, body)
}
