//go:build linux

package billing

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
)

// "The disk ran full at night": requests that cannot be recorded are refused, charges
// stay, and service resumes without a restart when there is space again.
func TestDiskThatFillsUpLosesNothing(t *testing.T) {
	t.Parallel()
	disk := servers.StartDisk(t, "4m")
	if disk == nil {
		t.Skip("no file system of its own to fill; the binary's test limits file sizes instead")
	}
	f := openLedger(t, func(o *Options) { o.Dir, o.detailNow = filepath.Join(disk.Dir, "store"), true })
	f.account("a", 1000*usd)
	k, secret := f.key("a")
	charged := Nano(0)
	spend := func() DenialCode {
		var h Hold
		d := f.Admit(&h, f.ask(k, 3))
		if d.Code == Admitted {
			n, _ := f.settle(&h, 2)
			charged += n
		}
		return d.Code
	}
	spendAll := func() {
		t.Helper()
		for n := 0; ; n++ {
			if code := spend(); code == JournalFull {
				break
			} else if code != Admitted || n > 100_000 {
				t.Fatalf("request %d on a full disk: code %d", n, code)
			}
		}
	}
	for range 100 {
		spend()
	}
	if err := f.project.drain(); err != nil {
		t.Fatal(err)
	}

	disk.Fill(t, 0)
	var open Hold
	if d := f.Admit(&open, f.ask(k, usd)); d.Code != Admitted {
		t.Fatalf("denied with %d while there is room in the journal", d.Code)
	}
	spendAll()
	eventually(t, "the store is noticed as not writable", time.Minute, func() bool {
		return f.Stats().StoreAway &&
			f.Healthy() != nil
	})
	if _, _, err := f.Credit("a", USD, usd, "full", ""); err == nil {
		t.Error("a credit was taken that cannot be recorded")
	}
	if n, short := f.settle(&open, usd); n != usd || short != 0 {
		t.Errorf("on a full disk %s were charged for a hold of 1 USD", n)
	}
	charged += usd

	disk.Free(t)
	eventually(t, "the room is noticed", time.Minute, func() bool { return f.Healthy() == nil })
	if code := spend(); code != Admitted {
		t.Errorf("with room again the code is %d", code)
	}
	if _, applied, err := f.Credit("a", USD, usd, "full", ""); err != nil || !applied {
		t.Errorf("the credit that was refused: applied %v, %v", applied, err)
	}
	check := func() {
		t.Helper()
		if r := f.recount(); r.Charged != charged || r.Shortfall != 0 {
			t.Errorf("%s were charged, recounted %s and %s shortfall", charged, r.Charged, r.Shortfall)
		}
		if b, _, _ := k.Balance(); b != 1001*usd-charged {
			t.Errorf("%s are left of 1001 USD, %s were charged", b, charged)
		}
	}
	check()

	// Stopped and started while it is full again.
	disk.Fill(t, 0)
	spendAll()
	if err := f.Close(); err == nil || !strings.Contains(err.Error(), "the journal keeps the missing records") {
		t.Errorf("closed on a full disk with %v", err)
	}
	disk.Fill(t, 0) // the space that the store freed on close
	if l, err := Open(f.options); err == nil {
		t.Error("opened on a full disk")
		_ = l.Close()
	} else if !strings.Contains(err.Error(), "make room") && !strings.Contains(err.Error(), "free space") {
		t.Errorf("opened on a full disk: %v", err)
	}
	disk.Free(t)
	f.open()
	k, _ = f.Lookup([]byte(secret))
	check()
	if s := f.Stats(); s.Lost != 0 {
		t.Errorf("%d charges were lost", s.Lost)
	}
}

// "The first start met a full disk, and farebox never started again": partly created
// files do not prevent a later start.
func TestFirstStartOnAFullDiskCanBeRepeated(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	disk := servers.StartDisk(t, "2m")
	if disk == nil {
		t.Skip("no file system of its own to fill")
	}
	for free := int64(0); free < 400<<10; free += 16 << 10 {
		disk.Fill(t, free)
		o := Options{Dir: filepath.Join(disk.Dir, "store"), Brand: "svc", segmentSize: 64 << 10}
		l, err := Open(o)
		if err == nil {
			err = l.Close()
		} else if !strings.Contains(err.Error(), "make room") && !strings.Contains(err.Error(), "free space") {
			t.Errorf("with %d bytes free: %v", free, err)
		}
		disk.Free(t)
		l, again := Open(o)
		if again != nil {
			t.Fatalf("with %d bytes free: %v; then, with room: %v", free, err, again)
		}
		if err := errors.Join(l.Close(), os.RemoveAll(o.Dir)); err != nil {
			t.Fatal(err)
		}
	}
}

// "After a kill -9 on a full disk the next start said that the journal cannot grow, and
// not which disk, nor how much it needs." An open request needs a record.
func TestAStartWithoutRoomNamesTheFolderAndTheBytes(t *testing.T) {
	t.Parallel()
	disk := servers.StartDisk(t, "4m")
	if disk == nil {
		t.Skip("no file system of its own to fill")
	}
	f := openLedger(t)
	f.account("a", 10*usd)
	k, _ := f.key("a")
	h := &Hold{}
	f.Admit(h, f.ask(k, usd))
	h.Progress(worth(usd / 2))
	if err := f.project.drain(); err != nil {
		t.Fatal(err)
	}
	f.journal.Flush()
	killed := f.crash(func([]byte) {})
	dir := filepath.Join(disk.Dir, "store")
	if err := os.CopyFS(dir, os.DirFS(killed.options.Dir)); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, journalSub, "*.seg"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("%v, %v", segments, err)
	}
	killed.options.Dir, killed.options.segmentSize = dir, 1<<20
	disk.Fill(t, 900<<10)
	l, err := Open(killed.options)
	if err == nil {
		_ = l.Close()
	}
	want := "a journal segment of 1048576 bytes in " + filepath.Join(dir, journalSub)
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "make room on the disk of "+dir) {
		t.Errorf("it says %v, expected %s and advice", err, want)
	}
	disk.Free(t)
	killed.open()
	if err := killed.Close(); err != nil {
		t.Error(err)
	}
	h.Void(f.clock.at())
}
