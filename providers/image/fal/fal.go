// Package fal makes images at fal's queue: submit, ask for the status, fetch the
// result, then fetch the images themselves by the result's links. The
// base URL is https://queue.fal.run, the key goes into a fixed header
// (Authorization: Key …), the target's model name is the app (fal-ai/flux/dev).
//
// A target's options: `poll`, the first wait between two questions, 300ms when
// it is not set; `images`, the name of the field for input images, image_url
// for one and image_urls for several when it is not set; `scale`, the name of
// the field for an upscale's factor, upscale_factor when it is not set.
//
// Addresses of a job are followed as package queue/fal does. The images' links
// go through the guard (image.Step.URL).
package fal

import (
	"strings"
	"time"

	"farebox/providers/chat/dialect"
	"farebox/providers/image"
	"farebox/providers/image/picture"
	"farebox/providers/queue"
	falqueue "farebox/providers/queue/fal"
	"farebox/proxy"
	"farebox/proxy/jsontext"
)

// Dialect implements image.Dialect.
type Dialect struct{}

const (
	maxCount = 4
	// firstPoll is the first wait; each further one is half as long again, up to
	// lastPoll.
	firstPoll = 300 * time.Millisecond
	lastPoll  = 3 * time.Second
	// maxFaults is how many questions in a row may be answered with a failure
	// of the queue itself.
	maxFaults = 5
	// maxPolled bounds the words about a job.
	maxPolled = 256 << 10
	// maxInline bounds a result: images may be in it as data URLs.
	maxInline = 64 << 20
)

// Reach knows all kinds; which the app does, its operator knows.
func (Dialect) Reach(j *image.Job, _ *image.Target) image.Reach {
	if j.Kind == image.Generate || j.Kind == image.Edit {
		return image.Reach{PerCall: maxCount}
	}
	return image.Reach{PerCall: 1}
}

// Begin starts a run.
func (Dialect) Begin(j *image.Job, t *image.Target, n int) image.Run {
	wait, err := time.ParseDuration(t.Options["poll"])
	if err != nil || wait <= 0 {
		wait = firstPoll
	}
	return &run{job: j, target: t, queue: queue.Target{Model: t.Model, Base: t.Base}, n: n, wait: wait}
}

// run is one job in the queue.
type run struct {
	job    *image.Job
	target *image.Target
	queue  queue.Target // the same one, as package queue knows it
	n      int

	at     runStage
	handle queue.Handle
	wait   time.Duration
	asked  time.Time
	began  bool // the queue said that it is being worked on
	faults int
	out    image.Outcome
	links  []string // of out.Images, to be fetched one after the other
	got    int
}

type runStage uint8

const (
	submitting runStage = iota
	polling
	collecting
	fetching
)

// Next is image.Run.
func (r *run) Next(s *image.Step, last *image.Reply) (*image.Outcome, *dialect.Failure) {
	if last == nil {
		r.asked = time.Now()
		r.submit(&s.Request)
		return nil, nil
	}
	switch r.at {
	case submitting:
		if refusal := image.Refused(last); refusal != nil {
			return nil, refusal
		}
		taken, ok := falqueue.Dialect{}.Submitted(&queue.Reply{Body: last.Body}, &r.queue)
		if !ok {
			return nil, image.Broken()
		}
		r.at, r.handle = polling, taken.Handle
		r.poll(s)
		return nil, nil
	case polling:
		return nil, r.polled(s, last)
	case collecting:
		return r.collected(s, last)
	case fetching:
		r.out.Images[r.got].Raw = last.Body
		r.got++
		return r.fetch(s)
	}
	return nil, image.Broken()
}

// Cancel is image.Run: a job that is no longer wanted is taken from the queue.
func (r *run) Cancel(s *image.Step) bool {
	if r.at != polling {
		return false
	}
	s.Request = r.about("PUT", r.handle.Cancel, "/cancel")
	return true
}

// about is a request about the job.
func (r *run) about(method, named, rest string) proxy.Request {
	return proxy.Request{Method: method, Path: falqueue.Path(named, &r.handle, &r.queue, rest)}
}

func (r *run) submit(q *proxy.Request) {
	j := r.job
	var o image.Object
	switch j.Kind {
	case image.Generate, image.Edit:
		o.Text("prompt", j.Words())
		o.TextUnless("negative_prompt", j.NegativePrompt)
		o.Int("num_images", int64(r.n))
		if _, _, said := j.Shape(); said && j.Kind == image.Generate || j.Resolution != "" {
			w, h := j.Pixels(8)
			var size image.Object
			size.Int("width", int64(w))
			size.Int("height", int64(h))
			o.Raw("image_size", "")
			o.Join(size.End())
		}
		if j.Steps.Set {
			o.Int("num_inference_steps", int64(j.Steps.V))
		}
		if j.CFGScale.Set {
			o.Float("guidance_scale", j.CFGScale.V)
		}
		if j.Seed.Set {
			o.Int("seed", j.Seed.V)
		}
		o.Bool("enable_safety_checker", j.SafeMode)
		if j.Format == picture.PNG || j.Format == picture.JPEG {
			o.Text("output_format", j.Format.String())
		}
	case image.Upscale:
		name := r.target.Options["scale"]
		if name == "" {
			name = "upscale_factor"
		}
		o.Float(name, j.Scale.Or(2))
		o.TextUnless("prompt", j.EnhancePrompt)
		if j.EnhanceCreativity.Set {
			o.Float("creativity", j.EnhanceCreativity.V)
		}
		if j.Replication.Set {
			o.Float("resemblance", j.Replication.V)
		}
	case image.RemoveBackground:
	}
	r.inputs(&o)
	q.Path, q.Source = []byte("/"+r.target.Model), o.End()
}

// inputs go along as data URLs.
func (r *run) inputs(o *image.Object) {
	ins := r.job.Inputs
	if len(ins) == 0 {
		return
	}
	name := r.target.Options["images"]
	if name == "" && len(ins) == 1 {
		name = "image_url"
	}
	if name == "image_url" {
		o.Image(name, prefix(&ins[0]), &ins[0])
		return
	}
	if name == "" {
		name = "image_urls"
	}
	o.Raw(name, "[")
	for i := range ins {
		if i > 0 {
			o.AddString(",")
		}
		o.AddString(`"` + prefix(&ins[i]))
		o.AddText(ins[i].Text, ins[i].Raw)
		o.AddString(`"`)
	}
	o.AddString("]")
}

func prefix(in *image.Input) string { return "data:" + in.Format.ContentType() + ";base64," }

func (r *run) poll(s *image.Step) {
	s.Wait, s.Repeats, s.Most = r.wait, true, maxPolled
	s.Request = r.about("GET", r.handle.Status, "/status")
	r.wait = min(r.wait+r.wait/2, lastPoll)
}

// polled reads {status, queue_position}.
func (r *run) polled(s *image.Step, last *image.Reply) *dialect.Failure {
	if refusal := image.Refused(last); refusal != nil {
		if r.faults++; r.faults > maxFaults || last.Status < 500 && last.Status != 429 {
			return refusal
		}
		r.poll(s)
		return nil
	}
	r.faults = 0
	status := jsontext.Unquoted(queue.Members(last.Body)["status"])
	if status != "IN_QUEUE" && !r.began {
		r.began = true
		r.out.Queued = time.Since(r.asked)
	}
	switch status {
	case "IN_QUEUE", "IN_PROGRESS":
		r.poll(s)
		return nil
	case "COMPLETED":
		r.at = collecting
		s.Repeats, s.Most = true, maxInline
		s.Request = r.about("GET", r.handle.Result, "")
		return nil
	}
	return image.Broken()
}

// collected reads {images:[{url}], image:{url}, seed, has_nsfw_concepts, prompt}.
func (r *run) collected(s *image.Step, last *image.Reply) (*image.Outcome, *dialect.Failure) {
	if refusal := image.Refused(last); refusal != nil {
		return nil, refusal
	}
	var seed image.Maybe[int64]
	var blocked []bool
	add := func(v []byte) bool {
		link := ""
		var text []byte
		jsontext.Walk(v, func(key, value []byte) bool {
			if string(key) == "url" {
				if q := jsontext.Quoted(value); strings.HasPrefix(string(q[:min(len(q), 5)]), "data:") {
					text = q
				} else {
					link = jsontext.Unquoted(value)
				}
			}
			return true
		})
		if text != nil || link != "" {
			r.out.Images = append(r.out.Images, image.Image{Text: text})
			r.links = append(r.links, link)
		}
		return len(r.out.Images) < r.n
	}
	jsontext.Walk(last.Body, func(key, value []byte) bool {
		switch string(key) {
		case "images":
			jsontext.Each(value, add)
		case "image":
			add(value)
		case "seed":
			seed = image.Whole(value)
		case "has_nsfw_concepts":
			jsontext.Each(value, func(v []byte) bool {
				blocked = append(blocked, string(v) == "true")
				return len(blocked) < maxCount
			})
		}
		return true
	})
	for i := range r.out.Images {
		m := &r.out.Images[i]
		m.Seed = seed
		m.Blocked = i < len(blocked) && blocked[i] && r.job.SafeMode
	}
	r.at = fetching
	return r.fetch(s)
}

// fetch asks for the next image that is only linked to, until all are there.
func (r *run) fetch(s *image.Step) (*image.Outcome, *dialect.Failure) {
	for r.got < len(r.links) {
		if m := &r.out.Images[r.got]; m.Text == nil && !m.Blocked {
			s.URL, s.Repeats = r.links[r.got], true
			return nil, nil
		}
		r.got++
	}
	return &r.out, nil
}
