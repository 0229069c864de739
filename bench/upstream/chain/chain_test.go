package chain

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

const payTo = "0x2670b922ef37c7df47158725c0cc407b5382293f"

// The vectors on which viem and @x402/svm agree.
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
