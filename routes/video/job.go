package video

import (
	"strconv"

	"github.com/tidwall/gjson"

	"farebox/billing"
	"farebox/billing/job"
	"farebox/providers/queue"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// retrieve answers POST /video/retrieve (addendum 10.3). It costs nothing, so that
// neither a balance nor a key's limit of spending is asked.
func (ca *Capability) retrieve(c *routes.Call) *routes.Error {
	f, v, e := find(c, byRetrievals)
	if e != nil {
		return e
	}
	// What is fetched once only is delivered here: a link to it would lead nowhere.
	once := f.IsTrue(videoDelete)
	switch {
	case v.Failed():
		return failed(c, v)
	case !v.Completed():
		return c.WriteJSON(append(routes.AppendJobProgress(c.JobStatus(routes.JobProcessing), v), '}'))
	case gjson.GetBytes(v.Detail, "linked").Bool(): // its client has the link
		return c.WriteJSON(append(routes.AppendJobProgress(c.JobStatus(routes.JobCompleted), v), '}'))
	case v.URL != "" && !once:
		b := routes.AppendJobProgress(c.JobStatus(routes.JobCompleted), v)
		return c.WriteJSON(append(routes.AppendJobLink(b, v), '}'))
	}
	return c.DeliverMedia(v, once, routes.MediaPeek{})
}

// complete answers POST /video/complete (addendum 10.4).
func (ca *Capability) complete(c *routes.Call) *routes.Error {
	_, v, e := find(c, byCompletions)
	if e != nil {
		return e
	}
	done, e := c.ReleaseJob(v)
	if e != nil {
		return e
	}
	return c.WriteJSON(append(strconv.AppendBool([]byte(`{"success":`), done), '}'))
}

// find is the job that a body names, within the limits of a class.
func find(c *routes.Call, class *routes.RateClass) (*form, *job.View, *routes.Error) {
	f, e := read(c)
	if e != nil {
		return nil, nil, e
	}
	if len(f.Issues) > 0 {
		return nil, nil, routes.Invalid(f.Issues...)
	}
	if d := c.Count(class, 1); d.Code != billing.Admitted {
		return nil, nil, c.Overrun(class, &d, c.Row.Path)
	}
	v, e := c.FindJob(queue.Video, f.words(videoModel), f.words(videoQueueID), "/video/queue")
	return f, v, e
}

// What a job that failed is called where its upstream gave no reason.
const (
	failedCode = "INFERENCE_FAILED"
	failedText = "The video could not be made."
	policyCode = "CONTENT_POLICY_VIOLATION"
)

// failed tells that nothing was made: as a status, or by compat.job_failure with the
// status of an error, where the refusal of a provider has a form of its own (addendum
// 3.4, 10.3).
func failed(c *routes.Call, v *job.View) *routes.Error {
	code, text := v.Code, v.Message
	if code == "" {
		code = failedCode
	}
	if text == "" {
		text = failedText
	}
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
