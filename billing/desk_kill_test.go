package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"farebox/bench/servers"
)

// deskChildDir says that this process performs operations until it is killed.
const deskChildDir = "FAREBOX_DESK_CHILD"

// deskCall is an operation that is sent again until it is answered, and later once more.
type deskCall struct {
	name, key, query string
}

const deskAccounts, deskCalls = 3, 60

// deskOperations returns the same operations for the same seed.
func deskOperations(seed uint64) (list []deskCall) {
	r := rand.New(rand.NewPCG(seed, 7))
	for i := range deskCalls {
		account := fmt.Sprintf(`{"account":"a%d"`, r.IntN(deskAccounts))
		money := fmt.Sprintf(`%s,"currency":%q,"amount":"%d","ref":"r%d","memo":"m"}`, account,
			[]string{"USD", "BUNDLED_CREDITS"}[r.IntN(2)], 1+r.IntN(9), i)
		key := fmt.Sprint("k", i)
		switch r.IntN(8) {
		case 0:
			list = append(list, deskCall{"create_key", key, account + `,"type":"INFERENCE"}`})
		case 1:
			list = append(list, deskCall{"create_token", key, fmt.Sprintf(`{"name":"t%d","role":"billing","ends":"2040-01-01T00:00:00Z"}`, i)})
		case 2:
			list = append(list, deskCall{"refund_account", "", money})
		case 3:
			list = append(list, deskCall{"debit_account", "", money[:len(money)-1] + `,"may_owe":true}`})
		case 4:
			list = append(list, deskCall{"credit_account", key, account + `,"currency":"USD","amount":"3"}`})
		default:
			list = append(list, deskCall{"credit_account", "", money})
		}
	}
	return list
}

// operateDesk performs all operations once a round, in random order.
func operateDesk(l *Ledger, list []deskCall, order *rand.Rand, rounds int) error {
	for range rounds {
		for _, i := range order.Perm(len(list)) {
			if _, err := l.Perform(context.Background(), boss.as(list[i].key), list[i].name, []byte(list[i].query)); err != nil {
				return fmt.Errorf("%+v: %w", list[i], err)
			}
		}
	}
	return nil
}

func openDesk(dir, shared string) (*Ledger, error) {
	if shared != "" {
		return OperateShared(shared, "svc")
	}
	return Open(Options{Dir: dir, Brand: "svc", segmentSize: 64 << 10})
}

// beKilledAtTheDesk performs operations until it is killed.
func beKilledAtTheDesk(dir, shared, seed string) {
	number, err := strconv.ParseUint(seed, 10, 64)
	var l *Ledger
	if err == nil {
		l, err = openDesk(dir, shared)
	}
	if err == nil {
		fmt.Println("R")
		err = operateDesk(l, deskOperations(number/1000), rand.New(rand.NewPCG(number, 1)), 1000)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// "The connection broke at the wrong moment, the import ran again, and the books were off."
// Operations that are sent again in any order, with kill -9 between, are made once: the statement,
// the entries, the balance and a recount agree.
func TestOperationsThatAreSentAgainAreMadeOnce(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			dir, shared := t.TempDir(), ""
			if engine == "postgres" {
				shared = servers.Database(t)
			}
			seed := uint64(time.Now().UnixNano()) % 1_000_000
			t.Logf("seed %d", seed)
			l, err := openDesk(dir, shared)
			if err != nil {
				t.Fatal(err)
			}
			for i := range deskAccounts {
				if _, err := l.CreateAccount(fmt.Sprint("a", i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			for round := range uint64(4) {
				killDesk(t, dir, shared, seed*1000+round)
			}
			if l, err = openDesk(dir, shared); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			list := deskOperations(seed)
			if err := operateDesk(l, list, rand.New(rand.NewPCG(seed, 9)), 2); err != nil {
				t.Fatal(err)
			}
			checkDesk(t, &desk{l, t}, list)
		})
	}
}

// killDesk runs a child for a moment.
func killDesk(t *testing.T, dir, shared string, seed uint64) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), deskChildDir+"="+dir, deskChildDir+"_SHARED="+shared,
		fmt.Sprintf("%s_SEED=%d", deskChildDir, seed))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = out.Read(make([]byte, 1))
	time.Sleep(time.Duration(10+rand.IntN(150)) * time.Millisecond)
	_ = cmd.Process.Kill()
	var exit *exec.ExitError
	if ended := cmd.Wait(); err != nil || !errors.As(ended, &exit) || exit.Exited() {
		t.Fatalf("the child was not killed: %v, %v", err, ended)
	}
}

// checkDesk compares the answers of the operations with the books.
func checkDesk(t *testing.T, d *desk, list []deskCall) {
	made := map[string]int{}
	want := map[string]Nano{} // by account: balances without debt
	var calls []CreditAccount
	for _, c := range list {
		made[c.name]++
		var q DebitAccount
		if err := json.Unmarshal([]byte(c.query), &q); c.name[:6] != "create" && err == nil {
			if c.name == "debit_account" {
				q.Amount = -q.Amount
			}
			calls = append(calls, q.CreditAccount)
		}
	}
	for _, q := range calls {
		want[q.Account] += q.Amount
	}
	accounts, err := d.ListAccounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range accounts {
		if got := a.USD + a.Bundled - a.Debt; got != want[a.Name] {
			t.Errorf("%s has %s, expected %s", a.Name, got, want[a.Name])
		}
		for currency, has := range map[string]Nano{"USD": a.USD, "BUNDLED_CREDITS": a.Bundled} {
			text := d.do(boss, "read_statement", fmt.Sprintf(`{"account":%q,"currency":%q}`, a.Name, currency))
			var s struct {
				Lines []struct{ Amount Nano }
			}
			var sum Nano
			if err := json.Unmarshal([]byte(text), &s); err != nil {
				t.Fatal(err)
			}
			for _, line := range s.Lines {
				sum += line.Amount
			}
			if sum != has {
				t.Errorf("the statement of %s adds up to %s %s, the balance is %s:\n%s", a.Name, sum, currency, has, text)
			}
		}
	}
	keys, err := d.Keys("")
	if err != nil || len(keys) != made["create_key"] {
		t.Errorf("there are %d keys, expected %d (%v)", len(keys), made["create_key"], err)
	}
	if tokens := d.pages("list_tokens", "", 500); len(tokens) != made["create_token"] {
		t.Errorf("there are %d tokens, expected %d", len(tokens), made["create_token"])
	}
	if n := len(d.audit()); n != len(list)+deskAccounts {
		t.Errorf("the audit log has %d entries, expected %d", n, len(list)+deskAccounts)
	}
	if n := len(d.pages("money_in", "", 500)); n != made["credit_account"] {
		t.Errorf("there are %d credits, expected %d", n, made["credit_account"])
	}
	if r, err := d.Verify(); err != nil || len(r.Faults) > 0 {
		t.Errorf("%+v %v", r, err)
	}
}
