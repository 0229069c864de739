package jobs

import (
	"slices"
	"time"
	"unicode/utf8"

	"farebox/billing/money"
	"farebox/providers/media"
	"farebox/providers/queue"
	"farebox/providers/video"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// videoJob is one job on its way to be sold. Its price is known before: all of it is held,
// and charged when the job is queued.
type videoJob struct {
	capability *Capability
	call       *routes.Call
	form       *videoForm
	choice     choice
	order      *queue.Order
	inputs     []input
	bill       videoBill
	sale       routes.Flat
}

// videoPatience is how long queueing can take: links are followed, and its upstream is
// asked once.
const videoPatience = 3*time.Minute + probeLimit

// sellVideo answers POST /video/queue (addendum 10.1).
func (ca *Capability) sellVideo(c *routes.Call, body *form) *routes.Error {
	f := videoOf(body)
	j := &videoJob{capability: ca, call: c, form: f}
	if e := j.readOrder(); e != nil {
		return e
	}
	if missing := f.missingConsent(); missing != nil {
		return needConsent(c, missing)
	}
	j.sale = routes.Flat{Held: j.least, Do: j.enqueue}
	return c.SellFlat(&j.sale, routes.Terms{Patience: videoPatience})
}

// readOrder makes the order of the body, as far as nothing must be fetched for that.
func (j *videoJob) readOrder() (e *routes.Error) {
	f := j.form
	if e := f.promptFits(); e != nil {
		return e
	}
	if j.choice, e = f.choice(); e != nil {
		return e
	}
	ch := &j.choice
	o := &queue.Order{Kind: f.kind.Name, Prompt: f.words(videoPrompt), NegativePrompt: f.words(videoNegative),
		Duration: ch.Duration, AspectRatio: ch.Ratio, Resolution: ch.Resolution, UpscaleFactor: int(ch.Factor),
		Consents: f.consented()}
	if f.model.Constraints.AudioConfigurable {
		o.Audio = &ch.Audio
	}
	if o.BitrateMode, e = f.oneOf(videoBitrate, f.model.Inputs.BitrateModes, "bitrate modes"); e != nil {
		return e
	}
	if e := f.task(o); e != nil {
		return e
	}
	j.order = o
	j.inputs, e = f.inputs(o)
	return e
}

// task reads the use of references, under each of its names.
func (f *videoForm) task(o *queue.Order) (e *routes.Error) {
	if name, other := taskNames[f.words(videoTask)]; other {
		tasks := f.model.Inputs.Tasks
		for _, task := range tasks {
			if task == name {
				o.Reference = name
				return nil
			}
		}
	}
	o.Reference, e = f.oneOf(videoTask, f.model.Inputs.Tasks, "task types")
	return e
}

// promptFits asks for a prompt, and holds both to the limit of the model. Models that enlarge a
// video need none.
func (f *videoForm) promptFits() *routes.Error {
	if !f.has(videoPrompt) && !f.model.Upscales() {
		f.Missing("prompt", "string", "is required.")
	}
	for _, id := range []int{videoPrompt, videoNegative} {
		n, most := int64(utf8.RuneCountInString(f.words(id))), f.model.Constraints.PromptCharacters
		if n > most {
			f.Add(tooLong(videoShape.Name(id), n, most, " with model "+f.id))
		}
	}
	if len(f.Issues) > 0 {
		return routes.Invalid(f.Issues...)
	}
	return nil
}

// least is the smallest price of the job: links are followed, and films read, only for an account
// that can pay for that.
func (j *videoJob) least() money.Lines {
	least := videoBillOf(j.form.model, j.choice, &video.Media{Length: time.Second, Height: 1}, 0)
	return least.lines()
}

// linked says that the video is available from a link alone, once (addendum 10.1).
func (j *videoJob) linked() bool {
	return j.form.model.DownloadURL && j.call.Config().PublicAddress() != ""
}

// linkGood is how long a link for one download is good (addendum 10.1).
const linkGood = 24 * time.Hour

// enqueue measures the media that the price depends on, holds all of it, and has the job queued.
func (j *videoJob) enqueue() *routes.Error {
	if e := j.capability.measure(j.call, j.form, j.inputs); e != nil {
		return e
	}
	j.order.Links(func(_ string, link *string) {
		at := slices.IndexFunc(j.inputs, func(in input) bool { return in.text == *link })
		if at >= 0 && j.inputs[at].final != "" {
			*link = j.inputs[at].final
		}
	})
	j.bill = videoBillOf(j.form.model, j.choice, j.form.enlarged(j.inputs), clipTime(j.inputs))
	lines := j.bill.lines()
	if e := j.call.Cover(lines.Cost()); e != nil {
		return e
	}
	j.call.Sold = routes.FlatBill(lines, 0)
	id, e := j.call.Queue(&routes.JobSale{Order: j.order, Detail: j.detail(),
		Named: j.form.words(videoModel)})
	if e != nil {
		return e
	}
	body := j.call.Queued(id)
	if j.linked() {
		at := j.call.MediaLink(id, media.Download, time.Now().Add(linkGood))
		body = jsontext.Object(body).Text("download_url", at)
	}
	j.sale.Answer.Body = append(body, '}')
	return nil
}

// detail has further members of retrieve's answer: the model to recommend, and the consents of
// its client, for later questions.
func (j *videoJob) detail() []byte {
	of := j.form.model
	b := jsontext.Object("{").Int("seconds", j.bill.Seconds)
	if j.linked() {
		b = append(b, `,"linked":true`...)
	}
	if of.Recommend != "" {
		b = b.Text("recommend", of.Recommend)
	}
	for i, name := range j.order.Consents {
		if i == 0 {
			b = append(b, `,"consents":[`...)
		}
		b = jsontext.AppendString(jsontext.Comma(b), name+"@"+version(of, name))
		if i == len(j.order.Consents)-1 {
			b = append(b, ']')
		}
	}
	return append(b, '}')
}
