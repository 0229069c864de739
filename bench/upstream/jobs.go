package upstream

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/film"
	"farebox/bench/upstream/sound"
)

// Ordered is the truth about one order of music or of a video that was taken.
type Ordered struct {
	ID     string `json:"id"`
	Door   string `json:"door"` // the API of the request: fal, replicate, native, elevenlabs
	Kind   string `json:"kind"` // music or video
	Key    string `json:"key,omitempty"`
	Prompt string `json:"prompt"`
	Asked  int    `json:"asked"` // how often it was handed over
	// Seconds are the length of the result.
	Seconds float64 `json:"seconds"`
	Made    bool    `json:"made"` // it was carried to its end
	// Charged: the upstream is paid, for a result or a begun one.
	Charged   bool `json:"charged"`
	Failed    bool `json:"failed"`
	Cancelled bool `json:"cancelled"`
	Polls     int  `json:"polls"`
	Fetched   int  `json:"fetched"`
	// Leaked: a file was asked for with a credential, which must not be sent there.
	Leaked bool `json:"leaked"`
}

// order is one that was taken.
type order struct {
	Ordered
	sc     Scenario
	left   int // polls until it is done
	taken  time.Time
	format string
	hook   string
}

// jobDoor answers one API of jobs.
type jobDoor func(c *conn, x *exchange, path string, asked gjson.Result) (int, bool, error)

// doorOf finds the API of a path about jobs, and the prompt's place in a body.
func (c *conn) doorOf(path string) (d jobDoor, name, prompt string) {
	rest, isFal := strings.CutPrefix(path, "/fal/")
	switch {
	case strings.HasPrefix(path, jobFiles):
		return (*conn).jobFile, "job_file", "prompt"
	case isFal && c.falMakes(rest):
		return (*conn).falJob, "fal", "prompt"
	case strings.Contains(path, "/predictions"):
		return (*conn).prediction, "replicate", "input.prompt"
	case nativeJob(path):
		return (*conn).nativeJob, "native", "prompt"
	case strings.HasSuffix(path, "/music") && string(c.req.method) == "POST":
		return (*conn).compose, "elevenlabs", "prompt"
	}
	return nil, "", ""
}

const (
	jobFiles = "/jobfiles/"
	// maxOrders bounds the kept orders.
	maxOrders = 65_536
	// maxClip bounds a result, in seconds.
	maxClip = 3600
)

// jobs answers requests about jobs; handled is false for everything else.
func (c *conn) jobs(x *exchange, path string) (status int, keep bool, err error, handled bool) {
	d, name, prompt := c.doorOf(path)
	if d == nil {
		return 0, false, nil, false
	}
	x.endpoint, x.job = name, true
	asked := gjson.ParseBytes(c.req.body)
	words := asked.Get(prompt).String()
	sc, err := c.scenario(gjson.ParseBytes(append(appendString([]byte(`{"prompt":`), words), '}')))
	if err != nil {
		status, keep, err = c.sayJob(x, 400, `{"detail":`+jsonText(err.Error())+`}`)
		return status, keep, err, true
	}
	x.sc = sc
	if sc.Hang && (sc.At == "" || sc.At == "submit") {
		return 0, false, c.waitGone(), true
	}
	if err := c.pause(sc.Delay); err != nil {
		return 0, false, err, true
	}
	status, keep, err = d(c, x, path, asked)
	return status, keep, err, true
}

// take keeps an order, as often as its scenario says, and gives its last id.
func (c *conn) take(x *exchange, o order) *order {
	s := c.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Key != "" {
		for _, kept := range s.orders {
			if kept.Key == o.Key && kept.Door == o.Door {
				kept.Asked++
				return kept
			}
		}
	}
	if s.orders == nil || len(s.orders) >= maxOrders {
		s.orders = map[string]*order{}
	}
	times := 1
	if x.sc.Job == "double" {
		times = 2
	}
	var last *order
	for range times {
		one := o
		one.Asked = 1
		one.sc, one.left, one.taken = *x.sc, x.sc.Polls.Or(1), time.Now()
		one.ID = "job-" + strconv.FormatUint(s.ids.Add(1), 16) + "-" + strconv.FormatUint(mix(s.ids.Load()), 36)
		one.Seconds = min(max(one.Seconds, 1), maxClip)
		if one.sc.Job == "swallow" { // its status cannot be asked for, and it is made all the same
			one.Made, one.Charged = true, true
		}
		s.orders[one.ID] = &one
		last = &one
	}
	if last.hook != "" {
		hook := last.hook
		time.AfterFunc(max(last.sc.Think, time.Millisecond), func() { notifyHook(hook) })
	}
	return last
}

// notifyHook reports a change, as queues do; the receiver asks then.
func notifyHook(hook string) {
	client := http.Client{Timeout: 5 * time.Second}
	if resp, err := client.Post(hook, contentJSON, strings.NewReader(`{"status":"OK"}`)); err == nil {
		_ = resp.Body.Close()
	}
}

// swallowed says that an order was taken, and drops the answer.
func (c *conn) swallowed(x *exchange) bool {
	if x.sc.Job != "swallow" {
		return false
	}
	x.outcome = Broken
	c.cut("rst")
	return true
}

// order is an accepted job; nil: unknown, or forgotten.
func (c *conn) order(x *exchange, id string) *order {
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	o := c.srv.orders[id]
	if o != nil {
		x.sc = &o.sc
	}
	if o == nil || o.sc.Job == "forget" {
		return nil
	}
	return o
}

// The states of a job.
const (
	jobQueued = iota
	jobRuns
	jobDone
	jobFailed
	jobCancelled
	jobOdd
)

// jobStatus gives the state of a job, and advances it.
func (c *conn) jobStatus(o *order) int {
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	o.Polls++
	switch {
	case o.Cancelled:
		return jobCancelled
	case o.sc.Job == "odd":
		return jobOdd
	case o.Failed:
		return jobFailed
	case o.Made:
		return jobDone
	case o.left > 1:
		o.left--
		return jobQueued
	case o.left == 1, o.sc.Job == "stuck", time.Since(o.taken) < o.sc.Think:
		o.left = 0
		o.Charged = o.sc.Job != "fail"
		return jobRuns
	case o.sc.Job == "fail":
		o.Failed = true
		return jobFailed
	}
	o.Made, o.Charged = true, true
	return jobDone
}

// stop cancels a job; free says that its maker is paid nothing for it, and said that it
// says so.
func (c *conn) stop(o *order) (stopped, free bool) {
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	switch {
	case o.Made || o.Failed || o.sc.Job == "refuse_cancel":
		return false, false
	case o.Cancelled:
		return true, !o.Charged
	}
	o.Cancelled = true
	o.Charged = o.Charged || o.sc.Job == "race"
	return true, !o.Charged
}

// Orders are all orders that were taken, oldest first.
func (s *Server) Orders() []Ordered {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make([]*order, 0, len(s.orders))
	for _, o := range s.orders {
		kept = append(kept, o)
	}
	slices.SortFunc(kept, func(a, b *order) int { return a.taken.Compare(b.taken) })
	list := make([]Ordered, len(kept))
	for i, o := range kept {
		list[i] = o.Ordered
	}
	return list
}

// link is the link to the result.
func (c *conn) link(o *order) string {
	switch {
	case o.sc.Link != "":
		return o.sc.Link
	case o.sc.Job == "inline":
		return "data:" + o.contentType() + ";base64," + base64.StdEncoding.EncodeToString(o.file())
	}
	return "http://" + c.nc.LocalAddr().String() + jobFiles + o.ID + "." + o.format
}

func (o *order) contentType() string {
	if o.Kind == "video" {
		return "video/mp4"
	}
	return sound.Type(o.format)
}

// file is the whole file of the result.
func (o *order) file() []byte {
	length := time.Duration(o.Seconds * float64(time.Second))
	if o.Kind == "video" {
		return film.MP4(film.Film{Length: length})
	}
	return sound.Bytes(o.format, length)
}

// jobFile sends the result to any client with the link.
func (c *conn) jobFile(x *exchange, path string, _ gjson.Result) (int, bool, error) {
	id, _, _ := strings.Cut(strings.TrimPrefix(path, jobFiles), ".")
	o := c.order(x, id)
	if o == nil || !o.Made {
		return c.sayJob(x, 404, `{"detail":"no such file"}`)
	}
	c.srv.mu.Lock()
	o.Fetched++
	o.Leaked = o.Leaked || len(c.req.key) > 0
	c.srv.mu.Unlock()
	if hit(&o.sc, "file") {
		return c.sayJob(x, o.sc.Status, `{"detail":"gone"}`)
	}
	return c.sendFile(x, o)
}

// sendFile sends the result, as the scenario spoils it.
func (c *conn) sendFile(x *exchange, o *order) (int, bool, error) {
	b, kind := o.file(), o.contentType()
	x.units = 1
	switch x.sc.Job {
	case "wrongtype":
		b = bytes.Repeat([]byte("this is no file of any kind. "), 100)
	case "untyped":
		kind = "application/octet-stream"
	}
	return c.sendBytes(x, b, kind)
}

// sayJob answers with JSON. The scenario spoils answers that are not errors.
func (c *conn) sayJob(x *exchange, status int, body string) (int, bool, error) {
	sc := &Scenario{RetryAfter: x.sc.RetryAfter}
	if status >= 300 {
		x.outcome = Refused
	}
	return c.reply(sc, status, contentJSON, []byte(body))
}

// sendTaken answers that an order was taken. A scenario's faults of bodies apply to the
// result, unless they are for this answer.
func (c *conn) sendTaken(x *exchange, body []byte) (int, bool, error) {
	sc := *x.sc
	if sc.At != "submit" {
		sc.Cut, sc.Truncate, sc.Chunk, sc.Gap = "", false, 0, 0
	}
	x.sc = &sc
	if sc.HTML {
		return c.sendPage(x)
	}
	return c.sendBody(x, body)
}

// elsewhere is where a scenario has addresses that are not ours.
const elsewhere = "http://169.254.169.254/latest"

// addressOf is an address below this server, or one elsewhere.
func (c *conn) addressOf(x *exchange, path string) string {
	if x.sc.Job == "foreign" {
		return elsewhere + path
	}
	return "http://" + c.nc.LocalAddr().String() + path
}

// jsonText is a text as a JSON string.
func jsonText(s string) string { return string(appendString(nil, s)) }
