package journal

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"farebox/billing/money"
)

func drawRecord(t *rapid.T) Record {
	positive := func(name string) int64 {
		return rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, math.MaxInt64)).Draw(t, name)
	}
	small := func(name string) uint32 {
		return rapid.OneOf(rapid.Uint32Range(0, 300), rapid.Uint32()).Draw(t, name)
	}
	seq := rapid.OneOf(rapid.Uint64Range(1, 1000), rapid.Uint64Range(1, math.MaxUint64)).Draw(t, "seq")
	r := Record{
		Kind: rapid.Uint8Range(Hold, Pay).Draw(t, "kind"), Seq: seq, TimeNs: positive("time"),
		Hold: rapid.Uint64Range(1, seq).Draw(t, "hold"), Account: small("account"),
	}
	switch r.Kind {
	case Hold:
		r.Hold, r.Key, r.Held = seq, small("key"), money.Nano(positive("held"))
	case Extend:
		r.Held = money.Nano(positive("held"))
	case Pay:
		r.Hold, r.Day = 0, rapid.Int32().Draw(t, "day")
		for i := range r.Amounts {
			r.Amounts[i] = money.Nano(positive("amount"))
		}
	case Settle, Progress:
		r.Flags, r.Key, r.Model, r.Day = Flags(rapid.Uint8Range(0, 127).Draw(t, "flags")), small("key"), small("model"),
			rapid.Int32().Draw(t, "day")
		for i := range r.Amounts {
			r.Amounts[i] = money.Nano(positive("amount"))
		}
		// One farebox writes the one, a later one the other.
		*rapid.SampledFrom([]*money.Nano{&r.Shortfall, &r.Debt}).Draw(t, "beyond") = money.Nano(positive("short"))
		copy(r.RequestID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		r.Reasoning = positive("reasoning")
		r.Status, r.TookMs = rapid.Uint16().Draw(t, "status"), small("took")
		r.Upstream = small("upstream")
		for range rapid.IntRange(0, money.MaxLines).Draw(t, "lines") {
			r.Lines.Add(money.Kind(rapid.Uint8Range(1, 127).Draw(t, "kind of line")), positive("units"),
				money.Pico(positive("price")))
		}
	}
	return r
}

// "What was charged is not what the journal says."
func TestRecordsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		b := make([]byte, MaxRecord)
		n := r.Put(b)
		if n < sizeHead || n > MaxRecord {
			t.Fatalf("a record has %d bytes", n)
		}
		var got Record
		if m := got.Get(b, r.Seq, nil); m != n || got != r {
			t.Fatalf("put %d bytes of %+v, got %d of %+v", n, r, m, got)
		}
		if got.Get(b[:n-1], r.Seq, nil) != 0 {
			t.Fatal("a cut record was read")
		}
		for _, other := range []uint64{r.Seq - 1, r.Seq + 1, r.Seq + 1<<32, r.Seq ^ 1<<63} {
			if got.Get(b, other, nil) != 0 {
				t.Fatalf("record %d was read as record %d", r.Seq, other)
			}
		}
		bit := rapid.IntRange(0, 8*n-1).Draw(t, "bit")
		b[bit/8] ^= 1 << (bit % 8)
		if got.Get(b, r.Seq, nil) != 0 {
			t.Fatalf("a record with bit %d flipped was read", bit)
		}
	})
}

// "My usage page shows other numbers than my bill."
func TestPagesKeepEveryRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Page
		var want []Record
		seq := uint64(0)
		for range rapid.IntRange(1, 20).Draw(t, "n") {
			r := drawRecord(t)
			seq += rapid.Uint64Range(1, 1000).Draw(t, "step")
			r.Kind, r.Seq, r.Account, r.Hold, r.Held = Settle, seq, 7, rapid.Uint64Range(1, seq).Draw(t, "opened"), 0
			r.TimeNs -= r.TimeNs % 1000
			p.Add(&r)
			want = append(want, r)
		}
		i := 0
		err := p.Each(nil, func(r *Record) error {
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
		r := Record{Kind: Settle}
		for range rapid.IntRange(0, money.MaxLines).Draw(t, "lines") {
			r.Lines.Add(money.Kind(rapid.Uint8Range(1, 22).Draw(t, "kind")), rapid.Int64Range(0, 5000).Draw(t, "units"),
				money.Pico(rapid.Int64Range(0, 9_000_000).Draw(t, "price")))
		}
		cost := r.Lines.Cost()
		purse := money.Parts{}
		for i := range purse {
			purse[i] = money.Nano(rapid.Int64Range(0, int64(cost)+10).Draw(t, "purse"))
		}
		if rapid.Bool().Draw(t, "other") {
			cost = money.Nano(rapid.Int64Range(0, 2*int64(cost)+10).Draw(t, "cost"))
		}
		r.Amounts = purse.Take(cost)
		checkShares(t, &r)
	})
}

// checkShares checks that a charge's shares add up by currency and by line.
func checkShares(t rapid.TB, r *Record) {
	t.Helper()
	var s Shares
	r.Spread(&s)
	var paid money.Parts
	units, at := make([]int64, len(r.Sold())), -1
	for _, x := range s.All() {
		if x.Amount < 0 || x.Units < 0 || x.Units == 0 && x.Amount == 0 || x.Kind != r.Sold()[x.Line].Kind {
			t.Fatalf("a share is %+v", x)
		}
		if next := int(x.Line)*money.Currencies + int(x.Place); next <= at {
			t.Fatalf("the shares are in another order: %+v", s.All())
		} else {
			at = next
		}
		paid[x.Place] += x.Amount
		units[x.Line] += x.Units
	}
	if paid != r.Amounts {
		t.Fatalf("the shares add up to %v of %v", paid, r.Amounts)
	}
	for i, l := range r.Sold() {
		if units[i] != l.Units {
			t.Fatalf("line %d has %d units, its shares %d", i, l.Units, units[i])
		}
	}
}

// FuzzRecord: no bytes may be read as a record that would be written differently, nor
// make the decoder panic.
func FuzzRecord(f *testing.F) {
	settle := Record{Kind: Settle, Seq: 9, Hold: 4, TimeNs: 1, Account: 1, Key: 2, Model: 3, Day: 20000,
		Amounts: money.Parts{1, 2, 3}}
	settle.Lines.Add(money.InputTokens, 5, 1_000_000)
	settle.Lines.Add(money.OutputTokens, 2, 0)
	b := make([]byte, MaxRecord)
	f.Add(b[:settle.Put(b)], uint64(9))
	for i := range money.MaxLines - 2 {
		settle.Lines.Add(money.Kind(i+1), math.MaxInt64, math.MaxInt64)
	}
	long := make([]byte, MaxRecord)
	f.Add(long[:settle.Put(long)], uint64(9))
	for _, old := range version1 {
		f.Add(old.bytes(), old.Seq)
	}
	hold := Record{Kind: Hold, Seq: 1 << 40, Hold: 1 << 40, Account: 1, Key: 1, Held: 77}
	c := make([]byte, MaxRecord)
	f.Add(c[:hold.Put(c)], uint64(1<<40))
	f.Add([]byte{}, uint64(1))
	before := SoldBefore{7: imageClasses}
	f.Fuzz(func(t *testing.T, b []byte, seq uint64) {
		// With the right checksum every try reaches the body.
		if len(b) >= sizeHead && len(b) < 512 {
			b = append([]byte(nil), b...)
			b[8], b[9] = byte(len(b)), b[9]&^longSize|byte(len(b)>>8)*longSize
			b[4], b[5], b[6], b[7] = byte(seq), byte(seq>>8), byte(seq>>16), byte(seq>>24)
			sum := checksum(b[4:], seq)
			b[0], b[1], b[2], b[3] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		}
		var r Record
		n := r.Get(b, seq, before)
		if n == 0 {
			return
		}
		out := make([]byte, MaxRecord)
		m := r.Put(out)
		var again Record
		if again.Get(out[:m], seq, nil) != m || again != r {
			t.Fatalf("%x was read as %+v, which is written as %x and read as %+v", b, r, out[:m], again)
		}
		p := Page{Account: r.Account, First: seq, Last: seq, Requests: 1, Data: b}
		_ = p.Each(before, func(*Record) error { return nil })
	})
}
