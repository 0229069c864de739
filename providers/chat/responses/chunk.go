package responses

import (
	"bytes"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

// chunk reads one chunk of a chat completion.
func (s *stream) chunk(data []byte) {
	s.odd = false
	var choices, failure []byte
	for m := range jsontext.Members(data, 1) {
		value := data[m.From:m.To]
		switch string(m.Key) {
		case "choices":
			choices = value
		case "usage":
			s.usage(value)
		case "x_groq":
			s.usage(memberOf(value, "usage"))
		case "error":
			if value[0] == '{' || value[0] == '"' {
				failure = value
			}
		case "cost":
			s.cost, s.odd = append(s.cost[:0], value...), true
		default:
			if s.f.isParameters(m.Key) && value[0] == '{' {
				s.params, s.brand = append(s.params[:0], value...), append(s.brand[:0], m.Key...)
				s.odd = true
			}
		}
	}
	if failure != nil {
		s.failure(failure)
		return
	}
	fresh := !s.begun
	if s.begin(); fresh && len(s.params) > 0 {
		s.search(s.params)
	}
	if len(choices) == 0 || choices[0] != '[' {
		return
	}
	var text []byte
	n := 0
	for one := range jsontext.Elements(choices) {
		if s.ended {
			break
		}
		if n++; one[0] == '{' {
			text = s.choice(one)
		}
	}
	if n == 1 && text != nil && !s.odd && !s.ended && s.last >= 0 {
		s.usual.learn(data, text, &s.items[s.last])
	}
}

// memberOf is a member of an object; nil if it has no member of the name.
func memberOf(object []byte, name string) []byte {
	if len(object) == 0 || object[0] != '{' {
		return nil
	}
	for m := range jsontext.Members(object, 1) {
		if string(m.Key) == name {
			return object[m.From:m.To]
		}
	}
	return nil
}

// usage keeps the last usage that says something.
func (s *stream) usage(value []byte) {
	if len(value) > 0 && value[0] == '{' {
		s.odd = true
		dialect.ReadUsage(value, &s.outcome.usage)
	}
}

// failure ends the answer with what a chunk reports.
func (s *stream) failure(value []byte) {
	if value[0] == '"' {
		s.fail([]byte("upstream_error"), value[1:len(value)-1])
		return
	}
	s.fail(stringIn(value, "code"), stringIn(value, "message"))
}

// choice reads one choice, and returns its delta where that is one text and no more.
func (s *stream) choice(choice []byte) (plain []byte) {
	var delta, logprobs []byte
	for m := range jsontext.Members(choice, 1) {
		value := choice[m.From:m.To]
		switch string(m.Key) {
		case "index":
			if n, _ := jsontext.ReadCount(value); n != 0 {
				return nil // one answer was asked for
			}
		case "delta":
			delta = value
		case "logprobs":
			logprobs = memberOf(value, "content")
		case "usage":
			s.usage(value)
		case "finish_reason":
			if value[0] != '"' {
				continue
			}
			s.odd = true
			switch string(value) {
			case `"length"`:
				s.stop = "max_output_tokens"
			case `"content_filter"`:
				s.stop = "content_filter"
			}
		}
	}
	if len(logprobs) > 2 && logprobs[0] == '[' {
		s.odd = true
		logprobs = bytes.TrimSpace(logprobs[1 : len(logprobs)-1])
	} else {
		logprobs = nil
	}
	if len(delta) > 0 && delta[0] == '{' && s.change(delta, logprobs) {
		return delta
	}
	return nil
}

// change reads a delta, and says whether it is one text and no more.
func (s *stream) change(delta, logprobs []byte) (plain bool) {
	var reasoning, details, content, refusal, annotations, calls []byte
	members := 0
	for m := range jsontext.Members(delta, 1) {
		members++
		value := delta[m.From:m.To]
		switch string(m.Key) {
		case "content":
			content = value
		case "reasoning_content", "reasoning":
			// Some servers send the same text under both names.
			if value[0] == '"' && len(value) > 2 {
				reasoning = value
			}
		case "reasoning_details":
			details = value
		case "refusal":
			refusal = value
		case "annotations":
			annotations = value
		case "tool_calls":
			calls = value
		}
	}
	if reasoning != nil {
		s.plainly = true
		s.think(reasoning[1 : len(reasoning)-1])
	}
	s.details(details, !s.plainly)
	s.content(content, logprobs)
	if len(refusal) > 2 && refusal[0] == '"' {
		if it := s.message(refusalPart); it != nil {
			s.delta(it, refusal[1:len(refusal)-1], plainTail)
		}
	}
	s.annotations(annotations)
	if len(calls) > 0 && calls[0] == '[' {
		for one := range jsontext.Elements(calls) {
			if s.ended {
				break
			}
			if one[0] == '{' {
				s.call(one)
			}
		}
	}
	return members == 1 && !s.ended && (len(content) > 2 && content[0] == '"' || reasoning != nil)
}

// content sends what the model says: a text, or parts of which some are thoughts.
func (s *stream) content(content, logprobs []byte) {
	if len(content) == 0 {
		return
	}
	switch content[0] {
	case '"':
		s.say(content[1:len(content)-1], logprobs)
	case '[':
		for part := range jsontext.Elements(content) {
			if s.ended || part[0] != '{' {
				continue
			}
			if inner := memberOf(part, "thinking"); len(inner) > 0 {
				s.thinking(inner)
			} else if words := stringIn(part, "text"); len(words) > 0 {
				s.say(words, logprobs)
			}
		}
	}
}

// thinking sends the thoughts of a part: a text, or parts of text.
func (s *stream) thinking(inner []byte) {
	if inner[0] == '"' && len(inner) > 2 {
		s.think(inner[1 : len(inner)-1])
		return
	}
	for one := range jsontext.Elements(inner) {
		if inner[0] == '[' && one[0] == '{' {
			if words := stringIn(one, "text"); len(words) > 0 {
				s.think(words)
			}
		}
	}
}

// say sends text, with the probabilities of its tokens where there are some.
func (s *stream) say(words, logprobs []byte) {
	if len(words) == 0 && len(logprobs) == 0 || s.ended {
		return
	}
	it := s.message(textPart)
	switch {
	case it == nil:
	case s.spec:
		s.delta(it, words, plainTail)
	case len(logprobs) == 0:
		s.delta(it, words, textTail)
	default:
		if s.kept += len(logprobs); len(it.logprobs) > 0 {
			it.logprobs = append(it.logprobs, ',')
		}
		it.logprobs = append(it.logprobs, logprobs...)
		if s.delta(it, words, `","logprobs":[`); !s.ended {
			s.out = append(append(s.out, logprobs...), "]}\n\n"...)
		}
	}
}

// details keeps what a model needs to go on thinking. Texts go out where they have not
// been told as reasoning_content.
func (s *stream) details(list []byte, tell bool) {
	if len(list) == 0 || list[0] != '[' {
		return
	}
	for entry := range jsontext.Elements(list) {
		if s.ended {
			break
		}
		if entry[0] != '{' {
			continue
		}
		words := stringIn(entry, "text")
		if words == nil {
			words = stringIn(entry, "summary")
		}
		if tell && len(words) > 0 {
			s.think(words)
		}
		if len(stringIn(entry, "signature")) == 0 && len(stringIn(entry, "data")) == 0 {
			continue
		}
		if it := s.thought(true); it != nil {
			if s.kept += len(entry); s.kept > maxKept {
				s.tooLong()
				return
			}
			it.addDetail(entry, true)
			it.sealed = true
		}
	}
}

// annotations sends the sources of a text.
func (s *stream) annotations(list []byte) {
	if len(list) == 0 || list[0] != '[' {
		return
	}
	for one := range jsontext.Elements(list) {
		if s.ended || one[0] != '{' {
			continue
		}
		it := s.message(textPart)
		if it == nil {
			return
		}
		if s.kept += len(one); s.kept > maxKept {
			s.tooLong()
			return
		}
		it.annotations = jsontext.Comma(it.annotations)
		begun := len(it.annotations)
		it.annotations = appendAnnotation(it.annotations, one)
		if !s.spec {
			s.event("response.output_text.annotation.added")
			s.place(it, "content")
			s.note(it.notes, it.annotations[begun:])
			s.endEvent()
		}
		it.notes++
	}
}

// call reads an entry of tool_calls.
func (s *stream) call(entry []byte) {
	var id, function []byte
	kind, index := callItem, int64(-1)
	for m := range jsontext.Members(entry, 1) {
		value := entry[m.From:m.To]
		switch string(m.Key) {
		case "index":
			index, _ = jsontext.ReadCount(value)
		case "id":
			if value[0] == '"' {
				id = value[1 : len(value)-1]
			}
		case "function":
			function = value
		case "custom":
			function, kind = value, customItem
		}
	}
	if len(function) == 0 || function[0] != '{' {
		return
	}
	name, input := stringIn(function, "name"), stringIn(function, "arguments")
	if kind == customItem {
		input = stringIn(function, "input")
	}
	it := s.callOf(index, id, name)
	if it == nil {
		s.quiet()
		if it = s.add(kind); it == nil {
			return
		}
		it.call = max(index, 0)
	}
	s.identify(it, id)
	if !it.opened && len(name) > 0 {
		s.f.nameCall(it, name)
		s.show(it)
	}
	switch {
	case len(input) == 0:
	case it.opened && !it.wrapped:
		s.delta(it, input, plainTail)
	default:
		if s.kept += len(input); s.kept > maxKept {
			s.tooLong()
			return
		}
		it.text = append(it.text, input...)
	}
}

// callOf finds the call that an entry goes on with; nil: it begins another. Some
// servers number all calls alike, or none.
func (s *stream) callOf(index int64, id, name []byte) *item {
	for i := len(s.items) - 1; i >= 0; i-- {
		it := &s.items[i]
		if !it.isCall() || index >= 0 && it.call != index {
			continue
		}
		if len(id) > 0 && len(name) > 0 && len(it.callID) > 0 && !bytes.Equal(id, it.callID) {
			return nil
		}
		return it
	}
	return nil
}

// identify gives a call the upstream's id, unless another has that or the client knows
// the call by one of ours.
func (s *stream) identify(it *item, id []byte) {
	if it.opened || len(it.callID) > 0 || len(id) == 0 {
		return
	}
	for i := range it.index {
		if bytes.Equal(s.items[i].callID, id) {
			return
		}
	}
	it.callID = append(it.callID, id...)
}
