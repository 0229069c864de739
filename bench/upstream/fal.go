package upstream

import (
	"strconv"
	"strings"
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
	if j == nil || strings.Count(app, "/") != 1 {
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
