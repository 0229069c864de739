package journal

import (
	"encoding/binary"
	"testing"

	"farebox/billing/money"
)

// usage1 is the usage in a record of version 1, with the prices of its classes.
type usage1 struct {
	prompt, cached, written, completion, reasoning int64
	input, read, write, output                     int64
}

// record1 is a record as version 1 was written.
type record1 struct {
	Record
	usage1
}

// version1 are such records: of text, of pictures (model 7), of a process that
// died, and with every number at its largest.
var version1 = []record1{
	{Record{Kind: Settle, Seq: 9, Hold: 4, TimeNs: 1, Account: 1, Key: 2, Model: 3, Day: 20000,
		Amounts: money.Parts{0, 2, 4}, Status: 200, TookMs: 900},
		usage1{prompt: 5, cached: 1, completion: 2, input: 1000, read: 500, write: 1000, output: 700}},
	{Record{Kind: Settle, Seq: 1 << 33, Hold: 1<<33 - 1, TimeNs: 1, Account: 1, Key: 2, Model: 7, Day: 20000,
		Amounts: money.Parts{0, 0, 41}, Flags: FlagAborted},
		usage1{prompt: 3, cached: 1, written: 1, completion: 2, input: 9000, read: 1000, write: 4000, output: 13_000}},
	{Record{Kind: Progress, Seq: 3, Hold: 1, TimeNs: 1, Account: 1, Key: 2, Model: 3, Day: 20000,
		Amounts: money.Parts{0, 0, 7}, Flags: FlagIncomplete | FlagEstimated},
		usage1{prompt: 5, completion: 2}},
	{Record{Kind: Settle, Seq: 1<<64 - 1, Hold: 1, TimeNs: 1<<63 - 1, Account: 1<<32 - 1, Key: 1<<32 - 1,
		Model: 1<<32 - 1, Day: -1, Amounts: money.Parts{1<<63 - 1, 1<<63 - 1, 1<<63 - 1},
		Shortfall: 1<<63 - 1, Debt: 1<<63 - 1, Status: 65535, TookMs: 1<<32 - 1, Flags: 63},
		usage1{1<<63 - 1, 1<<63 - 1, 1<<63 - 1, 1<<63 - 1, 1<<63 - 1, 1<<63 - 1, 1<<63 - 1, 1<<63 - 1, 1<<63 - 1}},
}

// body is the charge as version 1 wrote it.
func (r *record1) body(d []byte) []byte {
	const usageSeen = hasLines
	bits := byte(usageSeen)
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
	if r.cached|r.written|r.usage1.reasoning != 0 {
		bits |= hasReasoning
	}
	d = append(d, bits, byte(r.Flags))
	d = append(d, r.RequestID[:]...)
	for _, n := range []uint64{r.Seq - r.Hold, uint64(r.Account), uint64(r.Key), uint64(r.Model), uint64(uint32(r.Day)),
		uint64(r.Status), uint64(r.TookMs), uint64(r.prompt), uint64(r.completion)} {
		d = binary.AppendUvarint(d, n)
	}
	if bits&hasReasoning != 0 {
		for _, n := range []int64{r.cached, r.written, r.usage1.reasoning} {
			d = binary.AppendUvarint(d, uint64(n))
		}
	}
	d = binary.AppendUvarint(d, uint64(r.input))
	d = binary.AppendUvarint(d, uint64(r.output))
	for _, v := range []int64{r.read, r.write} {
		if v == r.input {
			d = append(d, 0)
		} else {
			d = binary.AppendUvarint(d, uint64(v)+1)
		}
	}
	for _, v := range append(r.Amounts[:], r.Shortfall, r.Debt) {
		if v != 0 {
			d = binary.AppendUvarint(d, uint64(v))
		}
	}
	return d
}

// bytes encodes the record as journals of version 1 did.
func (r *record1) bytes() []byte {
	le := binary.LittleEndian
	b := make([]byte, sizeHead)
	le.PutUint32(b[4:], uint32(r.Seq))
	b[9] = r.Kind
	le.PutUint64(b[10:], uint64(r.TimeNs))
	b = r.body(b)
	b[8] = byte(len(b))
	le.PutUint32(b, checksum(b[4:], r.Seq))
	return b
}

// page encodes a page with the usage of one request as stores of version 1 did.
func (r *record1) page() *Page {
	us := r.TimeNs / 1000
	var d []byte
	d = binary.AppendUvarint(d, 0)
	d = binary.AppendUvarint(d, uint64(us))
	d = r.body(d)
	p := &Page{}
	now := r.Record
	now.Lines = r.lines()
	p.Note(&now)
	p.Data = append([]byte{byte(len(d))}, d...)
	return p
}

// lines returns the record's charges for text tokens.
func (r *record1) lines() (l money.Lines) {
	cached := min(r.cached, r.prompt)
	written := min(r.written, r.prompt-cached)
	l.Add(money.InputTokens, r.prompt-cached-written, money.Pico(r.input))
	l.Add(money.CacheReadTokens, cached, money.Pico(r.read))
	l.Add(money.CacheWriteTokens, written, money.Pico(r.write))
	l.Add(money.OutputTokens, r.completion, money.Pico(r.output))
	return l
}

// "After the update the charges of last week were other ones."
func TestRecordsOfVersion1AreReadForEver(t *testing.T) {
	t.Parallel()
	for i := range version1 {
		old := &version1[i]
		want := old.Record
		want.Lines, want.Reasoning = old.lines(), old.usage1.reasoning
		var got Record
		b := old.bytes()
		if n := got.Get(b, old.Seq, nil); n != len(b) || got != want {
			t.Errorf("record %d of %d bytes is read as %d bytes of %+v, expected %+v", i, len(b), n, got, want)
		}
		out := make([]byte, MaxRecord)
		var again Record
		if n := got.Put(out); again.Get(out, old.Seq, nil) != n || again != got {
			t.Errorf("record %d is written anew as %+v", i, again)
		}
		p := old.page()
		err := p.Each(nil, func(r *Record) error {
			want.TimeNs -= want.TimeNs % 1000
			want.Kind = Settle
			if *r != want {
				t.Errorf("record %d is in the page as %+v, expected %+v", i, *r, want)
			}
			return nil
		})
		if err != nil {
			t.Errorf("record %d: %v", i, err)
		}
	}
	before := SoldBefore{7: imageClasses}
	var r Record
	r.Get(version1[1].bytes(), version1[1].Seq, before)
	var l money.Lines
	l.Add(money.InputImages, 1, 9000)
	l.Add(money.WebSearches, 1, 1000)
	l.Add(money.PromptRewrites, 1, 4000)
	l.Add(money.Images, 2, 13_000)
	if r.Lines != l {
		t.Errorf("pictures of version 1 are %v", r.Lines.All())
	}
}
