package billing

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"farebox/billing/money"
)

func drawRecord(t *rapid.T) record {
	positive := func(name string) int64 {
		return rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, math.MaxInt64)).Draw(t, name)
	}
	small := func(name string) uint32 {
		return rapid.OneOf(rapid.Uint32Range(0, 300), rapid.Uint32()).Draw(t, name)
	}
	seq := rapid.OneOf(rapid.Uint64Range(1, 1000), rapid.Uint64Range(1, math.MaxUint64)).Draw(t, "seq")
	r := record{
		kind: rapid.Uint8Range(recHold, recPay).Draw(t, "kind"), seq: seq, timeNs: positive("time"),
		hold: rapid.Uint64Range(1, seq).Draw(t, "hold"), account: small("account"),
	}
	switch r.kind {
	case recHold:
		r.hold, r.key, r.held = seq, small("key"), Nano(positive("held"))
	case recExtend:
		r.held = Nano(positive("held"))
	case recPay:
		r.hold, r.day = 0, rapid.Int32().Draw(t, "day")
		for i := range r.amounts {
			r.amounts[i] = Nano(positive("amount"))
		}
	case recSettle, recProgress:
		r.flags, r.key, r.model, r.day = Flags(rapid.Uint8Range(0, 127).Draw(t, "flags")), small("key"), small("model"), rapid.Int32().Draw(t, "day")
		for i := range r.amounts {
			r.amounts[i] = Nano(positive("amount"))
		}
		// One farebox writes the one, a later one the other.
		*rapid.SampledFrom([]*Nano{&r.shortfall, &r.debt}).Draw(t, "beyond") = Nano(positive("short"))
		copy(r.requestID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		r.reasoning = positive("reasoning")
		r.status, r.tookMs = rapid.Uint16().Draw(t, "status"), small("took")
		for range rapid.IntRange(0, money.MaxLines).Draw(t, "lines") {
			r.lines.Add(money.Kind(rapid.Uint8Range(1, 127).Draw(t, "kind of line")), positive("units"), money.Pico(positive("price")))
		}
	}
	return r
}

// "What was charged is not what the journal says."
func TestRecordsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		b := make([]byte, sizeMost)
		n := r.put(b)
		if n < sizeHead || n > sizeMost {
			t.Fatalf("a record has %d bytes", n)
		}
		var got record
		if m := got.get(b, r.seq, nil); m != n || got != r {
			t.Fatalf("put %d bytes of %+v, got %d of %+v", n, r, m, got)
		}
		if got.get(b[:n-1], r.seq, nil) != 0 {
			t.Fatal("a cut record was read")
		}
		for _, other := range []uint64{r.seq - 1, r.seq + 1, r.seq + 1<<32, r.seq ^ 1<<63} {
			if got.get(b, other, nil) != 0 {
				t.Fatalf("record %d was read as record %d", r.seq, other)
			}
		}
		bit := rapid.IntRange(0, 8*n-1).Draw(t, "bit")
		b[bit/8] ^= 1 << (bit % 8)
		if got.get(b, r.seq, nil) != 0 {
			t.Fatalf("a record with bit %d flipped was read", bit)
		}
	})
}

// "My usage page shows other numbers than my bill."
func TestPagesKeepEveryRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p usagePage
		var want []record
		seq := uint64(0)
		for range rapid.IntRange(1, 20).Draw(t, "n") {
			r := drawRecord(t)
			seq += rapid.Uint64Range(1, 1000).Draw(t, "step")
			r.kind, r.seq, r.account, r.hold, r.held = recSettle, seq, 7, rapid.Uint64Range(1, seq).Draw(t, "opened"), 0
			r.timeNs -= r.timeNs % 1000
			p.add(&r)
			want = append(want, r)
		}
		i := 0
		err := p.each(nil, func(r *record) error {
			if *r != want[i] {
				t.Fatalf("request %d is %+v, was %+v", i, *r, want[i])
			}
			i++
			return nil
		})
		if err != nil || i != len(want) {
			t.Fatalf("%d of %d requests: %v", i, len(want), err)
		}
	})
}

// "The lines of my bill do not add up to its sum."
func TestSpreadAddsUpByCurrencyAndByLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := record{kind: recSettle}
		for range rapid.IntRange(0, money.MaxLines).Draw(t, "lines") {
			r.lines.Add(money.Kind(rapid.Uint8Range(1, 22).Draw(t, "kind")), rapid.Int64Range(0, 5000).Draw(t, "units"), money.Pico(rapid.Int64Range(0, 9_000_000).Draw(t, "price")))
		}
		cost := r.lines.Cost()
		purse := money.Parts{}
		for i := range purse {
			purse[i] = Nano(rapid.Int64Range(0, int64(cost)+10).Draw(t, "purse"))
		}
		if rapid.Bool().Draw(t, "other") {
			cost = Nano(rapid.Int64Range(0, 2*int64(cost)+10).Draw(t, "cost"))
		}
		r.amounts = purse.Take(cost)
		checkShares(t, &r)
	})
}

// checkShares says that a charge's shares add up by currency and by line.
func checkShares(t rapid.TB, r *record) {
	t.Helper()
	var s shares
	r.spread(&s)
	var paid money.Parts
	units, at := make([]int64, len(r.sold())), -1
	for _, x := range s.all() {
		if x.amount < 0 || x.units < 0 || x.units == 0 && x.amount == 0 || x.kind != r.sold()[x.line].Kind {
			t.Fatalf("a share is %+v", x)
		}
		if next := int(x.line)*money.Currencies + int(x.place); next <= at {
			t.Fatalf("the shares are in another order: %+v", s.all())
		} else {
			at = next
		}
		paid[x.place] += x.amount
		units[x.line] += x.units
	}
	if paid != r.amounts {
		t.Fatalf("the shares add up to %v of %v", paid, r.amounts)
	}
	for i, l := range r.sold() {
		if units[i] != l.Units {
			t.Fatalf("line %d has %d units, its shares %d", i, l.Units, units[i])
		}
	}
}

// FuzzRecord: no bytes, however they came there, may be read as a record that
// would be written differently, nor make the decoder panic.
func FuzzRecord(f *testing.F) {
	settle := record{kind: recSettle, seq: 9, hold: 4, timeNs: 1, account: 1, key: 2, model: 3, day: 20000, amounts: money.Parts{1, 2, 3}}
	settle.lines.Add(money.InputTokens, 5, 1_000_000)
	settle.lines.Add(money.OutputTokens, 2, 0)
	b := make([]byte, sizeMost)
	f.Add(b[:settle.put(b)], uint64(9))
	for i := range money.MaxLines - 2 {
		settle.lines.Add(money.Kind(i+1), math.MaxInt64, math.MaxInt64)
	}
	long := make([]byte, sizeMost)
	f.Add(long[:settle.put(long)], uint64(9))
	for _, old := range version1 {
		f.Add(old.bytes(), old.seq)
	}
	hold := record{kind: recHold, seq: 1 << 40, hold: 1 << 40, account: 1, key: 1, held: 77}
	c := make([]byte, sizeMost)
	f.Add(c[:hold.put(c)], uint64(1<<40))
	f.Add([]byte{}, uint64(1))
	before := soldBefore{7: imageClasses}
	f.Fuzz(func(t *testing.T, b []byte, seq uint64) {
		// With the checksum made right the body is reached at every try.
		if len(b) >= sizeHead && len(b) < 512 {
			b = append([]byte(nil), b...)
			b[8], b[9] = byte(len(b)), b[9]&^longSize|byte(len(b)>>8)*longSize
			b[4], b[5], b[6], b[7] = byte(seq), byte(seq>>8), byte(seq>>16), byte(seq>>24)
			sum := checksum(b[4:], seq)
			b[0], b[1], b[2], b[3] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		}
		var r record
		n := r.get(b, seq, before)
		if n == 0 {
			return
		}
		out := make([]byte, sizeMost)
		m := r.put(out)
		var again record
		if again.get(out[:m], seq, nil) != m || again != r {
			t.Fatalf("%x was read as %+v, which is written as %x and read as %+v", b, r, out[:m], again)
		}
		p := usagePage{account: r.account, first: seq, last: seq, requests: 1, data: b}
		_ = p.each(before, func(*record) error { return nil })
	})
}
