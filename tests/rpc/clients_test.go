package rpc

import (
	"context"
	"fmt"
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
	for name, start := range map[string]func(*testing.T, ...string) string{"anvil": rig.StartAnvil, "hardhat": rig.StartHardhat} {
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
				t.Error("the log has the parameters of a call")
			}
		})
	}
}
