package billing

import (
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/money"
	"farebox/billing/store"
)

// debtNodes are three nodes on PostgreSQL with one account.
type debtNodes struct {
	t     *testing.T
	nodes []*Ledger
	id    string
}

func newDebtNodes(t *testing.T) *debtNodes {
	t.Helper()
	d := &debtNodes{t: t, nodes: nodesOn(t, servers.Database(t), 3, func(int, *Options) {})}
	a, err := d.nodes[0].CreateAccount("a")
	if err != nil {
		t.Fatal(err)
	}
	d.id = a.ID
	return d
}

func (d *debtNodes) credit(node int, n Nano) {
	d.t.Helper()
	if _, applied, err := d.nodes[node].Credit("a", USD, n, "", ""); err != nil || !applied {
		d.t.Fatalf("credit: %v, %v", applied, err)
	}
}

// keys returns a key as each node finds it.
func (d *debtNodes) keys(limit *Nano) (list []*Key) {
	d.t.Helper()
	_, secret, err := d.nodes[0].CreateKey(NewKey{Account: "a", Type: store.Inference, Period: store.Lifetime,
		LimitUSD: limit})
	if err != nil {
		d.t.Fatal(err)
	}
	for _, l := range d.nodes {
		k, err := l.Lookup([]byte(secret))
		if err != nil {
			d.t.Fatal(err)
		}
		list = append(list, k)
	}
	return list
}

func (d *debtNodes) admit(k *Key, n Nano) (h *Hold, denial Denial) {
	l := k.Account.ledger
	h = &Hold{}
	return h, l.Admit(h, &Admission{Key: k, Slot: -1, Hold: n, Min: n, Now: l.at()})
}

func (d *debtNodes) settle(h *Hold, cost Nano) (charged, owed Nano) {
	return h.Settle(Settlement{Cost: cost, Status: 200, Now: h.ledger.at()})
}

// becomes waits until a request of a key gets that code.
func (d *debtNodes) becomes(k *Key, want DenialCode) (took time.Duration) {
	d.t.Helper()
	began := time.Now()
	for {
		h, denial := d.admit(k, usd/100)
		if denial.Code == Admitted {
			h.Void(h.ledger.at())
		}
		if denial.Code == want {
			return time.Since(began)
		}
		if time.Since(began) > time.Minute {
			d.t.Fatalf("a minute later the node answers with %d and %s owed, expected %d", denial.Code, denial.Owed, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (d *debtNodes) row() *store.AccountRow {
	d.t.Helper()
	for _, l := range d.nodes {
		if err := l.project.drain(); err != nil {
			d.t.Fatal(err)
		}
	}
	row, err := d.nodes[0].store.FindAccount("a", d.nodes[0].Today())
	if err != nil {
		d.t.Fatal(err)
	}
	return row
}

func (d *debtNodes) audit() {
	d.t.Helper()
	for i, l := range d.nodes {
		r, err := l.Audit()
		if err != nil {
			d.t.Fatal(err)
		}
		for _, fault := range r.Faults {
			d.t.Errorf("node %d: %s", i, fault)
		}
	}
	statementsAddUp(d.t, d.nodes[0])
}

// "One node knew that I owed, and the others went on selling."
func TestDebtOfOneNodeStopsAllAndIsPaidOnAny(t *testing.T) {
	t.Parallel()
	d := newDebtNodes(t)
	d.credit(0, 10*usd)
	keys := d.keys(nil)
	h, denial := d.admit(keys[0], 10*usd)
	if denial.Code != Admitted {
		t.Fatalf("denied with %d", denial.Code)
	}
	if charged, owed := d.settle(h, 13*usd); charged != 10*usd || owed != 3*usd {
		t.Errorf("charged %s, and %s is owed", charged, owed)
	}
	for i, k := range keys {
		if took := d.becomes(k, InDebt); took > 3*time.Second {
			t.Errorf("node %d heard of it after %s", i, took)
		}
	}
	if row := d.row(); row.Debt != 3*usd {
		t.Errorf("the store says that %s is owed", row.Debt)
	}
	d.credit(2, usd)
	for _, k := range keys {
		d.becomes(k, InDebt)
	}
	d.credit(1, 4*usd)
	for i, k := range keys {
		if took := d.becomes(k, Admitted); took > 3*time.Second {
			t.Errorf("node %d heard of the payment after %s", i, took)
		}
	}
	row := d.row()
	if row.Debt != 0 || row.Avail[money.InUSD]+row.Leased[money.InUSD] != 2*usd || row.Spent[money.InUSD] != 13*usd {
		t.Errorf("of 15, %s was spent, %s and %s at nodes is left, %s owed", row.Spent[money.InUSD],
			row.Avail[money.InUSD], row.Leased[money.InUSD], row.Debt)
	}
	d.audit()
}

// "Three nodes handed in for my debt, and it was paid three times."
func TestDebtIsPaidOnceBySeveralNodes(t *testing.T) {
	t.Parallel()
	debtIsPaidOnce(t, 60)
}

func TestLongDebtIsPaidOnceBySeveralNodes(t *testing.T) {
	t.Parallel()
	debtIsPaidOnce(t, servers.Campaign(600))
}

func debtIsPaidOnce(t *testing.T, requests int) {
	d := newDebtNodes(t)
	d.credit(0, 20*usd)
	limit := 5 * usd
	kinds := [][]*Key{d.keys(nil), d.keys(&limit)}
	var mu sync.Mutex
	var put, charged, owed, cost, limited Nano
	put = 20 * usd
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var all sync.WaitGroup
	for client := range 9 {
		all.Go(func() {
			x := rand.New(rand.NewPCG(seed, uint64(client)))
			for range requests {
				time.Sleep(time.Duration(x.IntN(2000)) * time.Microsecond)
				if x.IntN(10) == 0 {
					n := Nano(x.Int64N(int64(2 * usd)))
					d.credit(client%3, n+1)
					mu.Lock()
					put += n + 1
					mu.Unlock()
					continue
				}
				kind := x.IntN(2)
				want := Nano(x.Int64N(int64(usd))) + 1
				h, denial := d.admit(kinds[kind][client%3], want)
				switch denial.Code {
				case Admitted:
				case InDebt, InsufficientBalance, KeyLimitUSD, StoreAway: // the last on a busy machine
					continue
				default:
					t.Errorf("denied with %d", denial.Code)
					return
				}
				c := Nano(x.Int64N(int64(3 * want)))
				got, short := d.settle(h, c)
				mu.Lock()
				charged, owed, cost = charged+got, owed+short, cost+c
				if kind == 1 {
					limited += got
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	d.row()
	// Excess payments of debt by nodes return, and the remaining debt is collected.
	row, have := d.row(), Nano(0)
	adds := func() bool {
		have = row.Avail[money.InUSD] + row.Leased[money.InUSD]
		return row.Spent[money.InUSD] == charged+owed-row.Debt && have == put-row.Spent[money.InUSD] && have >= 0
	}
	for end := time.Now().Add(time.Minute); !adds() && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		row = d.row()
	}
	if charged+owed != cost || !adds() || limited > limit {
		t.Errorf("seed %d: cost %s, charged %s and owed %s; put in %s, spent %s, %s is left and %s owed still; the "+
			"limited key was charged %s of %s",
			seed, cost, charged, owed, put, row.Spent[money.InUSD], have, row.Debt, limited, limit)
	}
	if owed == 0 {
		t.Error("nothing became debt, which proves nothing")
	}
	d.audit()
}

// "The backup forgot what my customers owe."
func TestDebtMovesBetweenEngines(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	f := openLedger(t)
	f.account("a", usd)
	k, secret := f.key("a")
	var h Hold
	f.Admit(&h, f.ask(k, usd))
	f.settle(&h, 4*usd)
	path := backupFile(t, f)
	o := f.options
	o.Dir, o.Shared = t.TempDir(), servers.Database(t)
	if _, err := Restore(path, o); err != nil {
		t.Fatal(err)
	}
	op, err := OperateShared(o.Shared, "svc")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = op.Close() }()
	expect := func(op Operator, usd, debt Nano) {
		t.Helper()
		list, err := All(op, ListAccounts{})
		if err != nil || len(list) != 1 || list[0].USD != usd || list[0].Debt != debt {
			t.Errorf("the accounts are %+v (%v)", list, err)
		}
		if r, err := Do(op, Verify{}); err != nil || len(r.Faults) > 0 || r.Debt != debt {
			t.Errorf("the recount finds %+v (%v)", r, err)
		}
	}
	expect(op, 0, 3*usd)
	if _, err := Do(op, CreditAccount{Account: "a", Currency: USD, Amount: 2 * usd}); err != nil {
		t.Fatal(err)
	}
	expect(op, 0, usd)
	back := filepath.Join(t.TempDir(), "back")
	if _, err := Do(op, BackUp{Path: back}); err != nil {
		t.Fatal(err)
	}
	o = f.options
	o.Dir = filepath.Join(t.TempDir(), "again")
	if _, err := Restore(back, o); err != nil {
		t.Fatal(err)
	}
	g := &fixture{t: t, clock: f.clock, options: o}
	g.open()
	defer func() { _ = g.Close() }()
	if owed := g.find(secret).Owed(); owed != usd {
		t.Errorf("%s is owed", owed)
	}
	g.credit("a", USD, 3*usd)
	expect(g.Ledger, 2*usd, 0)
	g.recount()
}

// "I owed 3 USD, and for a moment the node said 6."
func TestDebtReportedByTheStoreIsCountedOnce(t *testing.T) {
	t.Parallel()
	d := newDebtNodes(t)
	d.credit(0, 10*usd)
	k := d.keys(nil)[0]
	h, denial := d.admit(k, 10*usd)
	if denial.Code != Admitted {
		t.Fatalf("%+v", denial)
	}
	d.settle(h, 13*usd)
	l := d.nodes[0]
	if err := l.project.drain(); err != nil {
		t.Fatal(err)
	}
	list, err := l.node.store.Funds([]uint32{k.Account.no}, l.node.day.Load())
	if err != nil {
		t.Fatal(err)
	}
	a := k.Account
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range list {
		a.lease.know(a, &list[i], l.node.applied())
	}
	if owed := a.owed(); owed != 3*usd {
		t.Errorf("%s are owed, want 3", owed)
	}
}
