package billing

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"farebox/bench/servers"
	"farebox/billing/money"
	"farebox/billing/store"
)

// jobNodes are nodes on PostgreSQL with one account.
type jobNodes struct {
	t       *testing.T
	address string
	nodes   []*Ledger
	options []Options
	secret  string
}

func newJobNodes(t *testing.T, n int, amount Nano, limit *Nano) *jobNodes {
	t.Helper()
	j := &jobNodes{t: t, address: servers.Database(t), options: make([]Options, n)}
	j.nodes = nodesOn(t, j.address, n, func(i int, o *Options) { j.options[i] = *o })
	for i := range j.options {
		j.options[i].Shared = j.address
	}
	if _, err := j.nodes[0].CreateAccount("a"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := j.nodes[0].Credit("a", USD, amount, "", ""); err != nil {
		t.Fatal(err)
	}
	var err error
	_, j.secret, err = j.nodes[0].CreateKey(NewKey{Account: "a", Type: store.Inference, Period: store.Lifetime,
		LimitUSD: limit})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (j *jobNodes) key(i int) *Key {
	j.t.Helper()
	k, err := j.nodes[i].Lookup([]byte(j.secret))
	if err != nil {
		j.t.Fatal(err)
	}
	return k
}

// kill ends a node as kill -9 does: its journal stays as it is, and its session ends.
func (j *jobNodes) kill(i int) {
	j.t.Helper()
	l := j.nodes[i]
	l.retention.work.Close()
	l.keeper.close()
	l.node.work.Close()
	l.journal.Flush()
	l.project.work.Close()
	l.journal.Seal()
	l.journal.Halt()
	l.closing.Store(true)
	if err := errors.Join(l.keyed.Close(), l.lock.Close()); err != nil {
		j.t.Error(err)
	}
	if _, err := database(l.store).Exec("UPDATE node SET expires_us = 0 WHERE no = $1", l.NodeNo()); err != nil {
		j.t.Fatal(err)
	}
}

// open starts a node again.
func (j *jobNodes) open(i int) {
	j.t.Helper()
	l, err := Open(j.options[i])
	if err != nil {
		j.t.Fatal(err)
	}
	j.nodes[i] = l
	j.t.Cleanup(func() {
		if err := l.Close(); err != nil {
			j.t.Error(err)
		}
	})
}

// free is the account's balance, including leases.
func (j *jobNodes) free() Nano {
	j.t.Helper()
	row, err := j.nodes[1].store.FindAccount("a", j.nodes[1].Today())
	if err != nil {
		j.t.Fatal(err)
	}
	return row.Avail[money.InUSD] + row.Leased[money.InUSD]
}

func (j *jobNodes) verify() {
	j.t.Helper()
	r, err := j.nodes[1].Verify()
	if err != nil {
		j.t.Fatal(err)
	}
	for _, fault := range r.Faults {
		j.t.Error(fault)
	}
}

// "The node died with my jobs, another one failed them, and then the first came back and
// charged me."
func TestJobsOfADeadNodeAreChargedLateAndGivenBack(t *testing.T) {
	t.Parallel()
	j := newJobNodes(t, 2, 10*usd, nil)
	k := j.key(0)
	sold(t, k, "open", 2*usd)
	h, _ := sold(t, k, "settled", 3*usd)
	h.Settle(Settlement{Cost: 3 * usd, Now: j.nodes[0].at()})
	_, row := sold(t, k, "kept", usd)
	if ok, err := j.nodes[1].Jobs().UpdateJob(&store.JobRow{ID: "open", Owner: 2, Epoch: 1, State: store.JobRunning},
		store.JobSubmitting); ok || err != nil {
		t.Errorf("a node changed the job of another: %t (%v)", ok, err)
	}
	if n, err := j.nodes[1].Jobs().TakeJobs(2, true); n != 0 || err != nil {
		t.Errorf("%d jobs of a live node were taken over (%v)", n, err)
	}
	j.kill(0)
	other := j.nodes[1]
	if err := other.ReleaseNode("n0"); err != nil {
		t.Fatal(err)
	}
	if n, err := other.Jobs().TakeJobs(2, false); n != 3 || err != nil {
		t.Fatalf("%d jobs were taken over (%v)", n, err)
	}
	row.State = store.JobRunning
	if ok, err := other.Jobs().UpdateJob(row, store.JobSubmitting); ok || err != nil {
		t.Errorf("the dead owner changed its job: %t (%v)", ok, err)
	}
	failed(t, other, "open")
	failed(t, other, "settled")
	if row, err := other.Jobs().RefundJob("open"); row != nil || err != nil {
		t.Errorf("refunded before it is charged: %+v (%v)", row, err)
	}
	j.verify()
	j.open(0)
	for _, id := range []string{"open", "settled"} {
		if row := given(t, other, id); row.Paid != row.Back || row.Paid.Total() == 0 {
			t.Errorf("%s: %+v", id, row)
		}
	}
	if row, err := other.Jobs().Job("kept"); err != nil || row.Paid != (money.Parts{0, 0, usd}) || row.BackUs != 0 {
		t.Errorf("the running job is %+v (%v)", row, err)
	}
	if free := j.free(); free != 9*usd {
		t.Errorf("the account has %s", free)
	}
	j.verify()
	if r, err := j.nodes[0].Audit(); err != nil || len(r.Faults) > 0 || r.Jobs != 3 {
		t.Errorf("%+v (%v)", r, err)
	}
}

// "The house paid for it, and gave it back to me."
func TestLateChargesOfAJobAreNotRefunded(t *testing.T) {
	t.Parallel()
	j := newJobNodes(t, 2, 10*usd, nil)
	sold(t, j.key(0), "late", 6*usd)
	j.kill(0)
	other := j.nodes[1]
	if err := other.ReleaseNode("n0"); err != nil {
		t.Fatal(err)
	}
	h, _ := sold(t, j.key(1), "next", 8*usd)
	h.Settle(Settlement{Cost: 8 * usd, Now: other.at()})
	if err := other.project.drain(); err != nil {
		t.Fatal(err)
	}
	if n, err := other.Jobs().TakeJobs(2, false); n != 1 || err != nil {
		t.Fatalf("%d jobs were taken over (%v)", n, err)
	}
	failed(t, other, "late")
	j.open(0)
	// A late charge cannot take money that the other node has leased.
	if row := given(t, other, "late"); row.Paid.Total() > 2*usd || row.Back != row.Paid {
		t.Errorf("%+v", row)
	}
	if free := j.free(); free != 2*usd {
		t.Errorf("the account has %s", free)
	}
	j.verify()
}

// "The job failed, and the limit of my key was used up for nothing, on every node."
func TestLimitsOfKeysComeBackOnAllNodes(t *testing.T) {
	t.Parallel()
	j := newJobNodes(t, 2, 100*usd, nano(3*usd))
	for round := range 4 {
		id := string(rune('a' + round))
		node := round % 2
		h, _ := sold(t, j.key(node), id, 3*usd)
		h.Settle(Settlement{Cost: 3 * usd, Now: j.nodes[node].at()})
		failed(t, j.nodes[node], id)
		given(t, j.nodes[node], id)
	}
	h, _ := sold(t, j.key(0), "last", 3*usd)
	h.Settle(Settlement{Cost: 3 * usd, Now: j.nodes[0].at()})
	if err := j.nodes[0].project.drain(); err != nil {
		t.Fatal(err)
	}
	var over Hold
	k := j.key(1)
	if d := j.nodes[1].Admit(&over, &Admission{Key: k, Slot: -1, Hold: usd, Min: usd, Now: j.nodes[1].at()}); d.Code !=
		KeyLimitUSD {
		t.Errorf("beyond its limit the key is answered with %d", d.Code)
	}
	if free := j.free(); free != 97*usd {
		t.Errorf("the account has %s", free)
	}
	j.verify()
}

// "After the restore a new job could not be sold, or an old one was paid by somebody else."
func TestJobsMoveBetweenEngines(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	f := openLedger(t)
	f.account("a", 10*usd)
	k, _ := f.key("a")
	h, _ := sold(t, k, "paid", usd)
	f.settle(h, usd)
	sold(t, k, "open", 2*usd)
	// The number of a hold without a record in the store is used again.
	ahead := &store.JobRow{ID: "ahead", Account: k.Account.no, Node: 1, Hold: 7, Owner: 1, Epoch: 1,
		State: store.JobSubmitting, CreatedUs: 1}
	if found, err := f.Jobs().AddJob(ahead, 0); found != nil || err != nil {
		t.Fatalf("%+v (%v)", found, err)
	}
	path := filepath.Join(t.TempDir(), "backup")
	if _, err := f.Backup(path); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"SQLite":     {Dir: filepath.Join(t.TempDir(), "new")},
		"PostgreSQL": {Dir: t.TempDir(), Shared: servers.Database(t)},
	} {
		t.Run(name, func(t *testing.T) {
			o.Brand = "svc"
			if _, err := Restore(path, o); err != nil {
				t.Fatal(err)
			}
			if o.Shared == "" {
				o.Clock = f.clock.now
			}
			g := &fixture{t: t, clock: f.clock, options: o}
			g.open()
			defer func() { _ = g.Close() }()
			for id, want := range map[string]Nano{"paid": usd, "open": 2 * usd, "ahead": 0} {
				row, err := g.Jobs().Job(id)
				if o.Shared != "" && id == "open" {
					want = 0 // its journal belongs to no node there
				}
				if err != nil || row.PaidUs == 0 || row.Paid.Total() != want {
					t.Errorf("%s is %+v (%v)", id, row, err)
				}
			}
			if n, err := g.Jobs().TakeJobs(g.NodeNo(), true); n != 3 || err != nil {
				t.Errorf("%d jobs were taken over (%v)", n, err)
			}
			if o.Shared == "" {
				k, err := g.adoptForTest(mustKeys(t, g.store)[0])
				if err != nil {
					t.Fatal(err)
				}
				for i := range 4 {
					h, _ := sold(t, k, fmt.Sprint("new", i), 1)
					f.settle(h, 1)
				}
			}
			failed(t, g.Ledger, "paid")
			failed(t, g.Ledger, "ahead")
			if row := given(t, g.Ledger, "paid"); row.Back != (money.Parts{0, 0, usd}) {
				t.Errorf("%+v", row)
			}
			given(t, g.Ledger, "ahead")
			g.recount()
		})
	}
}

func mustKeys(t *testing.T, s store.Store) []*store.KeyRow {
	t.Helper()
	rows, err := s.Keys(0)
	if err != nil || len(rows) == 0 {
		t.Fatal(err)
	}
	return rows
}
