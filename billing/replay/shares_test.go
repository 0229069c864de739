package replay

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/config"
	"farebox/config/fair"
)

// onBothSmall runs a story with both stores, which have space for so much.
func onBothSmall(t *testing.T, keys int, bytes config.Size, story func(t *testing.T, f *fixture)) {
	small := func(o *Options) {
		o.Config = config.Default[config.Idempotency]()
		o.Config.MaxKeys, o.Config.MaxStored = keys, bytes
	}
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		story(t, open(t, nil, small))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		story(t, open(t, servers.StartRedis(t), small))
	})
}

// of returns a claim of an owner.
func (f *fixture) of(o fair.Owner, key string) *Claim {
	c := f.claim(key, "request")
	c.Account, c.Owner = uint32(o.Account), o
	return c
}

// keep executes a request of an owner.
func (f *fixture) keep(o fair.Owner, key, body string) error {
	lead, _, err := begin(f.Keys, f.of(o, key))
	if err == nil && lead != nil {
		f.carryOut(lead, 1, body)
	}
	return err
}

// fill keeps answers of an owner until its share is full, and returns their number.
func (f *fixture) fill(o fair.Owner, body string) (n int) {
	f.t.Helper()
	for ; n < 2000; n++ {
		switch err := f.keep(o, fmt.Sprint("fill-", o.Net, "-", n), body); {
		case errors.Is(err, ErrFull):
			return n
		case err != nil:
			f.t.Fatal(err)
		}
	}
	f.t.Fatal("nothing bounds an owner")
	return 0
}

// "One customer took all idempotency keys, and mine are refused for a day."
func TestAnOwnerHasItsShareOfAllKeys(t *testing.T) {
	onBothSmall(t, 160, 1<<20, func(t *testing.T, f *fixture) {
		greedy := fair.Paid(1)
		if n := f.fill(greedy, "answer"); n != 140 {
			t.Errorf("alone an owner keeps %d of 160 keys, expected seven eighths", n)
		}
		if f.Stats().Full != 1 || f.Stats().Away != 0 {
			t.Errorf("%+v", f.Stats())
		}
		// Its kept answers are replayed as before, and each forgotten one makes space.
		if _, a, err := f.Begin(f.of(greedy, "fill-0-0")); err != nil || a == nil {
			t.Errorf("a kept answer: %v, %v", a, err)
		}
		for n := range 3 {
			if err := f.keep(fair.Paid(2), fmt.Sprint(n), "answer"); err != nil {
				t.Errorf("key %d of another account: %v", n, err)
			}
		}
		// Many addresses without a paid account are one owner for the others.
		for n := range 100 {
			_ = f.keep(fair.Unpaid(netip.AddrFrom4([4]byte{192, 0, 2, byte(n)})), fmt.Sprint(n), "answer")
		}
		if err := f.keep(fair.Paid(3), "k", "answer"); err != nil {
			t.Errorf("after many addresses a paid account: %v", err)
		}
		if err := f.keep(greedy, "more", "answer"); !errors.Is(err, ErrFull) {
			t.Errorf("the greedy one: %v", err)
		}
		if f.redis == nil { // also after a restart
			f.reopen()
			if err := f.keep(greedy, "more", "answer"); !errors.Is(err, ErrFull) {
				t.Errorf("the greedy one after a restart: %v", err)
			}
			if err := f.keep(fair.Paid(4), "k", "answer"); err != nil {
				t.Errorf("another account after a restart: %v", err)
			}
		}
	})
}

// A key is one key, however many records it had: begun, forgotten, begun again and kept.
func TestAKeyCountsOnce(t *testing.T) {
	onBothSmall(t, 8, 1<<20, func(t *testing.T, f *fixture) {
		for range 50 {
			lead, _, err := begin(f.Keys, f.of(fair.Paid(1), "k"))
			if err != nil {
				t.Fatal(err)
			}
			lead.Forget()
		}
		if n := f.fill(fair.Paid(1), "answer"); n != 7 {
			t.Errorf("%d of 8 keys are left", n)
		}
	})
}

// A look-up writes nothing, and uses no owner's share.
func TestALookUpWritesNothing(t *testing.T) {
	onBothSmall(t, 8, 1<<20, func(t *testing.T, f *fixture) {
		before := f.traces(t)
		for n := range 100 {
			lead, a, err := f.Begin(f.of(fair.Paid(1), fmt.Sprint(n)))
			if err != nil || a != nil {
				t.Fatal(a, err)
			}
			lead.Forget()
		}
		if after := f.traces(t); after != before {
			t.Errorf("it left %s, before: %s", after, before)
		}
		if n := f.fill(fair.Paid(1), "answer"); n != 7 {
			t.Errorf("%d of 8 keys are left", n)
		}
	})
}

// traces returns everything that a store has kept.
func (f *fixture) traces(t *testing.T) string {
	t.Helper()
	if f.redis != nil {
		client := f.redis.Client()
		defer func() { _ = client.Close() }()
		names, err := client.Keys(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(names, " ")
	}
	paths, err := filepath.Glob(filepath.Join(f.options.Dir, filesDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%s %d ", path, info.Size())
	}
	return text
}

// An answer beyond its owner's share of bytes is charged, and known to have been given.
// Others keep theirs.
func TestAnOwnerHasItsShareOfAllBytes(t *testing.T) {
	const size = 1 << 20
	onBothSmall(t, 1<<20, size, func(t *testing.T, f *fixture) {
		random := make([]byte, 6<<10)
		for i := range random {
			random[i] = byte(i * i >> 3)
		}
		body := string(random)
		greedy := fair.Paid(1)
		n := 0
		for ; n < 1000; n++ {
			key := fmt.Sprint("k", n)
			lead, _, err := begin(f.Keys, f.of(greedy, key))
			if err != nil {
				t.Fatal(err)
			}
			if charged := f.carryOut(lead, 9, body); charged != 9 {
				t.Fatalf("charged %d", charged)
			}
			if _, _, err := f.Begin(f.of(greedy, key)); errors.Is(err, ErrTooLarge) {
				break
			}
		}
		if n == 0 || n == 1000 {
			t.Fatalf("%d answers were kept", n)
		}
		if err := f.keep(fair.Paid(2), "k", body); err != nil {
			t.Fatal(err)
		}
		if _, a, err := f.Begin(f.of(fair.Paid(2), "k")); err != nil || string(a.Body) != body {
			t.Errorf("another account's answer: %v, %v", a, err)
		}
	})
}

// Expired files return the shares of their owners.
func TestExpiredFilesGiveTheirSharesBack(t *testing.T) {
	t.Parallel()
	f := open(t, nil, func(o *Options) {
		o.Config = config.Default[config.Idempotency]()
		o.Config.MaxKeys = 800
	})
	files := f.store.(*fileStore)
	for hour := range 3 {
		for n := range 50 {
			o := fair.Paid(uint64(n % 5))
			if err := f.keep(o, fmt.Sprint(hour, "-", n), "answer"); err != nil {
				t.Fatal(err)
			}
			// The newest record of a key from the hour before is here from now on.
			if lead, _, err := begin(f.Keys, f.of(o, "again")); err == nil && lead != nil {
				lead.Forget()
			}
		}
		f.nowNs.Add(int64(time.Hour))
	}
	if n := files.keys.Used(); n != 150 {
		t.Errorf("%d keys are counted of 150", n)
	}
	f.reopen()
	files = f.store.(*fileStore)
	if n := files.keys.Used(); n != 150 {
		t.Errorf("%d keys are counted of 150 after a restart", n)
	}
	f.nowNs.Add(int64(48 * time.Hour))
	files.tend()
	if keys, bytes := files.keys.Used(), files.bytes.Used(); keys != 0 || bytes != 0 || len(files.index) != 0 {
		t.Errorf("%d keys, %d bytes and %d places are left", keys, bytes, len(files.index))
	}
}

// Records of earlier versions have no owner. They are known, and count for unpaid callers.
func TestRecordsWithoutAnOwner(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	for n := range 3 {
		p := record{kind: kindPending, id: f.of(fair.Paid(1), fmt.Sprint(n)).RequestID(),
			fingerprint: f.claim("", "request").Fingerprint, atMs: f.nowNs.Load() / 1e6, node: 1}
		done := p
		done.kind = kindDone
		done.keep(&Answer{Status: 200}, []byte("an old answer"))
		files := f.store.(*fileStore)
		for _, r := range []*record{&p, &done} {
			if len(r.bytes()) != headSize+len(r.rest) {
				t.Fatal("these are not records of an earlier version")
			}
			if _, _, err := files.append(r, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.reopen()
	if err := f.keep(fair.Paid(1), "new", "a new answer"); err != nil {
		t.Fatal(err)
	}
	f.reopen()
	files := f.store.(*fileStore)
	for key, want := range map[string]string{"0": "an old answer", "2": "an old answer", "new": "a new answer"} {
		if _, a, err := f.Begin(f.of(fair.Paid(1), key)); err != nil || a == nil || string(a.Body) != want {
			t.Errorf("key %s: %v, %v", key, a, err)
		}
	}
	if has := files.last.shares; has[fair.Owner{}].keys != 3 || has[fair.Paid(1)].keys != 1 {
		t.Errorf("the shares are %v", has)
	}
}

// Another node is faster between look-up and claim: its answer is given, and a request
// that it gives up can be tried again.
func TestTheSlowerClaimFollowsTheFaster(t *testing.T) {
	t.Parallel()
	f := open(t, servers.StartRedis(t))
	there := f.second(t, 2)
	for _, fails := range []bool{false, true} {
		c := f.claim(fmt.Sprint("k", fails), "request")
		c.Wait = 5 * time.Second
		slow, _, err := f.Begin(c)
		if err != nil || slow == nil {
			t.Fatal(err)
		}
		fast, _, err := begin(there, c)
		if err != nil || fast == nil {
			t.Fatal(err)
		}
		if err := slow.Claim(); !errors.Is(err, ErrLost) {
			t.Fatalf("the slower claim: %v", err)
		}
		if slow.Keep(1, &Answer{Status: 200}) {
			t.Error("the slower one kept an answer")
		}
		if fails {
			fast.Forget()
			if a, err := slow.Follow(); !errors.Is(err, ErrBusy) {
				t.Errorf("after a failure: %v, %v", a, err)
			}
		} else {
			f.carryOut(fast, 1, "answer")
			if a, err := slow.Follow(); err != nil || string(a.Body) != "answer" {
				t.Errorf("it got %v, %v", a, err)
			}
		}
		slow.Forget()
		if len(f.flights) != 0 {
			t.Error("a flight is left")
		}
	}
}

// One script counts the shares of all nodes.
func TestNodesCountSharesTogether(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t)
	f := open(t, r, func(o *Options) {
		o.Config = config.Default[config.Idempotency]()
		o.Config.MaxKeys = 16
	})
	there := f.second(t, 2)
	kept := 0
	for n := range 32 {
		k := f.Keys
		if n%2 == 1 {
			k = there
		}
		lead, _, err := begin(k, f.of(fair.Paid(1), fmt.Sprint(n)))
		if err == nil {
			kept++
			f.carryOut(lead, 1, "answer")
		} else if !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
	}
	if kept != 14 {
		t.Errorf("two nodes keep %d of 16 keys, expected seven eighths", kept)
	}
	client := r.Client()
	defer func() { _ = client.Close() }()
	names, err := client.Keys(t.Context(), "*{shares}*").Result()
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	if left := client.PTTL(t.Context(), names[0]).Val(); left > 27*time.Hour || left < 24*time.Hour {
		t.Errorf("the counters live for %s", left)
	}
	// When the window is over, so are they.
	f.nowNs.Add(int64(48 * time.Hour))
	if err := f.keep(fair.Paid(1), "later", "answer"); err != nil {
		t.Error(err)
	}
}
