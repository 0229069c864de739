package billing

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/billing/store"
)

// P5: revoked on one node, refused on all within a second.
func TestRevocationReachesEveryNode(t *testing.T) {
	c := newCluster(t, 3, func(c *cluster) { c.times.poll = defaultTimes.poll })
	_, secret := c.account(10 * usd)
	id := ""
	for i := range c.nodes {
		id = c.lookup(i, secret).ID
	}
	if err := c.nodes[1].RevokeKey(id); err != nil {
		t.Fatal(err)
	}
	if _, err := c.nodes[1].Lookup(secret); err == nil {
		t.Error("the node that revoked the key finds it")
	}
	began := time.Now()
	for i := range c.nodes {
		c.eventually("the key is refused", func() bool { _, err := c.nodes[i].Lookup(secret); return err != nil })
	}
	if took := time.Since(began); took > 10*time.Second { // 5 ms on a machine with nothing else to do
		t.Errorf("it took %s", took)
	}
}

// A key that was tried before its creation works as soon as it exists.
func TestNewKeyIsFoundOnEveryNode(t *testing.T) {
	c := newCluster(t, 2)
	id, _ := c.account(usd)
	secret := []byte(newSecret("svc", store.Inference, (*call)(nil).secretOf(nil)))
	for i := range c.nodes {
		if _, err := c.nodes[i].Lookup(secret); err == nil {
			t.Fatal("found")
		}
		c.nodes[i].registry.unknown.Wait()
	}
	row, err := c.conns[0].FindAccount(id, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.conns[0].AddKey(&store.KeyRow{ID: newUUID(), Account: row.No, Type: store.Inference,
		Period: store.Epoch, Digest: c.nodes[0].hasher.digest(secret)}, 9); err != nil {
		t.Fatal(err)
	}
	for i := range c.nodes {
		c.eventually("the key is found", func() bool { _, err := c.nodes[i].Lookup(secret); return err == nil })
	}
}

// "My limit of 5 a day was 5 a day and node" (LiteLLM #24682).
func TestKeyLimitIsOneForAllNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(c *cluster) { c.times.recall = 700 * time.Millisecond })
	const price = usd / 7
	_, secret := c.account(100*usd, func(n *NewKey) { n.LimitUSD = nano(5 * usd) })
	var keys []*Key
	for i := range c.nodes {
		keys = append(keys, c.lookup(i, secret))
	}
	holds := make([]Hold, 3*40)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range holds {
		wg.Go(func() {
			switch d := admitOn(keys[i%3], &holds[i], price, price); d.Code {
			case Admitted:
				admitted.Add(1)
			case KeyLimitUSD:
			default:
				t.Errorf("denied with %d", d.Code)
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 35 {
		t.Errorf("%d holds of 1/7 USD passed a limit of 5 USD", admitted.Load())
	}
	for i := range holds {
		if holds[i].Open() {
			settleNow(&holds[i], price/2)
		}
	}
	c.audit()
	// Half of it was used: 17 holds more, on any node.
	admitted.Store(0)
	for i := range holds {
		holds[i].Reset()
		if admitOn(keys[i%3], &holds[i], price, price).Code == Admitted {
			admitted.Add(1)
		}
		if i > 24 {
			break
		}
	}
	if admitted.Load() != 17 {
		t.Errorf("%d holds more passed, expected 17", admitted.Load())
	}
	// Raised elsewhere: more at once, on every node; lowered: none.
	c.db.setLimit(1, func(k *store.KeyRow) { k.LimitUSD = nano(6 * usd) })
	for i := range keys {
		c.eventually("the raised limit", func() bool {
			var h Hold
			ok := admitOn(c.lookup(i, secret), &h, price, price).Code == Admitted
			if ok {
				h.Void(At(time.Now()))
			}
			return ok
		})
	}
	c.db.setLimit(1, func(k *store.KeyRow) { k.LimitUSD = nano(usd) })
	for i := range keys {
		c.eventually("the lowered limit", func() bool {
			var h Hold
			d := admitOn(c.lookup(i, secret), &h, 1, 1)
			if d.Code == Admitted {
				h.Void(At(time.Now()))
			}
			return d.Code == KeyLimitUSD
		})
	}
	for i := range holds {
		holds[i].Reset()
	}
	c.audit()
}

// "I renamed my key, and it refused what it had let through": money on its way back to
// the store after a key change counts until the store has it. Other changes send nothing
// back.
func TestChangingAKeyHidesNothingOfItsLimits(t *testing.T) {
	for name, change := range map[string]func(*store.KeyRow){
		"what it is called": func(k *store.KeyRow) { k.Description = "another" },
		"its limit":         func(k *store.KeyRow) { k.LimitUSD = nano(6 * usd) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 2)
			_, secret := c.account(10*usd, func(n *NewKey) { n.LimitUSD = nano(5 * usd) })
			k := c.lookup(0, secret)
			var h Hold
			if d := admitOn(k, &h, 4*usd, 4*usd); d.Code != Admitted {
				t.Fatalf("denied with %d", d.Code)
			}
			h.Void(c.nodes[0].at())
			var calls atomic.Int64
			look := func(call string) (before, after bool) {
				if got := k.Account.sources(k, 4*usd).reach; got < 4*usd {
					t.Errorf("%s of 4 USD could be had before %s", got, call)
				}
				calls.Add(1)
				return false, false
			}
			c.conns[0].cut.Store(&look)
			c.db.setLimit(1, change)
			c.db.mu.Lock()
			row := *c.db.keys[0]
			c.db.mu.Unlock()
			for range 3 { // the feed's echo too
				row.Version++
				copied := row
				k, err := c.nodes[0].replaceKey(&copied)
				if err != nil {
					t.Fatal(err)
				}
				if got := k.Account.sources(k, 4*usd).reach; got < 4*usd {
					t.Errorf("%s of 4 USD could be had after the change", got)
				}
			}
			c.eventually("the store is asked", func() bool { return calls.Load() > 3 })
		})
	}
}
