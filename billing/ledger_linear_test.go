package billing

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"farebox/bench/servers"
	"farebox/billing/money"
	"farebox/billing/store"
)

// Concurrent operations on one account, on one node or on several, must have results that
// a clerk could produce one after the other, with one slip of paper: so much is free, so
// much was put in.

// linearOp is an operation of a client, which knows the hold that it resolves.
type linearOp struct {
	do   string
	n    Nano // wanted, charged or put in
	held Nano
}

// linearResult is the outcome of a linearOp.
type linearResult struct {
	n       Nano // held, charged, or seen
	short   Nano
	away    bool // the store did not answer: nothing was done
	unknown bool // there was no answer: it may have been done
	late    bool // denied after the wait for other nodes' money
}

type linearState struct{ free, put, debt Nano }

// pay collects debt before any operation: at once on one node; on several, each node pays
// when it learns of the debt.
func (s linearState) pay(exact bool) (after []linearState) {
	most := min(s.free, s.debt)
	least := Nano(0)
	if exact {
		least = most
	}
	for n := least; n <= most; n++ {
		after = append(after, linearState{s.free - n, s.put, s.debt - n})
	}
	return after
}

// linearModel is the clerk. On one node each charge must be exact.
func linearModel(exact bool) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{linearState{}} },
		Step: func(state, input, output any) (after []any) {
			for _, before := range state.(linearState).pay(exact) {
				for _, s := range before.step(input.(linearOp), output.(linearResult), exact) {
					if !slices.Contains(after, any(s)) {
						after = append(after, s)
					}
				}
			}
			return after
		},
		Equal:             func(a, b any) bool { return a == b },
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
	}
	return m.ToModel()
}

// step is one operation; no state: it cannot have had this result.
func (s linearState) step(in linearOp, out linearResult, exact bool) []linearState {
	before, ok := s, true
	switch in.do {
	case "admit":
		if out.away {
			return []linearState{s}
		}
		// An account with debt is denied unless its balance covers both. A node that does
		// not know the debt yet admits up to its balance.
		ok = out.n == in.n && s.free >= in.n && (s.debt == 0 || !exact) ||
			out.n == 0 && (out.late || s.free-s.debt < in.n)
		s.free -= out.n
	case "settle":
		charged := min(in.n, in.held+s.free)
		ok = out.n == charged && out.short == in.n-out.n
		if !exact && out.n < charged {
			// Another node wanted the money for the cost beyond the hold, until the wait
			// for it was over.
			ok = out.n >= min(in.n, in.held) && out.short == in.n-out.n
		}
		s.free += in.held - out.n
		s.debt += out.short
	case "void":
		s.free += in.held
	case "credit":
		s.free, s.put = s.free+in.n, s.put+in.n
		if out.unknown {
			return append(before.pay(exact), s.pay(exact)...)
		}
	case "free":
		ok = out.n == s.free
	case "put":
		ok = out.n == s.put
	}
	if !ok {
		return nil
	}
	return s.pay(exact)
}

// linearRun runs clients on the nodes of one account.
type linearRun struct {
	seed    uint64
	nodes   []*Ledger
	id      string
	keys    []*Key // of the account, one a node
	faults  bool   // calls of the store may fail: nothing is charged beyond its hold, and look is not called
	clients int
	ops     int

	mu      sync.Mutex
	began   time.Time
	history []porcupine.Operation
	put     Nano // surely
	charged Nano
	short   Nano
}

func (r *linearRun) note(client int, in linearOp, do func() linearResult) linearResult {
	call := int64(time.Since(r.began))
	out := do()
	op := porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: int64(time.Since(r.began))}
	if out.unknown {
		op.Return = 1 << 60 // it may still happen
	}
	r.mu.Lock()
	r.history = append(r.history, op)
	if in.do == "settle" {
		r.charged += out.n
		r.short += out.short
	}
	if in.do == "credit" && !out.unknown {
		r.put += in.n
	}
	r.mu.Unlock()
	return out
}

func (r *linearRun) credit(t *testing.T, client int, l *Ledger, n Nano) {
	ref := newUUID()
	r.note(client, linearOp{do: "credit", n: n}, func() linearResult {
		_, applied, err := l.Credit(r.id, USD, n, ref, "")
		if err != nil && !r.faults || err == nil && !applied {
			t.Errorf("credit: applied %v, %v", applied, err)
		}
		return linearResult{unknown: err != nil}
	})
}

// look reads the exact figures: the free balance on one node; on several the credits,
// which every row of the store has.
func (r *linearRun) look(t *testing.T, client int, l *Ledger) {
	if l.node == nil {
		r.note(client, linearOp{do: "free"}, func() linearResult {
			n, _, _ := r.keys[0].Balance()
			return linearResult{n: n}
		})
		return
	}
	r.note(client, linearOp{do: "put"}, func() linearResult {
		row, err := l.store.FindAccount(r.id, l.Today())
		if err != nil {
			t.Error(err)
			return linearResult{}
		}
		return linearResult{n: row.Avail[money.InUSD] + row.Leased[money.InUSD] + row.Spent[money.InUSD]}
	})
}

// client admits, resolves, puts in and looks, at random.
func (r *linearRun) client(t *testing.T, client int) {
	rnd := rand.New(rand.NewPCG(r.seed, uint64(client)))
	k := r.keys[client%len(r.keys)]
	l := k.Account.ledger
	for range r.ops {
		// or each client would be done before the next begins
		time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
		switch n := rnd.IntN(10); {
		case n == 0:
			r.credit(t, client, l, 1+Nano(rnd.Int64N(80)))
			continue
		case n == 1 && !r.faults:
			r.look(t, client, l)
			continue
		}
		var h Hold
		want := 1 + Nano(rnd.Int64N(25))
		out := r.note(client, linearOp{do: "admit", n: want}, func() linearResult {
			began := time.Now()
			d := l.Admit(&h, &Admission{Key: k, Slot: -1, Hold: want, Min: want, Now: l.at()})
			switch d.Code {
			case Admitted:
				return linearResult{n: want}
			case InsufficientBalance, InDebt:
				// On a busy machine money can be in transit for longer than requests
				// wait. A refusal without that wait must be right.
				return linearResult{late: l.node != nil && time.Since(began) >= l.node.t.rivals}
			case StoreAway:
				if r.faults {
					return linearResult{away: true}
				}
			}
			t.Errorf("denied with %d", d.Code)
			return linearResult{away: true}
		})
		if out.n == 0 {
			continue
		}
		if rnd.IntN(4) == 0 {
			r.note(client, linearOp{do: "void", held: want},
				func() linearResult { h.Void(l.at()); return linearResult{} })
			continue
		}
		cost := Nano(rnd.Int64N(int64(want) + 1))
		if rnd.IntN(4) == 0 && !r.faults {
			cost = want + Nano(rnd.Int64N(10))
		}
		r.note(client, linearOp{do: "settle", n: cost, held: want}, func() linearResult {
			n, short := h.Settle(Settlement{Cost: cost, Status: 200, Now: l.at()})
			return linearResult{n: n, short: short}
		})
	}
}

// check runs the clients and checks that the clerk could have the same results.
func (r *linearRun) check(t *testing.T) {
	t.Helper()
	r.began = time.Now()
	r.credit(t, r.clients, r.nodes[0], 40)
	var all sync.WaitGroup
	for c := range r.clients {
		all.Go(func() { r.client(t, c) })
	}
	all.Wait()
	got, info := porcupine.CheckOperationsVerbose(linearModel(len(r.nodes) == 1), r.history, 20*time.Second)
	switch got {
	case porcupine.Ok:
	case porcupine.Unknown:
		t.Logf("seed %d, %d operations: the check took too long on this machine", r.seed, len(r.history))
	default:
		t.Errorf("seed %d, %d operations: %s", r.seed, len(r.history), got)
		// The longest order that the clerk could have followed, and the operations that did not fit
		// after it.
		var order []int
		for _, o := range info.PartialLinearizations()[0] {
			if len(o) > len(order) {
				order = o
			}
		}
		show := func(when string, op porcupine.Operation) {
			t.Logf("%s client %d %8.3f to %8.3f ms: %+v -> %+v", when, op.ClientId, float64(op.Call)/1e6,
				float64(op.Return)/1e6, op.Input, op.Output)
		}
		for _, i := range order {
			show("fits", r.history[i])
		}
		for i, op := range r.history {
			if !slices.Contains(order, i) {
				show("left", op)
			}
		}
	}
}

// denied counts refusals for lack of money; a run without any proves nothing.
func (r *linearRun) denied() (n int) {
	for _, op := range r.history {
		in, out := op.Input.(linearOp), op.Output.(linearResult)
		if in.do == "admit" && out.n == 0 && !out.away && !out.late {
			n++
		}
	}
	return n
}

func TestOneNodeIsLinearizable(t *testing.T) { oneNodeIsLinearizable(t, 8) }

func TestLongOneNodeIsLinearizable(t *testing.T) { oneNodeIsLinearizable(t, servers.Campaign(15)) }

func oneNodeIsLinearizable(t *testing.T, histories int) {
	t.Parallel()
	f := openLedger(t)
	denied := 0
	for i := range histories {
		name := fmt.Sprint("a", i)
		f.account(name, 0)
		k, _ := f.key(name)
		r := &linearRun{seed: rand.Uint64(), nodes: []*Ledger{f.Ledger}, id: k.Account.ID, keys: []*Key{k}, clients: 8,
			ops: 25}
		r.check(t)
		denied += r.denied()
		if free, _, _ := k.Balance(); free-k.Owed() != r.put-r.charged-r.short {
			t.Errorf("seed %d: %s are left and %s owed of %s after %s were charged and %s short", r.seed, free,
				k.Owed(), r.put, r.charged, r.short)
		}
		if t.Failed() {
			break
		}
	}
	f.recount()
	t.Logf("%d requests were denied", denied)
	if denied == 0 {
		t.Error("nothing was denied, which proves nothing")
	}
}

// Two nodes on one store, with and without lost answers.
func TestTwoNodesAreLinearizable(t *testing.T) { twoNodesAreLinearizable(t, 2) }

func TestLongTwoNodesAreLinearizable(t *testing.T) { twoNodesAreLinearizable(t, servers.Campaign(3)) }

func twoNodesAreLinearizable(t *testing.T, histories int) {
	for _, faults := range []bool{false, true} {
		for i := range histories {
			t.Run(fmt.Sprint("faults=", faults, "/", i), func(t *testing.T) {
				t.Parallel()
				c := newCluster(t, 2)
				r := newLinearRun(t, c.nodes)
				if r.faults = faults; faults {
					for i, conn := range c.conns {
						rnd, mu := rand.New(rand.NewPCG(r.seed, uint64(100+i))), sync.Mutex{}
						cut := func(string) (before, after bool) {
							mu.Lock()
							defer mu.Unlock()
							n := rnd.IntN(100)
							return n < 3, n < 10
						}
						conn.cut.Store(&cut)
					}
				}
				r.check(t)
				for i := range c.nodes {
					c.heal(i)
				}
				for _, l := range c.nodes {
					if err := l.project.drain(); err != nil {
						t.Fatal(err)
					}
				}
				c.audit()
				m, d := c.money(1), c.debt(1)
				if m.spent != r.charged+d.paid || d.incurred != r.short || c.db.late != 0 || m.granted < r.put ||
					m.granted != r.put && !faults {
					t.Errorf("seed %d: %s were put in, %s charged and %s short, booked is %+v and %+v, %s late", r.seed,
						r.put, r.charged, r.short, m, d, c.db.late)
				}
			})
		}
	}
}

func newLinearRun(t *testing.T, nodes []*Ledger) *linearRun {
	t.Helper()
	a, err := nodes[0].CreateAccount("a" + newUUID())
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := nodes[0].CreateKey(NewKey{Account: a.ID, Type: store.Inference})
	if err != nil {
		t.Fatal(err)
	}
	r := &linearRun{seed: rand.Uint64(), nodes: nodes, id: a.ID, clients: 6, ops: 12}
	for _, l := range nodes {
		k, err := l.Lookup([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		r.keys = append(r.keys, k)
	}
	return r
}

func TestTwoNodesOnPostgreSQLAreLinearizable(t *testing.T) {
	t.Parallel()
	times := nodeTimes{
		beat: 200 * time.Millisecond, ttl: 30 * time.Second, poll: 20 * time.Millisecond, keep: 50 * time.Millisecond,
		idle: time.Second, ask: 30 * time.Second, recall: 5 * time.Second,
		rivals: 3 * time.Second,
	}
	nodes := nodesOn(t, servers.Database(t), 2, func(_ int, o *Options) { o.times = times })
	runs := make([]*linearRun, 6)
	for i := range runs {
		runs[i] = newLinearRun(t, nodes)
	}
	var all sync.WaitGroup
	for _, r := range runs {
		all.Go(func() { r.check(t) })
	}
	all.Wait()
	for _, l := range nodes {
		if err := l.project.drain(); err != nil {
			t.Fatal(err)
		}
		report, err := l.Audit()
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range report.Faults {
			t.Error(fault)
		}
	}
	statementsAddUp(t, nodes[0])
	denied := 0
	for _, r := range runs {
		denied += r.denied()
		row, err := nodes[0].store.FindAccount(r.id, nodes[0].Today())
		if err != nil {
			t.Fatal(err)
		}
		if row.Spent[money.InUSD] != r.charged+r.short-row.Debt ||
			row.Avail[money.InUSD]+row.Leased[money.InUSD]-row.Debt != r.put-r.charged-r.short {
			t.Errorf("seed %d: %s were put in, %s charged and %s short, booked is %+v", r.seed, r.put, r.charged,
				r.short, row)
		}
	}
	t.Logf("%d requests were denied", denied)
	if denied == 0 {
		t.Error("nothing was denied, which proves nothing")
	}
}

// nodesOn opens nodes on a real store, until the test ends.
func nodesOn(t *testing.T, address string, n int, adjust func(i int, o *Options)) (nodes []*Ledger) {
	t.Helper()
	for i := range n {
		o := Options{Dir: t.TempDir(), Shared: address, Brand: "svc", NodeName: fmt.Sprint("n", i),
			segmentSize: 256 << 10}
		adjust(i, &o)
		l, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, l)
		t.Cleanup(func() {
			if err := l.Close(); err != nil && !errors.Is(err, store.ErrFenced) {
				t.Error(err)
			}
		})
	}
	return nodes
}
