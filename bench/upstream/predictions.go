package upstream

import (
	"strings"

	"github.com/tidwall/gjson"
)

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
		jobCancelled: "canceled", jobOdd: "reconsidering"}[c.stands(o)]
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
