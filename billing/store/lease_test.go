package store

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"farebox/bench/servers"
	"farebox/billing/money"
)

// leaseTest is a shared store with some nodes on it, driven by hand.
type leaseTest struct {
	t       *testing.T
	address string
	nodes   []*peer
}

// peer is a node as its own memory sees it.
type peer struct {
	*postgresStore
	t  *testing.T
	op uint64
	b  *Batch
}

func newLeaseTest(t *testing.T, nodes int) *leaseTest {
	t.Helper()
	l := &leaseTest{t: t, address: servers.Database(t)}
	for i := range nodes {
		l.nodes = append(l.nodes, l.join(fmt.Sprint("n", i)))
	}
	return l
}

// join opens another connection as a node of that name.
func (l *leaseTest) join(name string) *peer {
	l.t.Helper()
	return newPeer(l.t, openNode(l.t, l.address, name))
}

func newPeer(t *testing.T, s *postgresStore) *peer {
	t.Helper()
	n := &peer{postgresStore: s, t: t, b: NewBatch()}
	var err error
	if n.op, err = s.LastOp(); err != nil {
		t.Fatal(err)
	}
	at, err := s.Applied(ToLedger)
	if err != nil {
		t.Fatal(err)
	}
	n.b.Begin(at)
	return n
}

func (n *peer) grant(wants ...Want) []Funds {
	n.t.Helper()
	n.op++
	list, err := n.Grant(n.op, wants)
	if err != nil {
		n.t.Fatalf("grant %+v: %v", wants, err)
	}
	return list
}

func (n *peer) giveBack(rests ...Want) []Funds {
	n.t.Helper()
	n.op++
	list, err := n.Return(n.op, rests)
	if err != nil {
		n.t.Fatalf("return %+v: %v", rests, err)
	}
	return list
}

// charge settles a request in the next batch.
func (n *peer) charge(account uint32, key int64, day int32, amounts money.Parts) {
	c := conform{b: n.b}
	c.settle(account, key, day, amounts)
}

func (n *peer) apply() {
	n.t.Helper()
	if err := n.applyErr(); err != nil {
		n.t.Fatal(err)
	}
}

func (n *peer) applyErr() error {
	n.b.Sealed, n.b.NowUs = true, conformUs
	if err := n.Apply(n.b); err != nil {
		return err
	}
	n.b.Applied()
	n.b.Begin(n.b.Last)
	return nil
}

func (l *leaseTest) recount() *Recount {
	l.t.Helper()
	c := conform{Store: l.nodes[0], t: l.t}
	return c.recount()
}

func wanted(account uint32, n money.Nano) Want {
	return Want{Account: account, Day: conformDay, Amounts: money.Parts{0, 0, n}}
}

func limit(account uint32, key int64, p Period, n money.Nano) Want {
	return Want{Account: account, Key: key, Day: conformDay, Period: p.Number(conformDay),
		Amounts: money.Parts{0, 0, n}}
}

// expect compares the amounts in each place.
func (l *leaseTest) expect(f Funds, granted, lease, avail, others money.Nano) {
	l.t.Helper()
	if f.Granted[money.InUSD] != granted || f.Lease[money.InUSD] != lease || f.Avail[money.InUSD] != avail ||
		f.Others[money.InUSD] != others {
		l.t.Errorf("granted %d, leased %d, left %d, others %d; expected %d, %d, %d, %d",
			f.Granted[money.InUSD], f.Lease[money.InUSD], f.Avail[money.InUSD], f.Others[money.InUSD], granted, lease,
			avail, others)
	}
}

// "The answer was lost, the node asked again, and had the money twice."
func TestLeaseOperationsCountOnce(t *testing.T) {
	t.Parallel()
	l := newLeaseTest(t, 2)
	a, b := l.nodes[0], l.nodes[1]
	x, y := addAccount(t, a, "x", money.Parts{0, 0, 100}), addAccount(t, a, "y", money.Parts{0, 0, 5})
	first := []Want{wanted(x, 60), wanted(y, 60), wanted(99, 1), wanted(x, 10)}
	for range 3 {
		list, err := a.Grant(1, first)
		if err != nil {
			t.Fatal(err)
		}
		l.expect(list[0], 60, 70, 30, 0)
		l.expect(list[1], 5, 5, 0, 0)
		l.expect(list[2], 0, 0, 0, 0)
		l.expect(list[3], 10, 70, 30, 0)
	}
	a.op = 1
	l.expect(b.grant(wanted(x, 60))[0], 30, 30, 0, 70)
	// A denied operation stays denied, even when there is money.
	b.op++
	if list, err := b.Grant(b.op, []Want{wanted(x, 5)}); err != nil || list[0].Granted[money.InUSD] != 0 {
		t.Fatalf("%+v %v", list, err)
	}
	l.expect(a.giveBack(wanted(x, 50))[0], 50, 20, 50, 30)
	list, err := b.Grant(b.op, []Want{wanted(x, 5)})
	if err != nil {
		t.Fatal(err)
	}
	l.expect(list[0], 0, 30, 50, 20)
	if list, err := a.Return(a.op, []Want{wanted(x, 50)}); err != nil || list[0].Granted[money.InUSD] != 50 ||
		list[0].Lease[money.InUSD] != 20 {
		t.Errorf("the return again: %+v %v", list, err)
	}
	for name, call := range map[string]func() error{
		"another under the same number": func() error { _, err := a.Return(a.op, []Want{wanted(x, 51)}); return err },
		"more under the same number": func() error {
			_, err := a.Return(a.op, []Want{wanted(x, 50), wanted(y, 1)})
			return err
		},
		"one that was long ago": func() error { _, err := a.Grant(a.op-1, []Want{wanted(x, 1)}); return err },
		"one too early":         func() error { _, err := a.Grant(a.op+2, []Want{wanted(x, 1)}); return err },
	} {
		if call() == nil {
			t.Errorf("%s was done", name)
		}
	}
	// A return of more than the lease returns all of it.
	l.expect(a.giveBack(wanted(x, 1000))[0], 20, 0, 70, 30)
	if op, err := a.LastOp(); op != a.op || err != nil {
		t.Errorf("the last operation is %d, expected %d (%v)", op, a.op, err)
	}
	l.recount()
}

// The last dollar: nodes that all want everything get no nano more than there is.
func TestNodesCannotGetMoreThanThereIs(t *testing.T) {
	t.Parallel()
	l := newLeaseTest(t, 6)
	x := addAccount(t, l.nodes[0], "x", money.Parts{0, 0, usd})
	k := &KeyRow{ID: "k", Account: x, Type: Inference, Period: Epoch, LimitUSD: nano(usd / 2), CreatedUs: 1}
	if err := l.nodes[0].AddKey(k, 10); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var granted, limited atomic.Int64
	for i, n := range l.nodes {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			lease, quota := money.Nano(0), money.Nano(0)
			for range 60 {
				list := n.grant(limit(x, k.No, Epoch, usd/50), wanted(x, usd/37))
				quota += list[0].Granted[money.InUSD]
				lease += list[1].Granted[money.InUSD]
				spend := min(lease, quota, money.Nano(rnd.Int64N(int64(usd/100))))
				if spend > 0 {
					n.charge(x, k.No, conformDay, money.Parts{0, 0, spend})
					lease, quota = lease-spend, quota-spend
					granted.Add(int64(spend))
					limited.Add(int64(spend))
				}
				if rnd.IntN(3) == 0 {
					n.apply()
				}
				if rnd.IntN(4) == 0 {
					list = n.giveBack(limit(x, k.No, Epoch, quota/2), wanted(x, lease/2))
					quota -= list[0].Granted[money.InUSD]
					lease -= list[1].Granted[money.InUSD]
				}
			}
			n.apply()
			f, err := n.Funds([]uint32{x}, conformDay)
			if err != nil || f[0].Lease[money.InUSD] != lease || quota > 0 &&
				(len(f) != 2 || f[1].Lease[money.InUSD] != quota) {
				t.Errorf("node %d has %s and %s of the limit in memory, %+v in the store (%v)", i, lease, quota, f, err)
			}
			granted.Add(int64(lease))
			limited.Add(int64(quota))
		})
	}
	wg.Wait()
	if n := money.Nano(granted.Load()); n > usd {
		t.Errorf("%s of a dollar were spent or leased", n)
	}
	if n := money.Nano(limited.Load()); n > usd/2 {
		t.Errorf("%s of a limit of 0.5 were spent or leased", n)
	}
	r := l.recount()
	if late := r.Accounts[x].late; late != (money.Parts{}) {
		t.Errorf("%v were late though every charge had a lease", late)
	}
}

// "A key with a limit of $10 on five nodes spent $50."
func TestLimitOfAKeyIsDividedAmongNodes(t *testing.T) {
	t.Parallel()
	l := newLeaseTest(t, 2)
	a, b := l.nodes[0], l.nodes[1]
	x := addAccount(t, a, "x", money.Parts{100, 0, 1000})
	add := func(id string, p Period, limitUSD, limitDIEM *money.Nano) int64 {
		k := &KeyRow{ID: id, Account: x, Type: Inference, Digest: Digest{id[0]}, Period: p, LimitUSD: limitUSD,
			LimitDIEM: limitDIEM, CreatedUs: 1}
		if err := a.AddKey(k, 10); err != nil {
			t.Fatal(err)
		}
		return k.No
	}
	for i, p := range []Period{Epoch, Month, Lifetime} {
		k := add(fmt.Sprintf("%ckey", 'a'+i), p, nano(100), nil)
		a.grant(wanted(x, 300))
		// Charges from before the first lease of the limit count.
		a.charge(x, k, conformDay, money.Parts{0, 0, 30})
		a.charge(x, k, conformDay-400, money.Parts{0, 0, 7}) // long ago
		a.apply()
		before := money.Nano(0)
		if p == Lifetime {
			before = 7
		}
		l.expect(a.grant(limit(x, k, p, 20))[0], 20, 20, 50-before, 0)
		l.expect(b.grant(limit(x, k, p, 200))[0], 50-before, 50-before, 0, 20)
		a.charge(x, k, conformDay, money.Parts{0, 5, 10}) // bundled credits count as USD
		a.apply()
		f := a.grant(limit(x, k, p, 1))[0]
		l.expect(f, 0, 5, 0, 50-before)
		l.expect(b.giveBack(limit(x, k, p, 30))[0], 30, 20-before, 30, 5)
		l.expect(a.grant(limit(x, k, p, 100))[0], 30, 35, 0, 20-before)
		// Without a lease, as when the limit was new: counted all the same.
		a.charge(x, k, conformDay, money.Parts{0, 0, 40})
		a.apply()
		l.expect(a.grant(limit(x, k, p, 100))[0], 0, 0, 0, 20-before)
		row, err := a.KeyByID(fmt.Sprintf("%ckey", 'a'+i))
		if err != nil {
			t.Fatal(err)
		}
		row.LimitUSD = nano(200)
		if err := a.UpdateKey(row); err != nil {
			t.Fatal(err)
		}
		// 85 plus before are spent, and b has a lease of 20 minus before.
		l.expect(a.grant(limit(x, k, p, 1000))[0], 95, 95, 0, 20-before)
		row.LimitUSD = nano(1)
		if err := a.UpdateKey(row); err != nil {
			t.Fatal(err)
		}
		l.expect(a.giveBack(limit(x, k, p, 95))[0], 95, 0, 0, 20-before)
		a.giveBack(wanted(x, 1000))
	}
	// Each limit counts alone, and a currency without a limit is unlimited.
	k := add("d", Epoch, nil, nano(10))
	f := a.grant(Want{Account: x, Key: k, Day: conformDay, Period: Epoch.Number(conformDay),
		Amounts: money.Parts{25, 0, 25}})[0]
	if f.Granted != (money.Parts{10, 0, 0}) || f.Avail[money.InUSD] != money.MaxCredit {
		t.Errorf("granted %v with %v left; only DIEM have a limit", f.Granted, f.Avail)
	}
	// The key has no longer a period of this kind.
	if f := a.grant(limit(x, k, Month, 5))[0]; f.Granted != (money.Parts{}) {
		t.Errorf("%v of a limit a month were granted of one a day", f.Granted)
	}
	list, err := a.Funds([]uint32{x}, conformDay)
	if err != nil || len(list) != 2 || list[1].Key != k || list[1].Lease != (money.Parts{10, 0, 0}) {
		t.Errorf("funds %+v (%v)", list, err)
	}
	l.recount()
}

// DIEM of a day are granted once, whichever node touches them first.
func TestAllowanceOfADayIsGrantedOnce(t *testing.T) {
	t.Parallel()
	l := newLeaseTest(t, 4)
	x := addAccount(t, l.nodes[0], "x", money.Parts{})
	if err := l.nodes[0].SetAllowance(x, 1000, conformDay, conformUs); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var granted atomic.Int64
	for i := range 16 {
		wg.Go(func() {
			s := openNode(t, l.address, fmt.Sprint("m", i))
			for day := range int32(4) {
				list, err := s.Grant(uint64(day+1), []Want{{Account: x, Day: conformDay + day,
					Amounts: money.Parts{300, 0, 0}}})
				if err != nil {
					t.Errorf("grant: %v", err)
					return
				}
				granted.Add(int64(list[0].Granted[money.InDIEM]))
			}
		})
	}
	wg.Wait()
	if granted.Load() != 4000 {
		t.Errorf("%d were granted of 1000 on each of four days", granted.Load())
	}
	// A batch may be the first to touch a day, too: late, but booked.
	l.nodes[0].charge(x, 1, conformDay+9, money.Parts{600, 0, 0})
	l.nodes[0].apply()
	if c := l.recount().Accounts[x]; c.Spent[money.InDIEM] != 600 || c.credited[money.InDIEM] != 5000 {
		t.Errorf("spent %v of %v", c.Spent, c.credited)
	}
	f, err := l.nodes[0].Funds([]uint32{x}, conformDay)
	if err != nil || f[0].Others[money.InDIEM] != 1000 {
		t.Errorf("funds %+v (%v)", f, err)
	}
}
