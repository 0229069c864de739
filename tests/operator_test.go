package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"farebox/config"
)

// The operator's side of a gateway under test: its command line, and the
// accounts as that shows them.

// cli runs a farebox command on this gateway's store and gives its standard
// output; it works beside a running gateway and without one.
func (g *gateway) cli(args ...string) []byte {
	g.t.Helper()
	out, err := g.try(args...)
	if err != nil {
		g.t.Fatal(err)
	}
	return out
}

// operatorBinary is $FAREBOX_CLI, or the binary under test: commands that only
// prepare a test need not run under the race detector, which makes them slow.
func operatorBinary(t testing.TB) string {
	if path := os.Getenv("FAREBOX_CLI"); path != "" {
		return path
	}
	return fareboxBinary(t)
}

func (g *gateway) try(args ...string) ([]byte, error) {
	cmd := exec.Command(operatorBinary(g.t), append(args, "-c", g.Config, "--store", g.Store)...)
	cmd.Dir = g.Dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("cannot run farebox %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// cliJSON runs a command with --json and decodes what it printed.
func (g *gateway) cliJSON(into any, args ...string) {
	g.t.Helper()
	out := g.cli(append(args, "--json")...)
	if err := json.Unmarshal(out, into); err != nil {
		g.t.Fatalf("cannot read what farebox %s printed: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// NewAccount creates an account with so much USD ("" or "0": none) and gives its id.
func (g *gateway) NewAccount(name, usd string) string {
	g.t.Helper()
	var a struct {
		ID string `json:"id"`
	}
	g.cliJSON(&a, "account", "create", "--name", name)
	if a.ID == "" {
		g.t.Fatalf("account create --name %s printed no id", name)
	}
	if usd != "" && usd != "0" {
		g.Credit(name, usd)
	}
	return a.ID
}

// Credit adds USD to an account; further arguments such as --ref or --currency may follow.
func (g *gateway) Credit(account, amount string, args ...string) {
	g.t.Helper()
	g.cli(append([]string{"account", "credit", account, amount}, args...)...)
}

// Key creates a key of an account and gives its secret. Further arguments go
// to `farebox key create`.
func (g *gateway) Key(account string, args ...string) string {
	g.t.Helper()
	_, secret := g.NewKey(account, args...)
	return secret
}

// NewKey is Key with the id, for revoking it.
func (g *gateway) NewKey(account string, args ...string) (id, secret string) {
	g.t.Helper()
	var k struct {
		ID     string `json:"id"`
		APIKey string `json:"apiKey"`
	}
	g.cliJSON(&k, append([]string{"key", "create", "--account", account}, args...)...)
	if k.ID == "" || k.APIKey == "" {
		g.t.Fatalf("key create --account %s printed no id or no secret", account)
	}
	return k.ID, k.APIKey
}

// account is one row of `farebox account list --json`.
type account struct {
	ID, Name                        string
	USD, DIEM, Bundled, Held, Spent money
	Leased                          struct{ USD, DIEM, Bundled money }
}

// money is an amount in 1e-9 of its currency, in JSON a decimal string.
type money int64

func (m *money) UnmarshalJSON(b []byte) error {
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
	*m = money(n)
	return nil
}

func (m money) String() string { return config.Nano(m).String() }

// accounts lists all accounts by name.
func (g *gateway) accounts() map[string]account {
	g.t.Helper()
	var list []account
	g.cliJSON(&list, "account", "list")
	byName := make(map[string]account, len(list))
	for _, a := range list {
		byName[a.Name] = a
	}
	return byName
}

// settled lists the accounts once no hold is open any more; a hold of a
// stream whose client left is resolved a moment after that.
func (g *gateway) settled() map[string]account {
	g.t.Helper()
	const limit = 5 * time.Second
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		all := g.accounts()
		held := money(0)
		for _, a := range all {
			held += a.Held
		}
		if held == 0 {
			return all
		}
		if time.Now().After(end) {
			g.t.Errorf("%s are still held %s after the last request ended", held, limit)
			return all
		}
	}
}

// exitCode is the exit status in an error of Stop or try; 0 when it is nil, -1
// when the process ended by a signal or never ran.
func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}
