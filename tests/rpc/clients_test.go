package rpc

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"farebox/tests/rig"
)

// The clients that people use, viem and ethers as npm has them, work with real
// nodes behind farebox as they do without it.

// startNode runs a real EVM node until the test ends and gives its URL. The
// command gets the port as its last argument.
func startNode(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	addr := rig.FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	out := &rig.Output{}
	cmd := exec.Command(name, append(args, port)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Env = append(os.Environ(), "HARDHAT_DISABLE_TELEMETRY_PROMPT=true", "NO_COLOR=1")
	if err := cmd.Start(); err != nil {
		t.Fatalf("cannot start %s: %v; run make setup", name, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			_ = c.Close()
			return "http://" + addr
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not listen on %s\n%s", name, addr, out)
		}
	}
}

func startAnvil(t *testing.T) string {
	t.Helper()
	binary, err := filepath.Abs(filepath.Join(rig.NodeDir, "node_modules", "@foundry-rs", "anvil-linux-amd64", "bin",
		"anvil"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.Command(binary, "--version").Output(); err != nil {
		// npm has it for one kind of machine here.
		if binary, err = exec.LookPath("anvil"); err != nil {
			t.Fatalf("anvil is not installed in %s: run make setup, or install Foundry", rig.NodeDir)
		}
	}
	return startNode(t, t.TempDir(), binary, "--silent", "--host", "127.0.0.1", "--port")
}

func startHardhat(t *testing.T) string {
	t.Helper()
	script, err := filepath.Abs(filepath.Join(rig.NodeDir, "node_modules", "hardhat", "internal", "cli",
		"bootstrap.js"))
	if err != nil {
		t.Fatal(err)
	}
	return startNode(t, filepath.Join(rig.NodeDir, "chain"), "node", script, "node", "--hostname", "127.0.0.1",
		"--port")
}

const realChain = `
log: { level: info, format: json, sample_above: 0 }
rpc:
  rate: { rpm: 0 }
  networks:
    - name: ethereum-sepolia
      upstreams: [{ name: node, url: "%s" }]
`

func TestLongCryptoClients(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) string{"anvil": startAnvil, "hardhat": startHardhat} {
		t.Run("they work before "+name, func(t *testing.T) {
			t.Parallel()
			g := rig.StartGateway(t, fmt.Sprintf(realChain, start(t)))
			g.NewAccount("rich", "10")
			key := g.Key("rich")
			for _, suite := range []string{"viem", "ethers"} {
				ctx, cancel := context.WithTimeout(context.Background(), rig.SuiteLimit)
				defer cancel()
				cmd := exec.CommandContext(ctx, "node", "--test", "--test-reporter=spec",
					filepath.Join("chain", suite+".mjs"))
				cmd.Dir = rig.NodeDir
				cmd.Env = append(os.Environ(), "FAREBOX_RPC_URL="+g.URL+"/crypto/rpc/ethereum-sepolia",
					"FAREBOX_KEY="+key, "NO_COLOR=1")
				cmd.WaitDelay = 5 * time.Second
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%s with %s failed: %v\n%s", suite, name, err, out)
				}
				rig.Counted(t, out, `(?m)^\S* ?tests (\d+)$`)
				if regexp.MustCompile(`(?m)^\S* ?skipped [1-9]`).Match(out) {
					t.Errorf("tests were skipped\n%s", out)
				}
			}
			if a := g.Settled()["rich"]; a.Spent == 0 || a.Spent%700 != 0 || a.USD != 10_000_000_000-a.Spent {
				t.Errorf("the account spent %s of 10 USD and has %s", a.Spent, a.USD)
			}
			if strings.Contains(g.Log(), "0x70997970") {
				t.Error("the log tells what was asked")
			}
		})
	}
}
