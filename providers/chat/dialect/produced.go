package dialect

import (
	"bytes"
	"sync"
)

// Kinds of produced text. Models separate them with tokens of their own, so
// each is tokenised apart.
const (
	KindContent = iota
	KindReasoning
	KindToolName
	KindToolInput
)

// TextKey tells apart the texts that an answer consists of.
func TextKey(choice, kind, tool int64) uint16 {
	return uint16(choice&0xff)<<8 | uint16(kind&3)<<6 | uint16(tool&0x3f)
}

const (
	smallText = 1 << 10
	largeText = 8 << 10
	// runHead is the key and the length before each run of text.
	runHead = 4

	// A delta of at most wordBytes on average is taken for one token: tokens of
	// common languages have 4 to 6 bytes, upstreams that send several at once
	// have 15 and more.
	wordBytes = 12
	// tokenBytes is the average length of a token.
	tokenBytes = 4
)

var (
	smallTexts = sync.Pool{New: func() any { return new([smallText]byte) }}
	largeTexts = sync.Pool{New: func() any { return new([largeText]byte) }}
)

// Produced remembers what an answer's text was, so that its tokens can be
// counted when the upstream does not say how many there were: it has no usage,
// or the answer was cut off before it came.
//
// Counting costs 400 ns a token and is nearly always in vain, so the text is
// only kept, as it stands between the quotes: 10 ns a delta. Of long answers
// the first 8 KB (2,000 tokens) are kept, and the rest is counted in deltas and
// bytes: when the beginning had exactly one token a delta, so has the rest;
// otherwise the rest has as many tokens a byte. The zero value is ready.
type Produced struct {
	deltas, bytes         int64
	keptDeltas, keptBytes int64 // of what is in text

	text  []byte // runs: key, length, bytes; the last run's length is not written yet
	run   int    // where the last run's bytes begin
	key   uint16 // of the last run
	small *[smallText]byte
	large *[largeText]byte
	full  bool

	looked int64 // no need to count before the estimate is above this
	hidden int64 // bytes of reasoning that was sealed
}

// Add notes one delta; escaped is what stands between the quotes.
func (p *Produced) Add(key uint16, escaped []byte) {
	p.deltas++
	p.bytes += int64(len(escaped))
	if key == p.key && p.run > 0 && len(p.text)+len(escaped) <= cap(p.text) && !p.full {
		p.text = append(p.text, escaped...)
		p.keptDeltas++
		p.keptBytes += int64(len(escaped))
		return
	}
	p.keep(key, escaped)
}

// AddSealed notes one delta that nobody here can read, of so many bytes in the clear.
func (p *Produced) AddSealed(key uint16, bytes int64) {
	p.deltas++
	p.bytes += bytes
	if IsReasoning(key) {
		p.hidden += bytes
	}
}

// Texts takes the texts of an answer, as they stand between their quotes.
type Texts interface {
	Add(key uint16, escaped []byte)
}

// AddStrings gives to every string value in a piece of JSON, whatever its
// place: what an upstream delivers in a member that is not known here was
// produced, too.
func AddStrings(to Texts, key uint16, raw []byte) {
	var name []byte
	for i := 0; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			return
		}
		from := i + n
		end := SkipString(raw, from)
		if end < 0 {
			return
		}
		text := raw[from+1 : end-1]
		if next := SkipSpace(raw, end); next < len(raw) && raw[next] == ':' {
			name, i = text, next+1
			continue
		}
		i = end
		if len(text) > 0 && IsText(name) {
			to.Add(key, text)
		}
	}
}

// IsText says whether the strings of a member inside a delta or message are
// text that a model wrote. Others name things, or are opaque: sealed thoughts
// and sound have many more bytes than tokens.
func IsText(name []byte) bool {
	switch string(name) {
	case "type", "role", "name", "id", "index", "format", "data", "signature", "thought_signature", "encrypted_content":
		return false
	}
	return true
}

// IsReasoning says whether a key is that of reasoning.
func IsReasoning(key uint16) bool { return key>>6&3 == KindReasoning }

// Exceeds says whether there were more than most tokens. It counts exactly
// where the estimate says so, at most once for each eighth of most.
func (p *Produced) Exceeds(most int64, vocabulary string) bool {
	estimate := p.Estimate()
	if estimate <= max(most, p.looked) {
		return false
	}
	p.looked = estimate + most/8
	tokens, _, _ := p.Count(vocabulary)
	return tokens > most
}

// keep is Add where a run begins or room is needed.
func (p *Produced) keep(key uint16, escaped []byte) {
	if p.full {
		return
	}
	need := len(p.text) + runHead + len(escaped)
	if need > cap(p.text) && !p.grow(need) {
		p.full = true
		if len(p.text) > 0 || !p.grow(largeText) {
			return
		}
		// The first delta alone is too large: its beginning stands for it all.
		escaped = escaped[:largeText-runHead]
		p.keptDeltas--
	}
	if key != p.key || p.run == 0 {
		p.endRun()
		p.text = append(p.text, byte(key>>8), byte(key), 0, 0)
		p.run, p.key = len(p.text), key
	}
	p.text = append(p.text, escaped...)
	p.keptDeltas++
	p.keptBytes += int64(len(escaped))
}

func (p *Produced) grow(need int) bool {
	var room []byte
	switch {
	case need <= smallText:
		p.small = smallTexts.Get().(*[smallText]byte)
		room = p.small[:0]
	case need <= largeText:
		p.large = largeTexts.Get().(*[largeText]byte)
		room = p.large[:0]
	default:
		return false
	}
	p.text = append(room, p.text...)
	if p.large != nil && p.small != nil {
		smallTexts.Put(p.small)
		p.small = nil
	}
	return true
}

func (p *Produced) endRun() {
	if p.run > 0 {
		n := len(p.text) - p.run
		p.text[p.run-2], p.text[p.run-1] = byte(n>>8), byte(n)
	}
}

// Estimate is about how many tokens there were so far, without tokenising.
func (p *Produced) Estimate() int64 {
	if p.bytes <= wordBytes*p.deltas {
		return p.deltas
	}
	return max(p.deltas, p.bytes/tokenBytes)
}

// Empty says that no text was produced.
func (p *Produced) Empty() bool { return p.deltas == 0 }

// Count tokenises what was kept, and has tokenBytes stand for a token of what was sealed.
// exact says that this was all of it.
func (p *Produced) Count(vocabulary string) (tokens, reasoning int64, exact bool) {
	if p.deltas == 0 {
		return 0, 0, true
	}
	p.endRun()
	buf := textBuffers.Get().(*textBuffer)
	defer textBuffers.Put(buf)
	for at := 0; at < len(p.text); {
		key, next := p.runAt(at)
		if !p.begunBefore(at, key) {
			buf.text = p.appendText(buf.text[:0], at, key)
			n := CountTokens(vocabulary, buf.text)
			tokens += n
			if IsReasoning(key) {
				reasoning += n
			}
		}
		at = next
	}
	rest := p.bytes - p.keptBytes
	if p.deltas == p.keptDeltas {
		return tokens, reasoning, true
	}
	kept := tokens
	reasoning += (p.hidden + tokenBytes - 1) / tokenBytes
	switch {
	case kept == p.keptDeltas && kept > 0:
		tokens = p.deltas
	case p.keptBytes > 0:
		tokens += (rest*kept + p.keptBytes - 1) / p.keptBytes
	default:
		tokens = (rest + tokenBytes - 1) / tokenBytes
	}
	return tokens, reasoning, false
}

// runAt reads the head of the run at an offset.
func (p *Produced) runAt(at int) (key uint16, next int) {
	b := p.text[at:]
	return uint16(b[0])<<8 | uint16(b[1]), at + runHead + int(b[2])<<8 + int(b[3])
}

func (p *Produced) begunBefore(end int, key uint16) bool {
	for at := 0; at < end; {
		k, next := p.runAt(at)
		if k == key {
			return true
		}
		at = next
	}
	return false
}

// appendText appends all runs of a key from an offset on, unescaped as one, so
// that characters whose escapes came in two deltas are whole.
func (p *Produced) appendText(dst []byte, at int, key uint16) []byte {
	buf := textBuffers.Get().(*textBuffer)
	defer textBuffers.Put(buf)
	buf.text = buf.text[:0]
	for at < len(p.text) {
		k, next := p.runAt(at)
		if k == key {
			buf.text = append(buf.text, p.text[at+runHead:next]...)
		}
		at = next
	}
	return AppendUnescaped(dst, buf.text)
}

// Release gives the memory back and forgets everything.
func (p *Produced) Release() {
	if p.small != nil {
		smallTexts.Put(p.small)
	}
	if p.large != nil {
		largeTexts.Put(p.large)
	}
	*p = Produced{}
}

// textBuffer is working memory of counting.
type textBuffer struct{ text []byte }

var textBuffers = sync.Pool{New: func() any { return new(textBuffer) }}
