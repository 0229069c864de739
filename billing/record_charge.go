package billing

import (
	"encoding/binary"

	"farebox/billing/money"
)

// The body of a settlement or progress has two versions. What is written is
// version 2: what was sold, line by line. Version 1 knew four classes of tokens
// and had everything else in their places; it is read for ever, and what its
// lines were follows from the type that the model had then (soldBefore).
//
//	0 bits, what follows    1 flags, and the version    2 request id
//	18 numbers: back, account, key, model, day, status, ms, then
//	version 2: the lines: kind, units, price; the last has lastLine in its kind
//	version 1: the usage and the prices of the classes
//	amounts by currency, shortfall, debt
const (
	hasDIEM = 1 << iota
	hasBundled
	hasUSD
	hasShortfall
	hasReasoning // in version 1: also cached and written tokens
	hasLines     // in version 1: the upstream reported the usage
	_            // in version 1: the usage was counted
	hasDebt
)

const (
	// ofLines in the flags says that a charge has version 2.
	ofLines = 1 << 7
	// lastLine in a kind says that no line follows.
	lastLine = 1 << 7
)

// appendCharge appends a charge: what is zero in most has no bytes.
func (r *record) appendCharge(d []byte) []byte {
	bits := byte(0)
	for i, v := range r.amounts {
		if v != 0 {
			bits |= hasDIEM << i
		}
	}
	if r.shortfall != 0 {
		bits |= hasShortfall
	}
	if r.debt != 0 {
		bits |= hasDebt
	}
	if r.reasoning != 0 {
		bits |= hasReasoning
	}
	sold := r.lines.All()
	if len(sold) > 0 {
		bits |= hasLines
	}
	d = append(d, bits, byte(r.flags)|ofLines)
	d = append(d, r.requestID[:]...)
	d = binary.AppendUvarint(d, r.seq-r.hold)
	d = binary.AppendUvarint(d, uint64(r.account))
	d = binary.AppendUvarint(d, uint64(r.key))
	d = binary.AppendUvarint(d, uint64(r.model))
	d = binary.AppendUvarint(d, uint64(uint32(r.day)))
	d = binary.AppendUvarint(d, uint64(r.status))
	d = binary.AppendUvarint(d, uint64(r.tookMs))
	for i := range sold {
		k := byte(sold[i].Kind)
		if i == len(sold)-1 {
			k |= lastLine
		}
		d = append(d, k)
		d = binary.AppendUvarint(d, uint64(sold[i].Units))
		d = binary.AppendUvarint(d, uint64(max(sold[i].Price, 0)))
	}
	if r.reasoning != 0 {
		d = binary.AppendUvarint(d, uint64(max(r.reasoning, 0)))
	}
	for _, v := range r.amounts {
		if v != 0 {
			d = binary.AppendUvarint(d, uint64(v))
		}
	}
	if r.shortfall != 0 {
		d = binary.AppendUvarint(d, uint64(r.shortfall))
	}
	if r.debt != 0 {
		d = binary.AppendUvarint(d, uint64(r.debt))
	}
	return d
}

// readCharge reads a charge of either version.
func (r *record) readCharge(d *numbers, before soldBefore) {
	bits := d.byte()
	flags := d.byte()
	r.flags = Flags(flags &^ ofLines)
	d.copy(r.requestID[:])
	r.hold = r.seq - d.uint()
	r.account, r.key, r.model = d.uint32(), d.uint32(), d.uint32()
	r.day = int32(d.uint32())
	r.status, r.tookMs = uint16(d.uint()), d.uint32()
	r.lines, r.reasoning = money.Lines{}, 0
	if flags&ofLines != 0 {
		r.readLines(d, bits)
	} else {
		r.readClasses(d, bits, before.of(r.model))
	}
	r.amounts, r.shortfall, r.debt = money.Parts{}, 0, 0
	for i := range r.amounts {
		if bits&(hasDIEM<<i) != 0 {
			r.amounts[i] = d.nano()
		}
	}
	if bits&hasShortfall != 0 {
		r.shortfall = d.nano()
	}
	if bits&hasDebt != 0 {
		r.debt = d.nano()
	}
}

// readLines reads what version 2 says was sold.
func (r *record) readLines(d *numbers, bits byte) {
	for more := bits&hasLines != 0; more && !d.bad; {
		k := d.byte()
		more = k&lastLine == 0
		kind := money.Kind(k &^ lastLine)
		if d.bad = d.bad || kind == 0 || len(r.lines.All()) == money.MaxLines; !d.bad {
			r.lines.Add(kind, d.int(), money.Pico(d.int()))
		}
	}
	if bits&hasReasoning != 0 {
		r.reasoning = d.int()
	}
}

// classes are the kinds that the four classes of version 1 stand for: input,
// read from the cache, written to it, output.
type classes [4]money.Kind

var (
	textClasses      = classes{money.InputTokens, money.CacheReadTokens, money.CacheWriteTokens, money.OutputTokens}
	embeddingClasses = classes{
		money.EmbeddingTokens, money.EmbeddingCacheTokens, money.EmbeddingStoredTokens, money.EmbeddingTokens,
	}
	imageClasses  = classes{money.InputImages, money.WebSearches, money.PromptRewrites, money.Images}
	creditClasses = classes{money.RPCCredits, money.RPCCredits, money.RPCCredits, money.RPCCredits}
)

// classesByType are those of models that sold no text, by the types that version
// 1 knew.
var classesByType = map[string]classes{
	"embedding": embeddingClasses, "rpc": creditClasses,
	"image": imageClasses, "inpaint": imageClasses, "upscale": imageClasses, "background_removal": imageClasses,
}

// soldBefore is what models sold in records of version 1; of all others it was
// text. It is in the store and does not change any more.
type soldBefore map[uint32]classes

func (s soldBefore) of(model uint32) *classes {
	if c, ok := s[model]; ok {
		return &c
	}
	return &textClasses
}

// readClasses reads what version 1 says was used, as lines: always all four, so
// that entries keep their positions.
func (r *record) readClasses(d *numbers, bits byte, c *classes) {
	prompt, completion := d.int(), d.int()
	cached, written := int64(0), int64(0)
	if bits&hasReasoning != 0 {
		cached, written, r.reasoning = d.int(), d.int(), d.int()
	}
	in, out := d.int(), d.int()
	read, write := d.orInput(in), d.orInput(in)
	cached = min(cached, prompt)
	written = min(written, prompt-cached)
	r.lines.Add(c[0], prompt-cached-written, money.Pico(in))
	r.lines.Add(c[1], cached, money.Pico(read))
	r.lines.Add(c[2], written, money.Pico(write))
	r.lines.Add(c[3], completion, money.Pico(out))
}

// orInput reads a price of version 1: 0 stands for the input price, n+1 for n.
func (d *numbers) orInput(input int64) int64 {
	v := d.uint()
	if v == 0 {
		return input
	}
	d.bad = d.bad || v > 1<<63
	return int64(v - 1)
}
