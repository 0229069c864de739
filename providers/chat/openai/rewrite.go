package openai

import (
	"bytes"

	"github.com/tidwall/gjson"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

// write appends the new form of an event to out.
func (s *stream) write(src []byte, v verdict) {
	switch v {
	case last:
		s.writeUsageEvent()
		s.out = append(s.out, src[s.events.From:s.events.To]...)
	case failure:
		s.failed, s.reason = true, bytes.Clone(s.events.Data)
		fault := dialect.FaultOf(s.events.Data)
		s.out = fault.AppendEvent(s.out)
	case rewritten:
		e := &s.events
		if s.retold {
			s.retold = false
			s.out = append(s.out, "data: "...)
			s.splice(s.bounded(bytes.ReplaceAll(e.Data, []byte("\n"), []byte(" "))))
			s.out = append(s.out, "\n\n"...)
			return
		}
		if e.DataFrom < 0 {
			// Data of several lines goes out on one: between JSON's tokens a
			// line's end is white space.
			s.out = append(s.out, "data: "...)
			from := len(s.out)
			s.splice(e.Data)
			for i := from; i < len(s.out); i++ {
				if s.out[i] == '\n' {
					s.out[i] = ' '
				}
			}
			s.out = append(s.out, "\n\n"...)
			return
		}
		s.out = append(s.out, src[e.From:e.DataFrom]...)
		s.splice(e.Data)
		s.out = append(s.out, src[e.DataFrom+len(e.Data):e.To]...)
	}
}

// exceeds says that the usage is more than the request can have used.
func (s *stream) exceeds() bool {
	return s.Chat.MostPrompt > 0 && s.Last.Prompt > s.Chat.MostPrompt || s.Chat.Cap > 0 && s.Last.Completion > s.Chat.Cap
}

// bounded is an event with the usage that is charged in the place of its own.
func (s *stream) bounded(data []byte) []byte {
	at := usageAt(data, find(data, 0, usageKey))
	if at < 0 {
		return data
	}
	end := jsontext.SkipValue(data, at)
	if end < 0 {
		return data
	}
	u := s.Settled(true)
	return append(dialect.AppendUsage(append([]byte(nil), data[:at]...), &u), data[end:]...)
}

// splice appends data with the model's id and the filtered texts.
func (s *stream) splice(data []byte) {
	at := 0
	nameFrom, nameTo := -1, -1
	if s.rename {
		nameFrom, nameTo = s.findModel(data)
	}
	for i := range s.spans {
		sp := &s.spans[i]
		if nameFrom >= at && nameFrom < sp.from {
			s.out = append(append(s.out, data[at:nameFrom]...), s.t.QuotedID...)
			at = nameTo
		}
		s.out = append(s.out, data[at:sp.from]...)
		at = sp.to
		s.filter(data, sp)
	}
	if nameFrom >= at {
		s.out = append(append(s.out, data[at:nameFrom]...), s.t.QuotedID...)
		at = nameTo
	}
	s.out = append(s.out, data[at:]...)
	if end := bytes.LastIndexByte(s.out, '}'); s.priced && end >= 0 && !gjson.GetBytes(data, "cost").Exists() {
		u := s.Settled(true)
		s.out = append(s.Chat.AppendCostMember(s.out[:end], &u), '}')
	}
	s.priced = false
}

// filter appends a choice's text without <think> blocks. With its last event
// comes the text held back.
func (s *stream) filter(data []byte, sp *span) {
	think := s.thinkOf(sp.choice)
	if !sp.insert {
		s.out = think.Filter(s.out, data[sp.from:sp.to])
		if s.finished {
			s.out = think.End(s.out)
		}
		return
	}
	s.out = append(s.out, `"content":"`...)
	s.out = append(think.End(s.out), '"')
	if i := jsontext.SkipSpace(data, sp.from); i < len(data) && data[i] == '"' {
		s.out = append(s.out, ',')
	}
}

func (s *stream) thinkOf(choice int64) *dialect.Think {
	if choice < 0 || choice >= s.choices {
		choice = 0 // no index of an upstream decides how much memory is taken
	}
	for int64(len(s.think)) <= choice {
		s.think = append(s.think, dialect.Think{})
	}
	return &s.think[choice]
}

// findModel is where the model's name is in data, with its quotes; -1 when
// it does not or is right already.
func (s *stream) findModel(data []byte) (from, to int) {
	from, to = s.modelAt, s.modelAt+len(s.modelName)
	if from < len(modelKey) || to > len(data) || !bytes.Equal(data[from:to], s.modelName) ||
		!bytes.Equal(data[from-len(modelKey):from], modelKey) {
		n := find(data, 0, modelKey)
		if n < 0 {
			return -1, -1
		}
		from = jsontext.SkipSpace(data, n)
		if from >= len(data) || data[from] != '"' {
			return -1, -1
		}
		if to = jsontext.SkipString(data, from); to < 0 {
			return -1, -1
		}
		s.modelAt, s.modelName = from, append(s.modelName[:0], data[from:to]...)
	}
	if bytes.Equal(s.modelName, s.t.QuotedID) {
		return -1, -1
	}
	return from, to
}
