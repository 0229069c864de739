package audio

import (
	"time"

	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// Sample is a voice to clone.
type Sample struct {
	Model string // its id here
	// Label is the voice's name in the upstream's list: nothing of the customer.
	Label string
	// File is a slice of the client's body; Name and Type describe it.
	File       []byte
	Name, Type string
}

// Cloner makes one kind of upstream clone the voice of a sample. Implementations hold no
// state.
type Cloner interface {
	// Clone makes the request of s for t.
	Clone(r *proxy.Request, s *Sample, t *Target)
	// Cloned reads an answer of 2xx: the upstream's name of the voice; empty if absent.
	Cloned(body []byte) string
	// Forget makes the request that deletes a voice; false: the upstream does that itself.
	Forget(r *proxy.Request, voice string) bool
	// Error reads an answer that is a refusal.
	Error(status int, retryAfter time.Duration, body []byte) dialect.Failure
}

const (
	maxCloned  = 64 << 10
	maxVoiceID = 512
	// forgetLimit bounds the deletion of a voice at an upstream.
	forgetLimit = 30 * time.Second
)

// Cloning asks targets to clone the voice of one sample until one has done it. It goes on
// when the client leaves: a voice that is made is paid.
type Cloning struct {
	Whole
	Sample *Sample

	Voice string // of By; empty: it failed
}

// Do asks the targets for an account.
func (c *Cloning) Do(targets []*Target, account uint64) { c.run(c, targets, account) }

// Fits is attempt.Work.
func (c *Cloning) Fits(t *Target, _ int64) bool { return t.Cloner != nil }

// Try is attempt.Work.
func (c *Cloning) Try(t *Target) attempt.Verdict {
	q := question{
		request: proxy.Request{ID: c.ID}, limit: time.Until(c.ends), most: maxCloned,
		broken: "INFERENCE_FAILED", refused: t.Cloner.Error,
		read: func(body []byte) bool {
			voice := t.Cloner.Cloned(body)
			if voice == "" || len(voice) > maxVoiceID {
				return false
			}
			c.Voice = voice
			return true
		},
	}
	t.Cloner.Clone(&q.request, c.Sample, t)
	return c.try(t, &q)
}

// Forget deletes a voice at a target, and says whether it is gone there.
func Forget(p *proxy.Proxy, t *Target, voice string) bool {
	q := question{
		limit: forgetLimit, most: maxCloned, refused: func(int, time.Duration, []byte) (f dialect.Failure) { return f },
		read: func([]byte) bool { return true },
	}
	if t.Cloner == nil || !t.Cloner.Forget(&q.request, voice) {
		return true
	}
	w := Whole{Proxy: p}
	status, _ := w.exchange(t, &q)
	return status >= 200 && status < 300 || status == 404
}
