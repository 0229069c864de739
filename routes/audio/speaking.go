package audio

import (
	"slices"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/config"
	"farebox/providers"
	"farebox/providers/attempt"
	"farebox/providers/audio"
	"farebox/providers/health"
	"farebox/proxy"
	"farebox/routes"
)

// speech is the part of a request for speech. It is pooled.
type speech struct {
	owner      *Capability
	call       *routes.Call
	view       *view
	v          routes.Validator
	spec       *config.Speech
	speech     audio.Speech
	talk       audio.SpeechStream
	text       []byte // of speech, without escapes
	characters int64
	clonedAt   string // the upstream that has the account's own voice; empty if it is not one
	unnoted    string // id of that voice, whose use is to be written down
	onGone     func() (time.Duration, bool)
}

const (
	// speechPatience is how long a request with a key can take before another node takes
	// the one that leads it for dead.
	speechPatience = 10 * time.Minute
	// leastSound and soundCharacter bound the bytes of an answer: a minute of samples, and
	// for each character 0.3 s of the largest samples at a quarter of the speed, twice.
	leastSound     = 4 << 20
	soundCharacter = 64 << 10
)

func newSpeech(ca *Capability) *speech {
	s := &speech{owner: ca}
	s.onGone = s.mayFinish
	return s
}

// mayFinish has the sound made to its end for a retry of a client that left. The watcher
// asks it, from its own goroutine.
func (s *speech) mayFinish() (time.Duration, bool) { return 0, s.call.Keeps() && s.call.MayFinish() }

// Close ends the request's talk with its upstream.
func (s *speech) Close() { s.talk.End() }

// Recycle clears it for another request.
func (s *speech) Recycle() {
	s.talk.Reset()
	clear(s.text[:cap(s.text)]) // no text stays in memory that others use
	s.v = routes.Validator{Issues: s.v.Issues[:0]}
	s.call, s.view, s.spec, s.speech, s.text = nil, nil, nil, audio.Speech{}, s.text[:0]
	s.characters, s.clonedAt, s.unnoted = 0, "", ""
	s.owner.speeches.Put(s)
}

// Observe counts the spoken characters.
func (s *speech) Observe(time.Duration) {
	if !s.call.Settled || s.call.Model.Index >= len(s.view.speech) {
		return
	}
	m := s.view.speech[s.call.Model.Index]
	m.characters.AddInt64(s.characters)
	if s.call.FirstByte > 0 {
		m.firstSound.Update(s.call.FirstByte.Seconds())
	}
}

// Log adds the spoken and charged characters: no text.
func (s *speech) Log(e *zerolog.Event) *zerolog.Event {
	if !s.call.Settled {
		return e
	}
	e = e.Int64("characters", s.characters).Str("format", s.speech.Format).Str("charged_usd", s.call.Charged.String())
	if s.call.FirstByte > 0 {
		e = e.Dur("first_byte_ms", s.call.FirstByte)
	}
	return e
}

// lines are the charged lines.
func (s *speech) lines() money.Lines { return s.linesOf(s.characters) }

func (s *speech) linesOf(characters int64) (l money.Lines) {
	l.Add(money.Characters, characters, s.spec.Price.Input)
	return l
}

// CarryOut asks the upstreams until one begins to speak.
func (s *speech) CarryOut() (relayed bool, e *routes.Error) {
	if e := s.noteClone(); e != nil {
		return false, e
	}
	k := &s.talk
	k.Begin(audio.ClientContext{Proxy: s.call.Proxy(), Ctx: s.call.Ctx, ID: s.call.ID[:], Account: s.call.Key.Account.Number(),
		Began: s.call.StartNs}, &s.speech, s.onGone)
	k.Ask(s.targets())
	s.call.Attempts = k.Attempts
	s.call.Tried = append(s.call.Tried, k.Tried...)
	if k.Target != nil {
		s.call.Upstream = k.Target.Upstream
	}
	if !k.Sounds() {
		return false, s.failed()
	}
	s.call.Router = k.Target.Router
	return true, nil
}

// targets are those that may be asked: of a voice of the account's own only where it is.
func (s *speech) targets() []*audio.Target {
	list := providers.SoundTargets(s.call.Model, s.talk.Targets())
	if s.clonedAt == "" {
		return list
	}
	return slices.DeleteFunc(list, func(t *audio.Target) bool { return t.Upstream != s.clonedAt })
}

// bill says that the whole text was sold. The upstream takes its price for all of it once
// it has begun, so a client that does not listen to the end pays no less.
func (s *speech) bill(flags journal.Flags) {
	lines := s.lines()
	s.call.Sold = routes.Bill{Lines: lines, Cost: lines.Cost(), Flags: flags, Status: s.call.Status}
}

// KeepAnswer is never called: a relayed answer is recorded on its way.
func (s *speech) KeepAnswer() {}

// speechTypes are the types of answers (addendum 9.1), whatever the upstream says.
var speechTypes = map[string]string{"mp3": "audio/mpeg", "opus": "audio/opus", "aac": "audio/aac",
	"flac": "audio/flac", "wav": "audio/wav", "pcm": "audio/pcm"}

// Respond relays the sound as it comes.
func (s *speech) Respond() {
	h := &s.call.Ctx.Response.Header
	h.SetContentType(speechTypes[s.speech.Format])
	if s.speech.Events {
		h.SetContentType("text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
	}
	s.call.KeepRelayed()
	if !s.call.Keeps() { // else it is carried out again
		lines := s.lines()
		s.call.Progress(&lines)
	}
	s.talk.Relay(s.call.Ctx, leastSound+s.characters*soundCharacter, s, s.call.OnDone)
	s.call.Relays()
}

// Pass is audio.Listening.
func (s *speech) Pass(p []byte) { s.call.Record(p) }

// End is audio.Listening: the spoken text is charged before the client's last byte. An upstream
// that breaks off is not a customer's loss: it costs nothing. Only whole pieces that the client
// heard are paid, since a text may end in words that are refused.
func (s *speech) End(cause proxy.Cause, whole bool) {
	gone := cause == proxy.ClientGone || cause == proxy.ClientStalled
	s.call.RecordEnd(nil, whole)
	switch {
	case gone:
		s.call.Cause, s.call.Status = cause.String(), 499
		s.bill(journal.FlagAborted)
	case whole:
		s.bill(0)
	default:
		s.call.Cause = cause.String()
		s.call.Sold = routes.Bill{}
		if spoken := min(s.talk.Spoken(), s.characters); spoken > 0 {
			lines := s.linesOf(spoken)
			s.call.Sold = routes.Bill{Lines: lines, Cost: lines.Cost(), Flags: journal.FlagIncomplete, Status: s.call.Status}
		}
	}
	s.call.Settle()
}

// failed is the answer when nobody speaks.
func (s *speech) failed() *routes.Error {
	k := &s.talk
	switch {
	case k.Result.Cause == proxy.NoTarget && k.Unsupported != nil:
		return routes.Unsupported(k.Unsupported.Path, k.Unsupported.Text)
	case k.Result.Cause != proxy.None:
		return s.disconnected(k.Result.Cause)
	case k.Refused:
		return s.rejected()
	}
	if gone := k.Why(); gone.Final() {
		return s.disconnected(gone)
	}
	if k.Cause != proxy.UpstreamMalformed && k.Cause != proxy.UpstreamTruncated && k.Cause != proxy.UpstreamReset {
		return s.disconnected(k.Cause)
	}
	s.call.Cause = k.Cause.String()
	return &routes.Error{Status: 502, Code: "INFERENCE_FAILED",
		Message: "The model did not answer with sound; nothing was charged. Please retry."}
}

// disconnected answers for upstreams without an answer, and charges a client that left when one
// may have begun to speak.
func (s *speech) disconnected(cause proxy.Cause) *routes.Error {
	s.call.Cause = cause.String()
	if s.call.Left() && s.talk.Sent && s.call.Hold().Open() {
		s.call.Status = 499
		s.call.CutKept()
		s.bill(journal.FlagAborted)
		s.call.Settle()
	}
	return s.call.Unreachable(&proxy.Result{Cause: cause, RetryAfter: s.talk.Result.RetryAfter})
}

// rejected tells an upstream's refusal (addendum 3.4, 3.5).
func (s *speech) rejected() *routes.Error {
	f := &s.talk.Failure
	s.call.Cause = "upstream_status"
	e := &routes.Error{Status: f.Status, Code: f.Code, Message: f.Message, Param: f.Param, RetryAfter: f.RetryAfter}
	if f.Verdict.Do == attempt.Retry {
		e.RetryAfter = max(e.RetryAfter, min(f.Verdict.Rest, health.MaxCoolDown))
	}
	e.RequestID = e.Status == 400 && e.Param == ""
	return e
}

var _ audio.Listening = (*speech)(nil)
