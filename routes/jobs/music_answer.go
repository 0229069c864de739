package jobs

import (
	"math"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"

	"farebox/billing/job"
	"farebox/providers/audio/container"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// musicFailedText is the error text of a failed track whose upstream gave no reason.
const musicFailedText = "The track could not be made."

// linkToMusic is the answer about a track that is fetched from a link (addendum 9.7).
func linkToMusic(c *routes.Call, v *job.View) []byte {
	return routes.AppendJobLink(c.JobStatus(routes.JobCompleted), v)
}

// lookAtMusic sets the headers of a track that is delivered, its length by its first bytes.
func (ca *Capability) lookAtMusic(c *routes.Call, v *job.View) routes.MediaPeek {
	ca.setSoundHeaders(c, v)
	return routes.MediaPeek{Bytes: container.GlanceBytes, See: func(head []byte) {
		ca.setLength(c, v, container.Glance(head, v.MediaBytes))
	}}
}

// failedMusic says that nothing was made: as a status, or as an error by
// compat.job_failure.
func failedMusic(c *routes.Call, v *job.View) *routes.Error {
	if c.Config().Compat.JobFailure == "http" {
		return jobFailure(v)
	}
	return c.WriteJSON(appendFailed(c.JobStatus(routes.JobFailed), v))
}

// appendFailed appends the error of a failed job.
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
	e := &routes.Error{Status: fasthttp.StatusInternalServerError, Suggestion: v.Suggestion}
	e.Code, e.Message = failure(v, musicFailedText)
	if e.Code == policyCode {
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
	h, n := &c.Ctx.Response.Header, c.Own(ca).(soundHeaders)
	for format, mediaType := range musicTypes {
		if mediaType == v.MediaType {
			h.SetCanonical(n.format, []byte(format))
		}
	}
	h.SetCanonical(n.took, appendMillis(nil, v.Took))
}

// setLength puts the length of the sound in seconds: the ordered length where its file does not
// have one.
func (ca *Capability) setLength(c *routes.Call, v *job.View, length time.Duration) {
	if length == 0 {
		length = time.Duration(gjson.GetBytes(v.Detail, "seconds").Int()) * time.Second
	}
	if length > 0 {
		seconds := strconv.AppendFloat(nil, math.Round(length.Seconds()*1000)/1000, 'f', -1, 64)
		c.Ctx.Response.Header.SetCanonical(c.Own(ca).(soundHeaders).length, seconds)
	}
}

func appendMillis(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, float64(d.Milliseconds())/1000, 'f', 3, 64)
}
