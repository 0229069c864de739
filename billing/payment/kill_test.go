package payment

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// childDir says that this process takes payments until it is killed.
const childDir = "FAREBOX_PAYMENT_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		beKilled(dir, os.Getenv(childDir+"_SHARED"), os.Getenv(childDir+"_SEED"))
		return
	}
	code := m.Run()
	servers.End()
	os.Exit(code)
}

// fileChain is a chain that outlives processes: a payment that is made is a file.
type fileChain struct {
	dir    string
	mu     sync.Mutex
	random *rand.Rand
}

func (c *fileChain) roll(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

func (c *fileChain) path(p *onchain.Payment) string { return filepath.Join(c.dir, p.ID) }

func (c *fileChain) Prepare(_ context.Context, p *onchain.Payment) ([]byte, *onchain.Refusal, error) {
	return []byte(p.ID), nil, nil
}

func (c *fileChain) Verify(context.Context, *onchain.Payment) (onchain.Reply, error) {
	return onchain.Reply{OK: true}, nil
}

// Settle pays or not, and reports it or not. It never pays an expired payment.
func (c *fileChain) Settle(_ context.Context, p *onchain.Payment) (onchain.Reply, error) {
	time.Sleep(time.Duration(c.roll(2000)) * time.Microsecond)
	if time.Now().Before(p.Expires) && c.roll(4) > 0 {
		f, err := os.OpenFile(c.path(p), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return onchain.Reply{}, err
		}
		_ = f.Close()
	}
	switch c.roll(4) {
	case 0:
		return onchain.Reply{}, errLost
	case 1:
		return onchain.Reply{Reason: "refused"}, nil
	}
	return onchain.Reply{OK: true}, nil
}

func (c *fileChain) Find(_ context.Context, p *onchain.Payment, _ string) (onchain.Result, error) {
	// Settlements that were open at the last moment are done.
	over := time.Now().After(p.Expires.Add(200 * time.Millisecond))
	at, err := os.Stat(c.path(p))
	switch {
	case err == nil:
		return onchain.Result{State: onchain.Paid, Settled: true, Final: time.Since(at.ModTime()) > 30*time.Millisecond,
			Transaction: "0x" + p.ID}, nil
	case !errors.Is(err, os.ErrNotExist):
		return onchain.Result{}, err
	case over:
		return onchain.Result{State: onchain.Over}, nil
	}
	return onchain.Result{State: onchain.Open}, nil
}

// childMachine is the machine of a process that will be killed, or that follows a killed
// one.
func childMachine(l *billing.Ledger, dir string, seed uint64) *Machine {
	m := New(Options{Store: l.Payments(), Node: l.NodeNo(), Log: zerolog.Nop()})
	_ = m.Configure(quickTerms, &fileChain{dir: filepath.Join(dir, "chain"), random: rand.New(rand.NewPCG(seed, 5))}) // not begun
	m.t = quick
	m.t.ask, m.t.margin = 200*time.Millisecond, 100*time.Millisecond
	return m
}

const childWallets = 3

// beKilled submits payments until it is killed. It prints to standard output that a
// payment is about to be submitted (A), and that its payer got the credit (C).
func beKilled(dir, shared, seed string) {
	end := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	number, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		end(err)
	}
	l, err := billing.Open(billing.Options{Dir: filepath.Join(dir, "ledger"), Shared: shared, NodeName: "child",
		Brand: "svc", Log: zerolog.Nop()})
	if err != nil {
		end(err)
	}
	m := childMachine(l, dir, number)
	if err := m.Begin(); err != nil {
		end(err)
	}
	fmt.Println("R - 0")
	for w := range 4 {
		go func() {
			for n := 0; ; n++ {
				p := childPayment(number, w, n)
				fmt.Printf("A %s %d\n", p.ID, int64(p.Amount))
				for range 3 {
					if out := m.Submit(context.Background(), p, fair.Owner{}); out.Ending == Credited {
						fmt.Printf("C %s %d\n", p.ID, int64(out.Amount))
						break
					}
				}
			}
		}()
	}
	select {}
}

func childPayment(seed uint64, w, n int) *onchain.Payment {
	return &onchain.Payment{ID: fmt.Sprintf("pay_%d_%d_%d", seed, w, n), Same: [32]byte{byte(n)}, Network: "eip155:8453",
		Asset: "0xa", Wallet: fmt.Sprintf("0x%040d", w%childWallets), Units: 5_000_000,
		Amount: money.Nano(5_000_000_000 + n), Expires: time.Now().Add(150 * time.Millisecond)}
}

// "It was killed between the chain and the books": payments on the chain are credited
// once, others never.
func TestKilledTakersOfPayments(t *testing.T) { killRounds(t, 8, 200_000, "") }

func TestLongKilledTakersOfPayments(t *testing.T) { killRounds(t, servers.Campaign(25), 150_000, "") }

func TestLongKilledTakersOfPaymentsOnASharedStore(t *testing.T) {
	killRounds(t, servers.Campaign(8), 250_000, servers.Database(t))
}

func killRounds(t *testing.T, rounds, most int, shared string) {
	t.Parallel()
	seed := rand.Uint64() >> 1
	t.Logf("seed %d", seed)
	dir := quickDir(t)
	for _, name := range []string{"chain", "ledger"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	told := map[string]string{}
	random := rand.New(rand.NewPCG(seed, 2))
	credited := func() (n int) {
		for _, kind := range told {
			if kind == "C" {
				n++
			}
		}
		return n
	}
	for round := 0; round < rounds || (len(told) < 20 || credited() < 5) && round < 20*rounds; round++ {
		if round >= rounds { // a machine that is busy with something else gets little done
			most = min(most+most/4, 3_000_000)
		}
		killOnce(t, dir, shared, seed+uint64(round), time.Duration(random.IntN(most))*time.Microsecond, told)
	}
	checkKilled(t, dir, shared, told)
}

// killOnce runs a process that takes payments for a moment, and kills it.
func killOnce(t *testing.T, dir, shared string, seed uint64, after time.Duration, told map[string]string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childDir+"_SHARED="+shared,
		fmt.Sprintf("%s_SEED=%d", childDir, seed))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() { _ = cmd.Process.Kill() })
	limit := time.AfterFunc(time.Minute, kill)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var kind, id string
		var n int64
		if _, err := fmt.Sscan(lines.Text(), &kind, &id, &n); err != nil {
			break // the last line may be torn
		}
		if kind == "R" {
			time.AfterFunc(after, kill)
			continue
		}
		told[id] = kind
	}
	limit.Stop()
	kill()
	_ = cmd.Wait()
}

// checkKilled lets a last process finish, and compares the books with the chain.
func checkKilled(t *testing.T, dir, shared string, told map[string]string) {
	t.Helper()
	l, err := billing.Open(billing.Options{Dir: filepath.Join(dir, "ledger"), Shared: shared, NodeName: "child",
		Brand: "svc", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	m := childMachine(l, dir, 0)
	if err := m.Begin(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		tally, err := l.Payments().TallyPayments()
		if err != nil {
			t.Fatal(err)
		}
		if len(tally.States) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("some come to no end: %+v", tally)
		}
	}
	m.Close()
	credited, dead := 0, 0
	want := money.Nano(0)
	for id, kind := range told {
		_, err := os.Stat(filepath.Join(dir, "chain", id))
		paid := err == nil
		row, err := l.Payments().Payment(id)
		switch {
		case errors.Is(err, store.ErrNoRow):
			if paid || kind == "C" {
				t.Errorf("the payment %s was made: %t, was credited: %s, and is nowhere", id, paid, kind)
			}
			continue
		case err != nil:
			t.Fatal(err)
		case paid != (row.State == store.PaymentFinal) || kind == "C" && !paid || row.Epoch != 1:
			t.Errorf("the payment %s was made: %t, reported as %s, and is %+v", id, paid, kind, row)
		}
		if paid {
			credited++
			want += row.Amount
		} else {
			dead++
		}
	}
	if files, err := os.ReadDir(filepath.Join(dir, "chain")); err != nil || len(files) != credited {
		t.Errorf("the chain has %d payments, %d are credited (%v)", len(files), credited, err)
	}
	accounts, err := billing.All(l, billing.ListAccounts{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range accounts {
		want -= a.USD + a.Leased.USD
	}
	report := audits(t, l)
	if want != 0 || report.Payments != int64(credited+dead) {
		t.Errorf("%s is missing, the books have %d payments of %d", want, report.Payments, credited+dead)
	}
	t.Logf("%d credited, %d dead", credited, dead)
	if credited < 5 || dead < 1 {
		t.Error("the test tests little")
	}
}
