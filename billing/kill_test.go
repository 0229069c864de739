package billing

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"flag"
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
)

// childDir is the variable with the directory of a ledger that will be killed.
const childDir = "FAREBOX_BILLING_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(keyedChildDir); dir != "" {
		beKilledKeyed(dir, os.Getenv(keyedChildDir+"_REDIS"))
		return
	}
	if dir := os.Getenv(jobChildDir); dir != "" {
		beKilledWithJobs(dir, os.Getenv(jobChildDir+"_SHARED"), os.Getenv(jobChildDir+"_SEED"))
		return
	}
	if dir := os.Getenv(deskChildDir); dir != "" {
		beKilledAtTheDesk(dir, os.Getenv(deskChildDir+"_SHARED"), os.Getenv(deskChildDir+"_SEED"))
		return
	}
	if dir := os.Getenv(childDir); dir != "" {
		beKilled(dir, os.Getenv(childDir+"_SEED"))
		return
	}
	// A check of a ledger and its model takes a fifth of a second; under the race detector, a second.
	if err := flag.Set("rapid.checks", cmp.Or(os.Getenv("FAREBOX_RAPID_CHECKS"), "30")); err != nil {
		fmt.Fprintln(os.Stderr, "FAREBOX_RAPID_CHECKS:", err)
		os.Exit(1)
	}
	code := m.Run()
	servers.End()
	os.Exit(code)
}

const childWriters = 16

// beKilled serves requests until it is killed. It prints its acknowledgements to standard
// output: P for a recorded progress, S for a settlement.
func beKilled(dir, seed string) {
	l, err := Open(Options{Dir: dir, Brand: "svc", segmentSize: 32 << 10, detailNow: seed[len(seed)-1]%2 == 0})
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot open:", err)
		os.Exit(1)
	}
	keys, err := l.store.Keys(0)
	if err != nil || len(keys) == 0 {
		fmt.Fprintln(os.Stderr, "no keys:", err)
		os.Exit(1)
	}
	slot := l.ModelNumber("model")
	number, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("R 0 0")
	for w := range childWriters {
		k, err := l.adoptForTest(keys[w%len(keys)])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go func() {
			rnd := rand.New(rand.NewPCG(number, uint64(w)))
			for {
				id := rnd.Uint64()
				a := Admission{Key: k, Slot: slot, Hold: 1000, Min: 1000, Now: At(time.Now())}
				binary.LittleEndian.PutUint64(a.RequestID[:], id)
				var h Hold
				if d := l.Admit(&h, &a); d.Code != Admitted {
					fmt.Fprintln(os.Stderr, "denied:", d.Code)
					os.Exit(1)
				}
				progress := Nano(0)
				for rnd.IntN(3) == 0 {
					progress += Nano(rnd.IntN(300))
					h.Progress(worth(progress))
					fmt.Printf("P %d %d\n", id, min(progress, 1000))
					time.Sleep(time.Duration(rnd.IntN(1000)) * time.Microsecond)
				}
				charged, _ := h.Settle(Settlement{Cost: progress + Nano(rnd.IntN(600)), Now: At(time.Now())})
				fmt.Printf("S %d %d\n", id, charged)
			}
		}()
	}
	select {}
}

// "The process was killed under load": no settled request is lost or charged twice, and
// open requests are charged at their last recorded progress (design.md, promise P1). So
// many rounds on one ledger.
func TestKilledProcessLosesNothing(t *testing.T) { killedRounds(t, 5) }

func TestLongKilledProcessLosesNothing(t *testing.T) { killedRounds(t, servers.Campaign(10)) }

func killedRounds(t *testing.T, rounds int) {
	f := openLedger(t, func(o *Options) { o.Clock = time.Now })
	for i := range 4 {
		name := fmt.Sprint("account-", i)
		f.account(name, 1_000_000*usd)
		f.credit(name, Bundled, 5000)
		f.key(name)
	}
	type ack struct {
		progress, settled Nano
		told, done        bool
	}
	acks := map[uint64]*ack{}
	seed := rand.Uint64() &^ 1 // every second round is odd
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for round := range uint64(rounds) {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+f.options.Dir, fmt.Sprintf("%s_SEED=%d", childDir, seed+round))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		kill := func() { once.Do(func() { _ = cmd.Process.Kill() }) }
		limit := time.AfterFunc(20*time.Second, kill)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var kind string
			var id uint64
			var n Nano
			if _, err := fmt.Sscan(lines.Text(), &kind, &id, &n); err != nil {
				break // the last line may be torn, too
			}
			if kind == "R" {
				time.AfterFunc(time.Duration(20+random.IntN(150))*time.Millisecond, kill)
				continue
			}
			a := acks[id]
			if a == nil {
				a = &ack{}
				acks[id] = a
			}
			if kind == "P" {
				a.progress, a.told = n, true
			} else {
				a.settled, a.done = n, true
			}
		}
		limit.Stop()
		kill()
		_ = cmd.Wait()
		f.open()
		f.recount()
	}
	kept := map[uint64]Nano{}
	for _, r := range f.allUsage(t) {
		id := binary.LittleEndian.Uint64(r.RequestID[:])
		if _, twice := kept[id]; twice {
			t.Errorf("request %d is charged twice", id)
		}
		kept[id] = r.Amounts.Total()
	}
	settled, cut := 0, 0
	for id, a := range acks {
		charged, ok := kept[id]
		switch {
		case a.done:
			settled++
			if !ok || charged != a.settled {
				t.Errorf("request %d was settled at %d, the store has %d (%v)", id, a.settled, charged, ok)
			}
		case a.told:
			cut++
			if !ok || charged < a.progress {
				t.Errorf("request %d had come to %d, the store has %d (%v)", id, a.progress, charged, ok)
			}
		}
	}
	if settled < 100*rounds {
		t.Errorf("only %d requests were settled in %d rounds: the test tests little", settled, rounds)
	}
	extra := len(kept) - settled - cut
	if extra < 0 || extra > rounds*childWriters {
		t.Errorf("%d requests in the store were not acknowledged; at most %d can have been between settlement "+
			"and answer", extra, rounds*childWriters)
	}
	t.Logf("%d rounds: %d settled and acknowledged, %d cut in a stream, %d settled but not yet acknowledged", rounds,
		settled, cut, extra)
}

// allUsage unpacks every page and returns the charges. It skips refunds and paid debt, which are
// records of the same requests.
func (f *fixture) allUsage(t *testing.T) (list []journal.Record) {
	t.Helper()
	if err := f.project.drain(); err != nil {
		t.Fatal(err)
	}
	rows, err := database(f.store).Query(
		"SELECT account, seq_first, seq_last, requests, data FROM usage_page ORDER BY account, seq_first")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var p journal.Page
		if err := rows.Scan(&p.Account, &p.First, &p.Last, &p.Requests, &p.Data); err != nil {
			t.Fatal(err)
		}
		if err := p.Each(nil, func(r *journal.Record) error {
			if r.Moved == journal.Charged {
				list = append(list, *r)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}
