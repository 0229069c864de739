package config

import (
	"slices"
	"strings"
	"testing"
)

// wallets is the good file of wallets with lines put into its x402 group.
func wallets(t *testing.T, public string, lines ...string) (*Config, error) {
	t.Helper()
	text := "public_url: " + public + "\nx402:\n  " + strings.Join(append(lines,
		`networks: [{ network: base, rpc: base-mainnet, pay_to: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8" }]`,
		`facilitators: [{ name: f, url: "https://x402.example.com", networks: [base] }]`), "\n  ") + `
rpc: { networks: [{ name: base-mainnet, upstreams: [{ name: a, url: "http://10.0.0.1:8545" }] }] }
upstreams: [{ name: main, base_url: "https://api.example.com/v1" }]
models: [{ id: chat, context_tokens: 8192, price: { input: 1, output: 2 }, targets: [{ upstream: main }] }]
`
	return Parse("wallets.yaml", []byte(text), testEnv)
}

// A known name must mean the chain, the token and the domain that wallets sign for: with
// one wrong letter every signature is for something else.
func TestKnownNetworksAreFilledIn(t *testing.T) {
	c, err := wallets(t, "https://API.example.com/")
	if err != nil {
		t.Fatal(err)
	}
	n := c.X402.Networks[0]
	if n.Network != "eip155:8453" || n.Asset != "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913" || n.Name != "USD Coin" ||
		n.Version != "2" || n.Witnesses != 1 || !*n.ContractWallets {
		t.Errorf("base is %+v", n)
	}
	if got := c.X402.Facilitators[0].Networks; !slices.Equal(got, []string{"eip155:8453"}) {
		t.Errorf("the facilitator is used for %v", got)
	}
	if got := c.RPC.Networks[0].ChainID; got != "8453" {
		t.Errorf("nodes of another chain would be believed: chain_id is %q", got)
	}
	if s := c.X402.SignIn; !slices.Equal(s.Domains, []string{"api.example.com"}) ||
		!slices.Equal(s.Origins, []string{"https://api.example.com"}) || s.Statement != "Sign in to Svc" {
		t.Errorf("sign-in is %+v", s)
	}
	for name, known := range knownChains {
		family, reference := (&X402Network{Network: known.network}).family()
		right := family == "evm" && isEVMAddress(known.asset) && string(known.chain) == reference ||
			family == "solana" && isSolanaAddress(known.asset) && strings.HasPrefix(string(known.chain), reference)
		if !right {
			t.Errorf("the entry of %s contradicts itself: %+v", name, known)
		}
	}
}

// The operator's own domains do not replace the origin in public_url.
func TestOriginsFollowDomainsAndPublicURL(t *testing.T) {
	c, err := wallets(t, "http://127.0.0.1:8080", `sign_in: { domains: ["api.example.com", "127.0.0.1:8080"] }`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"http://127.0.0.1:8080", "https://api.example.com", "https://127.0.0.1:8080"}
	if got := c.X402.SignIn.Origins; !slices.Equal(got, want) {
		t.Errorf("origins are %v, want %v", got, want)
	}
}

// A wallet that is denied in one spelling is denied in all.
func TestWalletListsKnowAnAddressInEverySpelling(t *testing.T) {
	const one, two = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8", "AKnL4NNf3DGWZJS6cPknBuEGnVsV4A4m5tgebLHaRSZ9"
	f := func(lines string, first, second bool) {
		t.Helper()
		c, err := wallets(t, "https://api.example.com", lines)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.X402.MayUse(one); got != first {
			t.Errorf("%s: the first wallet may: %v", lines, got)
		}
		if got := c.X402.MayUse(two); got != second {
			t.Errorf("%s: the second wallet may: %v", lines, got)
		}
	}
	f(`allow: []`, true, true)
	f(`deny: ["0x70997970C51812dc3A010C7d01b50e0d17dc79C8"]`, false, true)
	f(`allow: ["0x70997970C51812DC3A010C7D01B50E0D17DC79C8"]`, true, false)
	f(`allow: [`+two+`]`, false, true)
}

// One wrong letter in pay_to loses the money, so the checksum must be verified. It matches by
// chance once in thousands.
func TestAWrongLetterInAnAddressIsFound(t *testing.T) {
	const right = "70997970C51812dc3A010C7d01b50e0d17dc79C8"
	if !isEVMAddress("0x" + right) {
		t.Fatal("the right address is refused")
	}
	missed := 0
	for i := range right {
		for _, c := range "0123456789abcdefABCDEF" {
			other := right[:i] + string(c) + right[i+1:]
			if other == right {
				continue
			}
			if isEVMAddress("0x" + other) {
				missed++
			}
		}
	}
	if missed > 1 {
		t.Errorf("%d addresses with one wrong letter are taken", missed)
	}
}
