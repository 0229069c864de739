package responses

import (
	"farebox/proxy/jsontext"
)

// outline is the response so far by the events of its upstream: enough to end the
// response as the model should have. A part that was sent whole is in it as it came.
type outline struct {
	id    []byte // of the response, as between its quotes
	items []item
	usual int // the item that the last delta belongs to, -1: none
	kept  int // bytes
	lost  bool
}

// mostUpstreamID is the longest id of an upstream's response that a failure repeats.
const mostUpstreamID = 256

// created notes the response that the first event tells.
func (o *outline) created(f *Form, response []byte) {
	if id := jsontext.StringIn(response, "id"); len(o.id) == 0 {
		o.id = append(o.id, id...)
		f.upstreamID = append(f.upstreamID[:0], id[:min(len(id), mostUpstreamID)]...)
		if at, ok := jsontext.ReadCount(jsontext.MemberOf(response, "created_at")); ok {
			f.created = at
		}
	}
}

// nativeKinds and nativeParts are the kinds of items and parts whose events are known here.
var (
	nativeKinds = map[string]itemKind{
		"reasoning": reasoningItem, "message": messageItem, "function_call": callItem, "custom_tool_call": customItem,
	}
	nativeParts = map[string]partKind{
		"output_text": textPart, "refusal": refusalPart, "summary_text": textPart, "reasoning_text": thoughtPart,
	}
)

// note is the statement of an event about an item.
type note uint8

const (
	itemBegins note = iota + 1
	itemEnds
	partBegins
	partEnds
	textGoesOn
	textEnds
	inputGoesOn
	annotated
)

var notes = map[string]note{
	"response.output_item.added": itemBegins, "response.output_item.done": itemEnds,
	"response.content_part.added": partBegins, "response.content_part.done": partEnds,
	"response.reasoning_part.added": partBegins, "response.reasoning_part.done": partEnds,
	"response.reasoning_summary_part.added": partBegins, "response.reasoning_summary_part.done": partEnds,
	"response.output_text.delta": textGoesOn, "response.output_text.done": textEnds,
	"response.refusal.delta": textGoesOn, "response.refusal.done": textEnds,
	"response.reasoning_summary_text.delta": textGoesOn, "response.reasoning_summary_text.done": textEnds,
	"response.reasoning_text.delta": textGoesOn, "response.reasoning_text.done": textEnds,
	"response.function_call_arguments.delta": inputGoesOn, "response.function_call_arguments.done": textEnds,
	"response.custom_tool_call_input.delta": inputGoesOn, "response.custom_tool_call_input.done": textEnds,
	"response.output_text.annotation.added": annotated,
}

// note notes an event. Where one does not fit those before it, the outline is lost.
func (o *outline) note(kind, data []byte) {
	what := notes[string(kind)]
	if o.lost || what == 0 {
		return
	}
	at, ok := jsontext.ReadCount(jsontext.MemberOf(data, "output_index"))
	if what == itemBegins {
		o.add(at, jsontext.MemberOf(data, "item"))
		return
	}
	if !ok || at >= int64(len(o.items)) || o.items[at].closed {
		o.lost = true
		return
	}
	switch it := &o.items[at]; what {
	case itemEnds:
		it.whole, it.closed, it.text = append(it.whole[:0], jsontext.MemberOf(data, "item")...), true, it.text[:0]
		o.keep(len(it.whole))
		o.lost = o.lost || len(it.whole) == 0 || it.whole[0] != '{'
	case partBegins:
		it.beginPart(data)
		o.lost = it.part == noPart
	case partEnds:
		part := jsontext.MemberOf(data, "part")
		it.addPart(func(dst []byte) []byte { return append(dst, part...) })
		o.keep(len(it.parts))
		o.lost = o.lost || len(part) == 0
	case textGoesOn, inputGoesOn:
		if o.lost = (it.part == noPart) == (what == textGoesOn); !o.lost {
			o.usual = int(at)
			o.delta(deltaOf(data))
		}
	case textEnds:
		it.told = true
		for _, name := range textNames {
			if words := jsontext.StringIn(data, name); words != nil {
				it.text = append(it.text[:0], words...)
				o.keep(len(words))
			}
		}
	case annotated:
		if it.notes++; it.notes > 1 {
			it.annotations = append(it.annotations, ',')
		}
		annotation := jsontext.MemberOf(data, "annotation")
		it.annotations = append(it.annotations, annotation...)
		o.keep(len(annotation))
	}
}

// beginPart takes the event that begins a part; it.part is noPart where that is out of turn.
func (i *item) beginPart(data []byte) {
	place := "content_index"
	part := nativeParts[string(jsontext.StringIn(jsontext.MemberOf(data, "part"), "type"))]
	if i.kind == reasoningItem && part == textPart {
		place = "summary_index"
	}
	at, ok := jsontext.ReadCount(jsontext.MemberOf(data, place))
	if !ok || at != int64(i.count) || i.part != noPart || i.kind > messageItem {
		part = noPart
	}
	i.part, i.count, i.told = part, i.count+1, false
	i.inContent = i.kind == reasoningItem && part == thoughtPart
}

// add notes that an item has begun.
func (o *outline) add(at int64, raw []byte) {
	if at != int64(len(o.items)) || at == maxItems || len(jsontext.StringIn(raw, "id")) == 0 {
		o.lost = true
		return
	}
	kind, known := nativeKinds[string(jsontext.StringIn(raw, "type"))]
	if !known {
		kind = otherItem
	}
	it := extend(&o.items, kind)
	it.opened = true
	it.id = append(it.id, jsontext.StringIn(raw, "id")...)
	it.callID = append(it.callID, jsontext.StringIn(raw, "call_id")...)
	it.name = append(it.name, jsontext.StringIn(raw, "name")...)
	if kind == otherItem {
		it.whole = append(it.whole, raw...)
	}
	o.keep(len(raw))
}

// delta notes an addition to the item of the last delta.
func (o *outline) delta(words []byte) {
	it := &o.items[o.usual]
	it.text = append(it.text, words...)
	o.keep(len(words))
}

// keep counts the kept bytes. It drops everything where they are too many.
func (o *outline) keep(n int) {
	if o.kept += n; o.kept > maxKept {
		o.items, o.usual, o.lost = nil, -1, true
	}
}

// Cut is dialect.Stream. Open items end first, as in a stream that was translated.
func (s *nativeStream) Cut(out []byte) (short, tail []byte) {
	o := &s.outline
	if o.lost || len(o.id) == 0 || s.done || s.dead {
		return out, nil
	}
	s.done = true
	end := stream{f: s.form, c: s.Chat, spec: s.form.o.Spec, last: -1, begun: true, number: s.form.number, items: o.items,
		stop: "max_output_tokens"}
	end.outcome.id, end.FormState.Usage = o.id, s.Usage()
	end.FormState.Usage.Seen = true
	end.End()
	return out, end.Out
}
