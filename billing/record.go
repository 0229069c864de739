package billing

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Kinds of journal records. The numbers are stored.
const (
	recHold     = 1 + iota // money was set aside
	recExtend              // more of it
	recProgress            // what to charge should this process die now
	recSettle              // the charge
	recVoid                // nothing was charged
	recPay                 // debt was paid
)

// A record is a head of fixed size and a body of variable-length numbers. Its
// bytes cost more than its making (page faults, writing back, segments to
// prepare: about 5 ns a byte), so a hold has about 26 bytes and a settlement
// about 66.
//
//	0 crc32c of [4:size], seeded with the high half of the sequence
//	4 low half of the sequence   8 size   9 kind   10 Unix ns   18 body
//
// Bodies: hold: account, key, amount. extend: back, account, amount.
// void: back, account. pay: account, day, amounts. progress and settle: see appendCharge. "back" is how
// many sequences ago the hold was opened.
const (
	sizeHead = 18
	// sizeMost is more than the largest record: a settlement whose every number
	// has its longest form has 213 bytes.
	sizeMost = 216
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Flags say what was unusual about a charge.
type Flags uint8

// The flags of a charge. The numbers are stored.
const (
	FlagEstimated  Flags = 1 << iota // usage was counted here, not reported by the upstream
	FlagIncomplete                   // the upstream's answer broke off
	FlagAborted                      // the client left
	FlagCut                          // the money ran out and the answer was ended
	FlagRecovered                    // settled after a crash at its last recorded progress
	FlagKeyed                        // its answer is kept under an idempotency key
)

// record is one entry of the journal. Amounts of a hold or extension are what
// was set aside; those of a settlement or progress what is charged.
type record struct {
	kind      uint8
	flags     Flags
	seq       uint64
	timeNs    int64
	hold      uint64 // sequence of the hold's own record
	account   uint32
	key       uint32
	model     uint32
	day       int32 // UTC day in which the hold was opened; period limits count there
	held      Nano  // of a hold or extension
	amounts   parts // charged
	debt      Nano  // what it cost beyond that, and the account owes
	shortfall Nano  // the same, of a farebox that did not collect it
	requestID [16]byte
	usage     Usage
	status    uint16
	tookMs    uint32
	prices    lines
}

// put writes r to b, which has at least sizeMost bytes, and gives its size.
func (r *record) put(b []byte) int {
	le := binary.LittleEndian
	le.PutUint32(b[4:], uint32(r.seq))
	b[9] = r.kind
	le.PutUint64(b[10:], uint64(r.timeNs))
	d := b[:sizeHead:sizeMost]
	switch r.kind {
	case recHold:
		d = binary.AppendUvarint(d, uint64(r.account))
		d = binary.AppendUvarint(d, uint64(r.key))
		d = binary.AppendUvarint(d, uint64(r.held))
	case recExtend, recVoid:
		d = binary.AppendUvarint(d, r.seq-r.hold)
		d = binary.AppendUvarint(d, uint64(r.account))
		if r.kind == recExtend {
			d = binary.AppendUvarint(d, uint64(r.held))
		}
	case recPay:
		d = binary.AppendUvarint(d, uint64(r.account))
		d = binary.AppendUvarint(d, uint64(uint32(r.day)))
		for _, n := range r.amounts {
			d = binary.AppendUvarint(d, uint64(n))
		}
	default:
		d = r.appendCharge(d)
	}
	b[8] = byte(len(d))
	le.PutUint32(b, checksum(b[4:len(d)], r.seq))
	return len(d)
}

// get reads the record with sequence seq from the start of b and gives its
// size; 0 when it is not there: the end of what was written, a torn or damaged
// record, or what an earlier use of the segment left.
func (r *record) get(b []byte, seq uint64) int {
	le := binary.LittleEndian
	if len(b) < sizeHead || le.Uint32(b[4:]) != uint32(seq) {
		return 0
	}
	n := int(b[8])
	if n < sizeHead || n > sizeMost || n > len(b) || le.Uint32(b) != checksum(b[4:n], seq) {
		return 0
	}
	*r = record{kind: b[9], seq: seq, timeNs: int64(le.Uint64(b[10:]))}
	d := numbers{b: b[sizeHead:n]}
	switch r.kind {
	case recHold:
		r.hold = seq
		r.account, r.key, r.held = d.uint32(), d.uint32(), d.nano()
	case recExtend, recVoid:
		r.hold, r.account = seq-d.uint(), d.uint32()
		if r.kind == recExtend {
			r.held = d.nano()
		}
	case recPay:
		r.account, r.day = d.uint32(), int32(d.uint32())
		for i := range r.amounts {
			r.amounts[i] = d.nano()
		}
	case recProgress, recSettle:
		r.readCharge(&d)
	default:
		return 0
	}
	if d.bad || len(d.b) != 0 {
		return 0
	}
	return n
}

func checksum(b []byte, seq uint64) uint32 {
	return crc32.Update(uint32(seq>>32), castagnoli, b)
}

// Bits that say which parts of a charge follow.
const (
	hasDIEM = 1 << iota
	hasBundled
	hasUSD
	hasShortfall
	hasParts // cached, cache write or reasoning tokens
	usageSeen
	usageEstimated
	hasDebt
)

// appendCharge appends a charge: what is zero in most has no bytes.
func (r *record) appendCharge(d []byte) []byte {
	u := &r.usage
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
	if u.Cached|u.CacheWrite|u.Reasoning != 0 {
		bits |= hasParts
	}
	if u.Seen {
		bits |= usageSeen
	}
	if u.Estimated {
		bits |= usageEstimated
	}
	d = append(d, bits, byte(r.flags))
	d = append(d, r.requestID[:]...)
	d = binary.AppendUvarint(d, r.seq-r.hold)
	d = binary.AppendUvarint(d, uint64(r.account))
	d = binary.AppendUvarint(d, uint64(r.key))
	d = binary.AppendUvarint(d, uint64(r.model))
	d = binary.AppendUvarint(d, uint64(uint32(r.day)))
	d = binary.AppendUvarint(d, uint64(r.status))
	d = binary.AppendUvarint(d, uint64(r.tookMs))
	d = binary.AppendUvarint(d, tokens(u.Prompt))
	d = binary.AppendUvarint(d, tokens(u.Completion))
	if bits&hasParts != 0 {
		d = binary.AppendUvarint(d, tokens(u.Cached))
		d = binary.AppendUvarint(d, tokens(u.CacheWrite))
		d = binary.AppendUvarint(d, tokens(u.Reasoning))
	}
	// Most models have no prices of their own for caches; 0 stands for the
	// input price, n+1 for n.
	d = binary.AppendUvarint(d, uint64(r.prices[lineInput]))
	d = binary.AppendUvarint(d, uint64(r.prices[lineOutput]))
	for _, v := range [...]int64{r.prices[lineCacheRead], r.prices[lineCacheWrite]} {
		if v == r.prices[lineInput] {
			d = append(d, 0)
		} else {
			d = binary.AppendUvarint(d, uint64(v)+1)
		}
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

func (r *record) readCharge(d *numbers) {
	bits := d.byte()
	r.flags = Flags(d.byte())
	d.copy(r.requestID[:])
	r.hold = r.seq - d.uint()
	r.account, r.key, r.model = d.uint32(), d.uint32(), d.uint32()
	r.day = int32(d.uint32())
	r.status, r.tookMs = uint16(d.uint()), d.uint32()
	u := &r.usage
	*u = Usage{Seen: bits&usageSeen != 0, Estimated: bits&usageEstimated != 0}
	u.Prompt, u.Completion = d.int(), d.int()
	if bits&hasParts != 0 {
		u.Cached, u.CacheWrite, u.Reasoning = d.int(), d.int(), d.int()
	}
	r.prices[lineInput], r.prices[lineOutput] = d.int(), d.int()
	for _, line := range [...]int{lineCacheRead, lineCacheWrite} {
		if v := d.uint(); v == 0 {
			r.prices[line] = r.prices[lineInput]
		} else {
			r.prices[line] = int64(v - 1)
			d.bad = d.bad || v > 1<<63
		}
	}
	r.amounts, r.shortfall, r.debt = parts{}, 0, 0
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

func tokens(n int64) uint64 { return uint64(max(n, 0)) }

// numbers reads what was appended until it meets something bad.
type numbers struct {
	b   []byte
	bad bool
}

func (d *numbers) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *numbers) uint32() uint32 {
	v := d.uint()
	d.bad = d.bad || v > math.MaxUint32
	return uint32(v)
}

func (d *numbers) int() int64 {
	v := d.uint()
	d.bad = d.bad || v > math.MaxInt64
	return int64(v)
}

func (d *numbers) nano() Nano { return Nano(d.int()) }

func (d *numbers) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *numbers) copy(to []byte) {
	if len(d.b) < len(to) {
		d.bad, d.b = true, nil
		return
	}
	copy(to, d.b)
	d.b = d.b[len(to):]
}
