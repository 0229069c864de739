package journal

import (
	"encoding/binary"

	"farebox/billing/money"
)

// The body of a settlement or progress has two versions. Version 2 is written:
// the sold lines. Version 1 knew four classes of tokens and had everything else
// in their places; it is read for ever, and its lines follow from the type that
// the model had then (SoldBefore).
//
//	0 bits of the fields below    1 flags, and the version    2 request id
//	18 numbers: back, account, key, model, day, status, ms, then
//	version 2: the lines: kind, units, price; the last has lastLine in its kind
//	version 1: the usage and the prices of the classes
//	amounts by currency, shortfall, debt, the kind of a record that is not a charge,
//	the upstream: the last number of version 2, if there is one
const (
	hasDIEM = 1 << iota
	hasBundled
	hasUSD
	hasShortfall
	hasReasoning // in version 1: also cached and written tokens
	hasLines     // in version 1: the upstream reported the usage
	hasMoved     // in version 1: the usage was counted
	hasDebt
)

const (
	// ofLines in the flags says that a charge has version 2.
	ofLines = 1 << 7
	// lastLine in a kind says that no line follows.
	lastLine = 1 << 7
)

// appendCharge appends a charge: fields that are zero in most have no bytes.
func (r *Record) appendCharge(d []byte) []byte {
	bits := byte(0)
	for i, v := range r.Amounts {
		if v != 0 {
			bits |= hasDIEM << i
		}
	}
	if r.Shortfall != 0 {
		bits |= hasShortfall
	}
	if r.Debt != 0 {
		bits |= hasDebt
	}
	if r.Reasoning != 0 {
		bits |= hasReasoning
	}
	if r.Moved != 0 {
		bits |= hasMoved
	}
	sold := r.Lines.All()
	if len(sold) > 0 {
		bits |= hasLines
	}
	d = append(d, bits, byte(r.Flags)|ofLines)
	d = append(d, r.RequestID[:]...)
	d = binary.AppendUvarint(d, r.Seq-r.Hold)
	d = binary.AppendUvarint(d, uint64(r.Account))
	d = binary.AppendUvarint(d, uint64(r.Key))
	d = binary.AppendUvarint(d, uint64(r.Model))
	d = binary.AppendUvarint(d, uint64(uint32(r.Day)))
	d = binary.AppendUvarint(d, uint64(r.Status))
	d = binary.AppendUvarint(d, uint64(r.TookMs))
	for i := range sold {
		k := byte(sold[i].Kind)
		if i == len(sold)-1 {
			k |= lastLine
		}
		d = append(d, k)
		d = binary.AppendUvarint(d, uint64(sold[i].Units))
		d = binary.AppendUvarint(d, uint64(max(sold[i].Price, 0)))
	}
	if r.Reasoning != 0 {
		d = binary.AppendUvarint(d, uint64(max(r.Reasoning, 0)))
	}
	for _, v := range r.Amounts {
		if v != 0 {
			d = binary.AppendUvarint(d, uint64(v))
		}
	}
	if r.Shortfall != 0 {
		d = binary.AppendUvarint(d, uint64(r.Shortfall))
	}
	if r.Debt != 0 {
		d = binary.AppendUvarint(d, uint64(r.Debt))
	}
	if r.Moved != 0 {
		d = append(d, byte(r.Moved))
	}
	if r.Upstream != 0 {
		d = binary.AppendUvarint(d, uint64(r.Upstream))
	}
	return d
}

// readCharge reads a charge of either version.
func (r *Record) readCharge(d *numbers, before SoldBefore) {
	bits := d.byte()
	flags := d.byte()
	r.Flags = Flags(flags &^ ofLines)
	d.copy(r.RequestID[:])
	r.Hold = r.Seq - d.uint()
	r.Account, r.Key, r.Model = d.uint32(), d.uint32(), d.uint32()
	r.Day = int32(d.uint32())
	r.Status, r.TookMs = uint16(d.uint()), d.uint32()
	r.Lines, r.Reasoning = money.Lines{}, 0
	if flags&ofLines != 0 {
		r.readLines(d, bits)
	} else {
		r.readClasses(d, bits, before.of(r.Model))
	}
	r.Amounts, r.Shortfall, r.Debt = money.Parts{}, 0, 0
	for i := range r.Amounts {
		if bits&(hasDIEM<<i) != 0 {
			r.Amounts[i] = d.nano()
		}
	}
	if bits&hasShortfall != 0 {
		r.Shortfall = d.nano()
	}
	if bits&hasDebt != 0 {
		r.Debt = d.nano()
	}
	r.Moved = 0
	if bits&hasMoved != 0 && flags&ofLines != 0 {
		r.Moved = Moved(d.byte())
		d.bad = d.bad || r.Moved == 0 || r.Moved >= movedEnd
	}
	r.Upstream = 0
	if len(d.b) > 0 && flags&ofLines != 0 {
		r.Upstream = d.uint32()
		d.bad = d.bad || r.Upstream == 0
	}
}

// readLines reads the sold lines of version 2.
func (r *Record) readLines(d *numbers, bits byte) {
	for more := bits&hasLines != 0; more && !d.bad; {
		k := d.byte()
		more = k&lastLine == 0
		kind := money.Kind(k &^ lastLine)
		if d.bad = d.bad || kind == 0 || len(r.Lines.All()) == money.MaxLines; !d.bad {
			r.Lines.Add(kind, d.int(), money.Pico(d.int()))
		}
	}
	if bits&hasReasoning != 0 {
		r.Reasoning = d.int()
	}
}

// classes are the kinds that the four classes of version 1 mean: input,
// read from the cache, written to it, output.
type classes [4]money.Kind

// TextClasses are the kinds of tokens of a model that writes.
var (
	TextClasses      = classes{money.InputTokens, money.CacheReadTokens, money.CacheWriteTokens, money.OutputTokens}
	embeddingClasses = classes{
		money.EmbeddingTokens, money.EmbeddingCacheTokens, money.EmbeddingStoredTokens, money.EmbeddingTokens,
	}
	imageClasses  = classes{money.InputImages, money.WebSearches, money.PromptRewrites, money.Images}
	creditClasses = classes{money.RPCCredits, money.RPCCredits, money.RPCCredits, money.RPCCredits}
)

// ClassesByType are those of models that sold no text, by the types that version
// 1 knew.
var ClassesByType = map[string]classes{
	"embedding": embeddingClasses, "rpc": creditClasses,
	"image": imageClasses, "inpaint": imageClasses, "upscale": imageClasses, "background_removal": imageClasses,
}

// SoldBefore is the types of models in records of version 1; the type of all others was
// text. It is in the store and does not change any more.
type SoldBefore map[uint32]classes

func (s SoldBefore) of(model uint32) *classes {
	if c, ok := s[model]; ok {
		return &c
	}
	return &TextClasses
}

// readClasses reads the usage of version 1 as lines: always all four, so
// that entries keep their positions.
func (r *Record) readClasses(d *numbers, bits byte, c *classes) {
	prompt, completion := d.int(), d.int()
	cached, written := int64(0), int64(0)
	if bits&hasReasoning != 0 {
		cached, written, r.Reasoning = d.int(), d.int(), d.int()
	}
	in, out := d.int(), d.int()
	read, write := d.orInput(in), d.orInput(in)
	cached = min(cached, prompt)
	written = min(written, prompt-cached)
	r.Lines.Add(c[0], prompt-cached-written, money.Pico(in))
	r.Lines.Add(c[1], cached, money.Pico(read))
	r.Lines.Add(c[2], written, money.Pico(write))
	r.Lines.Add(c[3], completion, money.Pico(out))
}

// orInput reads a price of version 1: 0 means the input price, n+1 means n.
func (nu *numbers) orInput(input int64) int64 {
	v := nu.uint()
	if v == 0 {
		return input
	}
	nu.bad = nu.bad || v > 1<<63
	return int64(v - 1)
}
