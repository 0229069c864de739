package chainclient

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"farebox/bench/upstream/chain"
	"farebox/bench/upstream/facilitator"
	"farebox/bench/upstream/node"
	"farebox/config"
	"farebox/config/onchain"
	"farebox/providers/rpc"
	"farebox/proxy"
	"github.com/rs/zerolog"
)

const (
	receiver       = "0x2670b922ef37c7df47158725c0cc407b5382293f"
	solanaReceiver = "AKnL4NNf3DGWZJS6cPknBuEGnVsV4A4m5tgebLHaRSZ9"
	base           = "eip155:8453"
	solana         = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
)

// world is a client with three nodes of each chain and a facilitator.
type world struct {
	*Client
	t      testing.TB
	evm    *chain.EVM
	sol    *chain.Solana
	nodes  []*node.Node // three of EVM, three of Solana
	helper *facilitator.Facilitator
}

// begin makes a world in which so many nodes must agree. change may be nil.
func begin(t testing.TB, witnesses int, change func(c *config.X402)) *world {
	t.Helper()
	w := &world{t: t, evm: chain.NewEVM(chain.EVMOptions{BlockTime: 20 * time.Millisecond}),
		sol: chain.NewSolana(chain.SolanaOptions{SlotTime: 40 * time.Millisecond})}
	w.helper = facilitator.New(w.evm, w.sol)
	url, err := w.helper.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.helper.Close)
	text := "rpc:\n  networks:\n"
	for name, ledger := range map[string]chain.Ledger{"base-mainnet": w.evm, "solana-mainnet": w.sol} {
		text += "    - name: " + name + "\n      upstreams:\n"
		for i := range 3 {
			n := node.New(node.Options{Ledger: ledger, Solana: ledger == chain.Ledger(w.sol)})
			at, err := n.Start()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(n.Close)
			text += fmt.Sprintf("        - { name: n%d, url: %q }\n", i, at)
			if ledger == chain.Ledger(w.evm) {
				w.nodes = append([]*node.Node{n}, w.nodes...)
			} else {
				w.nodes = append(w.nodes, n)
			}
		}
	}
	cfg, err := config.Parse("test.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	networks, err := rpc.NewNetworks(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { networks.Close(nil) })
	p := proxy.New(proxy.Options{Tick: 20 * time.Millisecond})
	t.Cleanup(p.Close)
	c := &config.X402{MinTopUp: 5_000_000_000, MaxTopUp: 10_000_000_000_000, Simulated: true,
		Networks: []config.X402Network{
			{Network: base, RPC: "base-mainnet", Witnesses: witnesses, PayTo: receiver, Asset: chain.USDC, Name: "USD Coin",
				Version: "2", Confirmations: 1, FinalDepth: 12},
			{Network: solana, RPC: "solana-mainnet", Witnesses: witnesses, PayTo: solanaReceiver, Asset: chain.SolanaUSDC,
				Confirmations: 1, FinalDepth: 12},
		},
		Facilitators: []config.X402Facilitator{{Name: "f", URL: config.Secret(url), Auth: "none",
			VerifyTimeout: 3 * time.Second, SettleTimeout: 3 * time.Second, MaxInFlight: 4}}}
	if change != nil {
		change(c)
	}
	if w.Client, err = New(c, networks, p, zerolog.Nop(), nil, nil); err != nil {
		t.Fatal(err)
	}
	w.Start()
	t.Cleanup(func() { w.Close(nil) })
	w.until("the facilitator names its fee payer", func() bool { return w.Facilitators.Offer(solana) != "" })
	return w
}

func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("it never comes to this: %s", what)
		}
	}
}

// header is a payment as version 2 of the protocol has it.
func header(t testing.TB, network string, p map[string]any) string {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(`{"x402Version":2,"accepted":{"scheme":"exact","network":"`+network+`"},"payload":`+
		string(text)+`}`), &members); err != nil {
		t.Fatal(err)
	}
	return chain.Header(members)
}

func (w *world) read(header string) *onchain.Payment {
	w.t.Helper()
	p, err := w.Terms.Read(header, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// onEVM is a payment of 6 USD that holds for a while.
func (w *world) onEVM(from *chain.Payer, holds time.Duration) *onchain.Payment {
	w.t.Helper()
	a := from.Authorization(receiver, 6_000_000, time.Now().Add(holds))
	return w.read(header(w.t, base, chain.EVMPayload(a, from.SignAuthorization(w.evm, a))))
}

func (w *world) onSolana(from *chain.Payer) *onchain.Payment {
	w.t.Helper()
	return w.read(header(w.t, solana, chain.SolanaPayload(from.Transaction(chain.Order{
		FeePayer: w.helper.FeePayer(), PayTo: solanaReceiver, Mint: chain.SolanaUSDC, Units: 6_000_000,
		Blockhash: w.sol.Blockhash()}))))
}

func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// prepared is p with the order that Prepare gives.
func (w *world) prepared(p *onchain.Payment) *onchain.Payment {
	w.t.Helper()
	order, refused, err := w.Prepare(soon(w.t), p)
	if err != nil || refused != nil {
		w.t.Fatalf("the chain would not take it: %v %v", refused, err)
	}
	q := *p
	q.Order = order
	return &q
}

func (w *world) finds(p *onchain.Payment, hint string, want onchain.State) onchain.Result {
	w.t.Helper()
	var f onchain.Result
	w.until(fmt.Sprintf("fate %d of %s", want, p.ID), func() bool {
		var err error
		f, err = w.Find(soon(w.t), p, hint)
		return err == nil && f.State == want
	})
	return f
}

// payments are one of each chain.
func (w *world) payments() []*onchain.Payment {
	return []*onchain.Payment{w.onEVM(chain.NewPayer(), time.Hour), w.onSolana(chain.NewSolanaPayer())}
}
