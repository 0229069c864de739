package anthropic

import (
	"bytes"
	"strconv"
	"sync"

	"github.com/tidwall/gjson"

	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
)

var relays = sync.Pool{New: func() any { return new(relay) }}

// relay gives the events of a message on as they come, and has them metered by a
// stream whose chunks nobody gets. Two kinds of events are written anew: the first,
// where the model has another name, and errors, whose words are not for clients.
type relay struct {
	meter  *stream
	events dialect.Events
	t      *dialect.Target
	out    []byte
	ended  bool // message_stop went out
	told   bool // the failure did
	anew   bool // the last event was written anew, or dropped
}

// Stream starts relaying one streaming answer.
func (Native) Stream(c *dialect.Chat, t *dialect.Target) dialect.Stream {
	r := relays.Get().(*relay)
	r.meter, r.t = Dialect{}.Stream(c, t).(*stream), t
	return r
}

func (r *relay) Pass(p []byte) []byte {
	r.out = r.out[:0]
	if r.events.Large() {
		n := r.events.LetOn(p)
		if p = p[n:]; r.events.Large() {
			return r.out
		}
	}
	src := r.events.Feed(p)
	from, copying := 0, false
	for r.events.Next() {
		if r.relayed() {
			continue
		}
		r.out = append(r.out, src[from:r.events.From]...)
		from, copying = r.events.To, true
		r.rewrite()
	}
	if r.events.TooLarge() {
		// No event of this dialect is as large; what it said is lost, which the client
		// must not take for a whole answer.
		end := r.events.To
		r.out, copying = append(r.out, src[from:end]...), true
		r.events.Let()
		from = end
		if !r.meter.failed && !r.meter.done {
			r.meter.fail(nil)
			r.fault()
		}
	}
	end := r.events.To
	if r.events.Large() {
		end = from
	}
	r.events.Keep()
	if !copying {
		return src[:end]
	}
	r.out = append(r.out, src[from:end]...)
	return r.out
}

// relayed reads an event and says that it goes on as it is.
func (r *relay) relayed() bool {
	data := r.events.Data
	r.meter.Text.Event(r.events.To-r.events.From, data)
	switch {
	case len(data) == 0 && r.events.To-r.events.From == 1:
		return !r.anew // the LF of a CR LF goes where the CR went
	case r.meter.failed || r.ended:
		r.anew = true
		return false // nothing follows an end
	case len(data) == 0:
		r.anew = false
		return true
	}
	if r.anew = false; r.plain(data) {
		return true
	}
	r.meter.read(data)
	r.meter.out = r.meter.out[:0]
	if r.meter.failed || r.meter.done {
		r.ended = r.meter.done
		return r.meter.done
	}
	return !r.t.Renames || !r.meter.begins
}

// plain meters the event of which there are hundreds, without a scan.
func (r *relay) plain(data []byte) bool {
	text, ok := r.meter.plainText(data)
	if ok {
		r.meter.Chunks++
		if len(text) > 0 {
			r.meter.Text.Add(dialect.TextKey(0, dialect.KindContent, 0), text)
		}
	}
	return ok
}

// rewrite appends what an event becomes that does not go on as it is.
func (r *relay) rewrite() {
	data := r.events.Data
	switch {
	case r.ended, len(data) == 0:
	case r.meter.failed:
		r.anew = true
		r.fault()
	default:
		r.anew = true
		from, to := modelIn(oneLine(data))
		r.out = append(append(r.out, "event: message_start\ndata: "...), data[:from]...)
		if from < to {
			r.out = append(r.out, r.t.QuotedID...)
		}
		r.out = append(append(r.out, data[to:]...), "\n\n"...)
	}
}

// oneLine is a piece of JSON without the ends of lines between its tokens.
func oneLine(data []byte) []byte {
	for i := range data {
		if data[i] == '\n' {
			data[i] = ' '
		}
	}
	return data
}

// modelIn is where the model's name is in message_start; the same twice: nowhere.
func modelIn(data []byte) (from, to int) {
	model := gjson.GetBytes(data, "message.model")
	if model.Index <= 0 {
		return len(data), len(data)
	}
	return model.Index, model.Index + len(model.Raw)
}

// fault sends what the upstream reported, in words that name nothing of the operator's.
func (r *relay) fault() {
	if r.told {
		return
	}
	r.told = true
	fault := dialect.FaultOf(r.meter.reason)
	r.out = r.meter.Chat.Form.AppendError(r.out, r.meter.Chat, &fault)
}

func (r *relay) Finish(complete bool) []byte {
	r.out = r.out[:0]
	if complete && r.events.AtEnd() {
		src := r.events.Source()
		if r.relayed() {
			r.out = append(bytes.TrimRight(append(r.out, src[r.events.From:r.events.To]...), "\r\n"), "\n\n"...)
		} else {
			r.rewrite()
		}
	}
	r.meter.Finish(complete)
	r.meter.out = r.meter.out[:0]
	if r.meter.done && !r.meter.failed && !r.ended {
		r.ended = true
		r.out = append(r.out, messages.MessageStop...)
	}
	return r.out
}

// Cut is dialect.Stream. The block that is open ends first.
func (r *relay) Cut(out []byte) (short, tail []byte) {
	m := r.meter
	f, ok := m.Chat.Form.(*messages.Form)
	isOpen, stopped := m.isOpen, m.ended // by the message_delta of the upstream
	if !ok || r.ended {
		return out, nil
	}
	if _, end := m.Cut(nil); end == nil {
		return out, nil
	}
	r.ended = true
	if isOpen {
		tail = append(tail, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
		tail = append(strconv.AppendInt(tail, m.index, 10), "}\n\n"...)
	}
	if stopped {
		return out, append(tail, messages.MessageStop...)
	}
	u := m.current()
	return out, f.AppendCut(tail, &u)
}

// AtBoundary is always true: only whole events are given on.
func (r *relay) AtBoundary() bool        { return true }
func (r *relay) Usage() dialect.Usage    { return r.meter.Usage() }
func (r *relay) Produced() int64         { return r.meter.Produced() }
func (r *relay) Exceeds(most int64) bool { return r.meter.Exceeds(most) }
func (r *relay) Done() bool              { return r.meter.Done() }
func (r *relay) Finished() bool          { return r.meter.Finished() }
func (r *relay) Failed() bool            { return r.meter.Failed() }
func (r *relay) FailedWith() []byte      { return r.meter.FailedWith() }

func (r *relay) Release() {
	r.meter.Release()
	r.events.Reset()
	fresh := relay{events: r.events, out: r.out[:0]}
	if cap(fresh.out) > keepOut {
		fresh.out = nil
	}
	*r = fresh
	relays.Put(r)
}
