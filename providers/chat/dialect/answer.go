package dialect

import (
	"bytes"
	"math/rand/v2"
	"strconv"
)

// MaxChoices is the most choices of one answer that is translated.
const MaxChoices = 8

// keepOut is how much room for translated events a reused Answer keeps.
const keepOut = 8 << 10

// Answer connects a Reader of an upstream's dialect with a writer. It
// meters its input before anything is left out. As a Stream it gives the events of
// the client's form.
type Answer struct {
	Meter
	Events Events
	Reader Reader
	// Endless says that no event of the dialect tells the end.
	Endless bool
	// Reported says that the last usage is that of the whole answer.
	Reported bool
	// AtEnd says that the event read is the rest at the end, perhaps in pieces.
	AtEnd bool
	// Begun is how many choices have had their first chunk.
	Begun int
	// ID is the completion's, without its prefix, once the answer has begun.
	ID []byte

	to      writer
	chunks  chunks
	choices [MaxChoices]ending
	event   Event

	done     bool
	failed   bool
	reason   []byte // JSON in which the upstream said so
	complete bool
}

// ending is how the text of a choice ends.
type ending struct {
	think  Think
	reason string // finish_reason; "": it has not ended
	sent   bool
}

// Open begins a stream, in the client's form.
func (a *Answer) Open(c *Chat, r Reader) {
	if a.Chat, a.Reader, a.to = c, r, &a.chunks; c.Client != nil {
		c.Client.direct, a.to = true, &c.Client.events
	}
}

// OpenSilent begins an answer that is only metered.
func (a *Answer) OpenSilent(c *Chat, r Reader) { a.Chat, a.Reader, a.to = c, r, (*silent)(&a.chunks) }

// OpenWhole begins an answer that comes at once. It is appended to dst, and Whole ends
// it.
func (a *Answer) OpenWhole(c *Chat, r Reader, dst []byte) {
	w := completions.Get().(*completion)
	w.out = dst
	a.Chat, a.Reader, a.to = c, r, w
}

// IsWhole says that the answer comes at once.
func (a *Answer) IsWhole() bool {
	_, ok := a.to.(*completion)
	return ok
}

// Whole is the chat completion, or the content of Chat.Said, and its charged usage.
func (a *Answer) Whole() ([]byte, Usage) {
	a.Reported = true
	a.End()
	return *a.to.output(), a.Settled(true)
}

// Pass is Stream's.
func (a *Answer) Pass(p []byte) []byte {
	out := a.to.output()
	*out = (*out)[:0]
	if a.Events.Large() {
		n := a.Events.LetOn(p)
		if p = p[n:]; a.Events.Large() {
			return *out
		}
	}
	a.Events.Feed(p)
	for a.Events.Next() {
		a.Reader.Read()
	}
	if a.Events.TooLarge() {
		// No event of the dialect is as large; its text is lost, which the client
		// must not take for a whole answer.
		a.Events.Let()
		a.Fail(nil)
	}
	a.Events.Keep()
	return *out
}

// Over says that nothing more is read.
func (a *Answer) Over() bool { return a.done || a.failed }

// maxID is the longest id of an upstream that is taken over: every chunk repeats it.
const maxID = 128

// Begin begins the answer, with the completion's id without its prefix. An answer whose upstream
// gave it none, or one that is too long, gets an id of ours.
func (a *Answer) Begin(id []byte) {
	if a.Begun > 0 {
		return
	}
	if len(id) > 0 && len(id) <= maxID {
		a.ID = append(a.ID[:0], id...)
	} else {
		a.ID = strconv.AppendUint(append(a.ID[:0], 'g'), rand.Uint64(), 36)
	}
	a.to.begin(a.ID, a.Chat.Model.ID)
	a.BeginChoice(0)
}

// BeginChoice sends the first chunk of a choice, and of those before it.
func (a *Answer) BeginChoice(index int64) {
	for int64(a.Begun) <= index {
		a.Begun++
		a.to.role(int64(a.Begun - 1))
	}
}

// Say adds text to a choice.
func (a *Answer) Say(choice int64, text, logprobs []byte) {
	if len(text) > 0 {
		a.Text.Add(TextKey(choice, KindContent, 0), text)
	}
	a.Begin(nil)
	var think *Think
	if a.Chat.DropThinking {
		think = &a.choices[choice].think
	}
	a.to.text(choice, text, logprobs, think)
}

// Event is an empty event to be put.
func (a *Answer) Event(kind Kind, choice int64) *Event {
	a.event = Event{Kind: kind, Choice: choice}
	return &a.event
}

// Put adds an event.
func (a *Answer) Put(e *Event) {
	switch e.Kind {
	case Thought:
		a.Text.Add(TextKey(e.Choice, KindReasoning, 0), e.Text)
	case Call, Arguments:
		if len(e.Name) > 0 {
			a.Text.Add(TextKey(e.Choice, KindToolName, e.Index), e.Name)
		}
		if len(e.Text) > 0 {
			a.Text.Add(TextKey(e.Choice, KindToolInput, e.Index), e.Text)
		}
	case Image:
		AddStrings(&a.Text, TextKey(e.Choice, KindContent, 2), e.Raw)
	}
	a.Begin(nil)
	a.to.event(e)
}

// Ends notes the finish_reason of a choice, which is sent with the end of the answer.
func (a *Answer) Ends(choice int64, reason string) { a.choices[choice].reason = reason }

// Sent says that the finish_reason of a choice was sent.
func (a *Answer) Sent(choice int64) bool { return a.choices[choice].sent }

// Reason is the finish_reason of a choice; "": it has not ended.
func (a *Answer) Reason(choice int64) string { return a.choices[choice].reason }

// SendEnds sends the finish_reasons that were not sent yet.
func (a *Answer) SendEnds() {
	a.Begin(nil)
	for i := range a.choices[:a.Begun] {
		end := &a.choices[i]
		if end.sent {
			continue
		}
		a.Reader.Flush()
		end.sent = true
		a.to.finish(int64(i), end.reason, &end.think)
	}
}

// End sends the ends of choices, the usage and [DONE].
func (a *Answer) End() {
	if a.done {
		return
	}
	a.done = true
	a.Begin(nil)
	for i := range a.choices[:a.Begun] {
		if a.choices[i].reason == "" {
			a.choices[i].reason = "stop"
		}
	}
	a.SendEnds()
	a.to.end(a)
}

// Fail ends the answer with the error that data says; nil: one of ours.
func (a *Answer) Fail(data []byte) {
	if a.Over() {
		return
	}
	a.failed, a.reason = true, bytes.Clone(data)
	a.to.fail(data)
}

// Finish is Stream's. It sends the end that an upstream left out.
func (a *Answer) Finish(complete bool) []byte {
	out := a.to.output()
	*out = (*out)[:0]
	a.Reader.Count()
	a.AtEnd = true
	if complete && a.Events.AtEnd() {
		a.Reader.Read()
	}
	switch {
	case !complete || a.done:
	case a.failed:
		a.done = true
		a.to.done()
	case a.Finished():
		a.End()
	}
	a.complete = a.done && !a.failed
	return *out
}

// Usage is Stream's.
func (a *Answer) Usage() Usage {
	a.Reader.Count()
	return a.Settled(a.complete && a.Reported)
}

// Cut is Stream's.
func (a *Answer) Cut(out []byte) (short, tail []byte) {
	if a.Over() || a.Begun == 0 {
		return out, nil
	}
	for i := range a.choices[:a.Begun] {
		a.choices[i].reason = "length"
	}
	room := a.to.output()
	*room = nil
	a.End()
	tail, *room = *room, out
	return out, tail
}

// AtBoundary is always true: only whole events are written.
func (a *Answer) AtBoundary() bool { return true }

// Done is Stream's. Without an event that tells the end, [DONE] goes out with Finish.
func (a *Answer) Done() bool { return a.done || a.Endless && !a.failed && a.Finished() }

// Finished says that every choice that has begun has ended.
func (a *Answer) Finished() bool {
	for i := range a.choices[:a.Begun] {
		if a.choices[i].reason == "" {
			return false
		}
	}
	return a.Begun > 0
}

// Failed is Stream's.
func (a *Answer) Failed() bool { return a.failed }

// FailedWith is Stream's.
func (a *Answer) FailedWith() []byte { return a.reason }

// Reset readies a for the next answer.
func (a *Answer) Reset() {
	a.Events.Reset()
	a.Text.Release()
	a.chunks.reset()
	if w, ok := a.to.(*completion); ok {
		w.reset()
		completions.Put(w)
	}
	*a = Answer{Events: a.Events, chunks: a.chunks, ID: a.ID[:0]}
}
