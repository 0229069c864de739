package billing

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/journal"
	"farebox/billing/store"
)

// The head of a segment has headSize bytes; at headMark is the length of its part on
// disk.
const (
	headSize = 128
	headMark = 64
)

// crash copies the ledger's directory as a power cut leaves it: the store's commits and
// the journal's synced records. damage changes the unsynced bytes after them.
func (f *fixture) crash(damage func(tail []byte)) *fixture {
	f.t.Helper()
	f.project.mu.Lock()
	defer f.project.mu.Unlock()
	c := &fixture{t: f.t, clock: f.clock, options: f.options}
	c.options.Dir = f.t.TempDir()
	if err := os.CopyFS(c.options.Dir, os.DirFS(f.options.Dir)); err != nil && !errors.Is(err, io.EOF) {
		f.t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(c.options.Dir, store.DatabaseFile+"-shm"))
	synced := f.journal.Synced()
	dir := filepath.Join(c.options.Dir, journalSub)
	refs, err := journal.Segments(dir)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, ref := range refs {
		data, err := os.ReadFile(ref.Path)
		if err != nil {
			f.t.Fatal(err)
		}
		at, seq := headSize, ref.First
		for r := (journal.Record{}); seq <= synced; seq++ {
			n := r.Get(data[at:], seq, nil)
			if n == 0 {
				break
			}
			at += n
		}
		if seq > synced {
			damage(data[at:])
		}
		if err := os.WriteFile(ref.Path, data, 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	return c
}

// "The power went while we were serving": at most unsynced records are lost, in the
// client's favour, and nothing is charged twice, whatever the disk did to the unsynced
// pages.
func TestPowerCutLosesOnlyUnsyncedRecords(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	damages := map[string]func([]byte){
		"gone":     func(tail []byte) { clear(tail) },
		"all kept": func([]byte) {},
		"holes": func(tail []byte) {
			for at := 0; at < len(tail); at += 512 {
				if rnd.IntN(2) == 0 {
					clear(tail[at:min(at+512, len(tail))])
				}
			}
		},
		"noise": func(tail []byte) {
			for i := range tail[:min(4096, len(tail))] {
				tail[i] = byte(rnd.Uint32())
			}
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			f := openLedger(t)
			f.account("a", 1000*usd)
			k, _ := f.key("a")
			settled := []struct {
				seq     uint64
				charged Nano
			}{}
			spend := func() {
				var h Hold
				f.Admit(&h, f.ask(k, usd))
				f.settle(&h, Nano(1+rnd.Int64N(int64(usd))))
				settled = append(settled, struct {
					seq     uint64
					charged Nano
				}{k.Account.lastSeq, 1000*usd - k.Account.balance()})
			}
			for range 3 {
				for range 200 {
					spend()
				}
				f.journal.Flush()
				for range 100 {
					spend()
				}
				if err := f.project.project(); err != nil {
					t.Fatal(err)
				}
				synced := f.journal.Synced()
				c := f.crash(damage)
				c.open()
				r := c.recount()
				least := Nano(0)
				possible := map[Nano]bool{0: true}
				for _, s := range settled {
					if s.seq <= synced {
						least = s.charged
					}
					possible[s.charged] = true
				}
				if r.Charged < least || !possible[r.Charged] {
					t.Errorf("%s are charged after the cut; %s were synced", r.Charged, least)
				}
				var h Hold
				k, err := c.store.Keys(0)
				if err != nil || len(k) != 1 {
					t.Fatalf("keys after the cut: %v, %v", k, err)
				}
				key, err := c.adoptForTest(k[0])
				if err != nil {
					t.Fatal(err)
				}
				if d := c.Admit(&h, c.ask(key, usd)); d.Code != Admitted {
					t.Errorf("after the cut: denied with %d", d.Code)
				}
				c.settle(&h, usd)
				c.reopen()
				if again := c.recount(); again.Charged != r.Charged+usd {
					t.Errorf("charged %s, then 1 more, but after a restart %s", r.Charged, again.Charged)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func (l *Ledger) adoptForTest(row *store.KeyRow) (*Key, error) {
	return l.adoptKey(row, l.registry.epoch.Load())
}

// "A bit on the disk flipped and the charges behind it were silently dropped."
func TestDamageBelowTheSyncedMarkIsRefused(t *testing.T) {
	f := openLedger(t)
	f.account("a", 1000*usd)
	k, _ := f.key("a")
	for range 50 {
		var h Hold
		f.Admit(&h, f.ask(k, usd))
		f.settle(&h, usd)
	}
	f.journal.Flush()
	var h Hold
	f.Admit(&h, f.ask(k, usd))
	f.settle(&h, usd)
	f.journal.Flush() // the mark of the first sync is on disk with the second
	time.Sleep(10 * time.Millisecond)
	for _, at := range []int{headSize, headSize + 9, headSize + 700, 0, 8} {
		c := f.crash(func([]byte) {})
		path := journal.Path(filepath.Join(c.options.Dir, journalSub), 1)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[at] ^= 0x10
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(c.options)
		if !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("a flipped bit at %d: opened with %v", at, err)
		}
		if l != nil {
			_ = l.Close()
		}
	}
}

// "The process died in the middle of a record."
func TestTornTailIsCut(t *testing.T) {
	servers.NoRace(t)
	f := openLedger(t, func(o *Options) { o.segmentSize = 64 << 10 })
	f.account("a", 1000*usd)
	k, _ := f.key("a")
	var sizes []int
	for range 5 {
		var h Hold
		f.Admit(&h, f.ask(k, usd))
		f.settle(&h, usd)
		sizes = append(sizes, f.options.segmentSize-f.journal.Space().Left)
	}
	f.project.work.Close() // nothing may be applied meanwhile
	image, err := os.ReadFile(journal.Path(f.journalDir(), 1))
	if err != nil {
		t.Fatal(err)
	}
	clear(image[headMark : headMark+8])
	for end := sizes[3]; end <= sizes[4]; end += 7 {
		c := f.crash(func([]byte) {})
		torn := append(bytes.Clone(image[:end]), make([]byte, len(image)-end)...)
		if err := os.WriteFile(journal.Path(filepath.Join(c.options.Dir, journalSub), 1), torn, 0o600); err != nil {
			t.Fatal(err)
		}
		c.open()
		want := 4 * usd
		if end == sizes[4] {
			want = 5 * usd
		}
		if r := c.recount(); r.Charged != want {
			t.Errorf("cut at byte %d of %d: %s charged, expected %s", end-sizes[3], sizes[4]-sizes[3], r.Charged, want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Segments are reused. Their old records must never be read as new.
func TestSegmentsAreReusedAndBounded(t *testing.T) {
	f := openLedger(t, func(o *Options) { o.segmentSize, o.detailNow = 8<<10, true })
	f.account("a", 1_000_000*usd)
	k, _ := f.key("a")
	for range 40 {
		for range 100 {
			var h Hold
			f.Admit(&h, f.ask(k, usd))
			f.settle(&h, usd)
		}
		if err := f.project.drain(); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(f.journalDir())
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) > journal.Spares+3 {
			t.Fatalf("%d files in the journal although all is applied: %v", len(entries), entries)
		}
	}
	if r := f.recount(); r.Requests != 4000 {
		t.Errorf("%d of 4000 requests in the store", r.Requests)
	}
	c := f.crash(func([]byte) {})
	c.open()
	if r := c.recount(); r.Requests != 4000 {
		t.Errorf("%d of 4000 requests after a crash", r.Requests)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// "The disk was full, the process died of SIGBUS", "and the charges of what was
// running were lost": a hold is only opened when its settlement will fit, too.
func TestFullDiskRefusesNewHoldsAndStillSettles(t *testing.T) {
	f := openLedger(t, func(o *Options) { o.segmentSize = 8 << 10 })
	f.account("a", 1_000_000*usd)
	k, _ := f.key("a")
	f.journal.Fail(nil, syscall.ENOSPC)
	var holds []*Hold
	for {
		h := &Hold{}
		d := f.Admit(h, f.ask(k, usd))
		if d.Code == JournalFull {
			break
		}
		if d.Code != Admitted || len(holds) > 10_000 {
			t.Fatalf("denied with %d after %d holds", d.Code, len(holds))
		}
		holds = append(holds, h)
		if s := f.journal.Space(); s.Free < s.Reserved {
			t.Errorf("%d bytes are free, %d are promised to open holds", s.Free, s.Reserved)
		}
	}
	if len(holds) < 10 {
		t.Fatalf("full after %d holds", len(holds))
	}
	for n := 0; holds[0].Extend(1); n++ {
		if n > 100 {
			t.Fatal("a full disk takes any number of extensions")
		}
	}
	if err := f.Healthy(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("health says %v", err)
	}
	for _, h := range holds {
		h.Progress(worth(usd / 2))
		if c, _ := f.settle(h, usd); c != usd {
			t.Fatalf("charged %s on a full disk", c)
		}
	}
	if s := f.Stats(); s.Lost != 0 || s.Held != 0 {
		t.Errorf("figures say %+v", s)
	}
	f.journal.Fail(nil, nil)
	deadline := time.Now().Add(5 * time.Second)
	for f.Healthy() != nil {
		if time.Now().After(deadline) {
			t.Fatalf("long after there was room again health still says %v", f.Healthy())
		}
		time.Sleep(10 * time.Millisecond)
	}
	for range 2 * len(holds) {
		h := &Hold{}
		if d := f.Admit(h, f.ask(k, usd)); d.Code != Admitted {
			t.Fatalf("denied with %d although there is room again", d.Code)
		}
		h.Void(f.clock.at())
	}
	if r := f.recount(); r.Charged != Nano(len(holds))*usd {
		t.Errorf("%s charged for %d requests of 1 USD", r.Charged, len(holds))
	}
}

// With durability power a settlement returns only when it is on disk.
func TestPowerDurabilityWaitsForTheDisk(t *testing.T) {
	f := openLedger(t, func(o *Options) { o.Durability = "power" })
	f.account("a", 1000*usd)
	var wg sync.WaitGroup
	for range 16 {
		k, _ := f.key("a")
		wg.Go(func() {
			for range 20 {
				var h Hold
				f.Admit(&h, f.ask(k, usd/100))
				f.settle(&h, usd/100)
			}
		})
	}
	wg.Wait()
	k, _ := f.key("a")
	var h Hold
	f.Admit(&h, f.ask(k, usd/100))
	f.settle(&h, usd/100)
	if last, synced := k.Account.lastSeq, f.journal.Synced(); synced < last {
		t.Errorf("settled as record %d, synced up to %d", last, synced)
	}
	c := f.crash(func(tail []byte) { clear(tail) })
	c.open()
	if r := c.recount(); r.Requests != 321 {
		t.Errorf("%d of 321 settled requests survived the cut", r.Requests)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A second process must not get at the ledger.
func TestOnlyOneProcessHasTheLedger(t *testing.T) {
	f := openLedger(t)
	o := f.options
	o.idle = true
	if l, err := Open(o); !errors.Is(err, ErrInUse) {
		t.Errorf("a second open gave %v", err)
		if l != nil {
			_ = l.Close()
		}
	}
}
