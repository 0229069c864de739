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
// stream that writes nothing. Two kinds of events are rewritten: the first,
// where the model has another name, and errors, whose words are not for clients.
type relay struct {
	stream
	t     *dialect.Target
	out   []byte
	ended bool // message_stop went out
	told  bool // the failure did
	anew  bool // the last event was rewritten, or dropped
}

// Stream starts relaying one streaming answer.
func (Native) Stream(c *dialect.Chat, t *dialect.Target) dialect.Stream {
	r := relays.Get().(*relay)
	r.OpenSilent(c, &r.stream)
	r.t = t
	return r
}

func (r *relay) Pass(p []byte) []byte {
	r.out = r.out[:0]
	if r.Events.Large() {
		n := r.Events.LetOn(p)
		if p = p[n:]; r.Events.Large() {
			return r.out
		}
	}
	src := r.Events.Feed(p)
	from, copying := 0, false
	for r.Events.Next() {
		if r.relayed() {
			continue
		}
		r.out = append(r.out, src[from:r.Events.From]...)
		from, copying = r.Events.To, true
		r.rewrite()
	}
	if r.Events.TooLarge() {
		// No event of this dialect is as large; its text is lost, which the client
		// must not take for a whole answer.
		end := r.Events.To
		r.out, copying = append(r.out, src[from:end]...), true
		r.Events.Let()
		from = end
		if !r.Over() {
			r.Fail(nil)
			r.fault()
		}
	}
	end := r.Events.To
	if r.Events.Large() {
		end = from
	}
	r.Events.Keep()
	if !copying {
		return src[:end]
	}
	r.out = append(r.out, src[from:end]...)
	return r.out
}

// relayed reads an event and says that it is passed on unchanged.
func (r *relay) relayed() bool {
	data := r.Events.Data
	r.Text.Event(r.Events.To-r.Events.From, data)
	switch {
	case len(data) == 0 && r.Events.To-r.Events.From == 1:
		return !r.anew // the LF of a CR LF goes where the CR went
	case r.Failed() || r.ended:
		r.anew = true
		return false // nothing follows an end
	case len(data) == 0:
		r.anew = false
		return true
	}
	if r.anew = false; r.plain(data) {
		return true
	}
	if r.Read(); r.Over() {
		r.ended = r.Done()
		return r.ended
	}
	return !r.t.Renames || !r.begins
}

// plain meters the event of which there are hundreds, without a scan.
func (r *relay) plain(data []byte) bool {
	text, ok := r.plainText(data)
	if ok {
		r.Chunks++
		if len(text) > 0 {
			r.Text.Add(dialect.TextKey(0, dialect.KindContent, 0), text)
		}
	}
	return ok
}

// rewrite appends the new form of an event that does not go on as it is.
func (r *relay) rewrite() {
	data := r.Events.Data
	switch {
	case r.ended, len(data) == 0:
	case r.Failed():
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

// fault sends the upstream's error, in words that name nothing of the operator's.
func (r *relay) fault() {
	if r.told {
		return
	}
	r.told = true
	fault := dialect.FaultOf(r.FailedWith())
	r.out = r.Chat.Form.AppendError(r.out, r.Chat, &fault)
}

func (r *relay) Finish(complete bool) []byte {
	r.out = r.out[:0]
	if complete && r.Events.AtEnd() {
		src := r.Events.Source()
		if r.relayed() {
			r.out = append(bytes.TrimRight(append(r.out, src[r.Events.From:r.Events.To]...), "\r\n"), "\n\n"...)
		} else {
			r.rewrite()
		}
	}
	if r.stream.Finish(complete); r.Done() && !r.Failed() && !r.ended {
		r.ended = true
		r.out = append(r.out, messages.MessageStop...)
	}
	return r.out
}

// Cut is dialect.Stream. The block that is open ends first.
func (r *relay) Cut(out []byte) (short, tail []byte) {
	f, ok := r.Chat.Form.(*messages.Form)
	stopped := r.Sent(0) // by the message_delta of the upstream
	if !ok || r.ended || r.Over() || r.Begun == 0 {
		return out, nil
	}
	r.End()
	r.ended = true
	if r.isOpen {
		tail = append(tail, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
		tail = append(strconv.AppendInt(tail, r.index, 10), "}\n\n"...)
	}
	if stopped {
		return out, append(tail, messages.MessageStop...)
	}
	u := r.Settled(r.Reported)
	return out, f.AppendCut(tail, &u)
}

func (r *relay) Release() {
	if cap(r.out) > keepOut {
		r.out = nil
	}
	r.renew()
	*r = relay{stream: r.stream, out: r.out[:0]}
	relays.Put(r)
}
