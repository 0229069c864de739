package rig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"farebox/config"
)

// The operator's side of a gateway under test: its command line, and the accounts as that
// shows them. Most tests ask the gateway itself.

// CLI runs a farebox command on this gateway's store and gives its standard
// output; it works beside a running gateway and without one.
func (g *Gateway) CLI(args ...string) []byte {
	g.T.Helper()
	out, err := g.TryCLI(args...)
	if err != nil {
		g.T.Fatal(err)
	}
	return out
}

func (g *Gateway) TryCLI(args ...string) ([]byte, error) {
	cmd := exec.Command(operatorBinary(g.T), append(args, "-c", g.Config, "--store", g.Store)...)
	cmd.Dir = g.Dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("cannot run farebox %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// CLIJSON runs a command with --json and decodes its output.
func (g *Gateway) CLIJSON(into any, args ...string) {
	g.T.Helper()
	out := g.CLI(append(args, "--json")...)
	if err := json.Unmarshal(out, into); err != nil {
		g.T.Fatalf("cannot read what farebox %s printed: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// NewAccount creates an account with so much USD ("" or "0": none) and gives its id.
func (g *Gateway) NewAccount(name, usd string) string {
	g.T.Helper()
	var a struct {
		ID string `json:"id"`
	}
	if !g.operate("create_account", map[string]string{"name": name}, &a) {
		g.CLIJSON(&a, "account", "create", "--name", name)
	}
	if a.ID == "" {
		g.T.Fatalf("account create --name %s gives no id", name)
	}
	if usd != "" && usd != "0" {
		g.Credit(name, usd)
	}
	return a.ID
}

// Credit adds USD to an account; further arguments such as --ref or --currency may follow.
func (g *Gateway) Credit(account, amount string, args ...string) {
	g.T.Helper()
	if len(args) > 0 || !g.operate("credit_account", map[string]string{
		"account": account, "currency": "USD", "amount": amount}, &struct{}{}) {
		g.CLI(append([]string{"account", "credit", account, amount}, args...)...)
	}
}

// Key creates a key of an account and gives its secret. Further arguments go
// to `farebox key create`.
func (g *Gateway) Key(account string, args ...string) string {
	g.T.Helper()
	_, secret := g.NewKey(account, args...)
	return secret
}

// NewKey is Key with the id, for revoking it.
func (g *Gateway) NewKey(account string, args ...string) (id, secret string) {
	g.T.Helper()
	var created struct {
		Info   struct{ ID string }
		Secret string
	}
	if len(args) == 0 && g.operate("create_key", map[string]string{
		"account": account, "type": "INFERENCE", "period": "EPOCH"}, &created) {
		return created.Info.ID, created.Secret
	}
	var k struct {
		ID     string `json:"id"`
		APIKey string `json:"apiKey"`
	}
	g.CLIJSON(&k, append([]string{"key", "create", "--account", account}, args...)...)
	if k.ID == "" || k.APIKey == "" {
		g.T.Fatalf("key create --account %s printed no id or no secret", account)
	}
	return k.ID, k.APIKey
}

// Account is one row of `farebox account list --json`.
type Account struct {
	ID, Name                        string
	USD, DIEM, Bundled, Held, Spent Money
	Leased                          struct{ USD, DIEM, Bundled Money }
}

// Money is an amount in 1e-9 of its currency, in JSON a decimal string.
type Money int64

func (m *Money) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	abs, negative := strings.CutPrefix(text, "-")
	n, err := config.ParseNano(abs)
	if err != nil {
		return fmt.Errorf("%q %w", text, err)
	}
	if negative {
		n = -n
	}
	*m = Money(n)
	return nil
}

func (m Money) String() string { return config.Nano(m).String() }

// Accounts lists all accounts by name.
func (g *Gateway) Accounts() map[string]Account {
	g.T.Helper()
	var page struct{ Data []Account }
	var list []Account
	if g.operate("list_accounts", nil, &page) {
		list = page.Data
	} else {
		g.CLIJSON(&list, "account", "list")
	}
	byName := make(map[string]Account, len(list))
	for _, a := range list {
		byName[a.Name] = a
	}
	return byName
}

// Settled lists the accounts once no hold is open any more; a hold of a
// stream whose client left is resolved a moment after that.
func (g *Gateway) Settled() map[string]Account {
	g.T.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		all := g.Accounts()
		held := Money(0)
		for _, a := range all {
			held += a.Held
		}
		if held == 0 {
			return all
		}
		if time.Now().After(end) {
			g.T.Errorf("%s are still held %s after the last request ended", held, patience)
			return all
		}
	}
}

// Exact reads a decimal of up to 9 decimals without a float.
func Exact(t *testing.T, n json.Number) Money {
	t.Helper()
	var m Money
	if err := m.UnmarshalJSON([]byte(strconv.Quote(n.String()))); err != nil {
		t.Fatalf("%q is not an exact decimal: %v", n, err)
	}
	return m
}
