package billing

import (
	"encoding/binary"
	"testing"

	"farebox/billing/money"
)

// usage1 is what a record of version 1 says was used, and the prices of its
// classes.
type usage1 struct {
	prompt, cached, written, completion, reasoning int64
	input, read, write, output                     int64
}

// record1 is a record as version 1 was written.
type record1 struct {
	record
	usage1
}

// version1 are such records: of text, of pictures (model 7), of a process that
// died, and with every number at its largest.
var version1 = []record1{
	{record{kind: recSettle, seq: 9, hold: 4, timeNs: 1, account: 1, key: 2, model: 3, day: 20000, amounts: money.Parts{0, 2, 4}, status: 200, tookMs: 900},
		usage1{prompt: 5, cached: 1, completion: 2, input: 1000, read: 500, write: 1000, output: 700}},
	{record{kind: recSettle, seq: 1 << 33, hold: 1<<33 - 1, timeNs: 1, account: 1, key: 2, model: 7, day: 20000, amounts: money.Parts{0, 0, 41}, flags: FlagAborted},
		usage1{prompt: 3, cached: 1, written: 1, completion: 2, input: 9000, read: 1000, write: 4000, output: 13_000}},
	{record{kind: recProgress, seq: 3, hold: 1, timeNs: 1, account: 1, key: 2, model: 3, day: 20000, amounts: money.Parts{0, 0, 7}, flags: FlagIncomplete | FlagEstimated},
		usage1{prompt: 5, completion: 2}},
	{record{kind: recSettle, seq: 1<<64 - 1, hold: 1, timeNs: 1<<63 - 1, account: 1<<32 - 1, key: 1<<32 - 1, model: 1<<32 - 1, day: -1, amounts: money.Parts{1<<63 - 1, 1<<63 - 1, 1<<63 - 1},
		shortfall: 1<<63 - 1, debt: 1<<63 - 1, status: 65535, tookMs: 1<<32 - 1, flags: 63},
		usage1{1<<63 - 1, 1<<63 - 1, 1<<63 - 1, 1<<63 - 1, 1<<63 - 1, 1<<63 - 1, 1<<63 - 1, 1<<63 - 1, 1<<63 - 1}},
}

// body is the charge as version 1 wrote it.
func (r *record1) body(d []byte) []byte {
	const usageSeen = hasLines
	bits := byte(usageSeen)
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
	if r.cached|r.written|r.usage1.reasoning != 0 {
		bits |= hasReasoning
	}
	d = append(d, bits, byte(r.flags))
	d = append(d, r.requestID[:]...)
	for _, n := range []uint64{r.seq - r.hold, uint64(r.account), uint64(r.key), uint64(r.model), uint64(uint32(r.day)), uint64(r.status), uint64(r.tookMs), uint64(r.prompt), uint64(r.completion)} {
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
	for _, v := range append(r.amounts[:], r.shortfall, r.debt) {
		if v != 0 {
			d = binary.AppendUvarint(d, uint64(v))
		}
	}
	return d
}

// bytes are the record as it stood in a journal.
func (r *record1) bytes() []byte {
	le := binary.LittleEndian
	b := make([]byte, sizeHead)
	le.PutUint32(b[4:], uint32(r.seq))
	b[9] = r.kind
	le.PutUint64(b[10:], uint64(r.timeNs))
	b = r.body(b)
	b[8] = byte(len(b))
	le.PutUint32(b, checksum(b[4:], r.seq))
	return b
}

// page is a page of usage as it stood in a store, of one request.
func (r *record1) page() *usagePage {
	us := r.timeNs / 1000
	var d []byte
	d = binary.AppendUvarint(d, 0)
	d = binary.AppendUvarint(d, uint64(us))
	d = r.body(d)
	p := &usagePage{}
	now := r.record
	now.lines = r.lines()
	p.note(&now)
	p.data = append([]byte{byte(len(d))}, d...)
	return p
}

// lines are what the record sold, as text.
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
		want := old.record
		want.lines, want.reasoning = old.lines(), old.usage1.reasoning
		var got record
		b := old.bytes()
		if n := got.get(b, old.seq, nil); n != len(b) || got != want {
			t.Errorf("record %d of %d bytes is read as %d bytes of %+v, expected %+v", i, len(b), n, got, want)
		}
		out := make([]byte, sizeMost)
		var again record
		if n := got.put(out); again.get(out, old.seq, nil) != n || again != got {
			t.Errorf("record %d is written anew as %+v", i, again)
		}
		p := old.page()
		err := p.each(nil, func(r *record) error {
			want.timeNs -= want.timeNs % 1000
			want.kind = recSettle
			if *r != want {
				t.Errorf("record %d is in the page as %+v, expected %+v", i, *r, want)
			}
			return nil
		})
		if err != nil {
			t.Errorf("record %d: %v", i, err)
		}
	}
	before := soldBefore{7: imageClasses}
	var r record
	r.get(version1[1].bytes(), version1[1].seq, before)
	var l money.Lines
	l.Add(money.InputImages, 1, 9000)
	l.Add(money.WebSearches, 1, 1000)
	l.Add(money.PromptRewrites, 1, 4000)
	l.Add(money.Images, 2, 13_000)
	if r.lines != l {
		t.Errorf("pictures of version 1 are %v", r.lines.All())
	}
}
