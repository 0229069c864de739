package facilitator

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/chain"
)

const payTo = "0x2670b922ef37c7df47158725c0cc407b5382293f"

// startFacilitator is one on two fast chains.
func startFacilitator(t *testing.T) (*Facilitator, string) {
	t.Helper()
	f := New(chain.NewEVM(chain.EVMOptions{BlockTime: 20 * time.Millisecond}),
		chain.NewSolana(chain.SolanaOptions{SlotTime: 10 * time.Millisecond}))
	url, err := f.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, url
}

func evmRequest(f *Facilitator, p *chain.Payer, units int64, change func(map[string]any)) string {
	a := p.Authorization(payTo, units, time.Now().Add(time.Minute))
	return request("eip155:8453", chain.USDC, payTo, units, map[string]any{"name": "USD Coin", "version": "2"},
		chain.EVMPayload(a, p.SignAuthorization(f.EVM, a)), change)
}

func request(network, asset, to string, units int64, extra, payload map[string]any,
	change func(map[string]any),
) string {
	need := map[string]any{"scheme": "exact", "network": network, "amount": fmt.Sprint(units), "asset": asset,
		"payTo": to, "maxTimeoutSeconds": 300, "extra": extra}
	body := map[string]any{"x402Version": 2, "paymentRequirements": need,
		"paymentPayload": map[string]any{"x402Version": 2, "accepted": need, "payload": payload}}
	if change != nil {
		change(body)
	}
	b, _ := json.Marshal(body)
	return string(b)
}

func ask(t *testing.T, url, body string) (int, gjson.Result, error) {
	t.Helper()
	client := http.Client{Timeout: 2 * time.Second}
	res, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, gjson.Result{}, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, gjson.ParseBytes(b), err
}

func TestAPaymentMovesOnce(t *testing.T) {
	f, url := startFacilitator(t)
	p := chain.NewPayer()
	body := evmRequest(f, p, 5_000_000, nil)
	if _, said, err := ask(t, url+"/verify", body); !said.Get("isValid").Bool() {
		t.Fatalf("verify says %s, %v", said, err)
	}
	if _, said, _ := ask(t, url+"/settle", body); !said.Get("success").Bool() {
		t.Fatalf("settle says %s", said)
	}
	if _, said, _ := ask(t, url+"/settle", body); said.Get("success").Bool() ||
		said.Get("errorReason").Str != "invalid_transaction_state" {
		t.Errorf("settled again: %s", said)
	}
	moves := f.EVM.Moves()
	if len(moves) != 1 || moves[0].From != p.Address || moves[0].Value != 5_000_000 || moves[0].To != payTo {
		t.Errorf("the chain has %+v", moves)
	}
}

func TestASolanaPaymentMovesOnce(t *testing.T) {
	f, url := startFacilitator(t)
	p, owner := chain.NewSolanaPayer(), chain.NewSolanaPayer()
	wire := p.Transaction(chain.Order{FeePayer: f.FeePayer(), PayTo: owner.Address, Mint: chain.SolanaUSDC, Units: 6_000_000,
		Blockhash: f.Solana.Blockhash()})
	body := request("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", chain.SolanaUSDC, owner.Address, 6_000_000, map[string]any{"feePayer": f.FeePayer()},
		chain.SolanaPayload(wire), nil)
	if _, said, err := ask(t, url+"/verify", body); !said.Get("isValid").Bool() || said.Get("payer").Str != p.Address {
		t.Fatalf("verify says %s, %v", said, err)
	}
	f.Rotate() // a fee payer that was offered before is still its own
	_, said, _ := ask(t, url+"/settle", body)
	if !said.Get("success").Bool() {
		t.Fatalf("settle says %s", said)
	}
	if _, said, _ := ask(t, url+"/settle", body); said.Get("errorReason").Str != "duplicate_settlement" {
		t.Errorf("settled again: %s", said)
	}
	moved := f.Solana.Transfers()
	if len(moved) != 1 || moved[0].Payer != p.Address || moved[0].Units != 6_000_000 ||
		moved[0].Signature != said.Get("transaction").Str {
		t.Errorf("the chain has %+v", moved)
	}
}

// A request that differs from the protocol is refused and kept.
func TestTheFacilitatorIsStrict(t *testing.T) {
	f, url := startFacilitator(t)
	p := chain.NewPayer()
	for name, change := range map[string]func(map[string]any){
		"version 1":            func(b map[string]any) { b["x402Version"] = 1 },
		"payload of version 1": func(b map[string]any) { b["paymentPayload"].(map[string]any)["x402Version"] = 1 },
		"nothing accepted":     func(b map[string]any) { delete(b["paymentPayload"].(map[string]any), "accepted") },
		"bare network":         func(b map[string]any) { b["paymentRequirements"].(map[string]any)["network"] = "base" },
		"amount as number":     func(b map[string]any) { b["paymentRequirements"].(map[string]any)["amount"] = 5 },
		"a further member":     func(b map[string]any) { b["wallet"] = "x" },
	} {
		before := len(f.Complaints())
		if status, said, _ := ask(t, url+"/verify", evmRequest(f, p, 5_000_000, change)); status != 400 ||
			len(f.Complaints()) != before+1 {
			t.Errorf("%s: %d %s", name, status, said)
		}
	}
	// A payment that was changed after it was signed is well-formed, and refused.
	said := func(change func(authorization map[string]any)) string {
		_, said, _ := ask(t, url+"/verify", evmRequest(f, p, 5_000_000, func(b map[string]any) {
			payload := b["paymentPayload"].(map[string]any)["payload"].(map[string]any)
			change(payload["authorization"].(map[string]any))
		}))
		return said.Get("invalidReason").Str
	}
	if got := said(func(a map[string]any) { a["nonce"] = chain.RandomNonce() }); got != "invalid_exact_evm_payload_signature" {
		t.Errorf("another nonce: %q", got)
	}
	if got := said(func(a map[string]any) { a["validBefore"] = "1" }); got != "invalid_exact_evm_payload_authorization_valid_before" {
		t.Errorf("too late: %q", got)
	}
	if got := said(func(a map[string]any) { a["value"] = "1" }); got != "invalid_exact_evm_payload_authorization_value_mismatch" {
		t.Errorf("another value: %q", got)
	}
}

// Each lie settles, or not, whatever it says.
func TestLiesAreReportedByName(t *testing.T) {
	f, url := startFacilitator(t)
	for lie, want := range map[chain.Lie]struct{ settled, success bool }{
		"": {true, true}, Claims: {false, true}, Denies: {true, false}, Loses: {true, false}, Breaks: {true, false},
		Down: {false, false}, Pending: {true, false}, Late: {true, false}, Twice: {true, false}, Enlarges: {true, true},
		Misnames: {true, true}, Declines: {false, false}, HangsAfter: {true, false}, Hangs: {false, false},
		Garbage: {true, false}, Floods: {true, true},
	} {
		f.Always(lie)
		before := len(f.EVM.Moves())
		_, said, _ := ask(t, url+"/settle", evmRequest(f, chain.NewPayer(), 5_000_000, nil))
		if lie == Late {
			time.Sleep(2 * lateSettling)
		}
		if settled := len(f.EVM.Moves()) > before; settled != want.settled || said.Get("success").Bool() != want.success {
			t.Errorf("%q settled %v and said %.100s", lie, settled, said)
		}
	}
}

// A contract wallet's signature counts by its contract's verdict.
func TestContractsSign(t *testing.T) {
	f, url := startFacilitator(t)
	contract := "0x" + strings.Repeat("c0", 20)
	signer := chain.NewPayer()
	f.EVM.Contract(contract, signer.Address)
	settled := func(p *chain.Payer) bool {
		_, said, _ := ask(t, url+"/settle", evmRequest(f, p, 5_000_000, nil))
		return said.Get("success").Bool()
	}
	if !settled(signer.As(contract)) || settled(chain.NewPayer().As(contract)) {
		t.Error("its own signer does not sign for the contract, or a stranger does")
	}
}
