package wallet

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"farebox/tests/rig"
)

// "Every top-up was answered 503, send again later, for a day": a token whose EIP-712
// domain is not as the config says is found by the operator, at start and by check.
func TestATokenWithAnotherDomainIsFoundAtStart(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	metric := `farebox_x402_token_wrong{network="eip155:8453"}`
	is := func(want float64) {
		t.Helper()
		var got float64
		var known bool
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if got, known = s.Metric(metric); known && got == want {
				return
			}
		}
		t.Errorf("%s is %v (%v), not %v", metric, got, known, want)
	}
	is(0)
	check := func() (string, error) {
		return rig.RunIn(t, s.Dir, "check", "--online", "-c", s.Config)
	}
	if out, err := check(); err != nil || !strings.Contains(out, "x402 eip155:8453: the token is as the config says") {
		t.Errorf("check says %s (%v)", out, err)
	}
	good := s.config(options{})
	s.WriteConfig(strings.Replace(good, "network: base,", `network: base, name: "USDC", version: "1",`, 1))
	s.Signal(syscall.SIGHUP)
	is(1)
	out, err := check()
	for _, want := range []string{`x402 eip155:8453: the token 0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913 on eip155:8453`,
		`expected name "USDC" and version "1"`, `found name "USD Coin" and version "2"; write these`} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("check says %s (%v), without %q", out, err, want)
		}
		want = strings.ReplaceAll(strings.TrimPrefix(want, "x402 eip155:8453: "), `"`, `\"`)
		if !strings.Contains(s.Log(), want) {
			t.Errorf("the log does not say %q", want)
		}
	}
	s.WriteConfig(strings.Replace(good, "network: base,", `network: base, asset: "0x`+strings.Repeat("12", 20)+
		`", name: "USDC", version: "1",`, 1))
	if out, err := check(); err == nil || !strings.Contains(out, "has no DOMAIN_SEPARATOR()") {
		t.Errorf("of an asset that is not a token, check says %s (%v)", out, err)
	}
	s.WriteConfig(good)
	s.Signal(syscall.SIGHUP)
	is(0)
	// Nodes that cannot be reached prove nothing, and do not keep a gateway from starting.
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.evmNode {
		n.Close()
	}
	s.Start()
	is(0)
	if out, err := check(); err == nil ||
		!strings.Contains(out, "x402 eip155:8453: the nodes do not confirm") {
		t.Errorf("without nodes check says %s (%v)", out, err)
	}
}
