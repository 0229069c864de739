package wallet

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// The packages of npm, unmodified, pay and sign in before real nodes and the facilitator
// of npm: bench/clients/wallets.

var packages = filepath.Join("bench", "clients", "wallets")

// house is a chain with a facilitator, as the programs of bench/clients/wallets/chain describe it.
type house struct {
	URL         string `json:"url"`
	RPC         string `json:"rpc"`
	Facilitator string `json:"facilitator"`
	Asset       string `json:"asset"`
	PayTo       string `json:"payTo,omitempty"`
	FeePayer    string `json:"feePayer,omitempty"`
}

// openHouse runs one of the programs until the test ends.
func openHouse(t *testing.T, args ...string) house {
	t.Helper()
	if _, err := os.Stat(filepath.Join(packages, "node_modules", "@x402", "fetch")); err != nil {
		t.Fatalf("the packages are not installed in %s: run make setup-long", packages)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "node", args...)
	said := &rig.Output{}
	cmd.Dir, cmd.Stderr, cmd.WaitDelay = packages, said, 5*time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cannot start node: %v", err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var h house
	if err != nil || json.Unmarshal(line, &h) != nil {
		t.Fatalf("%v did not begin: %v %s\n%s", args, err, line, said)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return h
}

const packageConfig = `
log: { level: info, format: json, sample_above: 0 }
billing: { minimum_balance: 0 }
public_url: http://%[1]s
upstreams: [{ name: only, base_url: %[2]q }]
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    price: { input: 1, output: 2 }
    targets: [{ upstream: only }]
rpc: { networks: [{ name: %[3]s-mainnet, private: true, upstreams: [{ name: node, url: %[4]q }] }] }
x402:
  inference: true
  discovery: true
  top_up_per_ip: 0
  networks: [{ network: %[3]s, rpc: %[3]s-mainnet, pay_to: %[5]q }]
  facilitators: [{ name: npm, url: %[6]q }]
`

// try runs a suite before a house.
func try(t *testing.T, h house, network, payTo, suite string) {
	t.Helper()
	sim := rig.StartUpstream(t, upstream.Options{})
	addr := rig.FreeAddr(t)
	g := rig.NewGateway(t, fmt.Sprintf(packageConfig, addr, sim.URL, network, h.RPC, payTo, h.Facilitator))
	g.Addr, g.Origin, g.URL = addr, "http://"+addr, "http://"+addr+"/api/v1"
	g.Start()
	t.Cleanup(g.Cleanup)
	g.NewAccount("anybody", "")
	facts, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	out := g.RunSuite(t, []string{"FAREBOX_KEY=" + g.Key("anybody"), "FAREBOX_HOUSE=" + string(facts)}, packages, "node",
		"--test", "--test-reporter=spec", suite)
	rig.Counted(t, out, `(?m)^\S* ?tests (\d+)$`)
	if out, err := g.TryCLI("verify"); err != nil {
		t.Errorf("farebox verify: %v\n%s", err, out)
	}
}

// Wallets of viem, ethers and siwe, and contracts, before anvil and hardhat.
func TestLongWalletPackagesOnAnEVM(t *testing.T) {
	t.Parallel()
	for kind, start := range map[string]func(*testing.T) string{
		"anvil":   func(t *testing.T) string { return rig.StartAnvil(t, "--chain-id", "8453", "--block-time", "1") },
		"hardhat": func(t *testing.T) string { return rig.StartHardhat(t, "--config", "base.config.cjs") },
	} {
		t.Run("they pay on "+kind, func(t *testing.T) {
			t.Parallel()
			node := start(t)
			h := openHouse(t, filepath.Join("chain", "evm.mjs"), node, kind)
			h.RPC = node
			try(t, h, "base", payEVM, "evm.suite.mjs")
		})
	}
}

// Wallets of @solana/kit before litesvm.
func TestLongWalletPackagesOnSolana(t *testing.T) {
	t.Parallel()
	h := openHouse(t, filepath.Join("chain", "svm.mjs"))
	try(t, h, "solana", h.PayTo, "svm.suite.mjs")
}
