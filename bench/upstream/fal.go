package upstream

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// job is one image job in fal's queue.
type job struct {
	p         *painting
	sc        Scenario
	polls     int
	cancelled bool
}

// fal answers fal's queue below /fal: POST /fal/{app}, GET …/requests/{id}/status,
// GET …/requests/{id}, PUT …/requests/{id}/cancel, and the files that results
// link to at GET /fal/files/{id}/{n}.
func (c *conn) fal(x *exchange, p *painting) (int, bool, error) {
	x.endpoint = "fal"
	rest := strings.TrimPrefix(p.path, "/fal/")
	if file, ok := strings.CutPrefix(rest, "files/"); ok {
		return c.falFile(x, file)
	}
	app, after, ok := strings.Cut(rest, "/requests/")
	if !ok {
		return c.falSubmit(x, p)
	}
	id, step, _ := strings.Cut(after, "/")
	j := c.srv.job(id)
	if j == nil || app != falApp(app) {
		return c.falRefuse(x, 404, "Request not found")
	}
	x.sc = &j.sc
	switch step {
	case "status":
		x.endpoint = "fal_status"
		if hit(&j.sc, "status") {
			return c.falRefuse(x, j.sc.Status, "status failed")
		}
		c.srv.mu.Lock()
		status := "IN_QUEUE"
		switch {
		case j.polls <= 0:
			status = "COMPLETED"
		case j.polls == 1:
			status = "IN_PROGRESS"
		}
		j.polls--
		c.srv.mu.Unlock()
		return c.falSay(`{"status":"` + status + `","request_id":"` + id +
			`","queue_position":0,"response_url":"http://169.254.169.254/latest","status_url":"http://169.254.169.254/latest","logs":null}`)
	case "cancel":
		x.endpoint = "fal_cancel"
		c.srv.mu.Lock()
		j.cancelled = true
		c.srv.mu.Unlock()
		return c.falSay(`{"status":"CANCELLATION_REQUESTED"}`)
	}
	x.endpoint = "fal_result"
	if hit(&j.sc, "result") {
		return c.falRefuse(x, j.sc.Status, "result failed")
	}
	if j.sc.Kind == "policy" {
		return c.falRefuse(x, 422,
			"The content could not be processed because it contained material flagged by a content checker.")
	}
	return c.falResult(x, j, id)
}

// falApp is the part of an endpoint's path that names its app: two words, three of workflows
// and of ComfyUI's.
func falApp(path string) string {
	words := strings.Split(path, "/")
	n := 2
	if words[0] == "workflows" || words[0] == "comfy" {
		n = 3
	}
	return strings.Join(words[:min(n, len(words))], "/")
}

// hit says that the scenario's status is meant for this step.
func hit(sc *Scenario, step string) bool { return sc.Status >= 400 && sc.At == step }

func (s *Server) job(id string) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[id]
}

// maxJobs bounds the kept jobs.
const maxJobs = 4096

func (c *conn) falSubmit(x *exchange, p *painting) (int, bool, error) {
	if x.sc.Status >= 400 && (x.sc.At == "" || x.sc.At == "submit") {
		return c.falRefuse(x, x.sc.Status, "submit failed on worker-3.internal.simulated")
	}
	if p.bad != "" {
		return c.falRefuse(x, 422, p.bad)
	}
	if !p.asked.Get("prompt").Exists() {
		p.scaled(max(1, p.asked.Get("upscale_factor").Float()))
	}
	id := "sim-" + strconv.FormatUint(c.srv.ids.Add(1), 16)
	j := &job{p: p, sc: *x.sc, polls: x.sc.Polls.Or(1)}
	c.srv.mu.Lock()
	if len(c.srv.jobs) >= maxJobs {
		c.srv.jobs = map[string]*job{}
	}
	c.srv.jobs[id] = j
	c.srv.mu.Unlock()
	return c.falSay(`{"status":"IN_QUEUE","request_id":"` + id +
		`","queue_position":3,"response_url":"http://169.254.169.254/a","status_url":"http://169.254.169.254/b","cancel_url":"http://169.254.169.254/c"}`)
}

func (c *conn) falResult(x *exchange, j *job, id string) (int, bool, error) {
	single := !j.p.asked.Get("num_images").Exists()
	var items []string
	for i := range j.p.count(&j.sc) {
		link := "http://" + c.nc.LocalAddr().String() + "/fal/files/" + id + "/" + strconv.Itoa(i)
		if j.sc.Link != "" {
			link = j.sc.Link
		}
		if j.sc.Image == "prefixed" {
			link = j.p.base64(&j.sc, i)
		}
		item := appendString([]byte(`{"url":`), link)
		items = append(items, string(item)+`,"width":`+strconv.Itoa(j.p.w)+`,"height":`+strconv.Itoa(j.p.h)+
			`,"content_type":"image/`+j.p.format+`"}`)
	}
	if single && len(items) > 0 {
		return c.sendJSON(x, []byte(`{"image":`+items[0]+`,"seed":`+strconv.FormatInt(j.p.seed, 10)+`}`))
	}
	nsfw := strings.Repeat(","+strconv.FormatBool(j.sc.Image == "blocked"), len(items))
	return c.sendJSON(x, []byte(`{"images":[`+strings.Join(items, ",")+`],"timings":{"inference":1.2},"seed":`+
		strconv.FormatInt(j.p.seed, 10)+
		`,"has_nsfw_concepts":[`+strings.TrimPrefix(nsfw, ",")+`],"prompt":"p"}`))
}

func (c *conn) falFile(x *exchange, file string) (int, bool, error) {
	x.endpoint = "fal_file"
	id, number, _ := strings.Cut(file, "/")
	j := c.srv.job(id)
	if j == nil {
		return c.falRefuse(x, 404, "no such file")
	}
	x.sc = &j.sc
	if hit(&j.sc, "file") {
		return c.falRefuse(x, j.sc.Status, "gone")
	}
	n, _ := strconv.Atoi(number)
	return c.sendImage(x, j.p.image(&j.sc, n), j.p.format)
}

func (c *conn) falSay(body string) (int, bool, error) {
	return c.reply(&Scenario{}, 200, contentJSON, []byte(body))
}

func (c *conn) falRefuse(x *exchange, status int, detail string) (int, bool, error) {
	x.outcome = Refused
	body := append(appendString([]byte(`{"detail":`), detail), '}')
	return c.reply(&Scenario{RetryAfter: x.sc.RetryAfter}, status, contentJSON, body)
}

// Cancelled is how many image jobs were taken from fal's queue.
func (s *Server) Cancelled() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.cancelled {
			n++
		}
	}
	return n
}

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
	if o == nil || app != falApp(app) {
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
	at := "/fal/" + falApp(app) + "/requests/" + kept.ID
	return c.sendTaken(x, []byte(`{"status":"IN_QUEUE","request_id":"`+kept.ID+`","response_url":"`+c.addressOf(x, at)+
		`","status_url":"`+c.addressOf(x, at+"/status")+`","cancel_url":"`+c.addressOf(x, at+"/cancel")+
		`","logs":null,"metrics":{},"queue_position":0}`))
}

func (c *conn) falStatus(x *exchange, o *order, at string) (int, bool, error) {
	if hit(&o.sc, "status") {
		return c.sayJob(x, o.sc.Status, `{"detail":"status failed"}`)
	}
	status, code := "IN_QUEUE", 202
	switch c.jobStatus(o) {
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
