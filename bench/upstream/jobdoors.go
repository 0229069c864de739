package upstream

import (
	"cmp"
	"net/url"
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
	switch c.jobStatus(o) {
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

// prediction answers Replicate's: POST …/models/{owner}/{name}/predictions, POST, GET and
// POST …/cancel below …/predictions.
func (c *conn) prediction(x *exchange, path string, asked gjson.Result) (int, bool, error) {
	if !c.authorized() || c.req.scheme != "bearer" {
		return c.sayJob(x, 401, `{"title":"Unauthenticated","detail":"You did not pass a valid authentication token",`+
			`"status":401}`)
	}
	base, rest, _ := strings.Cut(path, "/predictions")
	if rest == "" && string(c.req.method) == "POST" {
		return c.predict(x, base, asked)
	}
	id, step, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	o := c.order(x, id)
	if o == nil {
		return c.sayJob(x, 404, `{"detail":"Prediction not found.","status":404}`)
	}
	switch {
	case step == "cancel" && string(c.req.method) == "POST":
		if o.sc.Job == "refuse_cancel" {
			return c.sayJob(x, 500, `{"detail":"internal error"}`)
		}
		status := "canceled"
		if stopped, free := c.stop(o); !stopped {
			status = "succeeded"
		} else if free && o.sc.Job != "late_cancel" {
			status = "aborted"
		}
		return c.sayJob(x, 200, c.predicted(x, o, base, status))
	case step != "" || string(c.req.method) != "GET":
		return c.sayJob(x, 405, `{"detail":"Method Not Allowed"}`)
	case hit(&o.sc, "status"):
		return c.sayJob(x, o.sc.Status, `{"detail":"status failed"}`)
	}
	status := map[int]string{jobQueued: "starting", jobRuns: "processing", jobDone: "succeeded", jobFailed: "failed",
		jobCancelled: "canceled", jobOdd: "reconsidering"}[c.jobStatus(o)]
	body := c.predicted(x, o, base, status)
	if o.sc.Job == "twice" {
		body = `{"status":"succeeded",` + body[1:]
	}
	return c.sayJob(x, 200, body)
}

func (c *conn) predict(x *exchange, base string, asked gjson.Result) (int, bool, error) {
	if x.sc.Status >= 400 && (x.sc.At == "" || x.sc.At == "submit") {
		return c.sayJob(x, x.sc.Status, `{"title":"Error","detail":"submit failed on worker-3.internal.simulated"}`)
	}
	prefix, model, named := strings.Cut(base, "/models/")
	wrong := c.check(Call{API: "replicate", Asked: asked}).Text
	if asked.Get("version").Exists() == named || named && strings.Count(model, "/") != 1 {
		wrong = "version: is required, unless the path names a model"
	}
	if wrong != "" {
		return c.sayJob(x, 422, `{"title":"Input validation failed","detail":`+jsonText("- "+wrong)+`,"status":422}`)
	}
	o := order{Ordered: Ordered{Door: "replicate", Kind: "music", Prompt: asked.Get("input.prompt").Str,
		Seconds: asked.Get("input.duration").Float()}, format: "mp3", hook: asked.Get("webhook").Str}
	if strings.Contains(model+asked.Get("version").Str, "video") {
		o.Kind, o.format = "video", "mp4"
	}
	kept := c.take(x, o)
	if c.swallowed(x) {
		return 0, false, nil
	}
	if !named {
		prefix = base
	}
	body := c.predicted(x, kept, prefix, "starting")
	return c.sendTaken(x, []byte(body))
}

// predicted is a prediction as its API shows it.
func (c *conn) predicted(x *exchange, o *order, base, status string) string {
	output, failed, logs := "null", "null", `""`
	switch status {
	case "succeeded":
		if output = jsonText(c.link(o)); o.Kind == "video" {
			output = "[" + output + "]"
		}
	case "failed":
		if failed = jsonText("CUDA out of memory on gpu-3.internal.simulated"); o.sc.Kind == "policy" {
			failed = jsonText("The input or output was flagged as sensitive. (E005)")
		}
	case "processing":
		logs = jsonText("Loading\n 25%|##5       | 5/20\n 50%|#####     | 10/20\n")
	}
	started, metrics := "null", "{}"
	if o.Charged {
		started, metrics = `"2026-01-01T00:00:01Z"`, `{"predict_time":1.5}`
	}
	at := base + "/predictions/" + o.ID
	return `{"id":"` + o.ID + `","model":"sim/model","version":"hidden","input":{"prompt":` + jsonText(o.Prompt) +
		`},"logs":` + logs + `,"output":` + output + `,"error":` + failed + `,"status":"` + status +
		`","created_at":"2026-01-01T00:00:00Z","started_at":` + started + `,"urls":{"get":"` + c.addressOf(x, at) + `","cancel":"` +
		c.addressOf(x, at+"/cancel") + `"},"metrics":` + metrics + `}`
}

// compose answers ElevenLabs' POST /v1/music: the answer is the track.
func (c *conn) compose(x *exchange, _ string, asked gjson.Result) (int, bool, error) {
	refuse := func(status int, code, text, more string) (int, bool, error) {
		return c.sayJob(x, status, `{"detail":{"status":"`+code+`","message":`+jsonText(text)+more+`}}`)
	}
	if !c.authorized() || c.req.scheme != "xi-api-key" {
		return refuse(401, "invalid_api_key", "Invalid API key sk_simsecret0001", "")
	}
	_, query, _ := strings.Cut(string(c.req.path), "?")
	values, _ := url.ParseQuery(query)
	codec, _, _ := strings.Cut(values.Get("output_format"), "_")
	format := map[string]string{"": "mp3", "auto": "mp3", "mp3": "mp3", "opus": "opus", "pcm": "pcm"}[codec]
	ms := asked.Get("music_length_ms")
	wrong := c.check(Call{API: "elevenlabs", Asked: asked}).Text
	switch {
	case wrong != "" || format == "":
		return c.sayJob(x, 422, `{"detail":[{"loc":["body"],"msg":`+jsonText(cmp.Or(wrong, "output_format: unknown"))+`,"type":"value_error"}]}`)
	case x.sc.Kind == "policy":
		return refuse(400, "bad_prompt", "Your prompt violates our terms of service.",
			`,"data":{"prompt_suggestion":"a kind song"}`)
	case x.sc.Kind == "quota":
		return refuse(401, "quota_exceeded", "This request exceeds your quota of 10000 (org-simsecret0001).", "")
	case x.sc.Status >= 400:
		return refuse(x.sc.Status, "error", "failed on gpu-3.internal.simulated", "")
	}
	o := order{Ordered: Ordered{Door: "elevenlabs", Kind: "music", Prompt: asked.Get("prompt").Str, Seconds: 10},
		format: format}
	if ms.Exists() {
		o.Seconds = ms.Float() / 1000
	}
	kept := c.take(x, o)
	if c.swallowed(x) {
		return 0, false, nil
	}
	if err := c.pause(x.sc.Think); err != nil {
		return 0, false, err
	}
	c.srv.mu.Lock()
	kept.Made, kept.Charged, kept.Fetched = true, true, 1
	c.srv.mu.Unlock()
	if x.sc.Wrong != "" || x.sc.Empty {
		return c.sendBody(x, []byte(`{"detail":"no track"}`))
	}
	c.extra = append(c.extra, [2]string{"song-id", kept.ID}, [2]string{"character-cost", "100"})
	return c.sendFile(x, kept)
}
