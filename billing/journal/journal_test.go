package journal

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"farebox/billing/money"
)

// Records of many writers come out in order, each as it was put in.
func TestJournalKeepsOrderUnderConcurrency(t *testing.T) {
	dir := t.TempDir()
	j := New(dir, 16<<10, false, 0, nil, zerolog.Nop())
	j.Start()
	const writers, each = 8, 2000
	var wg sync.WaitGroup
	var bySeq sync.Map
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				r := Record{Kind: Settle, TimeNs: int64(i), Account: uint32(w), Key: uint32(i),
					Amounts: money.Parts{0, money.Nano(w), money.Nano(i)}}
				if err := j.Append(&r, 0); err != nil {
					t.Error(err)
					return
				}
				bySeq.Store(r.Seq, r)
			}
		})
	}
	wg.Wait()
	end := j.Flush()
	if end != writers*each {
		t.Fatalf("%d records of %d", end, writers*each)
	}
	j.mu.Lock()
	refs := append([]Ref(nil), j.refs...)
	j.mu.Unlock()
	for _, from := range []uint64{0, 1, end / 2, end - 1, end} {
		r, err := NewReader(dir, refs, from, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := from
		for {
			rec, err := r.Next(end)
			if err != nil {
				t.Fatal(err)
			}
			if rec == nil {
				break
			}
			n++
			want, _ := bySeq.Load(n)
			if *rec != want.(Record) {
				t.Fatalf("record %d is %+v, written was %+v", n, *rec, want)
			}
		}
		r.Close()
		if n != end {
			t.Errorf("from %d the reader came to %d of %d", from, n, end)
		}
	}
	if err := j.Close(true); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if !strings.HasSuffix(e.Name(), spareSuffix) {
			t.Errorf("%s stayed although everything is applied", e.Name())
		}
	}
}

// A load balancer that probed a process right after its start got an answer that the
// ledger cannot record, although the first request would have been recorded.
func TestTheJournalIsHealthyBeforeItsFirstSegmentIsPrepared(t *testing.T) {
	j := New(t.TempDir(), 16<<10, false, 0, nil, zerolog.Nop()) // nothing prepares segments meanwhile
	if err := j.Healthy(); err != nil {
		t.Errorf("before the first record: %v", err)
	}
	full := errors.New("no room")
	j = New(t.TempDir(), 16<<10, false, 0, nil, zerolog.Nop())
	j.Fail(nil, full)
	if err := j.Healthy(); !errors.Is(err, full) {
		t.Errorf("without room for the first segment: %v", err)
	}
}
