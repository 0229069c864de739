package openai

import (
	"bytes"
	"sync"

	"farebox/providers/chat/dialect"
)

const (
	// maxUsage bounds the usage object that is captured.
	maxUsage = 4 << 10
	// maxKey is the longest member name of interest.
	maxKey = 24
	// maxDepth is how deep brackets are followed; deeper ones are passed on unread.
	maxDepth = 512
)

var bodies = sync.Pool{New: func() any { return new(BodyMeter) }}

// BodyMeter reads an answer of any size while it goes by, in flat memory: the
// usage, the texts' length and beginning, and whether it was whole. It
// implements dialect.Stream for large answers that are not event streams.
//
// The places of interest are usage, choices[].usage and x_groq.usage; texts
// are those of choices[].message and choices[].delta.
type BodyMeter struct {
	c    *dialect.Chat
	t    *dialect.Target
	text *dialect.Produced // own, or that of the stream whose event this is
	own  dialect.Produced

	rename, strip bool

	usage    dialect.Usage
	finished bool
	complete bool
	broken   bool // the text is no JSON, or too deep

	depth   int
	objects [maxDepth/64 + 1]uint64 // a bit for each open bracket: is it an object?
	state   bodyState
	escaped bool // the last byte of the piece was a backslash that escapes
	top     uint8
	holder  uint8       // member of the choice that is open: message or delta
	way     dialect.Way // of the message's member that is open
	sorter  dialect.Sorter
	choice  int64
	call    int64
	key     [maxKey]byte
	keyLen  int

	want     wanted // the kind of the open string
	capture  int    // depth of the usage object being captured, 0: none
	captured []byte

	id      []byte // of the completion, where it comes from an enclave
	out     []byte
	copying bool
	think   dialect.Think
}

type bodyState uint8

const (
	inValue bodyState = iota // a value, or whatever is between values
	inKey                    // a member's name or the object's end
	inName                   // inside a name's quotes
	inText                   // inside a value's quotes
)

// wanted is why the open string is of interest.
type wanted uint8

const (
	nothing wanted = iota
	wantContent
	wantReasoning
	wantRefusal
	wantCallName
	wantArguments
	wantOther // any string in a member that is read no further
	wantModel
	wantFinish
	wantID
)

const (
	topOther uint8 = iota
	topChoices
	topGroq
)

// NewBodyMeter reads one large answer that is relayed as it comes.
func NewBodyMeter(c *dialect.Chat, t *dialect.Target) dialect.Stream {
	m := bodies.Get().(*BodyMeter)
	m.begin(c, t, nil)
	return m
}

func (m *BodyMeter) begin(c *dialect.Chat, t *dialect.Target, text *dialect.Produced) {
	*m = BodyMeter{c: c, t: t, text: text, captured: m.captured[:0], out: m.out[:0], id: m.id[:0]}
	if text == nil {
		m.text = &m.own
	}
	m.rename, m.strip = t.Renames && !c.Verbatim, c.DropThinking && !c.Verbatim
}

// rewrites says that Pass may return other bytes than it was given.
func (m *BodyMeter) rewrites() bool { return m.rename || m.strip }

// Identity says that Pass returns its input, so that the answer's length stays.
func (m *BodyMeter) Identity() bool { return !m.rewrites() }

// Pass reads the next piece. Only with a model to rename or <think> blocks to
// remove does it return anything but p.
func (m *BodyMeter) Pass(p []byte) []byte {
	m.out, m.copying = m.out[:0], false
	from := 0 // start of the part of p that is not yet in out
	for i := 0; i < len(p) && !m.broken; {
		switch m.state {
		case inName:
			i = m.name(p, i)
		case inText:
			start := i
			end, closed := m.stringEnd(p, i)
			text := p[start:end]
			if closed {
				text = p[start : end-1]
			}
			from = m.piece(p, from, start, text, closed)
			i = end
		default:
			i = m.structure(p, i)
		}
	}
	if !m.copying {
		return p
	}
	m.out = append(m.out, p[from:]...)
	return m.out
}

// structure reads one byte outside of strings.
func (m *BodyMeter) structure(p []byte, i int) int {
	c := p[i]
	if m.capture > 0 {
		m.take(p[i : i+1])
	}
	switch c {
	case '"':
		if m.state == inKey {
			m.state, m.keyLen = inName, 0
			return i + 1
		}
		m.state = inText
		if m.want = m.wanted(); m.want >= wantContent && m.want <= wantOther {
			m.sorter.Begin(m.wayOf())
		}
		if m.want == wantModel && m.rename {
			// The opening quote went out or is about to; the name follows without.
			m.escaped = false
		}
	case '{', '[':
		m.open(c == '{')
	case '}', ']':
		m.close()
	case ',':
		if m.depth > 0 && m.object() {
			m.state = inKey
		}
	case ':':
		m.state = inValue
	}
	return i + 1
}

func (m *BodyMeter) object() bool {
	return m.objects[(m.depth-1)>>6]&(1<<((m.depth-1)&63)) != 0
}

func (m *BodyMeter) open(object bool) {
	if m.depth == 0 && !object || m.depth >= maxDepth {
		// The field name of an event precedes its JSON; a bracket is not part of that name.
		m.broken = true
		return
	}
	switch {
	case m.depth == 2 && object && m.top == topChoices:
		m.choice++
		m.holder = 0
	case m.depth == 3 && object && m.top == topChoices && (m.isKey("message") || m.isKey("delta")):
		m.holder = 1
		m.call = -1
	case m.depth == 5 && object && m.holder == 1:
		m.call++
	}
	if object && m.capture == 0 && m.isUsage() {
		m.capture = m.depth + 1
		m.captured = append(m.captured[:0], '{')
	}
	bit := uint64(1) << (m.depth & 63)
	if object {
		m.objects[m.depth>>6] |= bit
		m.state = inKey
	} else {
		m.objects[m.depth>>6] &^= bit
		m.state = inValue
	}
	m.keyLen = 0
	m.depth++
}

// isUsage says that the object about to open is the value of a usage member in
// one of the places that count.
func (m *BodyMeter) isUsage() bool {
	if !m.isKey("usage") {
		return false
	}
	return m.depth == 1 || m.depth == 2 && m.top == topGroq || m.depth == 3 && m.top == topChoices
}

func (m *BodyMeter) close() {
	if m.depth == 0 {
		m.broken = true
		return
	}
	if m.depth == m.capture {
		m.capture = 0
		if len(m.captured) < maxUsage {
			dialect.ReadUsage(m.captured, &m.usage)
		}
	}
	m.depth--
	m.state, m.keyLen = inValue, 0
	switch m.depth {
	case 0:
		m.complete = true
	case 1:
		m.top = topOther
	case 3:
		m.holder = 0
	}
}

// name reads a member's name up to its closing quote.
func (m *BodyMeter) name(p []byte, i int) int {
	end, closed := m.stringEnd(p, i)
	if m.capture > 0 {
		m.take(p[i:end])
	}
	text := p[i:end]
	if closed {
		text = p[i : end-1]
	}
	if m.keyLen+len(text) > maxKey {
		m.keyLen = maxKey + 1
	} else if m.keyLen <= maxKey {
		m.keyLen += copy(m.key[m.keyLen:], text)
	}
	if closed {
		m.state = inValue
		if m.depth == 4 && m.holder == 1 {
			m.way = dialect.WayOf(m.key[:min(m.keyLen, maxKey)])
		}
		if m.depth == 1 {
			switch {
			case m.isKey("choices"):
				m.top, m.choice = topChoices, -1
			case m.isKey("x_groq"):
				m.top = topGroq
			default:
				m.top = topOther
			}
		}
	}
	return end
}

func (m *BodyMeter) isKey(name string) bool {
	return m.keyLen == len(name) && string(m.key[:m.keyLen]) == name
}

// stringEnd is the offset after the closing quote of the open string, or of
// the piece; closed says which.
func (m *BodyMeter) stringEnd(p []byte, i int) (end int, closed bool) {
	start := i
	if m.escaped {
		m.escaped = false
		i++ // whatever it is
		start = i
	}
	for i < len(p) {
		n := bytes.IndexByte(p[i:], '"')
		stop := len(p)
		if n >= 0 {
			stop = i + n
		}
		slash := stop
		for slash > start && p[slash-1] == '\\' {
			slash--
		}
		odd := (stop-slash)&1 == 1
		if n < 0 {
			m.escaped = odd
			return len(p), false
		}
		i = stop + 1
		if !odd {
			return i, true
		}
		start = i
	}
	return len(p), false
}

// wanted is the kind of a string value at this place.
func (m *BodyMeter) wanted() wanted {
	known := m.keyLen > 0 && m.keyLen <= maxKey
	switch {
	case !known:
	case m.depth == 1 && m.isKey("model"):
		return wantModel
	case m.depth == 1 && m.c.Verbatim && m.isKey("id"):
		m.id = m.id[:0]
		return wantID
	case m.top != topChoices:
		return nothing
	case m.depth == 3 && m.isKey("finish_reason"):
		return wantFinish
	case m.depth == 4 && m.holder == 1:
		switch {
		case m.isKey("content"):
			return wantContent
		case m.isKey("reasoning_content"), m.isKey("reasoning"):
			return wantReasoning
		case m.isKey("refusal"):
			return wantRefusal
		}
	case m.depth == 7 && m.holder == 1 && m.isKey("name"):
		return wantCallName
	case m.depth == 7 && m.holder == 1 && m.isKey("arguments"):
		return wantArguments
	}
	if m.depth >= 4 && m.holder == 1 {
		return wantOther
	}
	return nothing
}

// wayOf is how the string that begins counts.
func (m *BodyMeter) wayOf() dialect.Way {
	switch {
	case m.want != wantOther:
		return dialect.Written
	case m.way == dialect.Source:
		return dialect.Source
	}
	return dialect.WayOf(m.key[:min(m.keyLen, maxKey)])
}

// piece is given a part of a string value, text, which begins at start of p.
// It returns how much of p is in out.
func (m *BodyMeter) piece(p []byte, from, start int, text []byte, closed bool) int {
	if m.capture > 0 {
		m.take(text)
		if closed {
			m.take(p[start+len(text) : start+len(text)+1])
		}
	}
	kind, tool := int64(dialect.KindContent), int64(0)
	switch m.want {
	case wantContent:
	case wantReasoning:
		kind = dialect.KindReasoning
	case wantRefusal:
		tool = 1
	case wantCallName:
		kind, tool = dialect.KindToolName, m.call
	case wantArguments:
		kind, tool = dialect.KindToolInput, m.call
	case wantOther:
		tool = 2
	case wantFinish:
		m.finished = true
	case wantID:
		m.id = append(m.id, text[:min(len(text), dialect.MaxID+1-len(m.id))]...)
	case wantModel:
		if m.rename {
			from = m.renamed(p, from, start, len(text), closed)
		}
	}
	if m.want >= wantContent && m.want <= wantOther {
		key := dialect.TextKey(max(m.choice, 0), kind, tool)
		if m.sorter.Take(m.text, key, text); closed {
			m.sorter.End(m.text, key)
		}
	}
	if m.want == wantContent && m.strip {
		m.copying = true
		m.out = append(m.out, p[from:start]...)
		m.out = m.think.Filter(m.out, text)
		if closed {
			m.out = m.think.End(m.out)
			m.think = dialect.Think{}
		}
		from = start + len(text)
	}
	if closed {
		m.state, m.want, m.keyLen = inValue, nothing, 0
	}
	return from
}

// renamed leaves a part of the model's name out; with the first part goes the
// model's id, between the quotes that the upstream wrote.
func (m *BodyMeter) renamed(p []byte, from, start, length int, closed bool) int {
	m.copying = true
	m.out = append(m.out, p[from:start]...)
	if closed {
		m.out = append(m.out, m.t.QuotedID[1:len(m.t.QuotedID)-1]...)
	}
	return start + length
}

func (m *BodyMeter) take(p []byte) {
	if len(m.captured)+len(p) <= maxUsage {
		m.captured = append(m.captured, p...)
	}
}

// Finish reports nothing more to send: such an answer has one end.
func (m *BodyMeter) Finish(complete bool) []byte {
	m.complete = m.complete && complete
	return nil
}

// Usage is the usage that is charged: the answer's own, or an estimate of its texts.
func (m *BodyMeter) Usage() dialect.Usage {
	return dialect.Settle(m.usage, m.usage.Seen && m.complete, m.text, m.c)
}

// Produced is about how many tokens the texts have so far.
func (m *BodyMeter) Produced() int64 { return m.text.Estimate() }

// Exceeds says that the texts have more than most tokens.
func (m *BodyMeter) Exceeds(most int64) bool { return m.text.Exceeds(most, m.c.Vocabulary()) }

// ID is the completion's, where it comes from an enclave.
func (m *BodyMeter) ID() []byte {
	if !dialect.IsID(m.id) {
		return nil
	}
	return m.id
}

// Unsealed and Betrayed are false: encrypted answers are streams.
func (m *BodyMeter) Unsealed() bool { return false }

// Betrayed is false, as Unsealed is.
func (m *BodyMeter) Betrayed() bool { return false }

// FailedWith is nil: an answer of 2xx counts as a success.
func (m *BodyMeter) FailedWith() []byte { return nil }

// AtBoundary is false: nothing can be written behind a part of a document.
func (m *BodyMeter) AtBoundary() bool { return false }

// Done says that the document is whole.
func (m *BodyMeter) Done() bool { return m.complete }

// Finished says that a choice is: the usage usually comes behind it.
func (m *BodyMeter) Finished() bool { return m.finished }

// Failed is false: a document that reports a failure has another status.
func (m *BodyMeter) Failed() bool { return false }

// Release gives the meter back.
func (m *BodyMeter) Release() {
	m.own.Release()
	if cap(m.out) > keepOut {
		m.out = nil
	}
	*m = BodyMeter{captured: m.captured[:0], out: m.out[:0], id: m.id[:0]}
	bodies.Put(m)
}
