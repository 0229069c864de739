package billing

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/money"
	"farebox/billing/report"
	"farebox/billing/store"
)

// Random histories of accounts: every kind of movement, with crashes, restarts and midnights in
// between. At the end the statements, the balances, the usage and its reports agree with each other
// (statementFaults) and with the driver's records.

// history is the driver's record of one account.
type history struct {
	name, secret string
	key          *Key
	open         []*historyHold
	jobs         []*store.JobRow // sold, and not failed yet
	requests     [][16]byte      // that were charged
	payments     []string        // that are credited

	credited, toppedUp, debited, reversed, refunded, cost Nano
}

type historyHold struct {
	h        *Hold
	id       [16]byte
	held     Nano
	progress Nano // the charge after a crash
	job      *store.JobRow
	jobCost  Nano
	sold     bool
}

// histories are the accounts of one ledger.
type histories struct {
	f      *fixture
	random *rand.Rand
	list   []*history
	number int // of references, jobs and requests
	shared bool
	keep   int    // days that requests are kept; 0: for ever
	export string // folder of those that are pruned
}

func runHistories(t *testing.T, accounts, steps int, seed uint64, shared string, keep int) {
	f := &fixture{t: t, clock: newTestClock()}
	f.options = Options{Dir: memoryDir(t), Shared: shared, Brand: "svc", Clock: f.clock.now, segmentSize: 1 << 20,
		detailNow: seed%2 == 0}
	f.open()
	s := &histories{f: f, random: rand.New(rand.NewPCG(seed, 1)), shared: shared != "", keep: keep, export: t.TempDir()}
	defer func() { _ = s.f.Close() }()
	for i := range accounts {
		h := &history{name: fmt.Sprint("account-", i)}
		f.account(h.name, 0)
		h.key, h.secret = f.key(h.name)
		s.list = append(s.list, h)
	}
	for range accounts * steps {
		s.step(s.list[s.random.IntN(len(s.list))])
		switch n := s.random.IntN(2000); {
		case n < 2:
			s.restart(n == 0)
		case n < 40:
			s.f.clock.advance([]time.Duration{time.Second, 6 * time.Hour, 24 * time.Hour, 40 * 24 * time.Hour}[s.random.IntN(4)])
		case n < 80:
			s.project()
		case n < 140 && keep > 0:
			s.pruneSome()
		}
		if t.Failed() {
			return
		}
	}
	s.restart(true)
	s.project()
	if keep > 0 {
		s.prunedAll(t)
	}
	s.f.audit()
	for _, h := range s.list {
		for _, fault := range append(statementFaults(t, s.f.Ledger, h.name), s.faults(h)...) {
			t.Errorf("seed %d, %s: %s", seed, h.name, fault)
		}
	}
}

// memoryDir is a folder in memory, if the machine has one.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "histories")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (s *histories) amount(most int64) Nano { return Nano(s.random.Int64N(most) + 1) }

func (s *histories) next(what string) string {
	s.number++
	return fmt.Sprint(what, "-", s.number)
}

func (s *histories) currency() Currency { return money.SpendOrder[s.random.IntN(money.Currencies)] }

// step makes one movement, or a part of one.
func (s *histories) step(h *history) {
	t := s.f.t
	switch n := s.random.IntN(20); {
	case n < 3:
		c, amount := s.currency(), s.amount(40)
		if _, _, err := s.f.Credit(h.name, c, amount, s.next("credit"), "a memo"); err != nil {
			t.Fatal(err)
		}
		h.credited += amount
	case n < 4:
		ref := s.next("refund")
		if len(h.requests) > 0 && s.random.IntN(3) > 0 {
			ref = fmt.Sprintf("%x %s", h.requests[s.random.IntN(len(h.requests))], ref)
		}
		amount := s.amount(10)
		if _, _, err := s.f.Refund(h.name, s.currency(), amount, ref, "sorry"); err != nil {
			t.Fatal(err)
		}
		h.refunded += amount
	case n < 5:
		amount := s.amount(10)
		if _, _, err := s.f.Debit(h.name, USD, amount, s.next("debit"), "a mistake", true); err != nil {
			t.Fatal(err)
		}
		h.debited += amount
	case n < 6:
		s.pay(h)
	case n < 11:
		s.admit(h)
	case n < 18:
		s.proceed(h)
	case n < 19:
		s.failJob(h)
	default:
		if _, err := s.f.SetAllowance(h.name, s.amount(30)*(usd/10)); err != nil {
			t.Fatal(err)
		}
	}
}

// pay credits a payment of a wallet of the account, or takes one back.
func (s *histories) pay(h *history) {
	p := s.f.Payments()
	if len(h.payments) > 0 && s.random.IntN(2) == 0 {
		id := h.payments[0]
		h.payments = h.payments[1:]
		row, applied, err := p.ReversePayment(&store.PaymentReversal{ID: id, Epoch: 1})
		if err != nil || !applied {
			s.f.t.Fatalf("the payment %s is taken back: %t (%v)", id, applied, err)
		}
		h.reversed += row.Amount
		return
	}
	id, amount := s.next("pay"), s.amount(20)*1000
	wallet := fmt.Sprintf("0x%040x", h.key.Account.no)
	if h.toppedUp == 0 {
		if _, err := s.f.LinkWallet(wallet, h.name, "test"); err != nil {
			s.f.t.Fatal(err)
		}
	}
	payAs(s.f.t, s.f.Ledger, id, wallet, amount)
	h.payments = append(h.payments, id)
	h.toppedUp += amount
}

func (s *histories) admit(h *history) {
	if len(h.open) > 3 {
		return
	}
	open := &historyHold{h: &Hold{}}
	s.number++
	binary.BigEndian.PutUint64(open.id[8:], uint64(s.number))
	open.id[0] = 0xab
	a := s.f.ask(h.key, s.amount(20))
	a.Min, a.RequestID = 1, open.id
	if d := s.f.Admit(open.h, a); d.Code != Admitted {
		return
	}
	open.h.From(uint32(s.number % 3))
	open.held = open.h.parts.Total()
	h.open = append(h.open, open)
}

// proceed continues or ends an open hold.
func (s *histories) proceed(h *history) {
	if len(h.open) == 0 {
		return
	}
	i := s.random.IntN(len(h.open))
	open := h.open[i]
	now := s.f.clock.at()
	switch n := s.random.IntN(10); {
	case open.job != nil && !open.sold:
		if n == 0 {
			open.h.Void(now)
			break
		}
		if _, err := s.f.Jobs().AddJob(open.job, 0); err != nil {
			s.f.t.Fatal(err)
		}
		open.sold = true
		return
	case open.job != nil:
		s.f.settle(open.h, open.jobCost)
		h.jobs = append(h.jobs, open.job)
	case n < 2 && open.progress == 0:
		open.job, open.jobCost = &store.JobRow{ID: s.next("job"), Kind: "music", Model: "model"}, s.amount(int64(open.held))
		if err := open.h.PrepareJob(Settlement{Cost: open.jobCost, Model: "model", Now: now}, open.job); err != nil {
			s.f.t.Fatal(err)
		}
		return
	case n < 4:
		open.progress += s.amount(12)
		open.h.Progress(worth(open.progress))
		return
	case n == 4:
		open.h.Void(now)
	default:
		cost := s.amount(25)
		taken, short := s.f.settle(open.h, cost)
		if taken+short != cost {
			s.f.t.Fatalf("a cost of %s is taken with %s and owed with %s", cost, taken, short)
		}
		h.cost += cost
		h.requests = append(h.requests, open.id)
	}
	h.open = append(h.open[:i], h.open[i+1:]...)
}

func (s *histories) failJob(h *history) {
	if len(h.jobs) == 0 {
		return
	}
	row, err := s.f.store.Job(h.jobs[0].ID)
	if err != nil {
		s.f.t.Fatal(err)
	}
	row.State, row.Owed, row.EndedUs = store.JobFailed, true, s.f.now()/1000
	if ok, err := s.f.Jobs().UpdateJob(row, store.JobSubmitting); !ok || err != nil {
		s.f.t.Fatalf("the job %s fails: %t (%v)", row.ID, ok, err)
	}
	h.jobs = h.jobs[1:]
}

// project books the charges, refunds failed jobs, and expires DIEM.
func (s *histories) project() {
	if err := s.f.project.drain(); err != nil {
		s.f.t.Fatal(err)
	}
	if _, err := s.f.Jobs().RefundAll(); err != nil {
		s.f.t.Fatal(err)
	}
	if err := s.f.project.expire(); err != nil {
		s.f.t.Fatal(err)
	}
}

// restart ends the process, in order or by a crash, with requests under way: they are
// charged at their last progress, and jobs if their rows are there.
func (s *histories) restart(crash bool) {
	if crash && !s.shared {
		s.f.journal.Flush()
		before := s.f
		s.f = before.crash(func([]byte) {})
		_ = before.Close()
		_ = os.RemoveAll(before.options.Dir)
	} else if err := s.f.Close(); err != nil {
		s.f.t.Fatal(err)
	}
	s.f.open()
	for _, h := range s.list {
		for _, open := range h.open {
			switch {
			case open.job == nil:
				h.cost += open.progress
			case open.sold:
				h.jobs = append(h.jobs, open.job)
			}
		}
		h.open = h.open[:0]
		key, err := s.f.Lookup([]byte(h.secret))
		if err != nil {
			s.f.t.Fatal(err)
		}
		h.key = key
	}
}

// faults compares a statement with the driver's records.
func (s *histories) faults(h *history) (list []string) {
	var sums, owed = map[string]Nano{}, map[string]Nano{}
	for _, currency := range money.SpendOrder {
		lines, _ := readLines(s.f.t, s.f.Ledger, report.StatementQuery{Account: h.name, Currency: currency})
		for i := range lines {
			sums[lines[i].Kind] += lines[i].Amount
			owed[lines[i].Kind] += lines[i].Owed
		}
	}
	cost, refunded := h.cost, h.refunded
	// A node knows an account's debt while the account is in use; the store always does.
	var jobsPaid, jobsBack, owes Nano
	err := s.f.store.Report(context.Background(), func(q *store.Query) error {
		if err := q.Row(`SELECT CAST(coalesce(sum(incurred - paid), 0) AS {I64}) FROM debt WHERE account = $1`,
			h.key.Account.no).Scan(&owes); err != nil {
			return err
		}
		return q.Row(`SELECT CAST(coalesce(sum(paid_diem + paid_bundled + paid_usd), 0) AS {I64}),
			CAST(coalesce(sum(back_diem + back_bundled + back_usd), 0) AS {I64}) FROM job WHERE account = $1`, h.key.Account.no).
			Scan(&jobsPaid, &jobsBack)
	})
	if err != nil {
		s.f.t.Fatal(err)
	}
	cost += jobsPaid
	refunded += jobsBack
	all := Nano(0)
	for _, n := range owed {
		all += n
	}
	for _, c := range []struct {
		what      string
		got, want Nano
	}{
		{"credited", sums[report.LineCredit], h.credited},
		{"topped up", sums[report.LineTopUp], h.toppedUp},
		{"refunded", sums[report.LineRefund], refunded},
		{"debited", owed[report.LineDebit] - sums[report.LineDebit], h.debited},
		{"reversed", owed[report.LineReverse] - sums[report.LineReverse], h.reversed},
		{"charged", owed[report.LineCharge] - sums[report.LineCharge] - sums[report.LineWaived], cost},
		{"paid of debt", sums[report.LineDebt] + sums[report.LineCorrection], owed[report.LineDebt] + owed[report.LineCorrection]},
		{"owed", all, owes},
	} {
		if c.got != c.want {
			list = append(list, fmt.Sprintf("%s %s by its statement, by the driver %s", c.what, c.got, c.want))
		}
	}
	return list
}

// "Reports said 51.90, and 35.90 were kept." Each account is a history.
func TestStatementsOfRandomHistoriesAddUp(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	runHistories(t, 40, 25, historySeed(t), "", 0)
	runHistories(t, 40, 25, historySeed(t), servers.Database(t), 0)
}

func TestLongStatementsOfRandomHistoriesAddUp(t *testing.T) {
	const accounts = 500 // each is a history
	seed := historySeed(t)
	for i := range servers.Campaign(4) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			shared := ""
			if i%4 == 3 {
				shared = servers.Database(t)
			}
			runHistories(t, accounts, 16, seed+uint64(i), shared, 0)
		})
	}
}

// historySeed is $FAREBOX_TEST_SEED, or random.
func historySeed(t *testing.T) uint64 {
	if text := os.Getenv("FAREBOX_TEST_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("FAREBOX_TEST_SEED: %v", err)
		}
		return seed
	}
	return rand.Uint64()
}
