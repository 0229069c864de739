package image

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/providers/image/picture"
	"farebox/proxy"
)

const (
	// maxText is the largest image as base64, with the JSON around it: an
	// answer may have that for each image of the run.
	maxText = maxImage/3*4 + 64<<10
	// maxImage is the first size of an image in bytes that is too large.
	maxImage = 32 << 20
	// guessedAnswer is the assumed size of an answer of unknown length until it is there.
	guessedAnswer = 4 << 20
	// leastHeld is the smallest answer that counts.
	leastHeld = 16 << 10
	// maxErrorBody bounds the bytes read of an upstream's error answer.
	maxErrorBody = 64 << 10
	// maxSteps bounds a run; the job's limit ends it long before.
	maxSteps = 10_000
	// maxRounding is the most by which an upscaled side may exceed the requested one.
	maxRounding = 16
	// repeats is how often a step that starts no work is sent again, each time
	// after repeatPause more.
	repeats     = 3
	repeatPause = 250 * time.Millisecond
)

// attemptRun is a sequence of runs in one goroutine: it fails over from target to target
// until it has the images of one run.
type attemptRun struct {
	*work
	picker picker
	target *Target // the first to ask
	reach  Reach
	made   *Target // the target that made the images
	asked  *Target // the last one asked
	want   int     // images that it shall make
	n      int     // images of the run under way

	Outcome  // flags and usage of all its runs
	images   []Image
	failed   *Failed
	attempts int
	tried    []attempt.Tried
	calls    int
	held     int64

	queued, converting time.Duration
	x                  *proxy.Exchange
	reply              Reply
}

// choose finds the next target that can do the job at all, if there is one.
func (a *attemptRun) choose() {
	if a.target = a.picker.Fitting(a, time.Now().UnixNano()); a.target == nil && a.failed == nil {
		a.failed = &Failed{Cause: proxy.NoTarget, Err: errors.New("no target is available")}
	}
}

// Fits is attempt.Work.
func (a *attemptRun) Fits(t *Target, _ int64) bool {
	a.reach = t.Dialect.Reach(a.job, t)
	if a.job.Mask != nil && a.reach.No == nil && !a.reach.Masks {
		a.reach.No = &dialect.Unsupported{Path: "mask", Text: "mask: the model takes none; describe the change in the prompt."}
	}
	if refusal := a.reach.No; refusal != nil {
		if a.failed == nil {
			a.failed = &Failed{Target: t, Failure: dialect.Failure{Status: 400, Code: "INVALID_REQUEST",
				Type: "invalid_request_error", Message: refusal.Text}}
		}
		return false
	}
	a.reach.PerCall = max(1, a.reach.PerCall)
	return true
}

// safely is run in a goroutine of its own: a panic must not end the process.
func (a *attemptRun) safely(want int) {
	defer func() {
		if v := recover(); v != nil {
			a.e.o.OnPanic(v)
			a.failed = &Failed{Cause: proxy.Panic, Target: a.asked}
			a.picker.End()
		}
		if a.x != nil {
			a.x.Reset()
			a.e.exchanges.Put(a.x)
			a.x = nil
		}
	}()
	a.fill(want)
}

// fill makes want images: one run at the target that was chosen, then more when
// another target makes fewer at once.
func (a *attemptRun) fill(want int) {
	a.want = want
	for a.target != nil {
		a.picker.Run(a, a.target)
		if a.failed != nil || len(a.images) >= want {
			return
		}
		a.picker.Begin(a.targets, a.account)
		a.choose()
	}
}

// Try is attempt.Work: a run at a target, for as many images as it makes at once.
func (a *attemptRun) Try(t *Target) attempt.Verdict {
	a.asked, a.n = t, min(a.want-len(a.images), a.reach.PerCall)
	a.attempts++
	a.reply = Reply{}
	out, failed := a.converse(t, a.n)
	if failed == nil {
		failed = a.accept(out)
	}
	if a.failed = failed; failed != nil {
		failed.Target = t
		a.noteFailure(failed)
		return a.judge(failed)
	}
	a.made = t
	a.calls++
	return attempt.Judge(200, 0)
}

// judge is the verdict on a run that failed.
func (a *attemptRun) judge(f *Failed) attempt.Verdict {
	switch {
	case f.Cause == proxy.TotalTimeout && !time.Now().Before(a.ends):
		return attempt.Verdict{Do: attempt.Fail} // the job's limit, not the target's
	case f.Cause != proxy.None:
		return attempt.Lost(f.Cause)
	}
	return f.Failure.Verdict
}

// noteFailure records the target's failure for the log.
func (a *attemptRun) noteFailure(f *Failed) {
	t := attempt.Tried{Upstream: f.Target.Upstream, Status: a.reply.Status, Cause: f.Cause, At: time.Now()}
	switch {
	case f.Err != nil:
		t.Words = f.Err.Error()
	case f.Cause == proxy.None && a.reply.Status >= 300:
		t.Words = dialect.FirstWords(a.reply.Body, []byte(a.job.Prompt), nil)
	case f.Cause == proxy.None:
		t.Words = f.Failure.Message
	}
	a.tried = append(a.tried, t)
}

// converse sends the steps of one run to its end.
func (a *attemptRun) converse(t *Target, n int) (*Outcome, *Failed) {
	run := t.Dialect.Begin(a.job, t, n)
	var last *Reply
	for range maxSteps {
		s := Step{}
		out, refusal := run.Next(&s, last)
		if refusal != nil {
			return nil, &Failed{Failure: *refusal, RetryAfter: max(refusal.RetryAfter, refusal.Verdict.Rest)}
		}
		if out != nil {
			if len(out.Images) == 0 {
				return nil, &Failed{Failure: *failure(textMissing)}
			}
			return out, nil
		}
		var failed *Failed
		if last, failed = a.step(t, &s); failed != nil {
			a.cancel(t, run, failed)
			return nil, failed
		}
	}
	failed := &Failed{Cause: proxy.TotalTimeout}
	a.cancel(t, run, failed)
	return nil, failed
}

// step waits, then sends the request, again where that is safe.
func (a *attemptRun) step(t *Target, s *Step) (*Reply, *Failed) {
	wait := s.Wait
	for try := 0; ; try++ {
		left := time.Until(a.ends)
		if wait > 0 {
			if c := a.pause(min(wait, max(0, left))); c != proxy.None {
				return nil, &Failed{Cause: c}
			}
			left = time.Until(a.ends)
		}
		if left <= 0 {
			return nil, &Failed{Cause: proxy.TotalTimeout, Err: errors.New("the job took too long")}
		}
		var failed *Failed
		if s.URL != "" {
			failed = a.fetch(s, left)
		} else {
			failed = a.request(t, s)
		}
		if failed == nil {
			return &a.reply, nil
		}
		if !s.Repeats || try == repeats || failed.Cause == proxy.None || failed.Cause.Final() {
			return nil, failed
		}
		wait = time.Duration(try+1) * repeatPause
	}
}

// fetch downloads a URL from the upstream's answer.
func (a *attemptRun) fetch(s *Step, limit time.Duration) *Failed {
	if a.e.o.Fetch == nil {
		return &Failed{Failure: *failure(textFetch), Err: errors.New("there is no fetcher")}
	}
	most := s.Most
	if most <= 0 {
		most = maxImage
	}
	room, failed := a.reserve(guessedAnswer)
	if failed != nil {
		return failed
	}
	var body []byte
	cause, err := a.await(limit, func(c context.Context) (err error) {
		body, err = a.e.o.Fetch.Get(c, s.URL, int64(most))
		return err
	})
	if cause != proxy.None {
		a.unreserve(room)
		return &Failed{Cause: cause}
	}
	if err != nil {
		a.unreserve(room)
		return &Failed{Failure: *failure(textFetch), Err: err}
	}
	a.settle(room, cap(body))
	a.reply = Reply{Status: 200, Body: body}
	return nil
}

// request sends the step's request and reads the whole answer.
func (a *attemptRun) request(t *Target, s *Step) *Failed {
	if a.x == nil {
		a.x = a.e.exchanges.Get().(*proxy.Exchange)
	}
	a.x.Reset()
	if s.Request.ID == nil {
		s.Request.ID = a.job.ID
	}
	a.x.DrainOnGone(0, func() (time.Duration, bool) { return time.Until(a.ends), a.stays() })
	res := a.e.o.Proxy.Ask(a.client(), a.x, 0, t.Proxy, &s.Request)
	if res.Cause != proxy.None {
		return &Failed{Cause: res.Cause, Err: res.Err}
	}
	defer a.x.Close()
	most := s.Most
	if most <= 0 {
		most = a.n * maxText
	}
	if res.Status < 200 || res.Status >= 300 {
		most = maxErrorBody
	}
	size := a.x.ContentLength()
	if size > int64(most) && res.Status < 300 {
		return &Failed{Failure: *failure(textLarge)}
	}
	if size < 0 {
		size = min(guessedAnswer, int64(most))
	}
	room, failed := a.reserve(size)
	if failed != nil {
		return failed
	}
	body, cause, err := a.x.Body(nil, most)
	a.settle(room, cap(body))
	switch {
	case err == proxy.ErrTooLarge && res.Status >= 300:
		body = nil // of a longer error only the status is reported
	case err == proxy.ErrTooLarge:
		return &Failed{Failure: *failure(textLarge)}
	case err != nil:
		return &Failed{Cause: cause, Err: err}
	}
	a.reply = Reply{
		Status: res.Status, ContentType: string(a.x.ContentType()), Header: a.x.Header, Body: body,
		RetryAfter: res.RetryAfter,
	}
	return nil
}

// cancel asks the upstream to stop, when it may still be at work. The job's hold waits for
// it, so it gets little time.
func (a *attemptRun) cancel(t *Target, run Run, f *Failed) {
	if f.Cause == proxy.Shutdown {
		return // nothing can be sent any more
	}
	s := Step{}
	if !run.Cancel(&s) {
		return
	}
	if s.Request.ID == nil {
		s.Request.ID = a.job.ID
	}
	if a.x == nil {
		a.x = a.e.exchanges.Get().(*proxy.Exchange)
	}
	a.x.Reset()
	if a.e.o.Proxy.Ask(nil, a.x, a.e.o.Cancel, t.Proxy, &s.Request).Cause == proxy.None {
		_, _, _ = a.x.Body(nil, maxErrorBody)
		a.x.Close()
	}
}

// accept checks the images of a run and converts them to the job's format.
func (a *attemptRun) accept(out *Outcome) *Failed {
	before := len(a.images)
	a.Blurred = a.Blurred || out.Blurred
	a.Violation = a.Violation || out.Violation
	a.AdultViolation = a.AdultViolation || out.AdultViolation
	a.Minor = a.Minor || out.Minor
	for i := range out.Images {
		m := &out.Images[i]
		refusal := a.finish(m)
		if refusal != nil {
			a.images = a.images[:before]
			return &Failed{Failure: *refusal}
		}
		a.Blurred = a.Blurred || m.Blurred
		a.Violation = a.Violation || m.Blocked
		a.images = append(a.images, *m)
	}
	a.Usage.add(out.Usage)
	a.EnhancedPrompt = out.EnhancedPrompt
	a.queued += out.Queued
	return nil
}

// finish puts an image into the form that the job asks for: black where it was withheld, in
// the job's format, with its metadata.
func (a *attemptRun) finish(m *Image) (refusal *dialect.Failure) {
	format := a.job.Format
	if m.Blocked && (a.job.AsFile || format == picture.Unknown) {
		format = picture.PNG
	}
	if m.Blocked && len(m.Text)+len(m.Raw) == 0 {
		w, h := a.job.Pixels(8)
		if refusal = a.remake(m, func(c context.Context) ([]byte, error) {
			return a.e.convert.Blank(c, w, h, format)
		}); refusal != nil {
			return refusal
		}
	}
	h, refusal := check(m)
	if refusal != nil {
		return refusal
	}
	f := format
	if f == picture.Unknown {
		f = h.Format
	}
	width, height := a.wanted(h)
	if f != h.Format || width != h.Width {
		text, raw := m.Text, m.Raw
		refusal = a.remake(m, func(c context.Context) ([]byte, error) {
			switch {
			case m.Blocked && !m.Blurred: // black, and free: nothing is decoded for it
				return a.e.convert.Blank(c, width, height, f)
			case width != h.Width:
				return a.e.convert.Shrink(c, h, text, raw, width, height, f)
			}
			return a.e.convert.Convert(c, h, text, raw, f, a.job.Compression.V)
		})
		if refusal != nil {
			return refusal
		}
		if h, refusal = check(m); refusal != nil {
			return refusal
		}
	}
	if a.job.EmbedMetadata && !a.reach.Metadata && !m.Blocked {
		raw := m.Raw
		if m.Text != nil {
			raw = picture.Decode(m.Text)
		}
		m.Text, m.Raw = nil, picture.Annotate(h, raw, a.note(m))
		a.settle(0, cap(m.Raw))
	}
	return nil
}

// wanted is the size of the image: its own, but no more than an upscale's factor
// makes from its input. Some upscalers know one factor only.
func (a *attemptRun) wanted(h picture.Header) (width, height int) {
	j := a.job
	if j.Kind != Upscale || !j.Scale.Set || len(j.Inputs) == 0 {
		return h.Width, h.Height
	}
	width = int(math.Round(float64(j.Inputs[0].Width) * j.Scale.V))
	height = int(math.Round(float64(j.Inputs[0].Height) * j.Scale.V))
	// Upscalers may round to a multiple of a few pixels.
	if width < 1 || height < 1 || h.Width <= width+maxRounding || h.Height <= height+maxRounding {
		return h.Width, h.Height
	}
	return width, height
}

// remake replaces an image by one that is made here, while the client stays.
func (a *attemptRun) remake(m *Image, f func(context.Context) ([]byte, error)) *dialect.Failure {
	began := time.Now()
	var raw []byte
	cause, err := a.await(time.Until(a.ends), func(c context.Context) (err error) {
		raw, err = f(c)
		return err
	})
	a.converting += time.Since(began)
	if cause != proxy.None || err != nil {
		return failure(textBroken)
	}
	m.Text, m.Raw = nil, raw
	a.settle(0, cap(raw))
	return nil
}

// note is the text for embed_exif_metadata: the words and numbers that the
// picture was made of, nothing of the upstream.
func (a *attemptRun) note(m *Image) picture.Note {
	j := a.job
	b := []byte(j.Prompt + "\n")
	add := func(name, value string) {
		if value != "" {
			if b[len(b)-1] != '\n' {
				b = append(b, ", "...)
			}
			b = append(append(append(b, name...), ": "...), value...)
		}
	}
	if j.Steps.Set {
		add("Steps", strconv.Itoa(j.Steps.V))
	}
	if j.CFGScale.Set {
		add("CFG scale", strconv.FormatFloat(j.CFGScale.V, 'f', -1, 64))
	}
	if seed := m.Seed; seed.Set || j.Seed.Set {
		add("Seed", strconv.FormatInt(seed.Or(j.Seed.V), 10))
	}
	add("Size", strconv.Itoa(m.Width)+"x"+strconv.Itoa(m.Height))
	add("Style", j.Style)
	add("Model", j.ModelID)
	return picture.Note{Software: "farebox", Text: string(b)}
}

// reserve takes room for an answer.
func (a *attemptRun) reserve(size int64) (int64, *Failed) {
	if !a.e.held.Take(a.job.Owner, size) {
		return 0, &Failed{Failure: dialect.Failure{Status: 503, Code: "MODEL_AT_CAPACITY", Type: "server_error",
			Message: textRoom, RetryAfter: 5 * time.Second}, RetryAfter: 5 * time.Second}
	}
	return size, nil
}

func (a *attemptRun) unreserve(room int64) { a.e.held.Give(a.job.Owner, room) }

// settle counts the actual size of the answer, until the Result is released.
// Small answers about a job's state are not counted.
func (a *attemptRun) settle(room int64, size int) {
	if size < leastHeld {
		size = 0
	}
	a.e.held.Put(a.job.Owner, int64(size)-room)
	a.held += int64(size)
}
