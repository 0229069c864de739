package chat

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/routes"
)

// askShape is the Shape of the bodies that Ask sends. It has the members that all chat bodies
// have, whose ids are the same under every config.
var askShape = dialect.ChatShape("", nil, nil)

// Ask is routes.TextModels.
func (ca *Capability) Ask(call *routes.Call, a *routes.InternalCompletion) error {
	c := ca.begin(call.BeginAside(a.Model))
	defer func() {
		a.Upstream, a.Sent = c.call.Upstream, c.res.Sent
		c.x.Close()
		aside := c.call
		c.Recycle()
		aside.EndAside()
	}()
	c.room = a.MostBytes
	c.scratch = ca.scratches.Get().(*dialect.Scratch)
	q := &c.chat
	*q = dialect.Chat{
		Body: a.Body, Doc: &c.call.Doc, Model: a.Model, Choices: 1, AskedCompletion: a.MostTokens,
		MaxCompletion: a.MostTokens,
	}
	if err := c.chat.Doc.Skim(q.Body, askShape); err != nil {
		return errors.New("the request for it cannot be read") // its words may hold a prompt
	}
	q.Prepare(true, a.NoThinking)
	if a.NoThinking && q.ReasoningEffort == nil {
		q.ReasoningEffort = leastEffort(a.Model.Chat.Capabilities.ReasoningEffort)
	}
	c.x.DrainOnGone(0, func() (time.Duration, bool) { return 0, a.Stay() })
	c.runAttempts(call.Ctx, a.Within)
	switch {
	case c.res.Cause == proxy.NoTarget && c.unsupported != nil:
		return c.unsupported
	case c.res.Cause != proxy.None:
		a.Cause = c.res.Cause
		return errors.New("no answer: " + c.res.Cause.String())
	case c.reply.refused:
		return errors.New("the answer has status " + strconv.Itoa(c.res.Status))
	case c.reply.cause.Final():
		a.Cause = c.reply.cause
		return errors.New("no answer: " + c.reply.cause.String())
	case c.reply.cause != proxy.None:
		return errors.New("the answer cannot be read: " + c.reply.cause.String())
	case c.reply.begun:
		return errors.New("the answer is too large")
	}
	a.Answer = slices.Clone(c.reply.out)
	return nil
}

// leastEffort is the lowest reasoning effort of a model that has no way to turn
// reasoning off; nil if it has no choice.
func leastEffort(options []string) []byte {
	for _, effort := range []string{"minimal", "low"} {
		if slices.Contains(options, effort) {
			return []byte(effort)
		}
	}
	return nil
}
