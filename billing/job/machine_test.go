package job

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"farebox/billing/store"
)

// audit returns the faults of finished jobs: each is completed and has its file, or
// failed and is refunded. There are no orphaned files.
func audit(t *table, k *shelf) (wrong []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	say := func(r *store.JobRow, text string) {
		wrong = append(wrong, fmt.Sprintf("job %s: %s: %+v", r.ID, text, r))
	}
	for _, r := range t.rows {
		kept := k.files[r.ID] != nil
		switch {
		case !r.State.Terminal():
			say(r, "it was lost")
		case r.Cancel:
			say(r, "its upstream got no cancel")
		case len(r.Order) > 0:
			say(r, "its order is still stored")
		case r.State == store.JobFailed && (!r.Owed || kept || r.Code == ""):
			say(r, "it failed without a refund or a code, or has a file")
		case r.State == store.JobCompleted && (r.Owed || !kept || r.MediaBytes != 5):
			say(r, "it is completed, but has no file or is refunded")
		}
	}
	for id := range k.files {
		if r := t.rows[id]; r == nil || r.MediaType == "" {
			wrong = append(wrong, "an orphan: "+id)
		}
	}
	return wrong
}

// manners are the behaviours of upstreams.
var manners = []string{"", "refuses", "hangs up", "again", "panics", "at once", "forgets", "fails", "lies", "breaks off",
	"never", "keys"}

// afterwards is long enough for every job to end.
const afterwards = 4 * time.Hour

// life runs jobs in a process that dies at its nth write, and continues in another. It
// returns the faults at the end and the number of writes of the first process.
func life(how string, jobs, dies int, after bool) (wrong []string, writes int) {
	all, k, w := newTable(), &shelf{files: map[string][]byte{}}, newWorks(how)
	s := &session{table: all, dies: dies, after: after}
	m := newMachine(s, w, k, 1, false)
	s.died = m.kill
	refused := 0
	if m.Begin() == nil {
		for n := range jobs {
			if _, out, _ := order(m, byte(n+1)); out.Dropped {
				refused++
			}
		}
		time.Sleep(afterwards)
	}
	m.kill()
	time.Sleep(time.Minute)
	writes = s.written()
	next := newMachine(&session{table: all}, w, k, 1, false)
	if err := next.Begin(); err != nil {
		return []string{err.Error()}, writes
	}
	time.Sleep(afterwards)
	wrong = append(audit(all, k), miscounted(all, next)...)
	if dies == 0 && how == "refuses" && refused != jobs {
		wrong = append(wrong, fmt.Sprintf("%d of %d jobs were dropped", refused, jobs))
	}
	next.Close()
	time.Sleep(time.Minute)
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, n := range w.jobs {
		if n > 1 {
			wrong = append(wrong, fmt.Sprintf("the upstream was made to do %s %d times", id, n))
		}
	}
	return wrong, writes
}

// "The process was killed between any two of its writes": for each way that an upstream
// can be, each write and each side of it, no job is lost, each failure is refunded, and
// no upstream makes one twice.
func TestAJobSurvivesDeathAtEveryWrite(t *testing.T) {
	t.Parallel()
	for _, how := range manners {
		synctest.Test(t, func(t *testing.T) {
			wrong, writes := life(how, 1, 0, false)
			if len(wrong) > 0 {
				t.Errorf("an upstream that %q: without a death: %q", how, wrong)
			}
			for dies := 1; dies <= writes; dies++ {
				for _, after := range []bool{false, true} {
					if wrong, _ := life(how, 1, dies, after); len(wrong) > 0 {
						t.Errorf("an upstream that %q, death at write %d of %d (it came through: %t): %q", how, dies,
							writes, after, wrong)
					}
				}
			}
		})
	}
}

// "My picture has 30 MB." An order with a client's media is never written to the ledger: its
// process submits it once, or the job is refunded.
func TestALargeOrderIsNotWrittenDown(t *testing.T) {
	t.Parallel()
	for how, completed := range map[string]bool{"": true, "at once": true, "again": false, "hangs up": false} {
		synctest.Test(t, func(t *testing.T) {
			all, k, w := newTable(), &shelf{files: map[string][]byte{}}, newWorks(how)
			m := newMachine(&session{table: all}, w, k, 1, false)
			if err := m.Begin(); err != nil {
				t.Fatal(err)
			}
			var seen []int
			w.ordered = func(order []byte) {
				all.mu.Lock()
				defer all.mu.Unlock()
				for _, r := range all.rows {
					seen = append(seen, len(r.Order), len(order))
				}
			}
			name, out, sold := orderOf(m, 1, make([]byte, maxKeptOrder+1))
			time.Sleep(afterwards)
			m.Close()
			r := all.rows[name]
			if !sold || r == nil || (r.State == store.JobCompleted) != completed || (out.Unknown == nil) != completed {
				t.Fatalf("an upstream that %q: sold %t, %v, %+v", how, sold, out.Unknown, r)
			}
			if fmt.Sprint(seen) != fmt.Sprint([]int{0, maxKeptOrder + 1}) {
				t.Errorf("an upstream that %q: bytes of the order in the row and at the upstream: %v", how, seen)
			}
			if wrong := audit(all, k); len(wrong) > 0 {
				t.Errorf("an upstream that %q: %q", how, wrong)
			}
		})
	}
}

// The process died while it submitted a large order, or just before: the job is refunded.
func TestALargeOrderDiesWithItsProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, k, w := newTable(), &shelf{files: map[string][]byte{}}, newWorks("")
		s := &session{table: all}
		m := newMachine(s, w, k, 1, false)
		s.died = m.kill
		if err := m.Begin(); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.dies = s.writes + 2 // the row is written; that its upstream has the job is not
		s.mu.Unlock()
		orderOf(m, 1, make([]byte, maxKeptOrder+1))
		time.Sleep(time.Minute)
		next := newMachine(&session{table: all}, w, k, 1, false)
		if err := next.Begin(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(afterwards)
		synctest.Wait()
		if wrong := audit(all, k); len(wrong) > 0 || len(all.rows) != 1 || w.jobs[id{15: 1, 6: 0x40}.String()] != 1 {
			t.Errorf("%q, %d rows, upstream %v", wrong, len(all.rows), w.jobs)
		}
		next.Close()
		time.Sleep(time.Minute)
	})
}

// "It was killed before it wrote down that the upstream has my song, and I got my money
// back instead": an upstream that takes an order once gets it again, under the same key,
// from the next process or another node. Any other upstream must not: it would make two.
func TestAnOrderUnderAKeySurvivesDeath(t *testing.T) {
	t.Parallel()
	for _, keys := range []bool{true, false} {
		for _, other := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				all, k, w := newTable(), &shelf{files: map[string][]byte{}}, newWorks("")
				w.keys = keys
				s := &session{table: all}
				m := newMachine(s, w, k, 1, other)
				s.died = m.kill
				if err := m.Begin(); err != nil {
					t.Fatal(err)
				}
				// The last write before the client's answer records that the upstream has it.
				s.dies = s.writes + 2
				if keys {
					s.dies++
				}
				queueID, _, _ := order(m, 1)
				time.Sleep(time.Minute)
				node := uint32(1)
				if other {
					node = 2
					all.mu.Lock()
					all.dead[1] = true
					all.mu.Unlock()
				}
				next := newMachine(&session{table: all}, w, k, node, other)
				if err := next.Begin(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				next.Close()
				time.Sleep(time.Minute)
				want, tries := store.JobCompleted, 2
				if !keys {
					want, tries = store.JobFailed, 1
				}
				r := all.rows[queueID]
				if r.State != want || r.Owed == keys || w.jobs[queueID] != 1 || w.tries[queueID] != tries {
					t.Errorf("with keys: %t, by another node: %t: %+v was asked for %d times and made %d times", keys,
						other, r, w.tries[queueID], w.jobs[queueID])
				}
				if n := next.Stats().Alarms["unknown"]; (n == 0) != keys {
					t.Errorf("with keys: %t: %d alarms", keys, n)
				}
				if wrong := audit(all, k); len(wrong) > 0 {
					t.Error(wrong)
				}
			})
		}
	}
}

// "It was refused while the gateway was stopping": it is unknown whether its row is gone,
// so the job is neither charged nor forgotten here.
func TestARefusalThatCannotBeWrittenDownIsUndecided(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			all := newTable()
			s := &session{table: all, after: after}
			m := newMachine(s, newWorks("refuses"), &shelf{files: map[string][]byte{}}, 1, false)
			if err := m.Begin(); err != nil {
				t.Fatal(err)
			}
			s.dies = s.writes + 2
			if _, out, _ := order(m, 1); !out.Undecided || out.Dropped || out.Refused == nil {
				t.Errorf("the row went: %t, the outcome is %+v", after, out)
			}
			m.Close()
		})
	}
}

// No job is lost, whatever upstreams do and wherever processes die.
func TestNoJobIsLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		how := rapid.SampledFrom(manners).Draw(rt, "how")
		jobs := rapid.IntRange(1, 12).Draw(rt, "jobs")
		dies := rapid.IntRange(0, 6*jobs).Draw(rt, "dies")
		after := rapid.Bool().Draw(rt, "after")
		var wrong []string
		synctest.Test(t, func(*testing.T) { wrong, _ = life(how, jobs, dies, after) })
		if len(wrong) > 0 {
			rt.Fatal(wrong)
		}
	})
}

// "A node was cut off while it fetched": another one takes its jobs over, and late
// results of the first one change nothing.
func TestALateOwnerChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, k := newTable(), &shelf{files: map[string][]byte{}}
		slow, fast := newWorks(""), newWorks("")
		slow.blocked, slow.fetching = make(chan struct{}), make(chan struct{}, 1)
		fast.makes = 0
		a := newMachine(&session{table: all}, slow, k, 1, true)
		b := newMachine(&session{table: all}, fast, k, 2, true)
		for _, m := range []*Machine{a, b} {
			if err := m.Begin(); err != nil {
				t.Fatal(err)
			}
		}
		queueID, _, sold := order(a, 1)
		if !sold {
			t.Fatal("it was not sold")
		}
		<-slow.fetching
		all.mu.Lock()
		all.dead[1] = true
		all.mu.Unlock()
		time.Sleep(time.Minute)
		v, err := b.View(1, "music", "song", queueID)
		if err != nil || v == nil || !v.Completed() {
			t.Fatalf("the second node has %+v, %v", v, err)
		}
		close(slow.blocked)
		time.Sleep(time.Minute)
		if n := a.Stats().Lost; n != 1 {
			t.Errorf("the first node noticed %d times that it is not the owner", n)
		}
		if wrong := audit(all, k); len(wrong) > 0 {
			t.Error(wrong)
		}
		if n := b.Stats().Taken; n != 1 {
			t.Errorf("%d jobs were taken over", n)
		}
		a.Close()
		b.Close()
	})
}

// "I let it go before it was made": the upstream gets a cancel request, and the job is
// refunded only if the upstream confirms that it charges nothing.
func TestAReleasedJobIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, k, w := newTable(), &shelf{files: map[string][]byte{}}, newWorks("never")
		m := newMachine(&session{table: all}, w, k, 1, false)
		if err := m.Begin(); err != nil {
			t.Fatal(err)
		}
		queueID, _, _ := order(m, 1)
		v, err := m.View(1, "music", "song", queueID)
		if err != nil || v == nil {
			t.Fatal(v, err)
		}
		if ok, found, err := m.Release(t.Context(), v); !ok || !found || err != nil {
			t.Fatal(ok, found, err)
		}
		if _, found, _ := m.Release(t.Context(), v); found {
			t.Error("it was released twice")
		}
		time.Sleep(2 * time.Second)
		if r, _ := (&session{table: all}).Job(queueID); r.State != store.JobFailed || !r.Owed || w.stops() != 1 {
			t.Errorf("%+v, stopped %d times", r, w.stops())
		}
		m.Close()
	})
}

// "The alias I queued under leads elsewhere now, and my song is gone": a job is found by the name
// under which it was queued, and by its model's id. Its view has the upstream's suggestion and
// recommended model.
func TestAJobIsFoundByItsNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newTable()
		m := newMachine(&session{table: all}, newWorks("fails"), &shelf{files: map[string][]byte{}}, 1, false)
		if err := m.Begin(); err != nil {
			t.Fatal(err)
		}
		queueID, _, _ := order(m, 1)
		all.mu.Lock()
		all.rows[queueID].Named = "hit"
		all.mu.Unlock()
		time.Sleep(10 * time.Minute)
		for name, found := range map[string]bool{"song": true, "hit": true, "": false, "hits": false} {
			v, err := m.View(1, "music", name, queueID)
			if err != nil || (v != nil) != found {
				t.Errorf("%q: %+v, %v", name, v, err)
			}
			if v != nil && (v.Model != "song" || v.Message != "It broke." || v.Suggestion != "s" || v.Recommend != "r") {
				t.Errorf("%+v", v)
			}
		}
		m.Close()
	})
}

// "Nobody fetched it": its media go with its time.
func TestMediaExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, k := newTable(), &shelf{files: map[string][]byte{}}
		m := newMachine(&session{table: all}, newWorks(""), k, 1, false)
		if err := m.Begin(); err != nil {
			t.Fatal(err)
		}
		queueID, _, _ := order(m, 1)
		time.Sleep(10 * time.Minute)
		if k.count() != 1 {
			t.Fatal("nothing was made")
		}
		time.Sleep(testTerms.Keep)
		if v, _ := m.View(1, "music", "song", queueID); v != nil || k.count() != 0 {
			t.Errorf("%+v, %d files", v, k.count())
		}
		m.Close()
	})
}

const waitingJobs = 10_000

// waiting returns a machine with jobs that have waited for ten minutes.
func waiting(w Maker) (*Machine, error) {
	all := newTable()
	began := time.Now().Add(-10 * time.Minute).UnixMicro()
	handle := make([]byte, 200) // as long as those of upstreams are, with their addresses
	for n := range waitingJobs {
		key := id{6: 0x40, 14: byte(n >> 8), 15: byte(n)}
		all.rows[key.String()] = &store.JobRow{ID: key.String(), Kind: "music", Model: "song", Account: 1, Owner: 1,
			Epoch: 1, State: store.JobRunning, Upstream: "u", Target: "t", Handle: handle, CreatedUs: began,
			SubmittedUs: began}
	}
	m := newMachine(&session{table: all}, w, &shelf{files: map[string][]byte{}}, 1, false)
	return m, m.Begin()
}

// Ten thousand waiting jobs take less than 2 KB each, and their upstreams are polled a
// hundred times a second, beginning at once.
func TestTenThousandJobsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorks("never")
		var before, behind runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m, err := waiting(w)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute) // the first round is spread over less than that
		first := m.Stats().Polls
		time.Sleep(3 * time.Minute)
		polls := m.Stats().Polls - first
		runtime.GC()
		runtime.ReadMemStats(&behind)
		each := (int64(behind.HeapAlloc) - int64(before.HeapAlloc)) / waitingJobs
		t.Logf("%d bytes a job with its row in the table of the test, %d polls in three minutes", each, polls)
		if each > 2048 {
			t.Errorf("a job takes %d bytes", each)
		}
		if polls < 160*crowdPolls || polls > 200*crowdPolls {
			t.Errorf("upstreams were asked %d times in three minutes", polls)
		}
		m.Close()
	})
}

// The cost of a minute of ten thousand waiting jobs: ns/op over 60 s is the share of a core.
func BenchmarkTenThousandJobsWaitAMinute(b *testing.B) {
	w := newWorks("never")
	m, err := waiting(w)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	var list []*entry
	m.mu.Lock()
	for _, e := range m.entries {
		list = append(list, e)
	}
	m.mu.Unlock()
	b.ResetTimer()
	for b.Loop() {
		asked := m.stats.polls.Load()
		m.mu.Lock()
		for _, e := range list {
			m.advance(e, time.Now())
		}
		m.mu.Unlock()
		for m.stats.polls.Load() < asked+waitingJobs {
			time.Sleep(time.Millisecond)
		}
	}
}
