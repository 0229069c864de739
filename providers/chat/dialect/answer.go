package dialect

import "bytes"

// MaxChoices is the most choices of one answer that is translated.
const MaxChoices = 8

// keepOut is how much room for translated events a reused Answer keeps.
const keepOut = 8 << 10

// Answer is a Stream of an upstream whose events a Reader turns into those of chat
// completions. It meters what it is given before anything is left out.
type Answer struct {
	Meter
	Events Events
	Reader Reader
	// Silent says that nothing is written: the answer is metered only.
	Silent bool
	// Endless says that no event of the dialect tells the end.
	Endless bool
	// Reported says that the last usage is that of the whole answer.
	Reported bool
	// AtEnd says that what is read is what was left at the end, perhaps in pieces.
	AtEnd bool
	// Begun is how many choices have had their first chunk.
	Begun int

	to      chunks
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

// Pass is Stream's.
func (a *Answer) Pass(p []byte) []byte {
	a.to.out = a.to.out[:0]
	if a.Events.Large() {
		n := a.Events.LetOn(p)
		if p = p[n:]; a.Events.Large() {
			return a.to.out
		}
	}
	a.Events.Feed(p)
	for a.Events.Next() {
		a.Reader.Read()
	}
	if a.Events.TooLarge() {
		// No event of the dialect is as large; what it said is lost, which the client
		// must not take for a whole answer.
		a.Events.Let()
		a.Fail(nil)
	}
	a.Events.Keep()
	return a.to.out
}

// Over says that nothing more is read.
func (a *Answer) Over() bool { return a.done || a.failed }

// Begin begins the answer, with the completion's id without its prefix.
func (a *Answer) Begin(id []byte) {
	if a.Begun > 0 {
		return
	}
	if !a.Silent {
		a.to.begin(id, a.Chat.Model.ID)
	}
	a.BeginChoice(0)
}

// BeginChoice sends the first chunk of a choice, and of those before it.
func (a *Answer) BeginChoice(index int64) {
	for int64(a.Begun) <= index {
		if a.Begun++; !a.Silent {
			a.to.role(int64(a.Begun - 1))
		}
	}
}

// Say adds text to a choice.
func (a *Answer) Say(choice int64, text, logprobs []byte) {
	if len(text) > 0 {
		a.Text.Add(TextKey(choice, KindContent, 0), text)
	}
	if a.Begin(nil); a.Silent {
		return
	}
	a.to.openText(choice)
	if a.Chat.DropThinking {
		a.to.out = a.choices[choice].think.Filter(a.to.out, text)
	} else {
		a.to.out = append(a.to.out, text...)
	}
	a.to.shutText(logprobs)
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
	if a.Begin(nil); !a.Silent {
		a.to.write(e)
	}
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
		if end.sent = true; a.Silent {
			continue
		}
		if end.think.Held() {
			a.to.openText(int64(i))
			a.to.out = end.think.End(a.to.out)
			a.to.shutText(nil)
		}
		a.to.finish(int64(i), end.reason)
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
	if a.SendEnds(); a.Silent {
		return
	}
	if !a.Chat.HidesUsage() {
		u := a.Settled(a.Reported)
		a.to.usage(&u, a.Chat)
	}
	a.to.out = append(a.to.out, DoneEvent...)
}

// Fail ends the answer with the error that data says; nil: one of ours.
func (a *Answer) Fail(data []byte) {
	if a.Over() {
		return
	}
	if a.failed, a.reason = true, bytes.Clone(data); !a.Silent {
		fault := FaultOf(data)
		a.to.out = fault.AppendEvent(a.to.out)
	}
}

// Finish is Stream's. It sends the end that an upstream left out.
func (a *Answer) Finish(complete bool) []byte {
	a.to.out = a.to.out[:0]
	a.Reader.Count()
	a.AtEnd = true
	if complete && a.Events.AtEnd() {
		a.Reader.Read()
	}
	switch {
	case !complete || a.done:
	case a.failed:
		if a.done = true; !a.Silent {
			a.to.out = append(a.to.out, DoneEvent...)
		}
	case a.Finished():
		a.End()
	}
	a.complete = a.done && !a.failed
	return a.to.out
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
	a.to.out = nil
	a.End()
	tail, a.to.out = a.to.out, out
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
	a.to.reset()
	*a = Answer{Events: a.Events, to: a.to}
}
