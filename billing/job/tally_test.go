package job

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"farebox/billing/store"
)

// miscounted returns the differences of a machine's tally from the table of a store that
// it has alone.
func miscounted(t *table, m *Machine) (wrong []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting, bytes := int64(0), int64(0)
	for _, r := range t.rows {
		if !r.State.Terminal() {
			waiting++
		}
		if r.MediaType != "" {
			bytes += r.MediaBytes
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := &m.tally; c.allMine != waiting || c.allTheirs != 0 || c.allBytes != bytes || c.mine[1] != waiting ||
		c.bytes[1] != bytes || len(m.selling) > 0 || m.sales != 0 {
		wrong = append(wrong, fmt.Sprintf("%d jobs wait and %d bytes are kept; the tally is %+v, %d sales", waiting, bytes,
			*c, m.sales))
	}
	return wrong
}

// "The queue got slow with twenty thousand jobs in it": a sale counts in memory. The
// store counts only while jobs are sold.
func TestSalesDoNotHaveJobsCounted(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			all := newTable()
			m := newMachine(&session{table: all}, newWorks("never"), &shelf{files: map[string][]byte{}}, 1, shared)
			if err := m.Begin(); err != nil {
				t.Fatal(err)
			}
			for n := range 250 {
				order(m, byte(n+1))
			}
			if all.counted != 1 {
				t.Errorf("250 sales had the store count %d times", all.counted)
			}
			if wrong := miscounted(all, m); len(wrong) > 0 {
				t.Error(wrong)
			}
			time.Sleep(10 * time.Minute)
			if all.counted > 20 {
				t.Errorf("the store counted %d times while nothing was sold", all.counted)
			}
			m.Close()
		})
	}
}

// "I sold on both nodes, and had twice as many as I may": jobs that wait at another node
// count, after a few seconds at most.
func TestJobsOfOtherNodesCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, k, w := newTable(), &shelf{files: map[string][]byte{}}, newWorks("never")
		a := newMachine(&session{table: all}, w, k, 1, true)
		b := newMachine(&session{table: all}, w, k, 2, true)
		terms := testTerms
		terms.PerAccount = 4
		a.Configure(terms)
		b.Configure(terms)
		for _, m := range []*Machine{a, b} {
			if err := m.Begin(); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 3 {
			if _, _, sold := order(a, byte(n+1)); !sold {
				t.Fatal("it was refused")
			}
		}
		time.Sleep(20 * time.Second) // longer than counts are good
		if _, _, sold := order(b, 4); !sold {
			t.Error("the fourth was refused")
		}
		if _, _, sold := order(b, 5); sold {
			t.Error("the fifth was sold")
		}
		time.Sleep(20 * time.Second)
		if _, _, sold := order(a, 6); sold {
			t.Error("the fifth was sold")
		}
		// One is released at the other node, which owns it.
		v, err := a.View(1, "music", "song", id{15: 4, 6: 0x40}.String())
		if err != nil || v == nil {
			t.Fatal(v, err)
		}
		if ok, _, err := a.Release(t.Context(), v); !ok || err != nil {
			t.Fatal(ok, err)
		}
		time.Sleep(5 * time.Second)
		if _, _, sold := order(a, 7); !sold {
			t.Error("there was room again")
		}
		a.Close()
		b.Close()
	})
}

// "I asked the other node, which did not own my song": the owner asks and stops the
// upstream within two seconds.
func TestActionsOfClientsReachTheOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, k, w := newTable(), &shelf{files: map[string][]byte{}}, newWorks("never")
		a := newMachine(&session{table: all}, w, k, 1, true)
		b := newMachine(&session{table: all}, w, k, 2, true)
		for _, m := range []*Machine{a, b} {
			if err := m.Begin(); err != nil {
				t.Fatal(err)
			}
		}
		queueID, _, _ := order(a, 1)
		time.Sleep(30 * time.Minute) // it is asked after each minute now
		view := func() *View {
			v, err := b.View(1, "music", "song", queueID)
			if err != nil || v == nil {
				t.Fatal(v, err)
			}
			return v
		}
		for range 3 {
			before := a.Stats().Polls
			view()
			time.Sleep(2100 * time.Millisecond)
			if n := a.Stats().Polls - before; n != 1 {
				t.Errorf("its upstream was asked %d times within two seconds", n)
			}
		}
		before := a.Stats().Polls
		b.Poke(queueID) // a report of the upstream
		time.Sleep(2100 * time.Millisecond)
		if n := a.Stats().Polls - before; n != 1 {
			t.Errorf("its upstream was asked %d times after its report", n)
		}
		if ok, found, err := b.Release(t.Context(), view()); !ok || !found || err != nil {
			t.Fatal(ok, found, err)
		}
		time.Sleep(2 * time.Second)
		if r, _ := (&session{table: all}).Job(queueID); r.State != store.JobFailed || w.stops() != 1 {
			t.Errorf("stopped %d times, %+v", w.stops(), r)
		}
		// One that is completed, and released at the other node.
		w.mu.Lock()
		w.how = ""
		w.mu.Unlock()
		queueID, _, _ = order(a, 2)
		time.Sleep(10 * time.Minute)
		if ok, found, err := b.Release(t.Context(), view()); !ok || !found || err != nil {
			t.Fatal(ok, found, err)
		}
		time.Sleep(2 * time.Second)
		if r, _ := (&session{table: all}).Job(queueID); r.MediaType != "" || k.count() != 0 {
			t.Errorf("%d files, %+v", k.count(), r)
		}
		a.Close()
		b.Close()
	})
}

// The cost for a sale of the counts of ten thousand waiting jobs.
func BenchmarkReserve(b *testing.B) {
	m, err := waiting(newWorks("never"))
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	b.ReportAllocs()
	for b.Loop() {
		room, err := m.Reserve(2)
		if err != nil {
			b.Fatal(err)
		}
		room.Give()
	}
}

// "I let my song go and was told at once that I keep too much": its space is free when
// Release returns, and is freed once however often it is released.
func TestSpaceIsFreeWhenAJobIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, k, w := newTable(), &shelf{files: map[string][]byte{}}, newWorks("")
		m := newMachine(&session{table: all}, w, k, 1, false)
		if err := m.Begin(); err != nil {
			t.Fatal(err)
		}
		queueID, _, _ := order(m, 1)
		time.Sleep(3 * time.Minute)
		v, err := m.View(1, "music", "song", queueID)
		if err != nil || v == nil || !v.Completed() {
			t.Fatal(v, err)
		}
		if c, err := m.counts(1); err != nil || c.Bytes == 0 {
			t.Fatalf("%+v, %v before its release", c, err)
		}
		var releases sync.WaitGroup
		for range 4 {
			releases.Go(func() { _, _, _ = m.Release(t.Context(), v) })
		}
		releases.Wait()
		if c, err := m.counts(1); err != nil || c.Bytes != 0 || c.AllBytes != 0 {
			t.Errorf("%+v, %v after its release", c, err)
		}
		time.Sleep(5 * time.Second)
		if c, err := m.counts(1); err != nil || c.Bytes != 0 || c.AllBytes != 0 {
			t.Errorf("%+v, %v later", c, err)
		}
		m.Close()
	})
}
