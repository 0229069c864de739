package chat

import (
	"time"

	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/providers/health"
)

// paceTokens makes whole answers, and prompts, of other lengths comparable: so many
// tokens of an answer take about as long as the way to its first one. A prompt is read
// about paceRead times as fast as an answer is written.
const (
	paceTokens = 100
	paceRead   = 64
)

// time counts how long an attempt took that was judged, for the choice of targets and
// for metrics. A stream that has begun is counted at its first event and at its end.
func (c *inference) time(t *dialect.Target, v attempt.Verdict) {
	if v.Health == attempt.Begun {
		if c.chat.Stream && !c.eventless {
			c.timeFirst(t, v.AtNs)
		}
		return
	}
	switch {
	case !c.targets.Fast:
	case v.Health == attempt.Bad:
		t.Pace(c.chat.Stream).Note(v.AtNs, 0, true)
	case v.Health == attempt.Good:
		t.Pace(c.chat.Stream).Note(v.AtNs, c.comparable(v.AtNs, c.reply.usage.Completion), false)
	}
	outcome := health.OutcomeOf(c.res.Status)
	switch {
	case c.x.Why().Final():
		outcome = health.Left
	case outcome == health.Success && v.Health != attempt.Good:
		outcome = health.Broken
	}
	first, whole := t.Meter.Of(c.chat.Stream, outcome)
	if c.res.Status > 0 {
		first.Add(time.Duration(c.res.FirstNs - c.res.BeganNs))
	}
	whole.Add(time.Duration(v.AtNs - c.res.BeganNs))
}

// timeFirst counts the first event of a stream.
func (c *inference) timeFirst(t *dialect.Target, nowNs int64) {
	c.eventless = false
	first, _ := t.Meter.Of(true, health.Success)
	first.Add(time.Duration(nowNs - c.res.BeganNs))
	if c.targets.Fast {
		t.Pace(true).Note(nowNs, c.comparable(nowNs, 0), false)
	}
}

// timeEnd counts the whole of an answer that was relayed.
func (c *inference) timeEnd(v attempt.Verdict, nowNs int64) {
	outcome := health.Left
	switch v.Health {
	case attempt.Good:
		outcome = health.Success
	case attempt.Bad:
		outcome = health.Broken
		if c.targets.Fast {
			c.target.Pace(c.chat.Stream).Note(nowNs, 0, true)
		}
	}
	_, whole := c.target.Meter.Of(c.chat.Stream, outcome)
	whole.Add(time.Duration(nowNs - c.res.BeganNs))
}

// comparable is how long the attempt took, for the length of its prompt and answer.
func (c *inference) comparable(nowNs, completion int64) int64 {
	return (nowNs - c.res.BeganNs) / (paceTokens + c.likely/paceRead + completion) * paceTokens
}
