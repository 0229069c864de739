package payment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"farebox/bench/servers"
	"farebox/billing"
	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/config/fair"
	"farebox/config/onchain"
)

// quickDir is a directory in memory, if the machine has one.
func quickDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "farebox-payment-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// ledgerOn opens a ledger; shared is the address of a store that other nodes use, too.
func ledgerOn(t testing.TB, shared, name string) *billing.Ledger {
	t.Helper()
	l, err := billing.Open(billing.Options{Dir: quickDir(t), Shared: shared, NodeName: name, Brand: "svc",
		Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("cannot close the ledger: %v", err)
		}
	})
	return l
}

// "It crashed, and somebody was credited twice", or never: whatever facilitators do, and
// wherever processes die, payments on the chain are credited once, and no others.
func TestMoneyFollowsTheChainWhereverProcessesDie(t *testing.T) {
	t.Parallel()
	const ledgers, runs = 4, 60
	for i := range ledgers {
		t.Run(fmt.Sprint("ledger ", i), func(t *testing.T) {
			t.Parallel()
			randomRuns(t, []*billing.Ledger{ledgerOn(t, "", "")}, runs)
		})
	}
}

func TestLongMoneyFollowsTheChainWhereverProcessesDie(t *testing.T) {
	t.Parallel()
	randomRuns(t, []*billing.Ledger{ledgerOn(t, "", "")}, servers.Campaign(500))
}

// Three nodes submit the same payments, and die.
func TestMoneyFollowsTheChainOnThreeNodes(t *testing.T) {
	t.Parallel()
	randomRuns(t, threeNodes(t), 20)
}

func TestLongMoneyFollowsTheChainOnThreeNodes(t *testing.T) {
	t.Parallel()
	randomRuns(t, threeNodes(t), servers.Campaign(40))
}

func threeNodes(t *testing.T) (nodes []*billing.Ledger) {
	address := servers.Database(t)
	for i := range 3 {
		nodes = append(nodes, ledgerOn(t, address, fmt.Sprint("node-", i)))
	}
	return nodes
}

func randomRuns(t *testing.T, ledgers []*billing.Ledger, runs int) {
	if os.Getenv("FAREBOX_RAPID_CHECKS") != "" {
		runs = max(4, runs/10) // a run that looks for races and for dates
	}
	first := rand.Uint64()
	t.Logf("seeds from %d", first)
	happened := map[string]int{}
	for n := range runs {
		r := &run{t: t, seed: first + uint64(n), ledgers: ledgers, happened: happened}
		if r.play(); t.Failed() {
			t.Fatalf("run %d, seed %d", n, r.seed)
		}
	}
	audits(t, ledgers[0])
	t.Logf("%v", happened)
	for _, what := range append(settlings, "reorg", "crash", "credited", "dead") {
		if happened[what] == 0 && runs > 100 {
			t.Errorf("nothing was %s: the test tests little", what)
		}
	}
}

// audits recounts the books.
func audits(t testing.TB, l *billing.Ledger) store.Report {
	t.Helper()
	report, err := l.Audit()
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range report.Faults {
		t.Error(fault)
	}
	return report
}

// run is a life of some payments.
type run struct {
	t        *testing.T
	seed     uint64
	ledgers  []*billing.Ledger
	world    *world
	happened map[string]int

	mu       sync.Mutex
	random   *rand.Rand
	payments []*onchain.Payment
	credits  map[string]int // answers that said credited for the first time
}

func (r *run) chance(of int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(of) == 0
}

func (r *run) below(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(n)
}

// machine starts a process that may die after some steps.
func (r *run) machine(node, steps int) (*Machine, *life) {
	l := &life{}
	l.left.Store(int64(steps))
	ledger := r.ledgers[node]
	fails := func() (bool, bool) { return r.chance(60), r.chance(60) }
	if steps > 1e6 {
		fails = nil
	}
	m := New(Options{Store: &mortal{Store: ledger.Payments(), life: l, fails: fails}, Node: ledger.NodeNo(), Log: zerolog.Nop()})
	_ = m.Configure(quickTerms, &mortalClient{r.world, l}) // it is not begun: this cannot fail
	m.t = quick
	return m, l
}

func (r *run) play() {
	r.world = newWorld(r.seed)
	r.world.reorgs = true
	r.random = rand.New(rand.NewPCG(r.seed, 3))
	r.credits = map[string]int{}
	for i := range 1 + r.below(4) {
		p := &onchain.Payment{ID: fmt.Sprintf("pay_%x_%d", r.seed, i), Network: "eip155:8453", Asset: "0xa",
			Wallet: fmt.Sprintf("0x%016x%024x", r.seed, i%2), Units: 5_000_000, Amount: money.Nano(5_000_000_000 + i)}
		p.Same[0] = byte(i)
		r.payments = append(r.payments, p)
	}
	for range 1 + r.below(3) { // processes that die
		var nodes sync.WaitGroup
		for node := range r.ledgers {
			nodes.Go(func() { r.process(node, 5+r.below(60)) })
		}
		nodes.Wait()
	}
	r.world.quiet()
	r.drain()
	r.check()
}

// process is a process with clients, until it dies or has answered them.
func (r *run) process(node, steps int) {
	m, l := r.machine(node, steps)
	if m.Begin() != nil {
		return
	}
	var clients sync.WaitGroup
	for _, p := range r.payments {
		for range 1 + r.below(2) {
			clients.Go(func() { r.client(m, l, p) })
		}
	}
	clients.Wait()
	if l.dead() {
		r.note("crash")
	}
	l.left.Store(-1)
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	m.work.Wait()
}

func (r *run) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.happened[what]++
}

// client submits until it knows the outcome, or gives up.
func (r *run) client(m *Machine, l *life, p *onchain.Payment) {
	for range 4 {
		ctx, done := context.Background(), func() {}
		if r.chance(8) { // it hangs up
			ctx, done = context.WithTimeout(ctx, time.Millisecond)
		}
		out := m.Submit(ctx, p, fair.Owner{})
		done()
		if l.dead() {
			return // no client got the answer
		}
		switch out.Ending {
		case Credited:
			r.mu.Lock()
			if !out.Again {
				r.credits[p.ID]++
			}
			r.mu.Unlock()
			if out.Amount != p.Amount || out.Balance < p.Amount || out.Transaction == "" {
				r.t.Errorf("seed %d: %s is credited with %+v", r.seed, p.ID, out)
			}
			return
		case Refused:
			if out.Refusal.Code == "" || out.Refusal.Reason == "" {
				r.t.Errorf("seed %d: %s is refused with %+v", r.seed, p.ID, out)
			}
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// drain lets a last process finish everything.
func (r *run) drain() {
	m, _ := r.machine(0, 1<<40)
	if err := m.Begin(); err != nil {
		r.t.Fatal(err)
	}
	defer func() { m.stop(); m.work.Wait() }()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		left := 0
		for _, p := range r.payments {
			if row := r.row(p.ID); row != nil && row.State < store.PaymentFinal {
				left++
			}
		}
		if left == 0 {
			return
		}
		if time.Now().After(end) {
			r.t.Errorf("seed %d: %d payments come to no end", r.seed, left)
			return
		}
	}
}

func (r *run) row(id string) *store.PaymentRow {
	row, err := r.ledgers[0].Payments().Payment(id)
	if err != nil {
		return nil
	}
	return row
}

// check compares the credits with the chain.
func (r *run) check() {
	want := map[string]money.Nano{}
	for _, p := range r.payments {
		c, row := r.world.coin(p.ID), r.row(p.ID)
		switch {
		case row == nil:
			if c.at != 0 || c.asked > 0 {
				r.t.Errorf("seed %d: %s was settled %d times, and is nowhere", r.seed, p.ID, c.asked)
			}
			continue
		case (c.at != 0) != (row.State == store.PaymentFinal):
			r.t.Errorf("seed %d: %s: the chain says %+v, the store %+v", r.seed, p.ID, c, row)
		}
		if c.at != 0 {
			want[p.Wallet] += p.Amount
			r.note("credited")
		} else {
			r.note("dead")
		}
		if int64(r.credits[p.ID]) > row.Epoch {
			r.t.Errorf("seed %d: %s was said to be credited %d times, in %d epochs", r.seed, p.ID, r.credits[p.ID],
				row.Epoch)
		}
	}
	for _, p := range r.payments {
		a, err := r.ledgers[0].Accounts().WalletState(p.Wallet)
		if err != nil {
			if want[p.Wallet] != 0 {
				r.t.Errorf("seed %d: %v", r.seed, err)
			}
			continue
		}
		b, err := r.ledgers[0].Reports(a).Balance()
		if err != nil || b.USD != want[p.Wallet] || b.Debt != 0 {
			r.t.Errorf("seed %d: %s has %s and owes %s, expected %s (%v)", r.seed, p.Wallet, b.USD, b.Debt,
				want[p.Wallet], err)
		}
	}
	for what, n := range r.world.faults {
		r.happened[what] += n
	}
}
