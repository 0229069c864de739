package audio

import (
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/billing/job"
	"farebox/providers/audio/container"
	"farebox/providers/queue"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// retrieveMusic answers POST /audio/retrieve in one of its three shapes (interface.md,
// Music; addendum 9.7). It costs nothing, so that neither a balance nor a key's limit
// of spending is asked.
func (ca *Capability) retrieveMusic(c *routes.Call) *routes.Error {
	f, v, e := musicJob(c, byRetrievals)
	if e != nil {
		return e
	}
	// What is fetched once only is delivered here: a link to it would lead nowhere.
	once := f.IsTrue(musicDelete)
	switch {
	case v.Failed() && c.Config().Compat.JobFailure == "http":
		return jobFailure(v)
	case v.Failed():
		return c.WriteJSON(appendFailed(c.JobStatus(routes.JobFailed), v))
	case !v.Completed():
		return c.WriteJSON(append(routes.AppendJobProgress(c.JobStatus(routes.JobProcessing), v), '}'))
	case v.URL != "" && !once:
		return c.WriteJSON(append(routes.AppendJobLink(c.JobStatus(routes.JobCompleted), v), '}'))
	}
	ca.setSoundHeaders(c, v)
	return c.DeliverMedia(v, once, routes.MediaPeek{Bytes: container.GlanceBytes, See: func(head []byte) {
		ca.setLength(c, v, container.Glance(head, v.MediaBytes))
	}})
}

// completeMusic answers POST /audio/complete (addendum 9.8).
func (ca *Capability) completeMusic(c *routes.Call) *routes.Error {
	_, v, e := musicJob(c, byCompletions)
	if e != nil {
		return e
	}
	done, e := c.ReleaseJob(v)
	if e != nil {
		return e
	}
	return c.WriteJSON(append(strconv.AppendBool([]byte(`{"success":`), done), '}'))
}

// musicJob finds the job that a body names, within the limits of a class.
func musicJob(c *routes.Call, class *routes.RateClass) (*musicForm, *job.View, *routes.Error) {
	f, e := readMusic(c)
	if e != nil {
		return nil, nil, e
	}
	if len(f.Issues) > 0 {
		return nil, nil, routes.Invalid(f.Issues...)
	}
	if d := c.Count(class, 1); d.Code != billing.Admitted {
		return nil, nil, c.Overrun(class, &d, c.Row.Path)
	}
	v, e := c.FindJob(queue.Music, f.Words(-1, musicModel), f.Words(-1, musicQueueID), "/audio/queue")
	return f, v, e
}

// What a job that failed is called where its upstream gave no reason.
const (
	failedCode = "INFERENCE_FAILED"
	failedText = "The track could not be made."
)

// appendFailed appends what is said of a job of which nothing came.
func appendFailed(b []byte, v *job.View) []byte {
	e := jobFailure(v)
	b = jsontext.Object(b).Text("error", e.Message).Text("error_code", e.Code)
	if v.Suggestion != "" {
		b = jsontext.Object(b).Text("suggested_prompt", v.Suggestion)
	}
	return append(b, '}')
}

// jobFailure is the failure of a job as an error.
func jobFailure(v *job.View) *routes.Error {
	e := &routes.Error{Status: fasthttp.StatusInternalServerError, Code: v.Code, Message: v.Message,
		Suggestion: v.Suggestion}
	if e.Code == "" {
		e.Code = failedCode
	}
	if e.Message == "" {
		e.Message = failedText
	}
	if e.Code == "CONTENT_POLICY_VIOLATION" {
		e.Status = fasthttp.StatusUnprocessableEntity
	}
	return e
}

// soundHeaders are those that tell of a track beside its bytes (addendum 3.7). There is
// none for subtitles, which nothing here makes.
type soundHeaders struct{ format, took, length []byte }

func newSoundHeaders(brand string) soundHeaders {
	return soundHeaders{
		format: routes.BrandHeader(brand, "audio-format"), took: routes.BrandHeader(brand, "inference-time"),
		length: routes.BrandHeader(brand, "audio-duration"),
	}
}

// setSoundHeaders puts the format and how long making it took, in seconds.
func (ca *Capability) setSoundHeaders(c *routes.Call, v *job.View) {
	h, n := &c.Ctx.Response.Header, &c.Own(ca).(*view).sound
	for format, mediaType := range musicTypes {
		if mediaType == v.MediaType {
			h.SetCanonical(n.format, []byte(format))
		}
	}
	h.SetCanonical(n.took, appendMillis(nil, v.Took))
}

// setLength puts how long the sound is, in seconds: what was ordered where its file does
// not say.
func (ca *Capability) setLength(c *routes.Call, v *job.View, length time.Duration) {
	if length == 0 {
		length = time.Duration(gjson.GetBytes(v.Detail, "seconds").Int()) * time.Second
	}
	if length > 0 {
		seconds := appendSeconds(nil, length.Seconds())
		c.Ctx.Response.Header.SetCanonical(c.Own(ca).(*view).sound.length, seconds)
	}
}

func appendMillis(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, float64(d.Milliseconds())/1000, 'f', 3, 64)
}
