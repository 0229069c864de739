package upstream

import (
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// falMakes says that a path below /fal/ is about an app that makes music or videos: its
// name has one of these words, or it is about a job that such an app was given.
func (c *conn) falMakes(rest string) bool {
	app, after, ok := strings.Cut(rest, "/requests/")
	if ok {
		id, _, _ := strings.Cut(after, "/")
		return strings.HasPrefix(id, "job-")
	}
	return strings.Contains(app, "music") || strings.Contains(app, "video")
}

// falJob answers fal's queue for apps that make music and videos. A run that failed is
// COMPLETED; its result is the error.
func (c *conn) falJob(x *exchange, path string, asked gjson.Result) (int, bool, error) {
	if !c.authorized() || c.req.scheme != "key" {
		return c.sayJob(x, 401, `{"detail":"Cannot access application without a key"}`)
	}
	app, after, ok := strings.Cut(strings.TrimPrefix(path, "/fal/"), "/requests/")
	if !ok {
		return c.falTake(x, app, asked)
	}
	id, step, _ := strings.Cut(after, "/")
	o := c.order(x, id)
	if o == nil || strings.Count(app, "/") != 1 {
		return c.sayJob(x, 404, `{"detail":"Request not found"}`)
	}
	switch {
	case step == "status" && string(c.req.method) == "GET":
		return c.falStatus(x, o, "/fal/"+app+"/requests/"+id)
	case step == "cancel" && string(c.req.method) == "PUT":
		return c.falStop(x, o)
	case step == "" && string(c.req.method) == "GET":
		return c.falOutput(x, o)
	}
	return c.sayJob(x, 405, `{"detail":"Method Not Allowed"}`)
}

func (c *conn) falTake(x *exchange, app string, asked gjson.Result) (int, bool, error) {
	if x.sc.Status >= 400 && (x.sc.At == "" || x.sc.At == "submit") {
		if x.sc.HTML {
			return c.reply(x.sc.refusal(), x.sc.Status, contentHTML, []byte("<html><h1>Bad Gateway</h1></html>"))
		}
		return c.sayJob(x, x.sc.Status, `{"detail":"submit failed on worker-3.internal.simulated"}`)
	}
	if string(c.req.method) != "POST" || strings.Count(app, "/") < 1 {
		return c.sayJob(x, 404, `{"detail":"Application not found"}`)
	}
	if wrong := c.check(Call{API: "fal", Asked: asked}).Text; wrong != "" {
		return c.sayJob(x, 422, `{"detail":[{"loc":["body"],"msg":`+jsonText(wrong)+`,"type":"value_error"}]}`)
	}
	o := order{Ordered: Ordered{Door: "fal", Kind: "music", Prompt: asked.Get("prompt").Str}, format: "mp3"}
	if strings.Contains(app, "video") {
		o.Kind, o.format = "video", "mp4"
	}
	o.Seconds = asked.Get("duration").Float()
	if asked.Get("duration").Type == gjson.String {
		o.Seconds = float64(number0(strings.TrimSuffix(asked.Get("duration").Str, "s")))
	}
	if ms := asked.Get("music_length_ms").Float(); ms > 0 {
		o.Seconds = ms / 1000
	}
	_, query, _ := strings.Cut(string(c.req.path), "?")
	if values, err := url.ParseQuery(query); err == nil {
		o.hook = values.Get("fal_webhook")
	}
	kept := c.take(x, o)
	if c.swallowed(x) {
		return 0, false, nil
	}
	parts := strings.SplitN(app, "/", 3)
	at := "/fal/" + parts[0] + "/" + parts[1] + "/requests/" + kept.ID
	return c.sendTaken(x, []byte(`{"status":"IN_QUEUE","request_id":"`+kept.ID+`","response_url":"`+c.addressOf(x, at)+
		`","status_url":"`+c.addressOf(x, at+"/status")+`","cancel_url":"`+c.addressOf(x, at+"/cancel")+
		`","logs":null,"metrics":{},"queue_position":0}`))
}

func (c *conn) falStatus(x *exchange, o *order, at string) (int, bool, error) {
	if hit(&o.sc, "status") {
		return c.sayJob(x, o.sc.Status, `{"detail":"status failed"}`)
	}
	status, code := "IN_QUEUE", 202
	switch c.stands(o) {
	case jobRuns:
		status = "IN_PROGRESS"
	case jobDone, jobFailed, jobCancelled:
		status, code = "COMPLETED", 200
	case jobOdd:
		status, code = "RECONSIDERING", 200
	}
	more := ""
	if o.Cancelled {
		more = `,"error":"Request was cancelled","error_type":"client_cancelled","metrics":{}`
		if o.Charged {
			more = strings.Replace(more, "{}", `{"inference_time":1.5}`, 1)
		}
	}
	body := `{"status":"` + status + `","request_id":"` + o.ID + `","response_url":"` + c.addressOf(x, at) +
		`","logs":null,"queue_position":0` + more + `}`
	if o.sc.Job == "twice" {
		body = `{"status":"COMPLETED",` + body[1:]
	}
	return c.sayJob(x, code, body)
}

func (c *conn) falStop(x *exchange, o *order) (int, bool, error) {
	switch stopped, free := c.stop(o); {
	case o.sc.Job == "refuse_cancel":
		return c.sayJob(x, 500, `{"detail":"cancellation failed"}`)
	case !stopped:
		return c.sayJob(x, 400, `{"status":"ALREADY_COMPLETED"}`)
	case free && o.sc.Job != "late_cancel":
		return c.sayJob(x, 200, `{"status":"OK"}`)
	}
	return c.sayJob(x, 202, `{"status":"CANCELLATION_REQUESTED"}`)
}

func (c *conn) falOutput(x *exchange, o *order) (int, bool, error) {
	switch {
	case hit(&o.sc, "result"):
		return c.sayJob(x, o.sc.Status, `{"error":"result failed at a proxy"}`)
	case o.Failed && o.sc.Kind == "policy":
		return c.sayJob(x, 422, `{"detail":[{"loc":["body","prompt"],"msg":"The content could not be processed because `+
			`it contained material flagged by a content checker.","type":"content_policy_violation"}]}`)
	case o.Failed, o.Cancelled:
		c.extra = append(c.extra, [2]string{"x-fal-error-type", "runner_disconnected"})
		return c.sayJob(x, 503, `{"detail":"Runner worker-9.internal.simulated disconnected",`+
			`"error_type":"runner_disconnected"}`)
	case !o.Made:
		return c.sayJob(x, 400, `{"detail":"Request is still in progress"}`)
	}
	file := `{"url":` + jsonText(c.link(o)) + `,"content_type":"` + o.contentType() + `","file_name":"output"}`
	name := "audio"
	if o.Kind == "video" {
		name = "video"
	}
	return c.sayJob(x, 200, `{"`+name+`":`+file+`,"seed":7}`)
}
