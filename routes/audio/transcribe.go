package audio

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/config"
	"farebox/config/fair"
	"farebox/providers"
	"farebox/providers/audio"
	"farebox/providers/audio/container"
	"farebox/proxy"
	"farebox/routes"
)

// transcriptionRows are the endpoints of transcriptions.
func transcriptionRows(ca *Capability) []routes.Row {
	return []routes.Row{{
		Method: "POST", Path: "/audio/transcriptions", Access: routes.Bearer, Wallet: true,
		Form: routes.FormBody, Limit: mostSound,
		Rate: routes.ByModel, Operation: "transcription", Rules: routes.Always(transcriptionBook),
		Serve: ca.serveTranscription,
	}}
}

// maxSound is the largest file (addendum 3.1), and mostSound the largest form with one.
const maxSound = 25 << 20

func mostSound(*config.Config) int { return maxSound + 64<<10 }

const (
	// listenLimit is how long an upstream may take for an hour of sound, and listenPatience the
	// time of a request for all else.
	listenLimit    = 15 * time.Minute
	listenPatience = time.Minute
	// priming is the padding that encoders add at both ends of a sound; nobody is charged a
	// second for it.
	priming = 100 * time.Millisecond
	// mistrust is by how much of a sound, and by how much at least, a measure may be short of the
	// length of its frames before it is not believed.
	mistrust      = 16
	leastMistrust = time.Second
)

// transcription is one request for text of sound (addendum 9.3).
type transcription struct {
	owner   *Capability
	call    *routes.Call
	form    transcriptionForm
	link    string // to a video (filmed.go); empty: the sound came with the request
	seated  bool
	place   fair.Place // while seated
	spec    *config.Transcription
	sound   container.Info
	hearing audio.Hearing
	heard   *audio.Transcript
	// length is the trusted duration, seconds the charged one.
	length  time.Duration
	seconds int64
	sale    routes.Flat
}

// serveTranscription answers POST /audio/transcriptions.
func (ca *Capability) serveTranscription(c *routes.Call) *routes.Error {
	t := &transcription{owner: ca, call: c}
	if e := t.readRequest(); e != nil {
		return e
	}
	return t.sell(listenLimit + listenPatience)
}

// sell sells the text. A second is held: a link is followed, and up to 25 MB of sound are
// read, only for an account that can pay for some of it.
func (t *transcription) sell(patience time.Duration) *routes.Error {
	t.sale = routes.Flat{Held: func() money.Lines { return t.lines(1) }, Do: t.transcribe,
		OnClose: t.releasePlace, OnObserve: t.count, OnLog: t.log}
	return t.call.SellFlat(&t.sale, routes.Terms{Patience: patience, Compress: true})
}

// readRequest reads the request. Its sound is read once it is admitted.
func (t *transcription) readRequest() *routes.Error {
	if e := t.form.readForm(t.call); e != nil {
		return e
	}
	if e := t.choose(); e != nil {
		return e
	}
	return t.form.gate(&t.hearing, t.call.Model.ID, &t.spec.Capabilities)
}

// choose finds the model, by its name or as the default one.
func (t *transcription) choose() *routes.Error {
	catalog, name := t.call.Catalog(), t.form.model
	var model *providers.Model
	match := providers.Trait
	if name == "" {
		model, name = catalog.Default("asr"), "default"
	} else {
		model, match = catalog.Resolve([]byte(name), "asr")
	}
	if e := t.call.UseModel([]byte(name), "asr", model, match, t.form.v.Issues); e != nil {
		return e
	}
	t.spec = model.Config.Spec.(*config.Transcription)
	t.hearing.Model = model.ID
	return nil
}

// measure reads the length from the file, and its bound, before any upstream gets it. A file
// without a measured length is refused.
func (t *transcription) measure() *routes.Error {
	sound, err := container.Read(t.form.file)
	var refusal *container.Error
	switch {
	case errors.As(err, &refusal) && refusal.Reason == container.Unknown:
		text := t.member() + ": " + refusal.Text + "."
		return &routes.Error{Status: 400, Code: "INVALID_AUDIO_FORMAT", Message: text,
			Issues: []routes.Issue{{Code: "custom", Path: t.member(), Message: text}}}
	case err != nil:
		return t.unheard(err.Error())
	case sound.Codec == "":
		return t.unheard("the file has no sound")
	case sound.Length <= 0:
		return t.unheard("the sound has no length")
	}
	if most := time.Duration(t.spec.MaxSeconds) * time.Second; sound.Length > most+priming {
		return t.unheard(fmt.Sprintf("the sound is %s long; model %s takes at most %d seconds", roughly(sound.Length),
			t.call.Model.ID, t.spec.MaxSeconds))
	}
	kind := containerTypes[sound.Format]
	t.sound = sound
	h := &t.hearing
	h.File, h.Name, h.Type, h.Length = t.form.file, "audio."+kind[0], kind[1], sound.Length
	return nil
}

// containerTypes are file names, by which some servers know formats, and their types.
var containerTypes = map[string][2]string{
	"wav": {"wav", "audio/wav"}, "flac": {"flac", "audio/flac"}, "mp3": {"mp3", "audio/mpeg"},
	"aac": {"aac", "audio/aac"}, "mp4": {"mp4", "audio/mp4"}, "ogg": {"ogg", "audio/ogg"},
	"webm": {"webm", "audio/webm"},
}

// roughly is a length for people.
func roughly(d time.Duration) string {
	if d > 1000*time.Hour {
		return "more than 1000 hours"
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + " seconds"
}

// member is the one of the request that has the sound, or leads to it.
func (t *transcription) member() string {
	if t.link != "" {
		return "url"
	}
	return "file"
}

// unheard is the answer to sound that cannot be processed (addendum 3.5), or that a link
// does not lead to. It costs nothing.
func (t *transcription) unheard(text string) *routes.Error {
	name := t.member()
	e := &routes.Error{Status: 422, Code: "ASR_UPSTREAM_VALIDATION_FAILED"}
	if t.link != "" {
		e.Status, e.Code = 400, "INVALID_REQUEST"
	}
	text = name + ": " + strings.TrimSuffix(text, ".") + "."
	e.Message = "The audio cannot be transcribed: " + text
	e.Issues = []routes.Issue{{Code: "custom", Path: name, Message: text}}
	return e
}

// whole is the charged number of seconds of a length: those that have begun.
func whole(d time.Duration) int64 {
	return max(1, int64((max(d-priming, 0)+time.Second-1)/time.Second))
}

// most is the most that the sound is held and charged as: the longest that anybody can
// make of it, and no more than the model takes.
func (t *transcription) most() int64 {
	return min(whole(min(t.sound.Bound(), 1<<62)), t.spec.MaxSeconds)
}

// believe decides how long the sound is. A measure counts where the file allows it: not above the
// length or bound in the file, which the client has written, and not far below the length of its
// frames, silence and all. Any other gains its reporter an advantage, or ignores the sound, and
// the frames count.
func (t *transcription) believe(measured time.Duration) time.Duration {
	frames := t.sound.Length
	least := frames - frames/mistrust - leastMistrust
	if measured <= 0 || measured < least || measured > t.sound.Bound()+priming {
		return frames
	}
	return measured
}

// lines are the charged lines for seconds.
func (t *transcription) lines(seconds int64) (l money.Lines) {
	price := money.Pico(0)
	if p := t.spec.Price; !p.Free {
		price = money.Pico(p.PerAudioSecond)
	}
	l.Add(money.AudioSeconds, seconds, price)
	return l
}

// cover has the hold pay for the most, once the length is known.
func (t *transcription) cover() *routes.Error {
	sold := t.lines(t.most())
	return t.call.Cover(sold.Cost())
}

// transcribe has the sound written down.
func (t *transcription) transcribe() (e *routes.Error) {
	if t.link != "" {
		e = t.fetch()
	} else {
		e = t.measure()
	}
	if e != nil {
		return e
	}
	if e := t.cover(); e != nil {
		return e
	}
	c := t.call
	l := audio.Transcribing{
		Whole:   audio.Whole{Proxy: c.Proxy(), ID: c.ID[:], Limit: listenLimit},
		Hearing: &t.hearing,
		Stay:    func() bool { return c.Keeps() && c.MayFinish() },
	}
	l.Do(c.Ctx, providers.SoundTargets(c.Model, nil), c.Key.Account.Number())
	c.Attempts, c.Tried = l.Attempts, l.Tried
	if l.By != nil {
		c.Upstream, c.Router = l.By.Upstream, l.By.Router
	}
	if l.Transcript == nil {
		return t.failed(&l)
	}
	t.heard = l.Transcript
	t.length = t.believe(t.heard.Measured)
	if t.heard.Measured != 0 && t.heard.Measured != t.length {
		c.Logger().Warn().Str("upstream", c.Upstream).Str("model", c.Model.ID).Bytes("request_id", c.ID[:]).
			Float64("said_seconds", t.heard.Measured.Seconds()).Float64("counted_seconds", t.length.Seconds()).
			Msg("an upstream says a length that the sound cannot have; the sound's own is charged")
	}
	t.bill(0)
	t.sale.Answer.Body, t.sale.Answer.Type = t.compose()
	return nil
}

func (t *transcription) bill(flags journal.Flags) {
	t.seconds = min(whole(t.length), t.most())
	t.call.Sold = routes.FlatBill(t.lines(t.seconds), flags)
}

// failed is the answer where there is no transcript. A client that left when an upstream had the
// sound pays for its length.
func (t *transcription) failed(l *audio.Transcribing) *routes.Error {
	c := t.call
	if l.Err != nil {
		c.Logger().Warn().Err(l.Err).Str("upstream", c.Upstream).Bytes("request_id", c.ID[:]).
			Msg("nothing was transcribed")
	}
	if l.Cause != proxy.None {
		c.Cause = l.Cause.String()
		if c.Left() && l.Begun {
			c.CutKept()
			t.length = t.believe(0)
			t.bill(journal.FlagAborted)
			c.Settle()
		}
		e := c.Unreachable(&proxy.Result{Cause: l.Cause})
		if e.Status == 503 && l.Begun {
			return asrFailed()
		}
		return e
	}
	c.Cause = "upstream_status"
	refusal := &l.Failure
	e := &routes.Error{Status: refusal.Status, Code: refusal.Code, Message: refusal.Message, RetryAfter: max(refusal.RetryAfter,
		refusal.Verdict.Rest)}
	switch {
	case e.Status == 400:
		e.Status, e.Code, e.RequestID = 422, "ASR_UPSTREAM_VALIDATION_FAILED", true
	case e.Code == "INFERENCE_FAILED":
		return asrFailed()
	}
	return e
}

func asrFailed() *routes.Error {
	return &routes.Error{Status: 502, Code: "ASR_UPSTREAM_FAILED",
		Message: "The model failed to transcribe the audio; nothing was charged. Please retry."}
}

// count counts the seconds.
func (t *transcription) count(time.Duration) {
	if t.call.Settled {
		t.owner.gateway.Metrics().GetOrCreateCounter(fmt.Sprintf("farebox_transcribed_seconds_total{gen_ai_request_model=%q}",
			t.call.Model.ID)).AddInt64(t.seconds)
	}
}

// log adds the charged seconds.
func (t *transcription) log(e *zerolog.Event) *zerolog.Event {
	return e.Int64("audio_seconds", t.seconds)
}
