package journal

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"farebox/billing/money"
)

// Kinds of journal records. The numbers are stored.
const (
	Hold     = 1 + iota // money was set aside
	Extend              // more of it
	Progress            // the charge if this process dies now
	Settle              // the charge
	Void                // nothing was charged
	Pay                 // debt was paid
)

// A record is a head of fixed size and a body of variable-length numbers. Its
// bytes cost more than its making (page faults, writing back, segments to
// prepare: about 5 ns a byte), so a hold has about 26 bytes and a settlement
// about 66.
//
//	0 crc32c of [4:size], seeded with the high half of the sequence
//	4 low half of the sequence   8 size   9 kind, and longSize   10 Unix ns   18 body
//
// Bodies: hold: account, key, amount. extend: back, account, amount.
// void: back, account. pay: account, day, amounts. progress and settle: see
// appendCharge. "back" is how many sequences ago the hold was opened.
const (
	sizeHead = 18
	// MaxRecord is more than the largest record: a settlement of eight lines whose
	// every number has its longest form has 285 bytes.
	MaxRecord = 288
	// longSize in the kind adds 256 to the size.
	longSize = 1 << 7
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Flags say how a charge was unusual. The highest bit is not one of them
// (ofLines).
type Flags uint8

// The flags of a charge. The numbers are stored.
const (
	FlagEstimated  Flags = 1 << iota // usage was counted here, not reported by the upstream
	FlagIncomplete                   // the upstream's answer broke off
	FlagAborted                      // the client left
	FlagCut                          // the money ran out and the answer was ended
	FlagRecovered                    // settled after a crash at its last recorded progress
	FlagKeyed                        // its answer is kept under an idempotency key
	FlagJob                          // it sold a job, whose row in the store says that it was sold
)

// Record is one entry of the journal. Amounts of a hold or extension are
// held; those of a settlement or progress are charged.
type Record struct {
	Kind      uint8
	Flags     Flags
	Seq       uint64
	TimeNs    int64
	Hold      uint64 // sequence of the hold's own record
	Account   uint32
	Key       uint32
	Model     uint32
	Upstream  uint32      // that answered; 0: unknown, or several
	Day       int32       // UTC day in which the hold was opened; period limits count there
	Held      money.Nano  // of a hold or extension
	Amounts   money.Parts // charged
	Debt      money.Nano  // the rest of its cost, which the account owes
	Shortfall money.Nano  // the same, of a farebox that did not collect it
	RequestID [16]byte
	Status    uint16
	TookMs    uint32
	Lines     money.Lines // the sold lines
	Reasoning int64       // tokens of the output that were not shown
	Moved     Moved
}

// Moved says the kind of a record that is not a charge. Such records are in no
// journal: the store makes them (store/moved.go).
type Moved uint8

// The numbers are stored.
const (
	Charged  Moved = iota
	Refunded       // of a charge, given back
	Repaid         // of the debt from a request
	Waived         // of a charge: it came too late, and the house has paid
	movedEnd
)

// Sign is 1 where the record takes from an account, and -1 where it gives back.
func (m Moved) Sign() int64 {
	if m == Refunded || m == Waived {
		return -1
	}
	return 1
}

// Tokens are those of a request for text or embeddings.
func (r *Record) Tokens() (prompt, completion int64) {
	for _, l := range r.Lines.All() {
		switch {
		case l.Kind == money.OutputTokens:
			completion += l.Units
		case l.Kind.OfTokens():
			prompt += l.Units
		}
	}
	return prompt, completion
}

// Put writes r to b, which has at least MaxRecord bytes, and gives its size.
func (r *Record) Put(b []byte) int {
	le := binary.LittleEndian
	le.PutUint32(b[4:], uint32(r.Seq))
	b[9] = r.Kind
	le.PutUint64(b[10:], uint64(r.TimeNs))
	d := b[:sizeHead:MaxRecord]
	switch r.Kind {
	case Hold:
		d = binary.AppendUvarint(d, uint64(r.Account))
		d = binary.AppendUvarint(d, uint64(r.Key))
		d = binary.AppendUvarint(d, uint64(r.Held))
	case Extend, Void:
		d = binary.AppendUvarint(d, r.Seq-r.Hold)
		d = binary.AppendUvarint(d, uint64(r.Account))
		if r.Kind == Extend {
			d = binary.AppendUvarint(d, uint64(r.Held))
		}
	case Pay:
		d = binary.AppendUvarint(d, uint64(r.Account))
		d = binary.AppendUvarint(d, uint64(uint32(r.Day)))
		for _, n := range r.Amounts {
			d = binary.AppendUvarint(d, uint64(n))
		}
	default:
		d = r.appendCharge(d)
	}
	b[8] = byte(len(d))
	b[9] |= byte(len(d)>>8) * longSize
	le.PutUint32(b, checksum(b[4:len(d)], r.Seq))
	return len(d)
}

// Get reads the record with sequence seq from the start of b and gives its
// size; 0 when it is not there: behind the last record, at a torn or damaged
// record, or at the remains of an earlier use of the segment.
func (r *Record) Get(b []byte, seq uint64, before SoldBefore) int {
	le := binary.LittleEndian
	if len(b) < sizeHead || le.Uint32(b[4:]) != uint32(seq) {
		return 0
	}
	n := int(b[8]) + int(b[9]&longSize)*(256/longSize)
	if n < sizeHead || n > MaxRecord || n > len(b) || le.Uint32(b) != checksum(b[4:n], seq) {
		return 0
	}
	*r = Record{Kind: b[9] &^ longSize, Seq: seq, TimeNs: int64(le.Uint64(b[10:]))}
	d := numbers{b: b[sizeHead:n]}
	switch r.Kind {
	case Hold:
		r.Hold = seq
		r.Account, r.Key, r.Held = d.uint32(), d.uint32(), d.nano()
	case Extend, Void:
		r.Hold, r.Account = seq-d.uint(), d.uint32()
		if r.Kind == Extend {
			r.Held = d.nano()
		}
	case Pay:
		r.Account, r.Day = d.uint32(), int32(d.uint32())
		for i := range r.Amounts {
			r.Amounts[i] = d.nano()
		}
	case Progress, Settle:
		r.readCharge(&d, before)
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

// numbers reads the appended numbers until it meets something bad.
type numbers struct {
	b   []byte
	bad bool
}

func (nu *numbers) uint() uint64 {
	v, n := binary.Uvarint(nu.b)
	if n <= 0 {
		nu.bad, nu.b = true, nil
		return 0
	}
	nu.b = nu.b[n:]
	return v
}

func (nu *numbers) uint32() uint32 {
	v := nu.uint()
	nu.bad = nu.bad || v > math.MaxUint32
	return uint32(v)
}

func (nu *numbers) int() int64 {
	v := nu.uint()
	nu.bad = nu.bad || v > math.MaxInt64
	return int64(v)
}

func (nu *numbers) nano() money.Nano { return money.Nano(nu.int()) }

func (nu *numbers) byte() byte {
	if len(nu.b) == 0 {
		nu.bad = true
		return 0
	}
	v := nu.b[0]
	nu.b = nu.b[1:]
	return v
}

func (nu *numbers) copy(to []byte) {
	if len(nu.b) < len(to) {
		nu.bad, nu.b = true, nil
		return
	}
	copy(to, nu.b)
	nu.b = nu.b[len(to):]
}
