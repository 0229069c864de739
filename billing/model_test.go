package billing

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"farebox/billing/calendar"
	"farebox/billing/money"
	"farebox/billing/store"
)

// ledgerModel specifies a ledger as plainly as possible: no buckets, no records, one map
// of holds and sums over all that happened.
type ledgerModel struct {
	usd, bundled Nano
	diem         map[int32]Nano // by day
	holds        map[*Hold]*modelHold
	used         map[*modelKey]map[string]Nano // charges and holds, by currency group and period
	charged      map[string]Nano               // of keys with a limit, by key, currency group and period
	spent, short Nano
	debt         Nano
}

type modelHold struct {
	key  *modelKey
	day  int32
	part money.Parts
	// beyond is the share of part that no limit covers, because its period was over.
	beyond Nano
	mark   money.Parts // of its last progress
	rest   Nano        // of that, beyond the hold
	told   bool
}

type modelKey struct {
	*Key
	secret string
}

func (m *ledgerModel) purse(day int32) money.Parts { return money.Parts{m.diem[day], m.bundled, m.usd} }

func (m *ledgerModel) move(day int32, p money.Parts, sign Nano) {
	m.diem[day] += sign * p[money.InDIEM]
	m.bundled += sign * p[money.InBundled]
	m.usd += sign * p[money.InUSD]
}

func (m *ledgerModel) count(h *modelHold, p money.Parts, sign Nano) {
	if m.used[h.key] == nil {
		m.used[h.key] = map[string]Nano{}
	}
	period := fmt.Sprint(h.key.Period.Number(h.day))
	m.used[h.key]["diem "+period] += sign * p[money.InDIEM]
	m.used[h.key]["usd "+period] += sign * (p[money.InBundled] + p[money.InUSD])
}

// room is the rest of a key's limits.
func (m *ledgerModel) room(k *modelKey, day int32) (diem, usd Nano) {
	period := fmt.Sprint(k.Period.Number(day))
	diem, usd = 1<<60, 1<<60
	if k.LimitDIEM != nil {
		diem = max(0, *k.LimitDIEM-m.used[k]["diem "+period])
	}
	if k.LimitUSD != nil {
		usd = max(0, *k.LimitUSD-m.used[k]["usd "+period])
	}
	return diem, usd
}

// hold decides on a hold as the specification does: in spend order, each currency as far
// as it goes. A key's limit ends it there.
func (m *ledgerModel) hold(k *modelKey, day int32, want, least Nano) (p money.Parts, code DenialCode) {
	diem, usd := m.room(k, day)
	return m.divide(m.purse(day), diem, usd, want, least)
}

func (m *ledgerModel) divide(purse money.Parts, diem, usd, want, least Nano) (p money.Parts, code DenialCode) {
	rest := want
	p[money.InDIEM] = min(rest, purse[money.InDIEM], diem)
	rest -= p[money.InDIEM]
	code = InsufficientBalance
	if rest > 0 && p[money.InDIEM] < purse[money.InDIEM] {
		code = KeyLimitDIEM
	} else {
		p[money.InBundled] = min(rest, purse[money.InBundled], usd)
		rest -= p[money.InBundled]
		p[money.InUSD] = min(rest, purse[money.InUSD], usd-p[money.InBundled])
		if p[money.InBundled] < min(rest+p[money.InBundled], purse[money.InBundled]) {
			p[money.InUSD] = 0
		}
		rest -= p[money.InUSD]
		if rest > 0 && (p[money.InBundled] < purse[money.InBundled] || p[money.InUSD] < purse[money.InUSD]) {
			code = KeyLimitUSD
		}
	}
	if want-rest < max(1, least) {
		return money.Parts{}, code
	}
	return p, Admitted
}

// ledgerMachine runs random commands on a ledger and on its model.
type ledgerMachine struct {
	f    *fixture
	m    ledgerModel
	keys []*modelKey
	open []*Hold // in the order in which they were opened
	jobs []*modelJob
	sold int // numbers them
}

func (s *ledgerMachine) day() int32 { return calendar.DayOf(s.f.clock.nano()) }

func (s *ledgerMachine) drawHold(t *rapid.T) *Hold {
	if len(s.open) == 0 {
		t.Skip("no open hold")
	}
	return rapid.SampledFrom(s.open).Draw(t, "hold")
}

func amountUpTo(most Nano) *rapid.Generator[Nano] {
	return rapid.Map(rapid.Int64Range(0, int64(most)), func(v int64) Nano { return Nano(v) })
}

func (s *ledgerMachine) Credit(t *rapid.T) {
	c := rapid.SampledFrom(money.SpendOrder[:]).Draw(t, "currency")
	n := amountUpTo(20).Draw(t, "amount") + 1
	s.f.credit("a", c, n)
	var p money.Parts
	p[money.PlaceOf(c)] = n
	s.m.move(s.day(), p, 1)
	s.m.pay(s.day())
}

// pay collects debt before any other step: an account with debt has no free money.
func (m *ledgerModel) pay(day int32) {
	purse := m.purse(day)
	p := purse.Take(m.debt)
	m.move(day, p, -1)
	m.debt -= p.Total()
}

func (s *ledgerMachine) Admit(t *rapid.T) {
	k := rapid.SampledFrom(s.keys).Draw(t, "key")
	want := amountUpTo(12).Draw(t, "want") + 1
	least := amountUpTo(want).Draw(t, "least")
	h := &Hold{}
	a := s.f.ask(k.Key, want)
	a.Min = least
	d := s.f.Admit(h, a)
	p, code := s.m.hold(k, s.day(), want, least)
	if s.m.debt > 0 {
		if code = InDebt; d.Owed != s.m.debt {
			t.Fatalf("the account owes %d, the denial says %d", s.m.debt, d.Owed)
		}
	}
	if d.Code != code {
		t.Fatalf("a hold of %d (at least %d) is answered with %d, expected %d", want, least, d.Code, code)
	}
	if code != Admitted {
		return
	}
	if h.parts != p {
		t.Fatalf("a hold of %d took %v, expected %v", want, h.parts, p)
	}
	mh := &modelHold{key: k, day: s.day(), part: p}
	s.m.holds[h] = mh
	s.m.move(mh.day, p, -1)
	s.m.count(mh, p, 1)
	s.open = append(s.open, h)
}

func (s *ledgerMachine) Extend(t *rapid.T) {
	h := s.drawHold(t)
	more := amountUpTo(5).Draw(t, "more") + 1
	mh := s.m.holds[h]
	day := s.day()
	var p money.Parts
	var code DenialCode
	if mh.day == day {
		p, code = s.m.hold(mh.key, day, more, more)
	} else {
		purse := s.m.purse(day)
		purse[money.InDIEM] = 0
		p = purse.Take(more)
		if _, room := s.m.room(mh.key, mh.day); p.Total() < more ||
			mh.key.Period.Number(mh.day) == mh.key.Period.Number(day) && room < more {
			code = InsufficientBalance
		}
	}
	if got := h.Extend(more); got != (code == Admitted) {
		t.Fatalf("an extension by %d is answered with %v", more, got)
	}
	if code == Admitted {
		if mh.key.Period.Number(mh.day) != mh.key.Period.Number(day) && mh.key.LimitUSD != nil {
			mh.beyond += more
		}
		s.m.move(day, p, -1)
		s.m.count(mh, p, 1)
		mh.part.Add(&p)
	}
}

func (s *ledgerMachine) Progress(t *rapid.T) {
	h := s.drawHold(t)
	cost := amountUpTo(15).Draw(t, "cost")
	h.Progress(worth(cost))
	mh := s.m.holds[h]
	held := mh.part
	mh.mark, mh.told = held.Take(min(cost, held.Total()-mh.beyond)), true
	mh.rest = cost - mh.mark.Total()
}

// resolve ends a hold in the model with a charge.
func (s *ledgerMachine) resolve(h *Hold, charged money.Parts, short Nano) {
	mh := s.m.holds[h]
	delete(s.m.holds, h)
	s.open = slices.DeleteFunc(s.open, func(o *Hold) bool { return o == h })
	s.m.count(mh, mh.part, -1)
	s.m.count(mh, charged, 1)
	s.m.spent += charged.Total()
	s.m.short += short
	s.m.debt += short
	s.m.move(mh.day, mh.part, 1)
	s.m.move(mh.day, charged, -1)
	for _, g := range []struct {
		name    string
		limit   *Nano
		charged Nano
	}{{"usd", mh.key.LimitUSD, charged[money.InBundled] + charged[money.InUSD]},
		{"diem", mh.key.LimitDIEM, charged[money.InDIEM]}} {
		id := fmt.Sprint(mh.key.No, g.name, mh.key.Period.Number(mh.day))
		if s.m.charged[id] += g.charged; g.limit != nil && s.m.charged[id] > *g.limit {
			s.f.t.Errorf("the limit %s of %d is passed: %d", id, *g.limit, s.m.charged[id])
		}
	}
}

func (s *ledgerMachine) Settle(t *rapid.T) {
	h := s.drawHold(t)
	cost := amountUpTo(20).Draw(t, "cost")
	mh := s.m.holds[h]
	held := mh.part
	charged := held.Take(min(cost, held.Total()-mh.beyond))
	purse := s.m.purse(mh.day)
	diem, usd := s.m.room(mh.key, mh.day)
	if mh.day != s.day() {
		purse[money.InDIEM] = 0
	}
	if mh.key.Period.Number(mh.day) != mh.key.Period.Number(s.day()) {
		if mh.key.LimitUSD != nil {
			usd = 0
		}
		if mh.key.LimitDIEM != nil {
			diem = 0
		}
	}
	more, _ := s.m.divide(purse, diem, usd, cost-charged.Total(), 1)
	charged.Add(&more)
	c, short := s.f.settle(h, cost)
	if c != charged.Total() || short != cost-c {
		t.Fatalf("a cost of %d on %v is charged %d with shortfall %d, expected %d", cost, mh.part, c, short,
			charged.Total())
	}
	s.resolve(h, charged, short)
	s.m.pay(s.day())
}

func (s *ledgerMachine) Void(t *rapid.T) {
	h := s.drawHold(t)
	h.Void(s.f.clock.at())
	s.resolve(h, money.Parts{}, 0)
	s.m.pay(s.day())
}

func (s *ledgerMachine) Pass(t *rapid.T) {
	s.f.clock.advance(rapid.SampledFrom([]time.Duration{time.Second, 6 * time.Hour, 24 * time.Hour,
		20 * 24 * time.Hour}).Draw(t, "time"))
}

func (s *ledgerMachine) Project(t *rapid.T) {
	if err := s.f.project.drain(); err != nil {
		t.Fatal(err)
	}
	if err := s.f.project.expire(); err != nil {
		t.Fatal(err)
	}
}

// Reopen ends the process in order, with requests under way.
func (s *ledgerMachine) Reopen(t *rapid.T) {
	s.seldom(t)
	if err := s.f.Close(); err != nil {
		t.Fatal(err)
	}
	s.restart(t)
}

// seldom keeps slow commands from taking most of the test.
func (s *ledgerMachine) seldom(t *rapid.T) {
	if rapid.IntRange(0, 5).Draw(t, "seldom") != 0 {
		t.Skip("not now")
	}
}

// Crash is a kill -9: another process opens the directory as it is.
func (s *ledgerMachine) Crash(t *rapid.T) {
	s.seldom(t)
	s.f.journal.Flush()
	c := s.f.crash(func([]byte) {})
	if err := s.f.Close(); err != nil {
		t.Fatal(err)
	}
	s.f = c
	s.restart(t)
}

// restart starts the next process, which charges open requests at their last progress.
func (s *ledgerMachine) restart(t *rapid.T) {
	s.endJobs()
	for len(s.open) > 0 {
		h := s.open[0]
		mh := s.m.holds[h]
		if mh.told {
			s.resolve(h, mh.mark, mh.rest)
		} else {
			s.resolve(h, money.Parts{}, 0)
		}
	}
	s.m.pay(s.day()) // when the account is in memory again
	s.f.open()
	s.refund(t)
	for _, k := range s.keys {
		found, err := s.f.Lookup([]byte(k.secret))
		if err != nil {
			t.Fatal(err)
		}
		k.Key = found
	}
}

// Check compares after every command.
func (s *ledgerMachine) Check(t *rapid.T) {
	want := s.m.purse(s.day())
	usd, diem, bundled := s.keys[0].Balance()
	// The account notices midnight with its next command.
	if s.keys[0].Account.day != s.day() {
		diem = want[money.InDIEM]
	}
	if got := (money.Parts{diem, bundled, usd}); got != want {
		t.Fatalf("spendable is %v, expected %v", got, want)
	}
	held := Nano(0)
	for _, mh := range s.m.holds {
		held += mh.part.Total()
	}
	if got := s.f.Stats(); got.Held != held || got.OpenHolds != len(s.m.holds) || got.Shortfall != s.m.short ||
		got.Debt != s.m.debt || got.Lost != 0 || got.Leaked != 0 {
		t.Fatalf("figures are %+v, expected %d holds of %d, shortfall %d and debt %d", got, len(s.m.holds), held,
			s.m.short, s.m.debt)
	}
}

// TestLedgerAgreesWithItsModel compares the ledger with its model over random orders of
// commands, midnights, restarts and crashes.
func TestLedgerAgreesWithItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := &ledgerMachine{f: &fixture{t: t, clock: newTestClock()}}
		s.f.options = Options{Dir: t.TempDir(), Brand: "svc", Clock: s.f.clock.now, segmentSize: 4 << 10}
		s.f.open()
		defer func() { _ = s.f.Close() }()
		s.f.account("a", 0)
		s.m = ledgerModel{diem: map[int32]Nano{}, holds: map[*Hold]*modelHold{}, used: map[*modelKey]map[string]Nano{},
			charged: map[string]Nano{}}
		for _, period := range []store.Period{store.Epoch, store.Month, store.Lifetime} {
			k := &modelKey{}
			k.Key, k.secret = s.f.key("a", func(n *NewKey) {
				n.Period = period
				n.LimitUSD = rapid.SampledFrom([]*Nano{nil, nano(0), nano(15), nano(40)}).Draw(rt, "usd limit")
				n.LimitDIEM = rapid.SampledFrom([]*Nano{nil, nano(0), nano(15), nano(40)}).Draw(rt, "diem limit")
			})
			s.keys = append(s.keys, k)
		}
		rt.Repeat(rapid.StateMachineActions(s))
		if r := s.f.recount(); r.Charged != s.m.spent || r.Shortfall != s.m.short || r.Debt != s.m.debt {
			rt.Fatalf("recounted %d charged, %d short and %d owed, expected %d, %d and %d", r.Charged, r.Shortfall,
				r.Debt, s.m.spent, s.m.short, s.m.debt)
		}
		if t.Failed() {
			rt.Fatal("the recount found faults")
		}
	})
}
