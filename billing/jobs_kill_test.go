package billing

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/store"
)

// jobChildDir says that this process sells jobs until it is killed.
const jobChildDir = "FAREBOX_BILLING_JOB_CHILD"

const jobWriters = 6

// jobSeller is one of the writers of a process that is to be killed.
type jobSeller struct {
	l    *Ledger
	k    *Key
	rnd  *rand.Rand
	name string
}

// beKilledWithJobs sells, drops, fails and refunds jobs until it is killed. It prints
// each event to standard output: A when a job is about to be added, S when it is sold, D
// when it is dropped, F when it has failed.
func beKilledWithJobs(dir, shared, seed string) {
	end := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	l, err := Open(Options{Dir: dir, Shared: shared, NodeName: "child", Brand: "svc", segmentSize: 32 << 10})
	if err != nil {
		end(err)
	}
	keys, err := l.store.Keys(0)
	if err != nil || len(keys) == 0 {
		end(fmt.Errorf("no keys: %w", err))
	}
	number, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		end(err)
	}
	if _, err := l.Jobs().TakeJobs(l.NodeNo(), true); err != nil {
		end(err)
	}
	fmt.Println("R 0 0")
	for w := range jobWriters {
		k, err := l.adoptForTest(keys[w%len(keys)])
		if err != nil {
			end(err)
		}
		s := &jobSeller{l: l, k: k, rnd: rand.New(rand.NewPCG(number, uint64(w))), name: fmt.Sprintf("%s-%d", seed, w)}
		go func() {
			for n := 0; ; n++ {
				if err := s.sell(n); err != nil {
					end(err)
				}
			}
		}()
	}
	go func() {
		for {
			if _, err := l.Jobs().RefundAll(); err != nil {
				end(err)
			}
		}
	}()
	select {}
}

// sell is the life of one job.
func (s *jobSeller) sell(n int) error {
	cost := Nano(1 + s.rnd.IntN(1000))
	id := fmt.Sprintf("%s-%d", s.name, n)
	h, row := &Hold{}, &store.JobRow{ID: id, Kind: "music", Model: "m"}
	if d := s.l.Admit(h, &Admission{Key: s.k, Slot: -1, Hold: cost, Min: cost, Now: s.l.at()}); d.Code != Admitted {
		return fmt.Errorf("denied: %d", d.Code)
	}
	settlement := Settlement{Cost: cost, Now: s.l.at()}
	settlement.Lines.Add(money.Tracks, 1, money.Pico(cost*1000))
	if err := h.PrepareJob(settlement, row); err != nil {
		return err
	}
	fmt.Printf("A %s %d\n", id, cost)
	if found, err := s.l.Jobs().AddJob(row, 0); found != nil || err != nil {
		return fmt.Errorf("not sold: %+v, %w", found, err)
	}
	drop := s.rnd.IntN(4) == 0
	if !drop {
		fmt.Printf("S %s %d\n", id, cost)
	} else if gone, err := s.l.Jobs().DropJob(row); err != nil {
		return err
	} else if gone {
		fmt.Printf("D %s 0\n", id)
		h.Void(s.l.at())
		return nil
	}
	early := s.rnd.IntN(2) == 0
	if early {
		if err := s.end(row); err != nil {
			return err
		}
	}
	h.Settle(settlement)
	if !early && s.rnd.IntN(4) != 0 {
		return s.end(row)
	}
	return nil
}

// end fails or completes a job, if it is still this process's.
func (s *jobSeller) end(row *store.JobRow) error {
	row.State, row.EndedUs = store.JobCompleted, s.l.now()/1000
	if s.rnd.IntN(2) == 0 {
		row.State, row.Owed = store.JobFailed, true
	}
	ok, err := s.l.Jobs().UpdateJob(row, store.JobSubmitting)
	if ok && row.Owed {
		fmt.Printf("F %s 0\n", row.ID)
	}
	return err
}

// "It was killed while my jobs were sold, and I paid for one that nobody made, or for one
// twice": a job is charged if and only if it has a row, and refunded if and only if it
// failed, once each.
func TestKilledSellersOfJobs(t *testing.T) { jobRounds(t, 4, 300_000, "") }

func TestLongKilledSellersOfJobs(t *testing.T) { jobRounds(t, servers.Campaign(40), 60_000, "") }

// On PostgreSQL another node takes over the jobs of the killed one.
func TestLongKilledSellersOfJobsBesideAnotherNode(t *testing.T) {
	jobRounds(t, servers.Campaign(10), 120_000, servers.Database(t))
}

// jobKills holds the output of the killed processes.
type jobKills struct {
	t       *testing.T
	dir     string
	shared  string
	random  *rand.Rand
	cost    map[string]Nano
	sold    map[string]bool
	dropped map[string]bool
	failed  map[string]bool
	beside  *Ledger // another node
	most    int     // lifetime of a process, µs
}

// mostOfARound is the longest lifetime of a process on a busy machine, in µs.
const mostOfARound = 3_000_000

func jobRounds(t *testing.T, rounds, most int, shared string) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	k := &jobKills{t: t, dir: t.TempDir(), shared: shared, most: most, random: rand.New(rand.NewPCG(seed, 1)),
		cost: map[string]Nano{}, sold: map[string]bool{}, dropped: map[string]bool{}, failed: map[string]bool{}}
	first := k.open()
	const start = 1_000_000 * usd
	for i := range 2 {
		name := fmt.Sprint("account-", i)
		if _, err := first.CreateAccount(name); err != nil {
			t.Fatal(err)
		}
		if _, _, err := first.Credit(name, USD, start, "", ""); err != nil {
			t.Fatal(err)
		}
		if _, _, err := first.CreateKey(NewKey{Account: name, Type: store.Inference, Period: store.Lifetime,
			LimitUSD: nano(start)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if shared != "" {
		k.beside = nodesOn(t, shared, 1, func(_ int, o *Options) { o.NodeName = "beside" })[0]
	}
	// A machine that is busy with something else does little in a round.
	for round := 0; round < rounds || k.little() && round < 20*rounds; round++ {
		if round >= rounds {
			k.most = min(k.most+k.most/4, mostOfARound)
		}
		k.kill(seed + uint64(round))
		if k.beside != nil {
			k.takeOver()
		}
	}
	k.check(2 * start)
}

// little reports that few jobs have been sold, dropped or failed yet.
func (k *jobKills) little() bool { return len(k.sold) < 10 || len(k.dropped) < 3 || len(k.failed) < 3 }

func (k *jobKills) open() *Ledger {
	k.t.Helper()
	l, err := Open(Options{Dir: k.dir, Shared: k.shared, NodeName: "child", Brand: "svc", segmentSize: 32 << 10})
	if err != nil {
		k.t.Fatal(err)
	}
	return l
}

// kill lets a process sell for a moment.
func (k *jobKills) kill(seed uint64) {
	k.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), jobChildDir+"="+k.dir, jobChildDir+"_SHARED="+k.shared,
		fmt.Sprintf("%s_SEED=%d", jobChildDir, seed))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		k.t.Fatal(err)
	}
	kill := sync.OnceFunc(func() { _ = cmd.Process.Kill() })
	limit := time.AfterFunc(time.Minute, kill)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var kind, id string
		var n Nano
		if _, err := fmt.Sscan(lines.Text(), &kind, &id, &n); err != nil {
			break // the last line may be torn
		}
		switch kind {
		case "R":
			time.AfterFunc(time.Duration(k.random.IntN(k.most))*time.Microsecond, kill)
		case "A":
			k.cost[id] = n
		case "S":
			k.sold[id] = true
		case "D":
			k.dropped[id] = true
		case "F":
			k.failed[id] = true
		}
	}
	limit.Stop()
	kill()
	_ = cmd.Wait()
}

// takeOver acts as another node after a node's death: it fails some of its jobs and
// continues the others.
func (k *jobKills) takeOver() {
	k.t.Helper()
	l := k.beside
	if _, err := database(l.store).Exec("UPDATE node SET expires_us = 0 WHERE name = 'child'"); err != nil {
		k.t.Fatal(err)
	}
	if k.random.IntN(3) == 0 {
		if err := l.ReleaseNode("child"); err != nil {
			k.t.Fatal(err)
		}
	}
	if _, err := l.Jobs().TakeJobs(l.NodeNo(), false); err != nil {
		k.t.Fatal(err)
	}
	rows, err := l.Jobs().JobsOf(l.NodeNo())
	if err != nil {
		k.t.Fatal(err)
	}
	for _, row := range rows {
		if k.random.IntN(2) == 0 {
			failed(k.t, l, row.ID)
			k.failed[row.ID] = true
		}
	}
	if _, err := l.Jobs().RefundAll(); err != nil {
		k.t.Fatal(err)
	}
}

// check compares the last process's ledger with the output of the killed ones.
func (k *jobKills) check(start Nano) {
	t := k.t
	l := k.open()
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	for n := 1; n > 0; {
		var err error
		if n, err = l.Jobs().RefundAll(); err != nil {
			t.Fatal(err)
		}
	}
	report, err := l.Audit()
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range report.Faults {
		t.Error(fault)
	}
	statementsAddUp(t, l)
	left := start
	counts := map[string]int{}
	for id, cost := range k.cost {
		row, err := l.Jobs().Job(id)
		if errors.Is(err, store.ErrNoRow) {
			if counts["gone"]++; k.sold[id] || k.failed[id] {
				t.Errorf("the job %s was sold, and is lost", id)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		left -= row.Paid.Total() - row.Back.Total()
		// Where leases were taken back a charge may find no money, but not in this test.
		if row.PaidUs == 0 || row.Paid.Total() != cost {
			t.Errorf("the job %s for %s paid %v at %d", id, cost, row.Paid, row.PaidUs)
		}
		if counts["sold"]++; k.dropped[id] {
			t.Errorf("the job %s was dropped, and is there", id)
		}
		if row.Owed != (row.BackUs != 0) || row.Owed && row.Back != row.Paid || k.failed[id] && !row.Owed {
			t.Errorf("the job %s is owed: %t, paid %v and has back %v", id, row.Owed, row.Paid, row.Back)
		}
		if row.Owed {
			counts["given back"]++
		}
	}
	accounts, err := l.ListAccounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range accounts {
		left -= a.USD + a.Leased.USD
	}
	if left != 0 {
		t.Errorf("the accounts are short of %s", left)
	}
	if k.beside == nil {
		k.charges(l, counts["sold"])
	}
	t.Logf("%v, %d dropped", counts, len(k.dropped))
	if counts["sold"] < 10 || counts["given back"] < 3 || len(k.dropped) < 3 {
		t.Error("the test tests little")
	}
}

// charges checks that each job has one charge, and that there are no others.
func (k *jobKills) charges(l *Ledger, jobs int) {
	k.t.Helper()
	seen := map[uint64]bool{}
	for _, r := range (&fixture{Ledger: l, t: k.t}).allUsage(k.t) {
		if r.Flags&journal.FlagJob == 0 || seen[r.Hold] {
			k.t.Errorf("a charge without a job, or a second one: %+v", r)
		}
		seen[r.Hold] = true
	}
	if len(seen) != jobs {
		k.t.Errorf("%d jobs and %d charges", jobs, len(seen))
	}
}
