package dialect

import (
	"sync"

	"farebox/proxy/jsontext"
)

// FormState is the part of a FormWriter that others read and write.
type FormState struct {
	// Out are the client's events that have been written since they were last taken.
	Out []byte
	// Ended says that nothing more is written.
	Ended bool

	// Usage, Cost and Parameters are the last ones of the answer. The latter two are JSON;
	// empty if absent.
	Usage            Usage
	Cost, Parameters []byte
}

// State is FormWriter's.
func (s *FormState) State() *FormState { return s }

// Reset readies s for another answer, with at most so much room for events.
func (s *FormState) Reset(most int) {
	out := s.Out
	if cap(out) > most {
		out = nil
	}
	*s = FormState{Out: out[:0], Cost: s.Cost[:0], Parameters: s.Parameters[:0]}
}

// FormWriter writes the events of an answer in a client's form. One goroutine owns it.
type FormWriter interface {
	ChunkWriter
	State() *FormState
	// Release gives the FormWriter back; it must not be used afterwards.
	Release()
}

// Additions are the service's own members of an answer in a client's form.
type Additions struct {
	// Parameters are the <brand>_parameters, an object; nil: none are added.
	Parameters []byte
	// Documents is a call that gives the client the search results; nil: none.
	Documents *ToolCall
	// Cite takes marks of sources out of the next piece of a text, and gives annotations with
	// commas between them for these; nil: the text stays as it is. ends says that it
	// is the last piece.
	Cite func(text []byte, ends bool) (rest, sources []byte)
}

var formStreams = sync.Pool{New: func() any { return new(FormStream) }}

// FormStream gives a FormWriter an answer: the chunks of a chat completion, or the events of a
// dialect that translates, whose Answer writes them itself. One goroutine owns it.
type FormStream struct {
	FormWriter
	*FormState

	adds   Additions
	chunks ChunkReader
	// direct says that an Answer writes the events.
	direct bool
	events formEvents
	detail Detail
	words  []byte // of an event
}

var _ ChunkWriter = (*FormStream)(nil)

// OpenForm begins an answer in the client's form, which c has.
func OpenForm(c *Chat) *FormStream {
	f := formStreams.Get().(*FormStream)
	f.FormWriter, f.adds = c.Form.Writer(c), c.Adds
	f.FormState, f.events.to = f.FormWriter.State(), f
	f.chunks.Brand, f.chunks.to = c.Brand, f.FormState
	return f
}

// Pass is given the next bytes of the stream, and returns whole events for the client. Chunks
// may be cut anywhere; events that are the client's already are returned as they are. They are
// valid until the next call.
func (f *FormStream) Pass(events []byte) []byte {
	if f.direct {
		return events
	}
	f.Out = f.Out[:0]
	f.chunks.Pass(f, events)
	return f.Out
}

// Finish returns the client's last events, where Pass has not given them yet: the
// stream came to its end.
func (f *FormStream) Finish() []byte {
	f.Out = f.Out[:0]
	f.chunks.Finish(f)
	return f.Out
}

// Fail ends the events with an error in the place of Finish. A rest that is not yet a
// whole chunk is dropped.
func (f *FormStream) Fail(fault *Fault) []byte {
	if f.Out = f.Out[:0]; !f.Ended {
		f.Fault(fault)
	}
	return f.Out
}

// Release gives f back; it must not be used afterwards.
func (f *FormStream) Release() {
	f.FormWriter.Release()
	f.chunks.Reset()
	*f = FormStream{chunks: f.chunks, words: kept(f.words)}
	formStreams.Put(f)
}

// Begin is ChunkWriter's.
func (f *FormStream) Begin(id, model, parameters []byte) {
	if parameters == nil && f.adds.Parameters != nil {
		parameters = f.adds.Parameters
		f.Parameters = append(f.Parameters[:0], parameters...)
	}
	f.FormWriter.Begin(id, model, parameters)
	if call := f.adds.Documents; call != nil && !f.Ended {
		f.FormWriter.Call(0, false, call.ID, call.Name, call.Input)
	}
}

// Call is ChunkWriter's. The documents are the first call.
func (f *FormStream) Call(index int64, custom bool, id, name, input []byte) {
	if f.adds.Documents != nil && index >= 0 {
		index++
	}
	f.FormWriter.Call(index, custom, id, name, input)
}

// Text is ChunkWriter's.
func (f *FormStream) Text(text, logprobs []byte) {
	if f.adds.Cite == nil {
		f.FormWriter.Text(text, logprobs)
		return
	}
	f.cited(text, logprobs, false)
}

// Stop is ChunkWriter's. It writes the text that was held back before.
func (f *FormStream) Stop(reason, sequence []byte) {
	if f.adds.Cite != nil {
		f.cited(nil, nil, true)
	}
	if !f.Ended {
		f.FormWriter.Stop(reason, sequence)
	}
}

func (f *FormStream) cited(text, logprobs []byte, ends bool) {
	text, sources := f.adds.Cite(text, ends)
	if len(text) > 0 || len(logprobs) > 0 {
		f.FormWriter.Text(text, logprobs)
	}
	f.sources(sources)
}

// sources writes annotations, which have commas between them.
func (f *FormStream) sources(list []byte) {
	if len(list) == 0 {
		return
	}
	f.words = append(append(append(f.words[:0], '['), list...), ']')
	for entry := range jsontext.Objects(f.words) {
		if f.Ended {
			return
		}
		f.Source(entry)
	}
}

// formEvents writes the events of an Answer in the client's form. Such an answer has one
// choice.
type formEvents struct{ to *FormStream }

func (e *formEvents) output() *[]byte { return &e.to.Out }

func (e *formEvents) begin(id []byte, _ string) {
	if !e.to.Ended {
		e.to.Begin(id, nil, nil)
	}
}

func (*formEvents) role(int64) {}

func (e *formEvents) text(choice int64, text, logprobs []byte, think *Think) {
	if choice != 0 || e.to.Ended {
		return
	}
	if think != nil {
		e.to.words = think.Filter(e.to.words[:0], text)
		text = e.to.words
	}
	if list := logprobsOf(logprobs); len(text) > 0 || len(list) > 0 {
		e.to.Text(text, list)
	}
}

func (e *formEvents) event(of *Event) {
	f := e.to
	if of.Choice != 0 || f.Ended {
		return
	}
	switch of.Kind {
	case Thought:
		if len(of.Text) > 0 {
			f.Thought(of.Text)
		}
	case Signature:
		if len(of.Text) > 0 {
			f.words = append(appendDetail(f.words[:0], of), of.Format...)
			format := len(f.words) - len(of.Format)
			f.detail = Detail{Entry: f.words[:format], Format: f.words[format:], Data: of.Text}
			if of.Type == detailOfText {
				f.detail.Signature, f.detail.Data = of.Text, nil
			}
			f.Detail(&f.detail)
		}
	case Call:
		f.Call(of.Index, false, of.ID, of.Name, of.Text)
	case Arguments:
		f.Call(of.Index, false, nil, nil, of.Text)
	case NoArguments:
		f.Call(of.Index, false, nil, nil, noArguments)
	case Sources:
		f.sources(of.Raw)
	case Image: // forms have no place for it
	}
}

func (e *formEvents) finish(choice int64, reason string, think *Think) {
	if choice != 0 || e.to.Ended {
		return
	}
	if think.Held() {
		e.to.words = think.End(e.to.words[:0])
		e.to.Text(e.to.words, nil)
	}
	if !e.to.Ended {
		e.to.Stop([]byte(reason), nil)
	}
}

func (e *formEvents) end(a *Answer) {
	if e.to.Ended {
		return
	}
	e.to.Usage = a.Settled(a.Reported)
	e.to.Usage.Seen = true
	e.to.Cost = a.Chat.AppendCost(e.to.Cost[:0], &e.to.Usage)
	e.to.End()
}

func (*formEvents) done() {}

func (e *formEvents) fail(data []byte) {
	if !e.to.Ended {
		fault := FaultOf(data)
		e.to.Fault(&fault)
	}
}
