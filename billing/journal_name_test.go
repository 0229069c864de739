package billing

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/disk"
	"farebox/billing/journal"
	"farebox/billing/store"
)

// setWritable makes the journal's directory writable or not.
func (f *fixture) setWritable(on bool) {
	if on {
		f.journal.Fail(nil, nil)
		return
	}
	f.journal.Fail(fs.ErrPermission, fs.ErrPermission)
}

// unnamed reports whether the journal's segment has no name.
func (f *fixture) unnamed() bool {
	return !f.journal.Space().Named
}

// nearEnd writes until the segment has space for few records more, and the next one is
// prepared.
func (f *fixture) nearEnd(k *Key) {
	f.t.Helper()
	for {
		f.spend(k, 1, 1)
		if s := f.journal.Space(); s.Left < 12*journal.MaxRecord && s.Left > 8*journal.MaxRecord {
			if !s.Prepared {
				eventually(f.t, "the next segment is prepared", time.Minute,
					func() bool { return f.journal.Space().Prepared })
			}
			return
		}
	}
}

// "The file system turned read-only under load, and the last charges were gone": admitted
// requests are recorded in the prepared segment although it cannot be renamed, and
// readers find them there, even after kill -9.
func TestSegmentWithoutANameLosesNothing(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	f := openLedger(t, func(o *Options) { o.segmentSize, o.detailNow = 16<<10, true })
	f.account("a", 1000*usd)
	k, secret := f.key("a")
	f.spend(k, 1, 1)
	f.nearEnd(k)
	before := f.recount().Charged

	f.setWritable(false)
	var open []*Hold
	for {
		h := &Hold{}
		if d := f.Admit(h, f.ask(k, usd)); d.Code == JournalFull {
			break
		} else if d.Code != Admitted {
			t.Fatal(d.Code)
		}
		open = append(open, h)
	}
	if len(open) < 40 {
		t.Fatalf("only %d holds were admitted", len(open))
	}
	settled := Nano(0)
	for i, h := range open {
		if i%7 == 0 {
			h.Void(f.clock.at())
			continue
		}
		n, short := f.settle(h, usd/2)
		if n != usd/2 || short != 0 {
			t.Errorf("%s were charged", n)
		}
		settled += n
	}
	if !f.unnamed() {
		t.Fatal("the segment was not changed: nothing is tested")
	}
	var h Hold
	if d := f.Admit(&h, f.ask(k, 1)); d.Code != JournalFull {
		t.Errorf("admitted with %d while the journal cannot go on", d.Code)
	}
	if err := f.Healthy(); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("healthy: %v", err)
	}
	if r := f.recount(); r.Charged != before+settled || r.OpenHolds != 0 {
		t.Errorf("%s were charged, recounted %s, %d holds are open", before+settled, r.Charged, r.OpenHolds)
	}

	// Killed now.
	c := &fixture{t: t, clock: f.clock, options: f.options}
	c.options.Dir = t.TempDir()
	f.project.mu.Lock()
	err := os.CopyFS(c.options.Dir, os.DirFS(f.options.Dir))
	f.project.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{store.DatabaseFile, store.DatabaseFile + "-wal", store.DatabaseFile + "-shm"} {
		if err := os.Remove(filepath.Join(c.options.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	refs, last, err := journal.Survey(filepath.Join(c.options.Dir, journalSub))
	if err != nil || last != f.journal.Synced() || len(refs) == 0 {
		t.Errorf("after a kill the journal ends at record %d of %d, %v", last, f.journal.Synced(), err)
	}
	again, end, err := journal.Survey(filepath.Join(c.options.Dir, journalSub))
	if err != nil || end != last || len(again) != len(refs) {
		t.Errorf("a second look finds %d segments up to %d, %v", len(again), end, err)
	}
	if left, err := disk.List(filepath.Join(c.options.Dir, journalSub), ".next"); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}

	f.setWritable(true)
	eventually(t, "the journal can be written again", time.Minute, func() bool { return f.Healthy() == nil })
	f.spend(k, 500, 1)
	f.recount()
	f.reopen()
	if _, err := f.Lookup([]byte(secret)); err != nil {
		t.Fatal(err)
	}
	if r := f.recount(); r.Charged != before+settled+500 {
		t.Errorf("%s were charged, recounted %s", before+settled+500, r.Charged)
	}
	if s := f.Stats(); s.Lost != 0 || s.OpenHolds != 0 || s.Held != 0 {
		t.Errorf("%+v", s)
	}
}

// The same, and the process is killed before anything was projected: its next
// start charges all of it.
func TestSegmentWithoutANameIsRecovered(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	f := openLedger(t, func(o *Options) { o.segmentSize = 16 << 10 })
	f.account("a", 1000*usd)
	k, _ := f.key("a")
	f.spend(k, 1, 1)
	f.nearEnd(k)
	before := f.recount().Charged
	var open [60]Hold
	for i := range open {
		if d := f.Admit(&open[i], f.ask(k, usd)); d.Code != Admitted {
			t.Fatal(d.Code)
		}
		if i == 5 {
			f.setWritable(false)
		}
		if f.unnamed() {
			t.Fatal("the segment was changed too early")
		}
	}
	for i := range open {
		f.settle(&open[i], usd)
	}
	f.journal.Flush()
	if !f.unnamed() {
		t.Fatal("the segment was not changed: nothing is tested")
	}
	c := f.crash(func([]byte) {})
	c.open()
	defer c.Close()
	if r := c.recount(); r.Charged != before+60*usd {
		t.Errorf("%s of %s were charged", r.Charged-before, 60*usd)
	}
	f.setWritable(true)
}
