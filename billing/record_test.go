package billing

import (
	"math"
	"testing"

	"pgregory.net/rapid"
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
		r.flags, r.key, r.model, r.day = Flags(rapid.Uint8().Draw(t, "flags")), small("key"), small("model"), rapid.Int32().Draw(t, "day")
		for i := range r.amounts {
			r.amounts[i] = Nano(positive("amount"))
		}
		// One farebox writes the one, a later one the other.
		*rapid.SampledFrom([]*Nano{&r.shortfall, &r.debt}).Draw(t, "beyond") = Nano(positive("short"))
		copy(r.requestID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		r.usage = Usage{
			Prompt: positive("prompt"), Cached: positive("cached"), CacheWrite: positive("written"), Completion: positive("completion"),
			Reasoning: positive("reasoning"), Seen: rapid.Bool().Draw(t, "seen"), Estimated: rapid.Bool().Draw(t, "estimated"),
		}
		r.status, r.tookMs = rapid.Uint16().Draw(t, "status"), small("took")
		for i := range r.prices {
			r.prices[i] = positive("price")
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
		if m := got.get(b, r.seq); m != n || got != r {
			t.Fatalf("put %d bytes of %+v, got %d of %+v", n, r, m, got)
		}
		if got.get(b[:n-1], r.seq) != 0 {
			t.Fatal("a cut record was read")
		}
		for _, other := range []uint64{r.seq - 1, r.seq + 1, r.seq + 1<<32, r.seq ^ 1<<63} {
			if got.get(b, other) != 0 {
				t.Fatalf("record %d was read as record %d", r.seq, other)
			}
		}
		bit := rapid.IntRange(0, 8*n-1).Draw(t, "bit")
		b[bit/8] ^= 1 << (bit % 8)
		if got.get(b, r.seq) != 0 {
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
		err := p.each(func(r *record) error {
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
		small := rapid.Int64Range(0, 5000)
		r := record{kind: recSettle, usage: drawUsage(t, small.Draw(t, "prompt"), small.Draw(t, "completion"))}
		for i := range r.prices {
			r.prices[i] = rapid.Int64Range(0, 9_000_000).Draw(t, "price")
		}
		units := r.usage.lines()
		cost := Nano(0)
		for i := range units {
			cost += lineCost(units[i], r.prices[i])
		}
		purse := parts{}
		for i := range purse {
			purse[i] = Nano(rapid.Int64Range(0, int64(cost)+10).Draw(t, "purse"))
		}
		if rapid.Bool().Draw(t, "other") {
			cost = Nano(rapid.Int64Range(0, 2*int64(cost)+10).Draw(t, "cost"))
		}
		r.amounts = purse.take(cost)
		var cells [currencies]cell
		r.spread(&cells)
		requests, tokens := int64(0), lines{}
		for place, c := range cells {
			requests += c.requests
			sum := Nano(0)
			for i := range c.amounts {
				if c.amounts[i] < 0 || c.tokens[i] < 0 {
					t.Fatalf("cell %d is %+v", place, c)
				}
				sum += Nano(c.amounts[i])
				tokens[i] += c.tokens[i]
			}
			if sum != r.amounts[place] {
				t.Fatalf("%s: lines add up to %d of %d", spendOrder[place], sum, r.amounts[place])
			}
		}
		if requests != 1 || tokens != units {
			t.Fatalf("%d requests with the tokens %v, expected 1 with %v", requests, tokens, units)
		}
	})
}

// FuzzRecord: no bytes, however they came there, may be read as a record that
// would be written differently, nor make the decoder panic.
func FuzzRecord(f *testing.F) {
	settle := record{kind: recSettle, seq: 9, hold: 4, timeNs: 1, account: 1, key: 2, model: 3, day: 20000, amounts: parts{1, 2, 3}, usage: Usage{Prompt: 5, Cached: 1, Completion: 2}}
	b := make([]byte, sizeMost)
	f.Add(b[:settle.put(b)], uint64(9))
	hold := record{kind: recHold, seq: 1 << 40, hold: 1 << 40, account: 1, key: 1, held: 77}
	c := make([]byte, sizeMost)
	f.Add(c[:hold.put(c)], uint64(1<<40))
	f.Add([]byte{}, uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, seq uint64) {
		// With the checksum made right the body is reached at every try.
		if len(b) >= sizeHead && len(b) <= 255 {
			b = append([]byte(nil), b...)
			b[8] = byte(len(b))
			b[4], b[5], b[6], b[7] = byte(seq), byte(seq>>8), byte(seq>>16), byte(seq>>24)
			sum := checksum(b[4:], seq)
			b[0], b[1], b[2], b[3] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		}
		var r record
		n := r.get(b, seq)
		if n == 0 {
			return
		}
		out := make([]byte, sizeMost)
		m := r.put(out)
		var again record
		if again.get(out[:m], seq) != m || again != r {
			t.Fatalf("%x was read as %+v, which is written as %x and read as %+v", b, r, out[:m], again)
		}
		p := usagePage{account: r.account, first: seq, last: seq, requests: 1, data: b}
		_ = p.each(func(*record) error { return nil })
	})
}
