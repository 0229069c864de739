package audio

import (
	"time"

	"github.com/valyala/fasthttp"

	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// maxTranscript bounds a transcript: characters with their times, for hours.
const maxTranscript = 32 << 20

// Transcribing has targets write down one sound until one has done it.
type Transcribing struct {
	Whole
	Hearing *Hearing
	// Stay is asked when the client left: whether its sound is wanted all the same.
	Stay func() bool

	Transcript *Transcript // of By; nil: it failed

	ctx *fasthttp.RequestCtx
}

// Do asks the targets for an account.
func (tr *Transcribing) Do(ctx *fasthttp.RequestCtx, targets []*Target, account uint64) {
	tr.ctx = ctx
	tr.run(tr, targets, account)
}

// Fits is attempt.Work: every target of a model takes its sound.
func (tr *Transcribing) Fits(t *Target, _ int64) bool { return t.Listener != nil }

// Try is attempt.Work.
func (tr *Transcribing) Try(t *Target) attempt.Verdict {
	limit := time.Until(tr.ends)
	if t.Total > 0 {
		limit = min(limit, t.Total)
	}
	q := question{
		ctx: tr.ctx, request: proxy.Request{ID: tr.ID}, limit: limit, most: maxTranscript,
		broken: "ASR_UPSTREAM_FAILED", stay: tr.Stay,
		refused: func(status int, retryAfter time.Duration, body []byte) dialect.Failure {
			// No prompt reaches a log, also if the upstream repeats it.
			tr.words = dialect.FirstWords(body, []byte(tr.Hearing.Prompt), nil)
			return t.Listener.Error(status, retryAfter, body)
		},
		read: func(body []byte) bool {
			tr.Transcript = t.Listener.Heard(body, tr.Hearing)
			return tr.Transcript != nil
		},
	}
	t.Listener.Listen(&q.request, tr.Hearing, t)
	return tr.try(t, &q)
}
