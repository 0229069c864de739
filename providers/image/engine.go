package image

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/config/fair"
	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/providers/image/picture"
	"farebox/proxy"
)

const (
	// defaultRoom bounds the memory for the answers of all jobs together.
	defaultRoom = 1 << 30
	// defaultParallel bounds the runs of one job at a time.
	defaultParallel = 4
	// defaultLimit is how long a job may take.
	defaultLimit = 5 * time.Minute
	// defaultCancel bounds the request to stop.
	defaultCancel = 5 * time.Second
)

// Fetcher downloads a URL through a guard.
type Fetcher interface {
	// Get reads at most most bytes. Its error names no hosts.
	Get(ctx context.Context, url string, most int64) ([]byte, error)
}

// Options of an Engine.
type Options struct {
	Proxy *proxy.Proxy
	Fetch Fetcher
	// Room is how many bytes the answers of all jobs may take together; a job without room
	// is refused for lack of capacity. 0: 1 GiB.
	Room int64
	// Parallel bounds the runs of one job at a time; 0: 4.
	Parallel int
	// Limit is how long a job may take; 0: 5 minutes.
	Limit time.Duration
	// Cancel bounds the request to stop; 0: 5s.
	Cancel time.Duration
	// Conversions is how many images are converted at once; 0: 2.
	Conversions int
	// OnPanic is notified of a panic in a run that has a goroutine of its own.
	OnPanic func(v any)
}

// Engine makes the images of jobs. Safe for concurrent use.
type Engine struct {
	o         Options
	held      *fair.Space // Options.Room, which customers share
	exchanges sync.Pool
	convert   *picture.Converter
}

// New makes an Engine; there is nothing to close.
func New(o Options) *Engine {
	if o.Room <= 0 {
		o.Room = defaultRoom
	}
	if o.Parallel <= 0 {
		o.Parallel = defaultParallel
	}
	if o.Limit <= 0 {
		o.Limit = defaultLimit
	}
	if o.Cancel <= 0 {
		o.Cancel = defaultCancel
	}
	if o.OnPanic == nil {
		o.OnPanic = func(any) {}
	}
	e := &Engine{o: o, held: fair.NewRoom(o.Room), convert: picture.NewConverter(o.Conversions)}
	e.exchanges.New = func() any { return new(proxy.Exchange) }
	return e
}

// Warm prepares for WebP files that must be made here, in the background, and calls done
// with the time that it took.
func (e *Engine) Warm(done func(took time.Duration)) {
	began := time.Now()
	go func() {
		defer func() {
			if v := recover(); v != nil {
				e.o.OnPanic(v)
			}
		}()
		picture.Warm()
		done(time.Since(began))
	}()
}

// Held is how many bytes of answers are in memory.
func (e *Engine) Held() int64 { return e.held.Used() }

// Do makes the images of j, or says why there are none. ctx's client is watched all the
// while; when it leaves, the requests at upstreams are cancelled unless Job.Stay says that
// the images are wanted all the same. It is an account's job for these targets: it takes
// one run, or several, side by side, when it wants more images than its target makes in
// one. The Result's images are complete, of Job.Format, and must be released.
func (e *Engine) Do(ctx *fasthttp.RequestCtx, j *Job, targets []*Target, account uint64) (*Result, *Failed) {
	began := time.Now()
	w := &work{e: e, ctx: ctx, job: j, targets: targets, account: account, ends: began.Add(e.o.Limit)}
	first := w.begin()
	wants := split(max(1, j.Count), first.reach.PerCall)
	lines := make([]*attemptRun, len(wants))
	lines[0] = first
	for i := 1; i < len(wants); i++ {
		lines[i] = w.begin()
	}
	fair.Each(len(wants), 1+e.o.Parallel, func(i int) { lines[i].safely(wants[i]) })
	return w.collect(lines, time.Since(began))
}

// split divides n images into runs of at most most each.
func split(n, most int) (wants []int) {
	for most = max(1, most); n > 0; n -= most {
		wants = append(wants, min(n, most))
	}
	return wants
}

// work is one running job.
type work struct {
	e       *Engine
	ctx     *fasthttp.RequestCtx
	job     *Job
	targets []*Target
	account uint64
	ends    time.Time

	left  sync.Once   // asks Job.Stay
	alone atomic.Bool // it goes on without its client
}

// stays asks once, when the client left, whether the job goes on.
func (w *work) stays() bool {
	w.left.Do(func() { w.alone.Store(w.job.Stay != nil && w.job.Stay()) })
	return w.alone.Load()
}

// client is the connection to watch; nil once the job goes on alone.
func (w *work) client() *fasthttp.RequestCtx {
	if w.alone.Load() {
		return nil
	}
	return w.ctx
}

// await runs f within limit while the client stays, or alone from its beginning
// when the job goes on without it.
func (w *work) await(limit time.Duration, f func(context.Context) error) (proxy.Cause, error) {
	for ends := time.Now().Add(limit); ; {
		client := w.client()
		cause, err := w.e.o.Proxy.Await(client, max(time.Millisecond, time.Until(ends)),
			func(ctx context.Context) error { return f(fair.With(ctx, w.job.Owner)) })
		if client == nil || cause != proxy.ClientGone && cause != proxy.ClientStalled || !w.stays() {
			return cause, err
		}
	}
}

// pause waits for d while the client stays, or the job goes on without it.
func (w *work) pause(d time.Duration) proxy.Cause {
	for ends := time.Now().Add(d); ; {
		client := w.client()
		cause := w.e.o.Proxy.Pause(client, time.Until(ends))
		if client == nil || cause != proxy.ClientGone && cause != proxy.ClientStalled || !w.stays() {
			return cause
		}
	}
}

func (w *work) begin() *attemptRun {
	l := &attemptRun{work: w}
	l.picker.Begin(w.targets, w.account)
	l.choose()
	return l
}

// collect makes one Result of the runs' outcomes.
func (w *work) collect(lines []*attemptRun, took time.Duration) (*Result, *Failed) {
	r := &Result{engine: w.e, owner: w.job.Owner}
	var missing *Failed
	for _, l := range lines {
		r.held += l.held
		r.Attempts += l.attempts
		r.Tried = append(r.Tried, l.tried...)
		r.Calls += l.calls
		r.Converting += l.converting
		r.Queued = max(r.Queued, l.queued)
		if missing == nil || l.failed != nil && l.failed.Cause.Final() {
			missing = pick(l.failed, missing)
		}
		if len(l.images) == 0 {
			continue
		}
		if r.Target == nil {
			r.Target = l.made
		}
		r.Images = append(r.Images, l.images...)
		r.Blurred = r.Blurred || l.Blurred
		r.Violation = r.Violation || l.Violation
		r.AdultViolation = r.AdultViolation || l.AdultViolation
		r.Minor = r.Minor || l.Minor
		if r.EnhancedPrompt == "" {
			r.EnhancedPrompt = l.EnhancedPrompt
		}
		r.Usage.add(l.Usage)
	}
	r.Missing = missing
	r.Working = max(0, took-r.Queued-r.Converting)
	if len(r.Images) == 0 || missing != nil && missing.Cause.Final() {
		r.Release()
		missing.Attempts, missing.Tried = r.Attempts, r.Tried
		return nil, missing
	}
	return r, nil
}

func pick(f, other *Failed) *Failed {
	if f != nil {
		return f
	}
	return other
}

func (u *Usage) add(o Usage) {
	u.Input += o.Input
	u.InputText += o.InputText
	u.InputImage += o.InputImage
	u.Output += o.Output
}

// failure is a failed run whose target is at fault.
func failure(text string) *dialect.Failure {
	return &dialect.Failure{
		Status: 502, Code: "INFERENCE_FAILED", Type: "server_error", Message: text,
		Verdict: attempt.Broken(),
	}
}

// check reads the header of an image that an upstream sent, cleans its text and cuts off
// trailing bytes. Upstreams are not trusted: anything but a complete image of a known
// format is a failure.
func check(m *Image) (h picture.Header, refusal *dialect.Failure) {
	if len(m.Text)+len(m.Raw) == 0 {
		return h, failure(textMissing)
	}
	if m.Text != nil {
		text, ok := cleanText(m.Text)
		if !ok {
			return h, failure(textBroken)
		}
		m.Text = padded(text)
	}
	h, err := picture.Read(m.Text, m.Raw)
	if err != nil || h.Size >= maxImage {
		return h, failure(textBroken)
	}
	if m.Text != nil {
		m.Text = cutText(m.Text, h.Size)
	} else {
		m.Raw = m.Raw[:h.Size:h.Size]
	}
	m.Format, m.Width, m.Height = h.Format, h.Width, h.Height
	return h, nil
}

// padded adds the padding that some encoders leave out.
func padded(text []byte) []byte {
	if n := len(text) % 4; n > 1 {
		return append(text[:len(text):len(text)], "=="[:4-n]...)
	}
	return text
}

const (
	textBroken  = "The model's answer has no readable image; nothing was charged. Please retry."
	textMissing = "The model's answer holds fewer images than it should; nothing was charged. Please retry."
	textFetch   = "The model's image could not be fetched; nothing was charged. Please retry."
	textLarge   = "The model's answer is too large; nothing was charged. Please retry."
	textRoom    = "The service is holding as many images as it may right now; please retry."
)
