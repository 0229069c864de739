package jobs

import (
	"strconv"

	"github.com/tidwall/gjson"

	"farebox/billing/job"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// videoFailedText is the error text of a failed video whose upstream gave no reason.
const videoFailedText = "The video could not be made."

// linked says that the client has the only link to the video.
func linked(v *job.View) bool { return gjson.GetBytes(v.Detail, "linked").Bool() }

// linkToVideo is the answer about a video that is fetched from a link (addendum 10.3).
func linkToVideo(c *routes.Call, v *job.View) []byte {
	b := routes.AppendJobProgress(c.JobStatus(routes.JobCompleted), v)
	if linked(v) {
		return b
	}
	return routes.AppendJobLink(b, v)
}

// nothingToSee leaves the headers of a video as they are.
func nothingToSee(*Capability, *routes.Call, *job.View) routes.MediaPeek { return routes.MediaPeek{} }

// failedVideo tells that nothing was made: as a status, or by compat.job_failure with the
// status of an error, where the refusal of a provider has a form of its own (addendum
// 3.4, 10.3).
func failedVideo(c *routes.Call, v *job.View) *routes.Error {
	code, text := failure(v, videoFailedText)
	recommend := v.Recommend
	if recommend == "" && code == policyCode {
		recommend = gjson.GetBytes(v.Detail, "recommend").Str
	}
	more := func(b []byte) []byte {
		if recommend != "" {
			b = jsontext.Object(b).Text("recommended_model", recommend)
		}
		return strconv.AppendBool(append(b, `,"credits_refunded":`...), v.Refunded)
	}
	if c.Config().Compat.JobFailure != "http" {
		b := jsontext.AppendString(append(c.JobStatus(routes.JobFailed), `,"error":`...), text)
		b = jsontext.Object(b).Text("error_code", code)
		return c.WriteJSON(append(more(b), '}'))
	}
	if code == policyCode {
		c.Ctx.Response.SetStatusCode(422)
		b := jsontext.AppendString([]byte(`{"error":{"message":`), text)
		b = append(b, `,"type":"provider_content_policy"`...)
		return c.WriteJSON(append(more(b), "}}"...))
	}
	c.Ctx.Response.SetStatusCode(500)
	b := jsontext.Object("{").Text("error", text).Text("code", code)
	return c.WriteJSON(append(more(b), '}'))
}
