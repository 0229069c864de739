package dialect

import (
	"sync/atomic"
	"time"
	"unicode/utf8"

	"farebox/proxy/jsontext"
)

const (
	// wholeCounts is how many long texts of a model are counted whole in a second although a
	// usage was reported: 8 KB take 50 µs, of senseless letters 400 µs.
	wholeCounts = 8
	// windows of a text, each of windowBytes, represent a longer one. Of 250 pieces of prose,
	// programs, Chinese and figures they were 11 % above the whole count at most, 18 % below.
	windows     = 12
	windowBytes = 64
	// sampleLess is the part of a sampled count that is left out, so that no client pays more than
	// by the whole count. The rest is the operator's, whose upstream told less than half of it.
	sampleLess = 8
)

// Doubts says how many texts of a model were counted in this second because their usage
// could not be true.
type Doubts struct{ secondAndCount atomic.Uint64 }

// mayCount says whether one more text may be counted whole in the second of a time.
func (d *Doubts) mayCount(now time.Time) bool {
	second := uint64(now.Unix()) << 8
	for {
		old := d.secondAndCount.Load()
		next := second + 1
		if old&^0xff == second {
			next = old + 1
		}
		if next-second > wholeCounts {
			return false
		}
		if d.secondAndCount.CompareAndSwap(old, next) {
			return true
		}
	}
}

// doubt is how the text of an answer is counted where a usage was reported.
type doubt uint8

const (
	undecided doubt = iota
	whole
	sampled
)

// count is the settled number of tokens of an answer's text. doubted says that a usage was reported. It is
// decided once for an answer, so that the usage the client sees is the usage charged.
func (p *Produced) count(c *Chat, doubted bool) (tokens, reasoning int64) {
	if doubted && p.doubt == undecided && p.keptBytes > windows*windowBytes {
		if p.doubt = whole; c.Model != nil && !c.Model.Doubts.mayCount(time.Now()) {
			p.doubt = sampled
		}
	}
	if p.doubt == sampled {
		return p.sample(c.Vocabulary())
	}
	tokens, reasoning, _ = p.Count(c.Vocabulary())
	return tokens, reasoning
}

// sample is Count for bounded work: it tokenises windows of the kept text, evenly spread, and
// has them represent all, less one part in sampleLess. It depends on the text alone.
func (p *Produced) sample(vocabulary string) (tokens, reasoning int64) {
	p.endRun()
	buf := textBuffers.Get().(*textBuffer)
	defer textBuffers.Put(buf)
	buf.text = buf.text[:0]
	thoughts := 0
	for at := 0; at < len(p.text); {
		key, next := p.runAt(at)
		before := len(buf.text)
		buf.text = jsontext.AppendUnescaped(buf.text, p.text[at+runHead:next])
		if IsReasoning(key) {
			thoughts += len(buf.text) - before
		}
		at = next
	}
	all, seen := int64(len(buf.text)), int64(0)
	if all < windowBytes {
		return 1, 0 // escapes of nothing
	}
	for i := range windows {
		w, cut := window(buf.text, i)
		seen += int64(len(w))
		if tokens += CountTokens(vocabulary, w); cut {
			tokens-- // of a long token, two windows may hold the halves
		}
	}
	tokens = tokens * all / seen * p.bytes / p.keptBytes
	tokens = max(1, tokens-tokens/sampleLess)
	return tokens, tokens * int64(thoughts) / all
}

// window is the one of a number: from the beginning of a word to the end of one, or else of
// whole characters; cut says that a token may go on behind it.
func window(text []byte, number int) (w []byte, cut bool) {
	if len(text) > windowBytes {
		from := number * (len(text) - windowBytes) / (windows - 1)
		text = text[from : from+windowBytes]
	}
	half := len(text) / 2
	from, to := 0, len(text)-1
	for from < half && (text[from] != ' ' || text[from+1] == ' ') {
		from++
	}
	for to > half && (text[to] != ' ' || text[to-1] == ' ') {
		to--
	}
	if from == half {
		for from = 0; from < half && !utf8.RuneStart(text[from]); from++ {
		}
		cut = true
	}
	if to <= half {
		for to = len(text) - 1; to > half && !utf8.RuneStart(text[to]); to-- {
		}
		cut = true
	}
	return text[from:to], cut
}
