package audio

import (
	"time"

	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// Sample is a voice that is to be cloned.
type Sample struct {
	Model string // its id here
	// Label is what the upstream lists it as: nothing of the customer.
	Label string
	// File is a slice of the client's body; Name and Type say what it is.
	File       []byte
	Name, Type string
}

// Cloner has one kind of upstream take the voice of a sample. Implementations hold no
// state.
type Cloner interface {
	// Clone makes the request of s for t.
	Clone(r *proxy.Request, s *Sample, t *Target)
	// Cloned reads an answer of 2xx: what the upstream calls the voice; empty if absent.
	Cloned(body []byte) string
	// Forget makes the request that deletes a voice; false: the upstream does that itself.
	Forget(r *proxy.Request, voice string) bool
	// Error reads an answer that is a refusal.
	Error(status int, retryAfter time.Duration, body []byte) dialect.Failure
}

const (
	maxCloned  = 64 << 10
	maxVoiceID = 512
	// forgetLimit is how long an upstream may take to delete a voice.
	forgetLimit = 30 * time.Second
)

// Cloning has targets take the voice of one sample until one has it. It goes on when the
// client leaves: what is made is paid. The next target is asked only where the last did
// not take the work.
type Cloning struct {
	Proxy  *proxy.Proxy
	Sample *Sample
	ID     []byte // of the request
	Limit  time.Duration

	// What it came to: a Voice of By, or why it failed.
	Voice    string
	By       *Target
	Failure  dialect.Failure // where Cause is none
	Cause    proxy.Cause
	Begun    bool // a target may have made a voice, though it did not say so
	Attempts int
	Tried    []attempt.Tried

	ends time.Time
}

// Do asks the targets for an account.
func (c *Cloning) Do(targets []*Target, account uint64) {
	c.ends, c.Cause = time.Now().Add(c.Limit), proxy.NoTarget
	var p Picker
	p.Begin(targets, account)
	p.Run(c, p.Fitting(c, time.Now().UnixNano()))
}

// Fits is attempt.Work.
func (c *Cloning) Fits(t *Target, _ int64) bool { return t.Cloner != nil }

// Try is attempt.Work.
func (c *Cloning) Try(t *Target) attempt.Verdict {
	c.By, c.Cause, c.Failure = t, proxy.None, dialect.Failure{}
	c.Attempts++
	r := proxy.Request{ID: c.ID, FirstByte: time.Until(c.ends)}
	t.Cloner.Clone(&r, c.Sample, t)
	status, body, v := c.request(t, &r, maxCloned)
	if c.Cause == proxy.None && status >= 200 && status < 300 {
		if c.Voice = t.Cloner.Cloned(body); c.Voice != "" && len(c.Voice) <= maxVoiceID {
			return attempt.Judge(200, 0)
		}
		c.Begun = true
		c.Voice, c.Failure = "", failed(textBroken)
		c.Failure.Code = "INFERENCE_FAILED"
		v = c.Failure.Verdict
	}
	c.Tried = append(c.Tried, attempt.Tried{Upstream: t.Upstream, Status: status, Cause: c.Cause, Words: c.Failure.Message,
		At: time.Now()})
	return v
}

// request sends a request for nobody who waits, and reads the whole answer.
func (c *Cloning) request(t *Target, r *proxy.Request, most int) (status int, body []byte, v attempt.Verdict) {
	x := exchanges.Get().(*proxy.Exchange)
	defer func() {
		x.Reset()
		exchanges.Put(x)
	}()
	res := c.Proxy.Ask(nil, x, max(time.Millisecond, time.Until(c.ends)), t.Proxy, r)
	if c.Cause = res.Cause; res.Cause != proxy.None {
		if v = attempt.Lost(res.Cause); res.Sent {
			v.Do, c.Begun = attempt.Fail, true
		}
		return 0, nil, v
	}
	body, cause, err := x.Body(nil, most)
	switch {
	case err == proxy.ErrTooLarge:
		x.Close()
		body = nil
	case err != nil:
		c.Cause = cause
		v = attempt.Lost(cause)
		v.Do, c.Begun = attempt.Fail, true
		return res.Status, nil, v
	}
	if res.Status < 200 || res.Status >= 300 {
		c.Failure = t.Cloner.Error(res.Status, res.RetryAfter, body)
		return res.Status, nil, c.Failure.Verdict
	}
	return res.Status, body, v
}

// Forget has a target delete a voice, and says whether it is gone there.
func Forget(p *proxy.Proxy, t *Target, voice string) bool {
	var r proxy.Request
	if t.Cloner == nil || !t.Cloner.Forget(&r, voice) {
		return true
	}
	c := Cloning{Proxy: p, ends: time.Now().Add(forgetLimit)}
	status, _, _ := c.request(t, &r, maxCloned)
	return status >= 200 && status < 300 || status == 404
}
