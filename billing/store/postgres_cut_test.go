package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/money"
)

// worker is a node that spends from its leases and keeps its own count of the store's
// answers. Like a node it repeats each operation until it has the answer, whatever the
// network does.
type worker struct {
	*peer
	rnd            *rand.Rand
	accounts       []uint32
	lease, charged map[uint32]money.Nano
	unknown        int // answers that were lost
}

func newWorker(p *peer, seed uint64, accounts []uint32) *worker {
	return &worker{peer: p, rnd: rand.New(rand.NewPCG(seed, 7)), accounts: accounts, lease: map[uint32]money.Nano{},
		charged: map[uint32]money.Nano{}}
}

// insist repeats do until it succeeds.
func (w *worker) insist(do func() error) {
	for deadline := time.Now().Add(40 * time.Second); ; w.unknown++ {
		err := do()
		if err == nil {
			return
		}
		if time.Now().After(deadline) || errors.Is(err, ErrFenced) || errors.Is(err, ErrReclaimed) {
			w.t.Errorf("node %d: %v", w.node, err)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// step runs one random operation.
func (w *worker) step() {
	var list []Funds
	switch w.rnd.IntN(5) {
	case 0, 1:
		var wants []Want
		for range 1 + w.rnd.IntN(8) {
			wants = append(wants, wanted(w.accounts[w.rnd.IntN(len(w.accounts))], money.Nano(w.rnd.IntN(5000))))
		}
		w.op++
		w.insist(func() (err error) { list, err = w.Grant(w.op, wants); return err })
		for _, f := range list {
			w.lease[f.Account] += f.Granted[money.InUSD]
		}
	case 2:
		no := w.accounts[w.rnd.IntN(len(w.accounts))]
		w.op++
		w.insist(func() (err error) { list, err = w.Return(w.op, []Want{wanted(no, w.lease[no]/3)}); return err })
		for _, f := range list {
			w.lease[no] -= f.Granted[money.InUSD]
		}
	default:
		for range 1 + w.rnd.IntN(30) {
			no := w.accounts[w.rnd.IntN(len(w.accounts))]
			n := min(w.lease[no], money.Nano(1+w.rnd.IntN(300)))
			if n > 0 {
				w.charge(no, 1, conformDay, money.Parts{0, 0, n})
				w.lease[no] -= n
				w.charged[no] += n
			}
		}
		w.insist(w.applyErr)
	}
}

// check compares the worker's count with the store.
func (w *worker) check() {
	w.t.Helper()
	list, err := w.Funds(w.accounts, conformDay)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range list {
		if f.Lease[money.InUSD] != w.lease[f.Account] {
			w.t.Errorf("node %d has %d of account %d leased, the store says %d", w.node, w.lease[f.Account], f.Account,
				f.Lease[money.InUSD])
		}
	}
}

// "An answer was lost on the way, and the money with it", or "twice".
func TestConnectionCutsLoseAndDoubleNothing(t *testing.T) { connectionCuts(t, time.Second) }

func TestLongConnectionCutsLoseAndDoubleNothing(t *testing.T) { connectionCuts(t, 3*time.Second) }

func connectionCuts(t *testing.T, took time.Duration) {
	t.Parallel()
	address := servers.Database(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	first := openNode(t, address, "first")
	var accounts []uint32
	for i := range 10 {
		accounts = append(accounts, addAccount(t, first, fmt.Sprint("a", i), money.Parts{0, 0, 200_000}))
	}
	// A busy machine may charge nothing between two cuts for a while.
	var charges atomic.Bool
	end := time.Now().Add(took)
	goesOn := func() bool {
		return time.Now().Before(end) || !charges.Load() && time.Now().Before(end.Add(30*time.Second))
	}
	workers := make([]*worker, 4)
	var wg sync.WaitGroup
	var cuts atomic.Int64
	for i := range workers {
		cut, s := openThroughCut(t, address, fmt.Sprint("n", i))
		w := newWorker(newPeer(t, s), seed+uint64(i), accounts)
		workers[i] = w
		stop := make(chan struct{})
		wg.Go(func() {
			for goesOn() {
				w.step()
				if len(w.charged) > 0 {
					charges.Store(true)
				}
			}
			close(stop)
		})
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			for {
				select {
				case <-stop:
					cuts.Add(int64(cut.Cuts()))
					return
				case <-time.After(time.Duration(rnd.IntN(100)) * time.Millisecond):
				}
				if rnd.IntN(2) == 0 {
					cut.LoseAnswer()
				} else {
					cut.Cut()
				}
			}
		})
	}
	// Credits through a connection that breaks, too; each once.
	cut, through := openThroughCut(t, address, "operator")
	credited := 0
	wg.Go(func() {
		for i := 0; goesOn(); i++ {
			if i%2 == 0 {
				cut.LoseAnswer()
			}
			ok := false
			c := &Credit{Account: accounts[i%len(accounts)], Currency: money.USD, Amount: 11, Ref: fmt.Sprint("r", i),
				NowUs: conformUs}
			for {
				var err error
				if ok, err = through.Credit(c); err == nil {
					break
				}
			}
			credited++
			_ = ok // it may say that an earlier try did it
		}
	})
	wg.Wait()
	charged := map[uint32]money.Nano{}
	unknown := 0
	for _, w := range workers {
		w.check()
		unknown += w.unknown
		for no, n := range w.charged {
			charged[no] += n
		}
	}
	c := conform{Store: first, t: t}
	r := c.recount()
	total, granted := money.Nano(0), money.Nano(0)
	for _, no := range accounts {
		a := r.Accounts[no]
		if a.Spent[money.InUSD] != charged[no] || a.late != (money.Parts{}) {
			t.Errorf("account %d: charged %d, booked %v and late %v", no, charged[no], a.Spent, a.late)
		}
		total += a.Spent[money.InUSD]
		granted += a.granted[money.InUSD]
	}
	if want := money.Nano(10*200_000 + 11*credited); granted != want {
		t.Errorf("credited %d, booked %d", want, granted)
	}
	n := int(cuts.Load()) + cut.Cuts()
	t.Logf("%d cuts, %d answers given up and asked for again; %d charged, %d credits", n, unknown, total, credited)
	if n < 20 || total == 0 {
		t.Errorf("%d cuts and %d charged: this proves nothing", n, total)
	}
}

// "They restarted the database, and some requests were never billed."
func TestRestartsOfTheServerLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t)
	address := p.Database(t)
	first := openNode(t, address, "first")
	var accounts []uint32
	for i := range 5 {
		accounts = append(accounts, addAccount(t, first, fmt.Sprint("a", i), money.Parts{0, 0, 1_000_000}))
	}
	stop := make(chan struct{})
	workers := make([]*worker, 3)
	var wg sync.WaitGroup
	for i := range workers {
		w := newWorker(newPeer(t, openNode(t, address, fmt.Sprint("n", i))), uint64(i), accounts)
		workers[i] = w
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					w.step()
				}
			}
		})
	}
	for i := range 4 {
		time.Sleep(400 * time.Millisecond)
		if i%2 == 0 {
			p.Kill()
		} else {
			p.Stop()
		}
		time.Sleep(100 * time.Millisecond)
		p.Start(t)
	}
	time.Sleep(300 * time.Millisecond)
	close(stop)
	wg.Wait()
	total := money.Nano(0)
	for _, w := range workers {
		w.check()
		for _, n := range w.charged {
			total += n
		}
	}
	c := conform{Store: first, t: t}
	if r := c.recount(); r.Charged != total || total == 0 {
		t.Errorf("charged %d, booked %d", total, r.Charged)
	}
}

// A node must not wait for an unresponsive store longer than a request can wait.
func TestStoreThatRefusesIsGivenUp(t *testing.T) {
	t.Parallel()
	cut, s := openThroughCut(t, servers.Database(t), "node")
	a := addAccount(t, s, "a", money.Parts{0, 0, 100})
	cut.Refuse(true)
	began := time.Now()
	if _, err := s.Grant(1, []Want{wanted(a, 10)}); err == nil {
		t.Error("a store that is away granted something")
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s to give up", took)
	}
	cut.Refuse(false)
	if list, err := s.Grant(1, []Want{wanted(a, 10)}); err != nil || list[0].Granted[money.InUSD] != 10 {
		t.Errorf("afterwards: %+v %v", list, err)
	}
}

// Options that an operator may write into the address, also for a pooler in between,
// change nothing.
func TestAddressesOfTheStore(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(servers.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Scheme = "postgresql"
	q := u.Query()
	q.Set("application_name", "farebox")
	q.Set("default_query_exec_mode", "cache_describe") // as behind PgBouncer
	u.RawQuery = q.Encode()
	s := openNode(t, u.String(), "node")
	a := addAccount(t, s, "a", money.Parts{0, 0, 100})
	n := newPeer(t, s)
	if f := n.grant(wanted(a, 7))[0]; f.Granted[money.InUSD] != 7 {
		t.Errorf("%+v", f)
	}
	n.charge(a, 1, conformDay, money.Parts{0, 0, 7})
	n.apply()
	c := conform{Store: s, t: t}
	if r := c.recount(); r.Charged != 7 {
		t.Errorf("%d are charged", r.Charged)
	}
}

// "The credit was booked, and the command said that nothing had changed": a
// reference that was never used before is applied, whichever answer is lost.
func TestCreditWhoseAnswerWasLostIsApplied(t *testing.T) {
	t.Parallel()
	address := servers.Database(t)
	cut, s := openThroughCut(t, address, "n")
	no := addAccount(t, s, "a", money.Parts{})
	cut.Delay(3 * time.Millisecond)
	for i := range 24 {
		lose := time.AfterFunc(time.Duration(i)*4*time.Millisecond, cut.LoseAnswer)
		c := &Credit{Account: no, Currency: money.USD, Amount: 1, Ref: fmt.Sprint("r", i), NowUs: conformUs}
		applied, err := s.Credit(c)
		lose.Stop()
		if err != nil || !applied {
			t.Fatalf("credit %d: applied %v, %v", i, applied, err)
		}
		if applied, err = s.Credit(c); err != nil || applied {
			t.Fatalf("credit %d again: applied %v, %v", i, applied, err)
		}
	}
	cut.Delay(0)
	row, err := s.Account(no, conformDay)
	if err != nil || row.Avail[money.InUSD] != 24 {
		t.Errorf("%+v, %v", row, err)
	}
}
