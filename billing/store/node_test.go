package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/money"
)

// "It died, its money was given to others, it came back and spent it again."
func TestLeasesOfADeadNodeComeBackOnce(t *testing.T) {
	t.Parallel()
	l := newLeaseTest(t, 2)
	dead, other := l.nodes[0], l.nodes[1]
	x := addAccount(t, other, "x", money.Parts{40, 30, 100})
	all := Want{Account: x, Day: conformDay, Amounts: money.Parts{40, 30, 100}}
	dead.grant(all)
	if _, err := dead.Beat(time.Minute); err != nil {
		t.Fatal(err)
	}
	if list, err := other.Reclaim(0); err != nil || len(list) != 0 {
		t.Fatalf("%v of a live node was taken back (%v)", list, err)
	}
	if err := other.ReleaseNode("n0"); err == nil {
		t.Error("a live node was released")
	}
	if err := other.ReleaseNode("nobody"); err == nil {
		t.Error("a node that does not exist was released")
	}
	if _, err := dead.Beat(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	if list, err := other.Reclaim(time.Hour); err != nil || len(list) != 0 {
		t.Fatalf("%v was taken back within the grace time (%v)", list, err)
	}
	list, err := other.Reclaim(0)
	if err != nil || len(list) != 1 || list[0] != (Reclaimed{dead.node, "n0", all.Amounts}) {
		t.Fatalf("taken back: %+v (%v)", list, err)
	}
	if list, err := other.Reclaim(0); err != nil || len(list) != 0 {
		t.Fatalf("%v was taken back twice (%v)", list, err)
	}
	// A reclaimed node gets no grant before a heartbeat reports it, then all as usual.
	if _, err := dead.Grant(dead.op+1, []Want{wanted(x, 1)}); !errors.Is(err, ErrReclaimed) {
		t.Errorf("before the heartbeat, a grant gives %v", err)
	}
	other.grant(wanted(x, 95))
	for i := range 2 {
		b, err := dead.Beat(time.Minute)
		if err != nil || b.Reclaimed != (i == 0) || b.Live != 2 {
			t.Errorf("beat %d: %+v %v", i, b, err)
		}
	}
	// Its charges meanwhile: from the free balance first, the rest is late.
	dead.charge(x, 1, conformDay, money.Parts{50, 30, 7})
	dead.apply()
	c := l.recount().Accounts[x]
	if c.Spent != (money.Parts{40, 30, 5}) || c.late != (money.Parts{10, 0, 2}) {
		t.Errorf("spent %v and late %v, expected 40 30 5 and 10 0 2", c.Spent, c.late)
	}
	if n, err := other.Shortfall(); n != 12 || err != nil {
		t.Errorf("the shortfall is %d (%v)", n, err)
	}
	l.expect(dead.grant(wanted(x, 3))[0], 0, 0, 0, 95)
	l.expect(other.giveBack(wanted(x, 95))[0], 95, 0, 95, 0)
	l.expect(dead.grant(wanted(x, 3))[0], 3, 3, 92, 0)

	// Leave returns leases, too, and is final.
	for range 2 {
		if err := dead.Leave(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := dead.Grant(dead.op+1, []Want{wanted(x, 1)}); !errors.Is(err, ErrFenced) {
		t.Errorf("after it left, a grant gives %v", err)
	}
	if _, err := dead.Beat(time.Minute); !errors.Is(err, ErrFenced) {
		t.Errorf("after it left, a beat gives %v", err)
	}
	nodes, err := other.Nodes()
	if err != nil || len(nodes) != 2 || !nodes[0].Left || nodes[1].Left || nodes[0].Leased != (money.Parts{}) {
		t.Errorf("nodes %+v (%v)", nodes, err)
	}
	again := l.join("n0")
	if again.node != dead.node || again.inc != dead.inc+1 {
		t.Errorf("it came back as %d, incarnation %d", again.node, again.inc)
	}
	l.expect(again.grant(wanted(x, 95))[0], 95, 95, 0, 0)
	l.recount()
}

// "The old process was not dead after all, and both booked."
func TestOlderProcessCanWriteNothing(t *testing.T) {
	t.Parallel()
	l := newLeaseTest(t, 1)
	old := l.nodes[0]
	x := addAccount(t, old, "x", money.Parts{0, 0, 1_000_000})
	old.grant(wanted(x, 1_000_000))
	// It writes as fast as it can while the new one joins.
	var booked atomic.Uint64
	end := make(chan error)
	go func() {
		for {
			for range 20 {
				old.charge(x, 1, conformDay, money.Parts{0, 0, 1})
			}
			if err := old.applyErr(); err != nil {
				end <- err
				return
			}
			booked.Store(old.b.Last)
		}
	}()
	eventually(t, "the older process books", time.Minute, func() bool { return booked.Load() > 0 })
	young := l.join("n0")
	if err := <-end; !errors.Is(err, ErrFenced) {
		t.Errorf("the older process ended with %v", err)
	}
	at, err := young.Applied(ToLedger)
	if err != nil || at != booked.Load() || at == 0 {
		t.Errorf("the older process booked %d records, the new one finds %d (%v)", booked.Load(), at, err)
	}
	for name, call := range map[string]func() error{
		"Apply":    old.applyErr,
		"AddPages": func() error { return old.AddPages(nil, 1, 2) },
		"Grant":    func() error { _, err := old.Grant(old.op+1, []Want{wanted(x, 1)}); return err },
		"Return":   func() error { _, err := old.Return(old.op+1, []Want{wanted(x, 1)}); return err },
		"Replay":   func() error { _, err := old.Grant(old.op, []Want{wanted(x, 1_000_000)}); return err },
		"Beat":     func() error { _, err := old.Beat(time.Minute); return err },
		"Leave":    old.Leave,
	} {
		if err := call(); !errors.Is(err, ErrFenced) {
			t.Errorf("%s of the older process gives %v", name, err)
		}
	}
	// The lease is the new one's.
	f, err := young.Funds(nil, conformDay)
	if err != nil || len(f) != 1 || f[0].Lease[money.InUSD] != 1_000_000-money.Nano(at) {
		t.Errorf("funds %+v (%v)", f, err)
	}
	young.charge(x, 1, conformDay, money.Parts{0, 0, f[0].Lease[money.InUSD]})
	young.apply()
	if c := l.recount().Accounts[x]; c.Spent[money.InUSD] != 1_000_000 || c.late != (money.Parts{}) {
		t.Errorf("spent %v, late %v", c.Spent, c.late)
	}
}

// "A key was revoked, and one node never heard of it."
func TestNoChangeIsMissed(t *testing.T) {
	t.Parallel()
	l := newLeaseTest(t, 3)
	const each = 60
	accounts := make([]uint32, 8)
	for i := range accounts {
		accounts[i] = addAccount(t, l.nodes[0], fmt.Sprint("a", i), money.Parts{})
	}
	start, err := l.nodes[0].Beat(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	read := make(chan []Change)
	go func() {
		var all []Change
		at := start.Feed
		for last := false; ; {
			list, err := l.nodes[2].Changes(at)
			if err != nil {
				t.Errorf("changes: %v", err)
				break
			}
			for _, c := range list {
				if c.No != at+1 {
					t.Errorf("change %d comes after %d", c.No, at)
				}
				at = c.No
			}
			all = append(all, list...)
			if last {
				break
			}
			select {
			case <-stop:
				last = true
			default:
			}
		}
		read <- all
	}()
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			n := l.nodes[w%2]
			for i := range each {
				account := accounts[(w+i)%len(accounts)]
				var err error
				if i%2 == 0 {
					_, err = n.Recall(0, account)
				} else {
					_, err = n.Credit(&Credit{Account: account, Currency: money.USD, Amount: 1,
						Ref: fmt.Sprint(w, "-", i), NowUs: 1})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	kinds := map[ChangeKind]int{}
	for _, c := range <-read {
		kinds[c.Kind]++
	}
	if kinds[ChangeRecall] != 6*each/2 || kinds[ChangeCredit] != 6*each/2 {
		t.Errorf("of %d changes %v were read", 6*each, kinds)
	}
	if _, err := l.nodes[0].writer.Exec("DELETE FROM change WHERE no <= $1", int64(start.Feed)+3); err != nil {
		t.Fatal(err)
	}
	if _, err := l.nodes[0].Changes(start.Feed); !errors.Is(err, ErrFeedGap) {
		t.Errorf("changes that are gone give %v", err)
	}
	l.recount()
}

// "Under load the database reported deadlocks, and requests waited for them."
func TestWritersNeverWaitInACircle(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t, "log_min_messages=log")
	l := &leaseTest{t: t, address: p.Database(t)}
	for i := range 4 {
		l.nodes = append(l.nodes, l.join(fmt.Sprint("n", i)))
	}
	const accounts, keys = 40, 80
	var nos []uint32
	var keyNos []int64
	for i := range accounts {
		no := addAccount(t, l.nodes[0], fmt.Sprint("a", i), money.Parts{1000, 1000, 1 << 40})
		if err := l.nodes[0].SetAllowance(no, 50, conformDay, conformUs); err != nil {
			t.Fatal(err)
		}
		nos = append(nos, no)
	}
	for i := range keys {
		k := &KeyRow{ID: fmt.Sprint("k", i), Account: nos[i%accounts], Type: Inference, Digest: Digest{byte(i)},
			Period: Epoch, LimitUSD: nano(1 << 39), CreatedUs: 1}
		if err := l.nodes[0].AddKey(k, 10); err != nil {
			t.Fatal(err)
		}
		keyNos = append(keyNos, k.No)
	}
	deadline := time.Now().Add(4 * time.Second)
	var wg sync.WaitGroup
	work := func(do func(rnd *rand.Rand)) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		wg.Go(func() {
			for rnd := rand.New(rand.NewPCG(seed, 1)); time.Now().Before(deadline) && !t.Failed(); {
				do(rnd)
			}
		})
	}
	for _, n := range l.nodes {
		work(func(rnd *rand.Rand) { // leases
			var wants []Want
			for range 1 + rnd.IntN(40) {
				i := rnd.IntN(keys)
				wants = append(wants, Want{Account: nos[rnd.IntN(accounts)], Day: conformDay + int32(rnd.IntN(3)),
					Amounts: money.Parts{money.Nano(rnd.IntN(5)), money.Nano(rnd.IntN(5)), 1000}},
					limit(nos[i%accounts], keyNos[i], Epoch, 1000))
			}
			if rnd.IntN(3) == 0 {
				n.giveBack(wants...)
			} else {
				n.grant(wants...)
			}
		})
		work(func(rnd *rand.Rand) { // charges
			for range 1 + rnd.IntN(60) {
				i := rnd.IntN(keys)
				n.charge(nos[i%accounts], keyNos[i], conformDay+int32(rnd.IntN(3)),
					money.Parts{money.Nano(rnd.IntN(3)), money.Nano(rnd.IntN(3)), money.Nano(rnd.IntN(50))})
			}
			n.apply()
		})
		work(func(*rand.Rand) { // sessions
			if _, err := n.Beat(time.Minute); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Millisecond)
		})
	}
	work(func(rnd *rand.Rand) { // operators
		n, no := l.nodes[0], nos[rnd.IntN(accounts)]
		c := &Credit{Account: no, Currency: money.SpendOrder[rnd.IntN(money.Currencies)],
			Day: conformDay + int32(rnd.IntN(3)), Amount: 5, Ref: fmt.Sprint(rnd.Uint64()), NowUs: 1}
		if _, err := n.Credit(c); err != nil {
			t.Error(err)
		}
		if err := n.SetAllowance(no, money.Nano(40+rnd.IntN(20)), conformDay+int32(rnd.IntN(3)), 1); err != nil {
			t.Error(err)
		}
		if err := n.ExpireDIEM(no, conformDay+int32(rnd.IntN(3)), 1); err != nil && !errors.Is(err, ErrNoRow) {
			t.Error(err)
		}
	})
	work(func(*rand.Rand) { // a node that comes and goes
		n := openNode(t, l.address, "guest")
		var wants []Want
		for _, no := range nos {
			wants = append(wants, wanted(no, 10))
		}
		g := newPeer(t, n)
		g.grant(wants...)
		if _, err := n.Beat(0); err != nil {
			t.Error(err)
		}
		if _, err := l.nodes[1].Reclaim(0); err != nil {
			t.Error(err)
		}
		time.Sleep(20 * time.Millisecond)
	})
	wg.Wait()
	l.recount()
	if n := strings.Count(p.Log(), "deadlock detected"); n > 0 {
		t.Errorf("%d deadlocks", n)
	}
}
