package audio

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/billing/job"
	"farebox/config"
	"farebox/providers/queue"
	"farebox/routes"
)

// retrieveMusic answers POST /audio/retrieve in one of its three shapes (interface.md,
// Music; addendum 9.7). It costs nothing, so that neither a balance nor a key's limit
// of spending is asked.
func (of *Capability) retrieveMusic(c *routes.Call) *routes.Error {
	f, v, e := musicJob(c, byRetrievals)
	if e != nil {
		return e
	}
	// What is fetched once only is delivered here: a link to it would lead nowhere.
	once, compat := f.IsTrue(musicDelete), &c.Config().Compat
	switch {
	case v.Failed() && compat.JobFailure == "http":
		return jobFailure(v)
	case v.Failed():
		return c.WriteJSON(appendFailed(nil, v, jobStatus(compat, "failed")))
	case !v.Completed():
		return c.WriteJSON(appendProcessing(nil, v, jobStatus(compat, "processing")))
	case v.URL != "" && !once:
		return c.WriteJSON(appendLink(nil, v, jobStatus(compat, "completed")))
	}
	of.setSoundHeaders(c, v)
	return c.DeliverMedia(v, once)
}

// completeMusic answers POST /audio/complete (addendum 9.8).
func (of *Capability) completeMusic(c *routes.Call) *routes.Error {
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

// uuid is the form of an id of a job.
var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// musicJob finds the job that a body names, within the limits of a class.
func musicJob(c *routes.Call, class *routes.RateClass) (*musicForm, *job.View, *routes.Error) {
	f, e := readMusic(c)
	if e != nil {
		return nil, nil, e
	}
	if e := c.CheckFailures(); e != nil {
		return nil, nil, e
	}
	if len(f.Issues) > 0 {
		return nil, nil, routes.Invalid(f.Issues...)
	}
	if d := c.Count(class, 1); d.Code != billing.Admitted {
		return nil, nil, c.Overrun(class, &d, c.Row.Path)
	}
	id := bytes.ToLower([]byte(f.Words(-1, musicQueueID)))
	if !uuid.Match(id) {
		text := "queue_id: must be the id that /audio/queue gave, a UUID."
		return nil, nil, &routes.Error{Status: 400, Code: "REQUEST_ID_NOT_FOUND",
			Message: "Invalid request parameters: " + text,
			Issues:  []routes.Issue{{Code: "invalid_string", Path: "queue_id", Message: text}}}
	}
	name := []byte(f.Words(-1, musicModel))
	v, e := c.Job(queue.Music, name, id)
	if e == nil {
		return f, v, nil
	}
	// The job knows its model by its id; the client may have named it otherwise.
	if m, _ := c.Catalog().Resolve(name, musicType); m != nil && m.ID != string(name) {
		if v, again := c.Job(queue.Music, []byte(m.ID), id); again == nil {
			return f, v, nil
		}
	}
	return nil, nil, e
}

// jobStatus writes a state as the config has it (design.md 7).
func jobStatus(c *config.Compat, state string) string {
	if c.JobStatus == "upper" {
		return strings.ToUpper(state)
	}
	return state
}

func appendProcessing(b []byte, v *job.View, status string) []byte {
	b = routes.AppendString(append(b, `{"status":`...), status)
	b = strconv.AppendInt(append(b, `,"progress_percent":`...), int64(min(max(v.Progress, 0), 99)), 10)
	b = strconv.AppendInt(append(b, `,"average_execution_time":`...), v.Average.Milliseconds(), 10)
	b = strconv.AppendInt(append(b, `,"execution_duration":`...), v.Took.Milliseconds(), 10)
	return append(b, '}')
}

// What a job that failed is called where its upstream gave no reason.
const (
	failedCode = "INFERENCE_FAILED"
	failedText = "The track could not be made."
)

func appendFailed(b []byte, v *job.View, status string) []byte {
	e := jobFailure(v)
	b = routes.AppendString(append(b, `{"status":`...), status)
	b = routes.AppendString(append(b, `,"error":`...), e.Message)
	b = routes.AppendString(append(b, `,"error_code":`...), e.Code)
	if v.Suggestion != "" {
		b = routes.AppendString(append(b, `,"suggested_prompt":`...), v.Suggestion)
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

func appendLink(b []byte, v *job.View, status string) []byte {
	b = routes.AppendString(append(b, `{"status":`...), status)
	b = routes.AppendString(append(b, `,"url":`...), v.URL)
	b = routes.AppendString(append(b, `,"expires_at":`...), v.ExpiresAt.UTC().Format(jobTime))
	return append(b, '}')
}

const jobTime = "2006-01-02T15:04:05.000Z"

// soundHeaders are those that tell of a track beside its bytes (addendum 3.7). There is
// none for subtitles, which nothing here makes.
type soundHeaders struct{ format, took, length []byte }

func newSoundHeaders(brand string) soundHeaders {
	return soundHeaders{
		format: routes.BrandHeader(brand, "audio-format"), took: routes.BrandHeader(brand, "inference-time"),
		length: routes.BrandHeader(brand, "audio-duration"),
	}
}

// setSoundHeaders puts the format, how long making it took and how long it is, in
// seconds.
func (of *Capability) setSoundHeaders(c *routes.Call, v *job.View) {
	h, n := &c.Ctx.Response.Header, &c.Own(of).(*view).sound
	for format, mediaType := range musicTypes {
		if mediaType == v.MediaType {
			h.SetCanonical(n.format, []byte(format))
		}
	}
	h.SetCanonical(n.took, appendMillis(nil, v.Took))
	if seconds := gjson.GetBytes(v.Detail, "seconds").Int(); seconds > 0 {
		h.SetCanonical(n.length, strconv.AppendInt(nil, seconds, 10))
	}
}

func appendMillis(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, float64(d.Milliseconds())/1000, 'f', 3, 64)
}
