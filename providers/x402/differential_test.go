package x402

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/config"
	"farebox/config/onchain"
)

// stricter are the refusals that packages do not share, each with words of its message:
// payments that they accept are refused here before a facilitator or a node is asked.
var stricter = []string{
	// JSON and base64 with a second reading.
	"the payment header", "the JSON in the payment header", "payload.transaction is not base64",
	// A transaction with a second spelling, or that a node would refuse.
	"shortest form", "bytes follow it", "lists an account twice", "does not fit its accounts", "that is not there",
	"number of signatures", "out of range", "at most 1232", "cut short",
	// Rules that packages leave to the chain, or lack.
	"TransferChecked with source", "6 decimals", "associated token account as the source", "to be writable",
	"signature of the fee payer", "two signers", "compute limit", "compute price", "fee payer for more",
	"second signer",
	// An authorization that would keep a place that others need.
	"holds for too long",
}

// verdict is a package's verdict about a payment.
type verdict struct {
	Taken bool
	Why   string
}

// askPackages has the packages of npm judge payments.
func askPackages(t *testing.T, headers []string) []verdict {
	t.Helper()
	dir := filepath.Join("..", "..", "bench", "clients", "wallets")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "@x402", "svm")); err != nil {
		t.Fatalf("the packages are not installed in %s: run make setup-long", dir)
	}
	terms := map[string]any{"payTo": receiver, "asset": usdcBase, "least": 5_000_000, "most": int64(10_000_000_000),
		"now": now.Unix(), "mint": usdcSolana, "solanaPayTo": solanaWallet(8).Address().String(),
		"feePayer": solanaWallet(9).Address().String()}
	var in bytes.Buffer
	for _, header := range headers {
		if err := json.NewEncoder(&in).Encode(map[string]any{"header": header, "terms": terms}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "payments.mjs")
	var said bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, &in, &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, said.Bytes())
	}
	var all []verdict
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		var v verdict
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		all = append(all, v)
	}
	if len(all) != len(headers) {
		t.Fatalf("%d answers to %d payments\n%s", len(all), len(headers), said.Bytes())
	}
	return all
}

// viem and @x402/svm accept every payment accepted here; payments that only they accept
// are refused by a rule of our own.
func TestLongPaymentsAreReadAsTheirPackagesDo(t *testing.T) {
	no := false
	terms := testTerms(t, func(c *config.X402) { c.Networks[1].ContractWallets = &no })
	m := newMutator(t, 10_000)
	headers := make([]string, 10_000)
	for i := range headers {
		headers[i] = m.variant(t)
	}
	taken, own, wrong := map[string]int{}, map[string]int{}, 0
	for i, theirs := range askPackages(t, headers) {
		p, err := terms.Read(headers[i], now)
		// The client refuses these once it knows that the chain does not have them.
		if err == nil && !theirs.Taken {
			o, broken := ParseOrder(p.Order)
			switch {
			case broken != nil:
				t.Fatal(broken)
			case o.Solana != nil && o.Solana.FeePayer != solanaWallet(9).Address().String():
				own["another fee payer, refused by the client"]++
				continue
			case o.EVM != nil && p.Expires.Sub(now) < LeastLife:
				own["expired, refused by the client"]++
				continue
			}
		}
		switch {
		case err == nil && theirs.Taken:
			taken[p.Network]++
		case err == nil:
			wrong++
			t.Errorf("taken, and by its package not (%s): %s", theirs.Why, headers[i])
		case theirs.Taken:
			rule := ""
			for _, words := range stricter {
				if strings.Contains(err.Error(), words) {
					rule = words
					break
				}
			}
			var refusal *onchain.Refusal
			if rule == "" || !errors.As(err, &refusal) {
				wrong++
				t.Errorf("refused by no rule of our own (%v), and by its package not: %s", err, headers[i])
			}
			own[rule]++
		}
		if wrong > 10 {
			t.Fatal("and so on")
		}
	}
	if taken[base] < 200 || taken[solana] < 200 {
		t.Errorf("%v payments were taken by both, which shows little", taken)
	}
	t.Logf("both take %v; stricter here: %v", taken, own)
}
