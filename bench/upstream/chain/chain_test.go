package chain

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

const payTo = "0x2670b922ef37c7df47158725c0cc407b5382293f"

// The vectors of viem and @x402/svm that everybody agrees on.
func TestSignaturesAreThoseOfTheStandards(t *testing.T) {
	e := NewEVM(EVMOptions{})
	if got := hexOf(e.Separator()); got != "0x02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f" {
		t.Errorf("the domain of USDC on Base is %s", got)
	}
	a := Authorization{From: "0x70997970c51812dc3a010c7d01b50e0d17dc79c8", To: payTo, Value: 7_000_000,
		ValidBefore: 1795217376, Nonce: "0x" + strings.Repeat("ab", 32)}
	if got := hexOf(e.Digest(a)); got != "0x7d17ea3302d0b371a9ff1b92e32884cbdf3a38bb2577e2e9c3e33609e84d4bc0" {
		t.Errorf("the digest is %s", got)
	}
	signature := unhex("0xcd565a36cd9e8a9ef78eab8286c0785f7376031bff635d353cbf48a7eef6a45c" +
		"33c6a6d1577279acb7738d00526a5687bb73079946f9a3a6953de10e81fe35921b")
	if got, err := recoverAddress(e.Digest(a), signature); err != nil || got != a.From {
		t.Errorf("signed by %s, %v", got, err)
	}
	// As @solana-program/token derives it.
	if got := TokenAccount("2wmVCSfPxGPjrnMMn7rchp4uaeoTqN39mXFC2zhPdri9",
		SolanaUSDC); got != "Boa4U4LqByXXxDndijcYHHpfA8qf47SNYLV16zLYKxph" {
		t.Errorf("the account is %q", got)
	}
}

// startFacilitator is one on two fast chains.
func startFacilitator(t *testing.T) (*Facilitator, string) {
	t.Helper()
	f := NewFacilitator(NewEVM(EVMOptions{BlockTime: 20 * time.Millisecond}),
		NewSolana(SolanaOptions{SlotTime: 10 * time.Millisecond}))
	url, err := f.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, url
}

func evmRequest(f *Facilitator, p *Payer, units int64, change func(map[string]any)) string {
	a := p.Authorization(payTo, units, time.Now().Add(time.Minute))
	return request(f.EVM.network(), USDC, payTo, units, map[string]any{"name": "USD Coin", "version": "2"},
		EVMPayload(a, p.SignAuthorization(f.EVM, a)), change)
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
	p := NewPayer()
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
	p, owner := NewSolanaPayer(), NewSolanaPayer()
	wire := p.Transaction(Order{FeePayer: f.FeePayer(), PayTo: owner.Address, Mint: SolanaUSDC, Units: 6_000_000,
		Blockhash: f.Solana.Blockhash()})
	body := request(solanaNetwork, SolanaUSDC, owner.Address, 6_000_000, map[string]any{"feePayer": f.FeePayer()},
		SolanaPayload(wire), nil)
	if _, said, err := ask(t, url+"/verify", body); !said.Get("isValid").Bool() || said.Get("payer").Str != p.Address {
		t.Fatalf("verify says %s, %v", said, err)
	}
	f.Rotate() // a payer that was told of before is still its own
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

// What differs from the protocol is refused and kept.
func TestTheFacilitatorIsStrict(t *testing.T) {
	f, url := startFacilitator(t)
	p := NewPayer()
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
	if got := said(func(a map[string]any) { a["nonce"] = RandomNonce() }); got != errUnsigned.Error() {
		t.Errorf("another nonce: %q", got)
	}
	if got := said(func(a map[string]any) { a["validBefore"] = "1" }); got != errLate.Error() {
		t.Errorf("too late: %q", got)
	}
	if got := said(func(a map[string]any) { a["value"] = "1" }); got != errValue.Error() {
		t.Errorf("another value: %q", got)
	}
}

// Each lie settles, or not, whatever it says.
func TestLiesAreToldAsNamed(t *testing.T) {
	f, url := startFacilitator(t)
	for lie, want := range map[Lie]struct{ settled, success bool }{
		"": {true, true}, Claims: {false, true}, Denies: {true, false}, Loses: {true, false}, Breaks: {true, false},
		Down: {false, false}, Pending: {true, false}, Late: {true, false}, Twice: {true, false}, Enlarges: {true, true},
		Misnames: {true, true}, Declines: {false, false}, HangsAfter: {true, false}, Hangs: {false, false},
		Garbage: {true, false}, Floods: {true, true},
	} {
		f.Always(lie)
		before := len(f.EVM.Moves())
		_, said, _ := ask(t, url+"/settle", evmRequest(f, NewPayer(), 5_000_000, nil))
		if lie == Late {
			time.Sleep(2 * lateSettling)
		}
		if settled := len(f.EVM.Moves()) > before; settled != want.settled || said.Get("success").Bool() != want.success {
			t.Errorf("%q settled %v and said %.100s", lie, settled, said)
		}
	}
}

// A contract wallet's signature counts by what its contract says.
func TestContractsSign(t *testing.T) {
	f, url := startFacilitator(t)
	contract := "0x" + strings.Repeat("c0", 20)
	signer := NewPayer()
	f.EVM.Contract(contract, signer.Address)
	settled := func(p *Payer) bool {
		_, said, _ := ask(t, url+"/settle", evmRequest(f, p, 5_000_000, nil))
		return said.Get("success").Bool()
	}
	if !settled(signer.As(contract)) || settled(NewPayer().As(contract)) {
		t.Error("its own signer does not sign for the contract, or a stranger does")
	}
}

// callEVM asks a chain as a node would.
func callEVM(t *testing.T, e *EVM, v View, method, params string) gjson.Result {
	t.Helper()
	r, known := e.Call(method, json.RawMessage(params), v)
	if !known || r.Code != 0 {
		t.Fatalf("%s %s: %v %+v", method, params, known, r)
	}
	return gjson.ParseBytes(r.Result)
}

func TestAReorganisedPaymentIsGoneUntilItComesBack(t *testing.T) {
	e := NewEVM(EVMOptions{BlockTime: 250 * time.Millisecond})
	p := NewPayer()
	a := p.Authorization(payTo, 5_000_000, time.Now().Add(time.Minute))
	hash, err := e.Pay(a, p.SignAuthorization(e, a))
	if err != nil {
		t.Fatal(err)
	}
	filter := fmt.Sprintf(`[{"fromBlock":"0x1","address":%q,"topics":[%q,%q,%q]}]`, Checksummed(USDC), topicUsed,
		hexOf(word(unhex(p.Address))), a.Nonce)
	receipt := func(v View) bool {
		return callEVM(t, e, v, "eth_getTransactionReceipt", fmt.Sprintf("[%q]", hash)).IsObject()
	}
	logs := func(v View) int { return len(callEVM(t, e, v, "eth_getLogs", filter).Array()) }
	if receipt(View{}) || logs(View{}) != 0 {
		t.Error("it is there before its block")
	}
	e.Wait()
	e.Wait()
	block := callEVM(t, e, View{}, "eth_getTransactionReceipt", fmt.Sprintf("[%q]", hash))
	hidden := View{Lie: Hides}
	if !receipt(View{}) || logs(View{}) != 1 || receipt(View{Lag: 100}) || receipt(hidden) || logs(hidden) != 0 {
		t.Error("nodes see it otherwise than they should")
	}
	if !e.Reorganise(hash) || receipt(View{}) || logs(View{}) != 0 || len(e.Moves()) != 0 {
		t.Error("it is there after it went")
	}
	if !e.Restore(hash) {
		t.Fatal("it does not come back")
	}
	e.Wait()
	e.Wait()
	again := callEVM(t, e, View{}, "eth_getTransactionReceipt", fmt.Sprintf("[%q]", hash))
	if !again.IsObject() || again.Get("blockHash").Str == block.Get("blockHash").Str {
		t.Errorf("it came back as %s", again)
	}
}
