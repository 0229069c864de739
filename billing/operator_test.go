package billing

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/money"
	"farebox/billing/store"
)

// operators runs a test on the ledger itself and through the control socket.
func operators(t *testing.T, test func(t *testing.T, f *fixture, op Operator)) {
	t.Run("direct", func(t *testing.T) {
		f := openLedger(t)
		test(t, f, f.Ledger)
	})
	t.Run("socket", func(t *testing.T) {
		f := openLedger(t)
		if err := f.ServeControl(); err != nil {
			t.Fatal(err)
		}
		op, via, err := Operate(f.options.Dir, "svc")
		if err != nil || !via {
			t.Fatalf("operate: via %v, %v", via, err)
		}
		test(t, f, op)
		if err := op.Close(); err != nil {
			t.Error(err)
		}
	})
}

// "The payment hook was delivered twice and the customer got the money twice."
func TestCreditIsAppliedOnceByReference(t *testing.T) {
	operators(t, func(t *testing.T, f *fixture, op Operator) {
		a, err := Do(op, CreateAccount{Name: "shop"})
		if err != nil || a.Name != "shop" || a.ID == "" {
			t.Fatalf("%+v, %v", a, err)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		applied := 0
		for range 20 {
			wg.Go(func() {
				credited, err := Do(op, CreditAccount{Account: "shop", Currency: USD, Amount: 5 * usd, Ref: "pay-1", Memo: "first"})
				mu.Lock()
				defer mu.Unlock()
				if err != nil || credited.Balance != 5*usd {
					t.Errorf("balance %s, %v", credited.Balance, err)
				}
				if credited.Applied {
					applied++
				}
			})
		}
		wg.Wait()
		if applied != 1 {
			t.Errorf("applied %d times", applied)
		}
		if _, err := Do(op, CreditAccount{Account: "shop", Currency: USD, Amount: 6 * usd, Ref: "pay-1"}); err == nil {
			t.Error("the same reference was taken for another amount")
		}
		if _, err := Do(op, CreditAccount{Account: "shop", Currency: DIEM, Amount: 5 * usd, Ref: "pay-1"}); err == nil {
			t.Error("the same reference was taken for another currency")
		}
		for range 2 {
			if credited, err := Do(op, CreditAccount{Account: a.ID, Currency: Bundled, Amount: usd / 2}); err != nil || !credited.Applied {
				t.Errorf("without a reference: applied %v, %v", credited.Applied, err)
			}
		}
		list, err := All(op, ListAccounts{})
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		if got := list[0]; got.Account != a || got.USD != 5*usd || got.Bundled != usd || got.DIEM != 0 ||
			got.Spent != 0 || !got.CreatedAt.Equal(f.clock.now()) {
			t.Errorf("listed as %+v", got)
		}
		f.recount()
	})
}

func TestOperatorsMistakesAreNamed(t *testing.T) {
	operators(t, func(t *testing.T, f *fixture, op Operator) {
		if _, err := Do(op, CreateAccount{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		long := strings.Repeat("x", maxName+1)
		for name, c := range map[string]struct {
			err  error
			is   error
			says string
		}{
			"name twice":      {errOf2(Do(op, CreateAccount{Name: "a"})), ErrNameTaken, `"a"`},
			"no name":         {errOf2(Do(op, CreateAccount{Name: ""})), nil, "name"},
			"long name":       {errOf2(Do(op, CreateAccount{Name: long})), nil, "name"},
			"escape in name":  {errOf2(Do(op, CreateAccount{Name: "a\x1b[2J"})), nil, "control characters"},
			"no such account": {errOf2(Do(op, CreditAccount{Account: "b", Currency: USD, Amount: 1})), ErrNoAccount, `"b"`},
			"nothing":         {errOf2(Do(op, CreditAccount{Account: "a", Currency: USD, Amount: 0})), nil, "more than 0"},
			"too much":        {errOf2(Do(op, CreditAccount{Account: "a", Currency: USD, Amount: money.MaxCredit + 1})), nil, "at most"},
			"no currency":     {errOf2(Do(op, CreditAccount{Account: "a", Currency: 0, Amount: 1})), nil, "currency"},
			"key of nobody":   {errOf2(Do(op, CreateKey{NewKey: NewKey{Account: "b", Type: store.Admin}})), ErrNoAccount, `"b"`},
			"key of no type":  {errOf2(Do(op, CreateKey{NewKey: NewKey{Account: "a"}})), nil, "type"},
			"negative limit": {errOf2(Do(op, CreateKey{NewKey: NewKey{Account: "a", Type: store.Admin, LimitUSD: nano(-1)}})), nil,
				""},
			"long text": {errOf2(Do(op, CreateKey{NewKey: NewKey{Account: "a", Type: store.Admin, Description: long}})), nil,
				"64"},
			"keys of nobody": {errOf2(All(op, ListKeys{Account: "b"})), ErrNoAccount, `"b"`},
			"no such key":    {errOf2(Do(op, RevokeKey{ID: "nokey"})), ErrNoKey, "nokey"},
		} {
			if c.err == nil || c.is != nil && !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.says) {
				t.Errorf("%s: %v", name, c.err)
			}
		}
		if _, err := Do(op, CreditAccount{Account: "a", Currency: USD, Amount: money.MaxCredit}); err != nil {
			t.Error(err)
		}
		if _, err := Do(op, CreditAccount{Account: "a", Currency: USD, Amount: 1}); err == nil {
			t.Error("a balance went beyond the most")
		}
	})
}

func errOf2[A any](_ A, err error) error { return err }

func TestKeysThroughAnOperator(t *testing.T) {
	operators(t, func(t *testing.T, f *fixture, op Operator) {
		for _, name := range []string{"a", "b"} {
			if _, err := Do(op, CreateAccount{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		n := NewKey{
			Account: "a", Type: store.Admin, Description: "für alle", ExpiresAt: f.clock.now().Add(time.Hour).UTC(),
			Period: store.Month, LimitUSD: nano(25*usd + 1), LimitDIEM: nano(0),
		}
		created, err := Do(op, CreateKey{NewKey: n})
		if err != nil {
			t.Fatal(err)
		}
		info, secret := created.Info, created.Secret
		k, err := f.Lookup([]byte(secret))
		if err != nil || k.ID != info.ID || k.Type != store.Admin || *k.LimitUSD != 25*usd+1 || *k.LimitDIEM != 0 ||
			k.Period != store.Month || !k.ExpiresAt.Equal(n.ExpiresAt) {
			t.Fatalf("found %+v, %v", k, err)
		}
		another, err := Do(op, CreateKey{NewKey: NewKey{Account: "b", Type: store.Inference}})
		if other := another.Info; err != nil || other.Period != store.Epoch || other.LimitUSD != nil {
			t.Fatalf("%+v, %v", other, err)
		}
		if _, err := Do(op, RevokeKey{ID: info.ID}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Lookup([]byte(secret)); !errors.Is(err, ErrUnknownKey) {
			t.Errorf("the revoked key gives %v", err)
		}
		all, err := All(op, ListKeys{})
		if err != nil || len(all) != 2 {
			t.Fatalf("%v, %v", all, err)
		}
		mine, err := All(op, ListKeys{Account: "a"})
		if err != nil || len(mine) != 1 {
			t.Fatalf("%v, %v", mine, err)
		}
		got := mine[0]
		if got.ID != info.ID || got.AccountName != "a" || got.State() != "revoked" || *got.LimitUSD != 25*usd+1 ||
			got.Last6 != secret[len(secret)-6:] || got.Description != "für alle" {
			t.Errorf("listed as %+v", got)
		}
	})
}

func TestAnAccountHasABoundedNumberOfKeys(t *testing.T) {
	servers.NoRace(t)
	f := openLedger(t)
	f.account("a", 0)
	var first string
	for i := range store.MaxActiveKeys {
		info, _, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference})
		if err != nil {
			t.Fatalf("key %d: %v", i, err)
		}
		if i == 0 {
			first = info.ID
		}
	}
	if _, _, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference}); err == nil {
		t.Error("one key more than allowed was made")
	}
	if err := f.RevokeKey(first); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference}); err != nil {
		t.Errorf("a revoked key still counts: %v", err)
	}
}

// Without a server the command line opens the ledger itself.
func TestOperateWithoutAServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "store")
	op, via, err := Operate(dir, "svc")
	if err != nil || via {
		t.Fatalf("via %v, %v", via, err)
	}
	if _, err := Do(op, CreateAccount{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := op.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
	op, _, err = Operate(dir, "svc")
	if err != nil {
		t.Fatal(err)
	}
	if list, err := All(op, ListAccounts{}); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if err := op.Close(); err != nil {
		t.Fatal(err)
	}
}

// "A script held the control socket and nobody else got through", "a huge line
// filled the memory".
func TestControlSocketIsBounded(t *testing.T) {
	f := openLedger(t, func(o *Options) { o.Dir = filepath.Join(o.Dir, strings.Repeat("long", 30)) })
	if err := f.ServeControl(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(f.dir, controlName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the socket has mode %v, %v", info.Mode(), err)
	}
	dial := func() net.Conn {
		c, err := dialControl(f.dir)
		if err != nil {
			t.Fatal(err)
		}
		return c.conn
	}
	c := dial()
	go func() { _, _ = c.Write(bytes.Repeat([]byte("x"), 2*controlLine)) }()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || !strings.Contains(line, "cannot take a request of more than") {
		t.Errorf("a line without end is answered with %q, %v", line, err)
	}
	_ = c.Close()
	for _, bad := range []string{"\n", "{}\n", "[1]\n", `{"op":"explode"}` + "\n",
		`{"op":"credit_account","query":{"account":"a","currency":"USD","amount":"-1"}}` + "\n", `{"op":"create_key"}` + "\n",
		`{"op":"list_jobs","query":[]}` + "\n"} {
		c := dial()
		_, _ = c.Write([]byte(bad))
		line, err := bufio.NewReader(c).ReadString('\n')
		var res controlResponse
		if err != nil || json.Unmarshal([]byte(line), &res) != nil || res.Error == "" {
			t.Errorf("%q is answered with %q, %v", bad, line, err)
		}
		_ = c.Close()
	}
	var open []net.Conn
	for range controlMost + 5 {
		open = append(open, dial())
	}
	for _, c := range open[:8] {
		_ = c.Close()
	}
	op, _, err := Operate(f.dir, "svc")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := All(op, ListAccounts{}); err != nil {
		t.Errorf("after connections were released: %v", err)
	}
	done := make(chan error)
	go func() { done <- f.Close() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("open connections keep the ledger from closing")
	}
	for _, c := range open {
		_ = c.Close()
	}
	f.open()
}

// FuzzControl sends any line: each gets an answer and nothing breaks.
func FuzzControl(f *testing.F) {
	l, err := Open(Options{Dir: f.TempDir(), Brand: "svc", idle: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = l.Close() })
	for _, seed := range []string{
		`{"op":"create_account","query":{"name":"a"}}`, `{"op":"list_accounts"}`,
		`{"op":"credit_account","query":{"account":"a","currency":"USD","amount":"1.5","ref":"r"}}`,
		`{"op":"create_key","query":{"account":"a","type":"ADMIN","period":"MONTH","limit_usd":"3"}}`, `{"op":"list_keys"}`,
		`{"op":"revoke_key","query":{"id":"x"}}`, `{"op":"verify","query":null}`, `{`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		res := answerControl(l, local(), line)
		if _, err := json.Marshal(res); err != nil {
			t.Fatal(err)
		}
	})
}

// "The command ended with i/o timeout, so I credited again": an answer that is
// lost says that it may have been done.
func TestLostAnswerOfARunningServerSaysSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ln, err := net.Listen("unix", filepath.Join(dir, controlName))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		_, _ = bufio.NewReader(conn).ReadBytes('\n')
		_ = conn.Close()
	}()
	c, err := dialControl(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := Do(c, CreditAccount{Account: "a", Currency: USD, Amount: usd}); err == nil ||
		!strings.Contains(err.Error(), "check before you repeat it") {
		t.Errorf("the credit ended with %v", err)
	}
}

// "The command brought the store forward under the nodes that ran on it."
func TestACommandBesideOlderNodesIsRefused(t *testing.T) {
	t.Parallel()
	address := servers.Database(t)
	nodesOn(t, address, 1, func(_ int, o *Options) { o.NodeName = "front-1" })
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	now := func(version int) {
		if _, err := db.Exec("UPDATE schema_version SET version = $1", version); err != nil {
			t.Fatal(err)
		}
	}
	now(Schema - 1)
	defer now(Schema)
	_, err = OperateShared(address, "svc")
	for _, word := range []string{"front-1", "make a backup", "stop all its nodes", "start this one"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("beside a live node of an older schema the answer is %v, expected %q", err, word)
		}
	}
}

// Each operation has its own name, query and right, and queries of unknown types are refused.
func TestTableOfOperations(t *testing.T) {
	names := map[string]bool{}
	for _, o := range operations {
		if names[o.name] || operationOf[o.query] != o || o.right < MayList || o.right > MayOwn {
			t.Errorf("%s of %s with right %d", o.name, o.query, o.right)
		}
		names[o.name] = true
		// Operators who may only list cannot call an operation that changes something.
		if o.mode&change != 0 && (o.right == MayList || o.method == "GET") || !strings.HasPrefix(o.path, "/") {
			t.Errorf("%s is %s %s for the role %s", o.name, o.method, o.path, o.right)
		}
		for name := range strings.SplitSeq(o.path, "/") {
			if strings.HasPrefix(name, "{") && !slices.Contains(o.members, strings.Trim(name, "{}")) {
				t.Errorf("%s has no member %s", o.name, name)
			}
		}
	}
	if err := (&controlClient{}).call(struct{}{}, nil); err == nil {
		t.Error("a query of no operation is sent")
	}
}

func TestAnOperatorWithTooLittleRightIsRefused(t *testing.T) {
	l := openLedger(t)
	for _, o := range Operations() {
		for role := Right(0); role < o.Right; role++ {
			_, err := l.Perform(t.Context(), Act{By: Actor{Name: "x", Role: role}}, o.Name, nil)
			if !errors.Is(err, ErrNotAllowed) {
				t.Errorf("%s by a %s: %v", o.Name, role, err)
			}
		}
	}
	if list, err := l.ListAccounts(); err != nil || len(list) != 0 {
		t.Errorf("there are %d accounts, %v", len(list), err)
	}
}

func TestAMisspelledMemberOfAQueryIsRefused(t *testing.T) {
	l := openLedger(t)
	owner := Act{By: Actor{Name: "boss", Role: MayOwn, From: "here"}}
	for _, query := range []string{`{"nam":"a"}`, `{"Name":"a"}`, `{"name":"a","NAME":"b"}`, `["a"]`, `{"name":1}`} {
		if _, err := l.Perform(t.Context(), owner, "create_account", []byte(query)); !errors.Is(err, ErrQuery) {
			t.Errorf("%s: %v", query, err)
		}
	}
	if _, err := l.Perform(t.Context(), owner, "create_account", []byte(`{"name":"a"}`)); err != nil {
		t.Error(err)
	}
	if _, err := l.Perform(t.Context(), owner, "drop_account", nil); !errors.Is(err, ErrNoOperation) {
		t.Error(err)
	}
}
