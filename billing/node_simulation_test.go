package billing

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/billing/window"
	"farebox/config"
)

var simulationSeed = flag.Uint64("simulation.seed", 0, "run this seed of the simulation only")

// simulation runs nodes on a shared store in one goroutine, with one clock. The seed
// alone decides the events, their order and the failures.
type simulation struct {
	t        *testing.T
	seed     uint64
	rnd      *rand.Rand
	db       *fakeStore
	now      atomic.Int64 // of the store, Unix ns; also the nodes' Options.Clock
	nodes    []*simNode
	secrets  [][]byte
	granted  Nano // credited so far
	expected Nano // charges that were recorded
	short    Nano
	limits   map[int64]Nano // the highest limit in USD that a key had
	released bool           // some leases were taken back
	trace    []string
}

type simNode struct {
	*Ledger
	dir   string
	conn  *fakeConn
	drift int64 // of its monotonic clock, in millionths
	lost  int   // calls in a hundred that are cut
	holds []*simHold
}

type simHold struct {
	Hold
	told Nano // charge of its last progress
	rest Nano // shortfall of it
}

func (s *simulation) mono(n *simNode) int64 {
	began := int64(1_700_000_000) * int64(time.Second)
	return (s.now.Load() - began) + (s.now.Load()-began)/1_000_000*n.drift
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{t: t, seed: seed, limits: map[int64]Nano{}, rnd: rand.New(rand.NewPCG(seed, 1))}
	s.now.Store(time.Date(2026, 11, 21, 23, 0, 0, 0, time.UTC).UnixNano())
	s.db = newFakeStore(s.now.Load)
	for range 2 + s.rnd.IntN(2) {
		s.nodes = append(s.nodes, &simNode{dir: t.TempDir(), drift: s.rnd.Int64N(40_001) - 20_000})
	}
	for i := range s.nodes {
		s.open(i)
	}
	for i := range 2 {
		a, err := s.nodes[0].CreateAccount(fmt.Sprint("a", i))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			s.db.daily[1] = 50
		}
		for j := range 2 {
			k := NewKey{Account: a.ID, Type: store.Inference, Period: []store.Period{store.Epoch, store.Lifetime}[j]}
			if s.rnd.IntN(2) == 0 {
				k.LimitUSD = nano(Nano(s.rnd.IntN(400)))
				s.limits[int64(len(s.secrets)+1)] = *k.LimitUSD
			}
			if s.rnd.IntN(3) == 0 {
				k.LimitDIEM = nano(Nano(s.rnd.IntN(60)))
			}
			_, secret, err := s.nodes[0].CreateKey(k)
			if err != nil {
				t.Fatal(err)
			}
			s.secrets = append(s.secrets, []byte(secret))
		}
		s.credit(i)
	}
	return s
}

func (s *simulation) open(i int) {
	n := s.nodes[i]
	n.conn, n.lost = s.db.connect(), 0
	times := defaultTimes
	times.manual, times.mono = true, func() int64 { return s.mono(n) }
	times.pause = func() { s.others(n) }
	reclaim := []string{"strict", "relaxed"}[s.seed%2]
	l, err := Open(Options{
		Dir: n.dir, Brand: "svc", NodeName: fmt.Sprint("n", i), segmentSize: 64 << 10, Durability: "power",
		times:      times,
		Clock:      func() time.Time { return time.Unix(0, s.now.Load()) },
		Leases:     config.Leases{Reclaim: reclaim, Grace: 15 * time.Minute},
		openShared: func() (store.Store, error) { return n.conn, nil },
	})
	if err != nil {
		s.t.Fatalf("seed %d: cannot open node %d: %v", s.seed, i, err)
	}
	n.Ledger = l
	n.conn.cut.Store(&[]func(string) (bool, bool){func(string) (bool, bool) {
		x := s.rnd.IntN(100)
		return x < n.lost, x >= n.lost && x < n.lost*3/2
	}}[0])
}

// others advances the other nodes while one waits.
func (s *simulation) others(n *simNode) {
	s.now.Add(int64(20 * time.Millisecond))
	for _, o := range s.nodes {
		if o != n && o.Ledger != nil {
			o.node.tick()
			o.node.poll()
			o.node.queue.step()
		}
	}
}

func (s *simulation) credit(account int) {
	n := Nano(s.rnd.IntN(300) + 1)
	currency := []Currency{USD, USD, Bundled, DIEM}[s.rnd.IntN(4)]
	conn := s.db.connect()
	if _, err := conn.Credit(&store.Credit{Account: uint32(account + 1), Currency: currency,
		Day: calendar.DayOf(s.now.Load()), Amount: n, Ref: newUUID()}); err != nil {
		s.t.Fatal(err)
	}
	s.granted += n
}

// pick gives a node that runs.
func (s *simulation) pick() *simNode {
	var up []*simNode
	for _, n := range s.nodes {
		if n.Ledger != nil {
			up = append(up, n)
		}
	}
	if len(up) == 0 {
		return nil
	}
	return up[s.rnd.IntN(len(up))]
}

func (s *simulation) step() {
	n := s.pick()
	if n == nil {
		s.open(s.rnd.IntN(len(s.nodes)))
		return
	}
	s.now.Add(s.rnd.Int64N(int64(50 * time.Millisecond)))
	x := s.rnd.IntN(1000)
	s.trace = append(s.trace, fmt.Sprint(slices.Index(s.nodes, n), ":", x))
	switch {
	case x < 300:
		s.admit(n)
	case x < 520:
		s.resolve(n)
	case x < 560:
		if h := s.hold(n); h != nil {
			h.Extend(Nano(s.rnd.IntN(30) + 1))
		}
	case x < 600:
		if h := s.hold(n); h != nil {
			cost, held := Nano(s.rnd.IntN(60)), h.Granted()
			h.Progress(worth(cost))
			h.told, h.rest = min(cost, held), max(0, cost-held)
		}
	case x < 700:
		n.node.queue.step()
	case x < 760:
		n.node.poll()
		n.node.tick()
	case x < 800:
		n.node.keep()
	case x < 850:
		_, _ = n.node.beat()
	case x < 900:
		_ = n.project.catchUp()
	case x < 915:
		_ = n.project.drain()
	case x < 930:
		_ = n.project.expire()
	case x < 945:
		s.credit(s.rnd.IntN(2))
	case x < 955:
		n.lost = []int{0, 0, 20, 100}[s.rnd.IntN(4)]
	case x < 960:
		s.db.setLimit(int64(s.rnd.IntN(len(s.secrets))+1), func(k *store.KeyRow) {
			if k.LimitUSD != nil {
				k.LimitUSD = nano(Nano(s.rnd.IntN(600)))
				s.limits[k.No] = max(s.limits[k.No], *k.LimitUSD)
			}
		})
	case x < 970:
		s.now.Add([]int64{int64(time.Second), int64(10 * time.Second), int64(time.Minute), int64(20 * time.Minute),
			3 * window.HourNs}[s.rnd.IntN(5)])
		for _, o := range s.nodes {
			if o.Ledger != nil && s.rnd.IntN(3) > 0 {
				o.node.tick()
			}
		}
	case x < 978:
		s.kill(n)
	case x < 984:
		for i, o := range s.nodes {
			if o.Ledger == nil {
				s.open(i)
			}
		}
	case x < 990 && s.seed%4 >= 2:
		before := s.leased()
		if n.node.relaxed {
			n.node.reclaim()
		} else {
			_ = s.db.connect().ReleaseNode(fmt.Sprint("n", s.rnd.IntN(len(s.nodes))))
		}
		s.released = s.released || s.leased() < before
	}
}

func (s *simulation) leased() (sum Nano) {
	for _, n := range s.db.leases {
		sum += n
	}
	return sum
}

func (s *simulation) admit(n *simNode) {
	k, err := n.Lookup(s.secrets[s.rnd.IntN(len(s.secrets))])
	if err != nil {
		return
	}
	h := &simHold{}
	want := Nano(s.rnd.IntN(60) + 1)
	if d := n.Admit(&h.Hold, &Admission{Key: k, Slot: -1, Hold: want, Min: Nano(s.rnd.Int64N(int64(want))) + 1,
		Now: at(s.now.Load())}); d.Code == Admitted {
		n.holds = append(n.holds, h)
	}
}

func (s *simulation) hold(n *simNode) *simHold {
	if len(n.holds) == 0 {
		return nil
	}
	return n.holds[s.rnd.IntN(len(n.holds))]
}

func (s *simulation) resolve(n *simNode) {
	h := s.hold(n)
	if h == nil {
		return
	}
	n.holds = slices.DeleteFunc(n.holds, func(o *simHold) bool { return o == h })
	if s.rnd.IntN(5) == 0 {
		h.Void(at(s.now.Load()))
		return
	}
	charged, short := h.Settle(Settlement{Cost: Nano(s.rnd.IntN(70)), Status: 200, Now: at(s.now.Load())})
	s.expected += charged
	s.short += short
}

// kill ends a node. Its open requests are charged at their last progress when it returns.
func (s *simulation) kill(n *simNode) {
	n.journal.Flush()
	n.node.work.Close()
	n.retention.work.Close()
	n.keeper.close()
	if err := n.keyed.Close(); err != nil {
		s.t.Fatal(err)
	}
	n.project.work.Close()
	n.journal.Seal()
	n.journal.Halt()
	if err := n.lock.Close(); err != nil {
		s.t.Fatal(err)
	}
	n.registry.unknown.Close()
	n.project.closeReaders()
	for _, h := range n.holds {
		s.expected += h.told
		s.short += h.rest
	}
	n.holds, n.Ledger = nil, nil
}

// check verifies the invariants after every step.
func (s *simulation) check() {
	for _, fault := range s.db.check() {
		s.fail("%s", fault)
	}
	for i, n := range s.nodes {
		if n.Ledger == nil {
			continue
		}
		for _, a := range n.registry.accounts {
			for place := range a.avail {
				if a.avail[place] < 0 || a.held[place] < 0 {
					s.fail("node %d: account %d has %v free and %v held", i, a.no, a.avail, a.held)
				}
			}
		}
	}
}

func (s *simulation) fail(format string, args ...any) {
	s.t.Fatalf("seed %d: %s\nafter %v", s.seed, fmt.Sprintf(format, args...), s.trace[max(0, len(s.trace)-40):])
}

// finish ends all requests and recounts.
func (s *simulation) finish() {
	for i, n := range s.nodes {
		if n.Ledger == nil {
			s.open(i)
		}
		n.lost = 0
	}
	for _, n := range s.nodes {
		for len(n.holds) > 0 {
			s.resolve(n)
		}
	}
	// Money that one node returns pays debt that another has heard of, and so on.
	for range 6 {
		for i, n := range s.nodes {
			if _, err := n.node.beat(); err != nil {
				s.fail("node %d has no session: %v", i, err)
			}
			n.node.poll()
			if !n.node.queue.step() {
				s.fail("node %d: the lease queue does not come to an end", i)
			}
			if err := n.project.drain(); err != nil {
				s.fail("node %d: %v", i, err)
			}
		}
	}
	for i, n := range s.nodes {
		r, err := n.Audit()
		if err != nil {
			s.fail("node %d: %v", i, err)
		}
		for _, fault := range r.Faults {
			s.fail("node %d: %s", i, fault)
		}
	}
	if booked := s.db.charged.Total() + s.db.late; booked != s.expected {
		s.fail("%d is booked, %d of it late; %d was charged", booked, s.db.late, s.expected)
	}
	if s.db.short != s.db.late {
		s.fail("the house paid %d, %d of it late", s.db.short, s.db.late)
	}
	incurred := Nano(0)
	for account, d := range s.db.debts {
		incurred += d.incurred
		a := s.db.account(account, calendar.DayOf(s.now.Load()))
		a.Avail.Add(&a.Leased)
		a.Avail[money.InDIEM] = 0 // those of a new day are made when something draws on them
		if d.incurred > d.paid && a.Avail.Total() > 0 {
			s.fail("account %d owes %d and has %v", account, d.incurred-d.paid, a.Avail)
		}
	}
	if incurred != s.short {
		s.fail("%d became debt, expected %d", incurred, s.short)
	}
	s.checkLimits()
	if !s.released && s.db.late != 0 {
		s.fail("%d was late although no lease was taken back", s.db.late)
	}
	for i, n := range s.nodes {
		if err := n.Close(); err != nil {
			s.fail("cannot close node %d: %v", i, err)
		}
	}
	s.check()
	if left := s.leased(); left != 0 {
		s.fail("%d is still leased", left)
	}
}

// checkLimits reports whether a key was charged more in a period than its highest limit
// ever. When leases were taken back, two nodes may have had the same part of it.
func (s *simulation) checkLimits() {
	charged := map[fakeQuota]Nano{}
	for id, n := range s.db.used {
		charged[fakeQuota{key: id.key, place: id.place, period: s.db.keys[id.key-1].Period.Number(id.day)}] += n
	}
	for id, n := range charged {
		limit := s.db.keys[id.key-1].LimitDIEM
		if id.place == money.InUSD && s.db.keys[id.key-1].LimitUSD != nil {
			limit = nano(s.limits[id.key])
		} else if id.place == money.InUSD {
			limit = nil
		}
		if limit != nil && n > *limit && !s.released {
			s.fail("key %d was charged %d in the period %d, its limit was at most %d", id.key, n, id.period, *limit)
		}
	}
}

// TestSimulatedNodes combines all faults in random orders: lost calls and answers, clocks
// that run apart, midnights, kills, releases.
func TestSimulatedNodes(t *testing.T) { simulateNodes(t, 3*time.Second) }

func TestLongSimulatedNodes(t *testing.T) { simulateNodes(t, 6*time.Second) }

func simulateNodes(t *testing.T, length time.Duration) {
	run := func(seed uint64) {
		s := newSimulation(t, seed)
		for range 400 {
			s.step()
			s.check()
		}
		s.finish()
	}
	if *simulationSeed != 0 {
		run(*simulationSeed)
		return
	}
	seed := uint64(1)
	for end := time.Now().Add(length); time.Now().Before(end) && seed < 2000; seed++ {
		run(seed)
	}
	t.Logf("%d seeds", seed-1)
}
