package rpc

import (
	"testing"
	"time"
)

// The same code means one thing at one service and another elsewhere; texts are
// as nodes and services write them.
func TestClassify(t *testing.T) {
	f := func(family, method, object string, want Meaning) {
		t.Helper()
		fam := FamilyOf(family)
		m := fam.Find([]byte(method))
		if m == nil && method != "" {
			t.Fatalf("%s has no %s", family, method)
		}
		if got := Classify(fam, m, []byte(object)); got != want {
			t.Errorf("%s %s: %s means %d, want %d", family, method, object, got, want)
		}
	}
	f("evm", "eth_call", `{"code":3,"message":"execution reverted: rate limit","data":"0x08c379a0"}`, Final)
	f("evm", "eth_call", `{"code":-32000,"message":"execution reverted: too many requests"}`, Final)
	f("evm", "eth_call", `{"code":-32015,"message":"VM execution error.","data":"Reverted rate limit exceeded"}`, Final)
	f("evm", "eth_call", `{"code":-32603,"message":"VM Exception while processing transaction: reverted with reason string 'usage limit'"}`, Final)
	f("evm", "eth_call", `{"code":-32603,"message":"Error: VM Exception while processing transaction: reverted with custom error 'OwnableUnauthorizedAccount(\"0x01\")'"}`, Final)
	f("evm", "eth_sendRawTransaction",
		`{"code":-32603,"message":"Error: VM Exception while processing transaction: reverted with reason string 'already known'"}`, Final)
	f("evm", "eth_call", `{"message":"VM Exception while processing transaction: revert quota","stack":"at …"}`, Final)
	f("evm", "eth_call", `{"code":-32000,"message":"insufficient funds for gas * price + value"}`, Final)
	f("evm", "eth_call", `{"code":-32602,"message":"invalid argument 0: hex string without 0x prefix"}`, Final)
	f("evm", "eth_feeHistory",
		`{"code":-32602,"message":"invalid argument 1: rate limit, too many requests, quota, unauthorized, method not found"}`, Final)
	f("evm", "debug_traceCall", `{"code":-32000,"message":"method not found    in server-side tracer function 'step'"}`,
		Final)
	f("evm", "debug_traceCall",
		`{"code":-32000,"message":"the method debug_traceCall does not exist/is not available"}`, Final)
	// other parties' words: a tracer's, a contract's
	f("evm", "eth_call", `{"code":-32000,"message":"Rate limit exceeded"}`, Final)
	f("evm", "eth_call", `{"message":"Monthly quota reached"}`, Final)
	f("evm", "eth_call", `{"code":"429","message":"rate limit"}`, Final) // no number: no service's code
	f("evm", "eth_call", `"Unauthorized: invalid api key"`, Final)
	f("evm", "eth_call", `{"code":-32000,"message":"already known"}`, Final) // of no transaction
	f("evm", "eth_call", `{"code":-32000,"message":"exceeds block gas limit"}`, Final)
	f("evm", "eth_getLogs", `{"code":-32005,"message":"query returned more than 10000 results. Try with this block range [0x1, 0x2]."}`, Final)
	f("evm", "eth_getLogs", `{"code":-32005,"message":"Requested range exceeds maximum RPC range limit"}`, Final)
	f("evm", "eth_call", `{"code":-32016,"message":"account locked"}`, Final)
	f("evm", "eth_call", `{"code":-32005,"message":"daily request count exceeded, request rate limited","data":{"see":"https://infura.io/dashboard"}}`, Busy)
	f("evm", "", `{"code":-32005,"message":"daily request count exceeded, request rate limited"}`, Busy)
	f("evm", "eth_call", `{"code":-32007,"message":"15/second request limit reached"}`, Busy)
	f("evm", "eth_call", `{"code":-32016,"message":"over rate limit"}`, Busy)
	f("evm", "eth_call", `{"code":-32029,"message":"Too many requests"}`, Busy)
	f("evm", "eth_call", `{"code":429,"message":"Your app has exceeded its compute units per second capacity."}`, Busy)
	f("evm", "eth_call", `{"code":-32097,"message":"rate-limited"}`, Busy)
	f("evm", "trace_block", `{"code":-32601,"message":"the method trace_block does not exist/is not available"}`,
		Lacking)
	f("evm", "trace_block", `{"code":-32004,"message":"Method not supported"}`, Lacking)
	f("evm", "eth_sendRawTransaction", `{"code":-32000,"message":"already known"}`, Known)
	f("evm", "eth_sendRawTransaction",
		`{"code":-32010,"message":"Transaction with the same hash was already imported."}`, Known)
	f("evm", "eth_sendRawTransaction", `{"code":-32000,"message":"ALREADY_EXISTS: already known"}`, Known)
	f("evm", "eth_sendRawTransaction", `{"code":-32000,"message":"nonce too low: next nonce 7, tx nonce 6"}`, Spent)
	f("evm", "eth_sendRawTransaction", `{"code":-32000,"message":"Nonce too low. Expected nonce to be 3 but got 2."}`,
		Spent)
	f("evm", "eth_sendRawTransaction",
		`{"code":-32000,"message":"the tx doesn't have the correct nonce. account has nonce of: 1 tx has nonce of: 0","stack":"Error: …"}`, Spent)
	f("solana", "getSlot", `{"code":-32005,"message":"Node is behind by 42 slots","data":{"numSlotsBehind":42}}`, Busy)
	f("solana", "getSlot", `{"code":-32016,"message":"Minimum context slot has not been reached"}`, Behind)
	f("solana", "getBlock", `{"code":-32007,"message":"Slot 5 was skipped, or missing due to ledger jump to recent snapshot"}`, Final)
	f("solana", "getBlock", `{"code":-32004,"message":"Block not available for slot 5"}`, Final)
	f("solana", "sendTransaction",
		`{"code":-32002,"message":"Transaction simulation failed: This transaction has already been processed"}`, Known)
	f("solana", "getBlock", `{"code":-32601,"message":"Method not found"}`, Lacking)
	f("starknet", "starknet_call", `{"code":20,"message":"Contract not found"}`, Final)
	f("starknet", "starknet_call", `{"code":-32005,"message":"request rate limited"}`, Busy)
	// Cut off behind the part that is kept.
	f("evm", "eth_call", `{"code":-32005,"message":"request rate limited","data":"0x00000000`, Busy)
	f("evm", "eth_call", ``, Final)
}

// A method that one account's requests find missing is missing for that account; for all
// it is once another one has met it.
func TestLearntNeedsTwoAccounts(t *testing.T) {
	var l learnedRefusal
	now := int64(time.Hour)
	check := func(account uint64, nowNs int64, want bool) {
		t.Helper()
		if l.holds(account, nowNs) != want {
			t.Errorf("it holds for %d: %v", account, !want)
		}
	}
	check(1, now, false)
	l.met(1, now)
	l.met(1, now+1)
	check(1, now+2, true)
	check(2, now+2, false)
	l.met(2, now+3)
	check(3, now+4, true)
	check(3, now+3+int64(refusalTTL), false)
	l.met(1, now+int64(2*refusalTTL))
	l.met(2, now+int64(4*refusalTTL)) // the first is long forgotten
	check(3, now+int64(4*refusalTTL), false)
}

// The table has the methods of the specification, and none that must not be sold.
func TestMethodTables(t *testing.T) {
	f := func(family, method string, tier int64, class Class) {
		t.Helper()
		m := FamilyOf(family).Find([]byte(method))
		if m == nil || m.Tier != tier || m.Class != class {
			t.Errorf("%s of %s is %+v, want tier %d, class %d", method, family, m, tier, class)
		}
	}
	f("evm", "eth_call", 1, Read)
	f("evm", "eth_getLogs", 1, Heavy)
	f("evm", "eth_sendRawTransaction", 1, Write)
	f("evm", "eth_sendUserOperation", 1, Write)
	f("evm", "zks_getProof", 1, Read)
	f("evm", "linea_estimateGas", 1, Read)
	f("evm", "bor_getAuthor", 1, Read)
	f("evm", "debug_traceTransaction", 2, Heavy)
	f("evm", "arbtrace_call", 2, Heavy)
	f("evm", "txpool_status", 2, Heavy)
	f("evm", "trace_replayTransaction", 4, Heavy)
	f("evm", "txpool_content", 4, Heavy)
	f("solana", "getBalance", 1, Read)
	f("solana", "sendTransaction", 1, Write)
	f("solana", "getSupply", 4, Heavy)
	f("starknet", "starknet_call", 1, Read)
	f("starknet", "starknet_addInvokeTransaction", 1, Write)
	for family, names := range map[string][]string{
		"evm": {"eth_accounts", "eth_sign", "eth_sendTransaction", "eth_newFilter", "eth_subscribe", "debug_setHead",
			"admin_peers", "personal_sign", "miner_start", "engine_newPayloadV3",
			"getBalance", "starknet_call", "evm_mine", "hardhat_setBalance", "anvil_setBalance", "Eth_call",
			"eth_call "},
		"solana":   {"eth_call", "accountSubscribe", "getConfirmedBlock", "getAsset"},
		"starknet": {"eth_call", "starknet_subscribeNewHeads"},
	} {
		for _, name := range names {
			if m := FamilyOf(family).Find([]byte(name)); m != nil {
				t.Errorf("%s is served on %s", name, family)
			}
			if FamilyOf(family).Reason([]byte(name)) == "" {
				t.Errorf("%s is refused without a reason", name)
			}
		}
	}
	for _, name := range []string{"evm", "solana", "starknet"} {
		f := FamilyOf(name)
		if f.Head == nil || f.Head.Class != Read {
			t.Errorf("%s has no method for its head", name)
		}
		if lookMethods[name] != "" && f.Find([]byte(lookMethods[name])) == nil {
			t.Errorf("%s has no method to look a transaction up", name)
		}
	}
	if n := len(FamilyOf("evm").Match("trace_*")); n != 9 {
		t.Errorf("trace_* means %d methods", n)
	}
}
