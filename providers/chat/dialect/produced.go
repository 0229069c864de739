package dialect

import (
	"bytes"
	"hash/crc32"
	"sync"

	"farebox/proxy/jsontext"
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
	// longDelta is the shortest delta of which a part is kept.
	longDelta = 64
	// tokenBytes is the average length of a token.
	tokenBytes = 4
)

var (
	smallTexts = sync.Pool{New: func() any { return new([smallText]byte) }}
	largeTexts = sync.Pool{New: func() any { return new([largeText]byte) }}
)

// Produced remembers an answer's text, so that its tokens can be counted when
// the upstream does not say how many there were: it has no usage, or the answer
// was cut off before it came.
//
// Counting costs 400 ns a token and is rarely needed, so the text is
// only kept, escaped as in JSON: 10 ns a delta. Of long answers
// the first 8 KB (2,000 tokens) are kept, and the rest is counted in deltas and
// bytes: when the beginning had exactly one token a delta, so has the rest;
// otherwise the rest has as many tokens a byte. The zero value is ready.
type Produced struct {
	deltas, bytes         int64
	keptDeltas, keptBytes int64 // of the bytes in text

	text  []byte // runs: key, length, bytes; the last run's length is not written yet
	small *[smallText]byte
	large *[largeText]byte
	run   int32  // where the last run's bytes begin
	key   uint16 // of the last run
	full  bool
	doubt doubt // how it is counted where a usage was reported

	sources int32  // bytes of the model's input, at most sourceBytes
	around  uint32 // checksum of the bytes around the last texts

	looked int64 // no need to count before the estimate is above this
	hidden int64 // bytes of reasoning that was sealed

	unknown int64 // bytes of text that may be none
	worth   int64 // of data other than text, in 1/mediaBytes tokens, where no usage was reported
}

// Add notes one delta; escaped is the escaped text.
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

// AddSealed notes one delta that we cannot read, of so many bytes in the clear.
func (p *Produced) AddSealed(key uint16, bytes int64) {
	p.deltas++
	p.bytes += bytes
	if IsReasoning(key) {
		p.hidden += bytes
	}
}

// AddUnknown is Texts.
func (p *Produced) AddUnknown(key uint16, escaped []byte) {
	p.unknown += int64(len(escaped))
	p.Add(key, escaped)
}

// known is how many of counted tokens are of known text.
func (p *Produced) known(tokens int64) int64 {
	if p.unknown == 0 || p.bytes == 0 {
		return tokens
	}
	return tokens * (p.bytes - p.unknown) / p.bytes
}

// AddMedia is Texts.
func (p *Produced) AddMedia(n, worth int64) {
	p.worth += n * worth
}

// AddSource is Texts.
func (p *Produced) AddSource(n int64) {
	free := min(n, sourceBytes-int64(p.sources))
	p.sources += int32(free)
	if n > free {
		p.beside(n - free)
	}
}

// Event takes an event of so many bytes and its data: its name, its id and comments count
// as sources do, beyond the usual size.
func (p *Produced) Event(size int, data []byte) {
	if rest := size - len(data); rest > aroundBytes || len(data) == 0 && rest > 2 {
		p.AddSource(int64(rest - min(len(data), aroundBytes)))
	}
}

// Around takes the bytes around the texts of an event. More than the usual size
// counts as sources do, unless it is that of the event before.
func (p *Produced) Around(before, behind []byte) {
	n := len(before) + len(behind)
	if n <= aroundBytes {
		return
	}
	sum := crc32.Update(crc32.ChecksumIEEE(before), crc32.IEEETable, behind)
	if sum != p.around {
		p.around = sum
		p.AddSource(int64(n - aroundBytes))
	}
}

// beside counts text of so many bytes that is not kept.
func (p *Produced) beside(n int64) {
	p.deltas++
	p.bytes += n
	p.unknown += n
}

// Worth is how many tokens data other than text is worth where no usage was reported.
func (p *Produced) Worth() int64 { return p.worth / mediaBytes }

// IsReasoning says whether a key is that of reasoning.
func IsReasoning(key uint16) bool { return key>>6&3 == KindReasoning }

// Exceeds says whether the known text had more than most tokens. It counts exactly
// where the estimate says so, at most once for each eighth of most.
func (p *Produced) Exceeds(most int64, vocabulary string) bool {
	estimate := p.known(p.texts())
	if estimate <= max(most, p.looked) {
		return false
	}
	p.looked = estimate + most/8
	tokens, _, _ := p.Count(vocabulary)
	return p.known(tokens) > most
}

// keep is Add where a run begins or room is needed.
func (p *Produced) keep(key uint16, escaped []byte) {
	if p.full {
		return
	}
	need := len(p.text) + runHead + len(escaped)
	if need > cap(p.text) && !p.grow(need) {
		p.full = true
		if len(escaped) < longDelta || cap(p.text) < largeText && !p.grow(largeText) ||
			len(p.text)+runHead >= largeText {
			return
		}
		// The beginning of a long delta represents all of it.
		escaped = escaped[:largeText-runHead-len(p.text)]
		p.keptDeltas--
	}
	if key != p.key || p.run == 0 {
		p.endRun()
		p.text = append(p.text, byte(key>>8), byte(key), 0, 0)
		p.run, p.key = int32(len(p.text)), key
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
		n := len(p.text) - int(p.run)
		p.text[p.run-2], p.text[p.run-1] = byte(n>>8), byte(n)
	}
}

// Estimate is about how many tokens there were so far, without tokenising.
func (p *Produced) Estimate() int64 { return p.texts() + p.Worth() }

// texts is Estimate for text only.
func (p *Produced) texts() int64 {
	if p.bytes <= wordBytes*p.deltas {
		return p.deltas
	}
	return max(p.deltas, p.bytes/tokenBytes)
}

// plain is about how many bytes the text has without the escapes of JSON.
func (p *Produced) plain() int64 {
	if bytes.IndexByte(p.text, '\\') < 0 {
		return p.bytes
	}
	plain := int64(len(p.text))
	for i := 0; i+1 < len(p.text); i++ {
		if p.text[i] != '\\' {
			continue
		}
		plain--
		if i++; p.text[i] == 'u' {
			plain -= 2 // most of such characters have two or three bytes
		}
	}
	return p.bytes * plain / int64(len(p.text))
}

// Count tokenises the kept text, and counts a token for each tokenBytes of sealed text.
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
	return jsontext.AppendUnescaped(dst, buf.text)
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
