package wallet_test

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"farebox/billing"
	"farebox/billing/store"
	"farebox/providers/x402/payer"
)

// The order of refusals is that of the specification: refusals that need no ledger come
// first.
func TestRefusalsOfTheLedgerComeInOrder(t *testing.T) {
	s := openShop(t, paid(), `deny: ["0x70997970C51812dc3A010C7d01b50e0d17dc79C8"]`)
	p, other := newPayer(t), newPayer(t)
	s.credit(p, 5_000_000_000)
	address := p.Address().Checksummed()
	for _, path := range []string{"/x402/balance/", "/x402/transactions/"} {
		f := func(name, wallet, sign string, status int, code string) {
			t.Helper()
			var headers []string
			if sign != "" {
				headers = []string{"X-Sign-In-With-X", sign}
			}
			if r := s.tell("GET", path+wallet, "", headers...); r.status != status || r.Get("code").Str != code {
				t.Errorf("%s%s: answered %s, not %d %s", path, name, r, status, code)
			}
		}
		f("no address", "me", "", 400, "INVALID_REQUEST")
		f("wrong checksum", strings.ToLower(address[:30])+strings.ToUpper(address[30:]), signIn(p, path), 400,
			"INVALID_REQUEST")
		f("no sign-in", address, "", 401, "X402_INVALID_SIGN_IN")
		f("garbage", address, "garbage!", 401, "X402_SIGN_IN_INVALID_PAYLOAD")
		f("somebody else's signature", address, signAs(other, p.Address(), path), 401, "X402_SIGN_IN_INVALID_SIGNATURE")
		f("somebody else", address, signIn(other, path), 403, "X402_WALLET_MISMATCH")
		f("no ledger", other.Address().String(), signIn(other, path), 404, "NOT_FOUND")
		f("all well", strings.ToLower(address), signIn(p, path), 200, "")
		f("all well, in capitals", "0x"+strings.ToUpper(address[2:]), signIn(p, path), 200, "")
	}
	if r := s.tell("GET", "/x402/transactions/"+address+"?limit=101", ""); r.status != 400 {
		t.Errorf("a page of 101 is answered %s", r)
	}
}

func TestAWalletReadsItsBalanceAndTransactions(t *testing.T) {
	s := openShop(t, paid())
	p := newPayer(t)
	address := p.Address().String()
	s.credit(p, 5_000_000_000)
	if r := s.chat(p); r.status != 200 {
		t.Fatalf("a chat is answered %s", r)
	}
	r := s.tell("GET", "/x402/balance/"+address, "", "SIGN-IN-WITH-X", signIn(p, "/x402/balance"))
	// 10 tokens at 1 USD and 50 at 1000 USD a million are 0.05001 USD.
	if r.Get("data.balanceUsd").Raw != "4.94999" || !r.Get("data.canConsume").Bool() ||
		r.Get("data.minimumTopUpUsd").Raw != "5" || r.Get("data.suggestedTopUpUsd").Raw != "10" ||
		r.Get("data.walletAddress").Str != address || r.Get("data.diemBalanceUsd").Exists() {
		t.Errorf("the balance is answered %s", r)
	}
	r = s.tell("GET", "/x402/transactions/"+address, "", "SIGN-IN-WITH-X", signIn(p, "/x402/transactions"))
	list := r.Get("data.transactions").Array()
	if len(list) != 3 || r.Get("data.currentBalance").Raw != "4.94999" || r.Get("data.pagination.hasMore").Bool() ||
		r.Get("data.pagination.limit").Int() != 50 {
		t.Fatalf("the transactions are answered %s", r)
	}
	last := list[2]
	if last.Get("type").Str != "TOP_UP" || last.Get("amount").Raw != "5" || last.Get("balanceAfter").Raw != "5" ||
		last.Get("requestId").Raw != "null" || last.Get("modelId").Raw != "null" {
		t.Errorf("the top-up is %s", last.Raw)
	}
	if list[0].Get("type").Str != "CHARGE" || list[0].Get("amount").Float() >= 0 ||
		list[0].Get("modelId").Str != "chat" || len(list[0].Get("requestId").Str) != 32 ||
		list[0].Get("balanceAfter").Raw != "4.94999" {
		t.Errorf("a charge is %s", list[0].Raw)
	}
}

func TestRequestsOfAWalletAreLimited(t *testing.T) {
	s := openShop(t, paid(), "balance_per_wallet: 1", "transactions_per_wallet: 1")
	p, other := newPayer(t), newPayer(t)
	s.credit(p, 5_000_000_000)
	s.credit(other, 5_000_000_000)
	for _, path := range []string{"/x402/balance/", "/x402/transactions/"} {
		if r := s.tell("GET", path+p.Address().String(), "", "SIGN-IN-WITH-X", signIn(p, path)); r.status != 200 {
			t.Errorf("%s: answered %s", path, r)
		}
		r := s.tell("GET", path+p.Address().String(), "", "SIGN-IN-WITH-X", signIn(p, path))
		if r.status != 429 || r.header.Get("Retry-After") == "" {
			t.Errorf("%s: the second is answered %s", path, r)
		}
		if r := s.tell("GET", path+other.Address().String(), "", "SIGN-IN-WITH-X", signIn(other, path)); r.status != 200 {
			t.Errorf("%s: another wallet is answered %s", path, r)
		}
	}
}

// "Somebody who saw my request sent it once more."
func TestASignInHoldsOnce(t *testing.T) {
	s := openShop(t, paid())
	p := newPayer(t)
	s.credit(p, 5_000_000_000)
	header := signIn(p, "/chat/completions")
	if r := s.tell("POST", "/chat/completions", chatBody, "SIGN-IN-WITH-X", header); r.status != 200 {
		t.Fatalf("answered %s", r)
	}
	for _, path := range []string{"/chat/completions", "/x402/balance/" + p.Address().String()} {
		method, body := "POST", chatBody
		if strings.HasPrefix(path, "/x402") {
			method, body = "GET", ""
		}
		if r := s.tell(method, path, body, "SIGN-IN-WITH-X", header); r.status != 401 ||
			r.Get("code").Str != "X402_SIGN_IN_NONCE_REUSED" {
			t.Errorf("%s: the second time it is answered %s", path, r)
		}
	}
}

// Agents sign once for several calls, if the operator allows it.
func TestAReusableSignInHoldsForSeveralRequests(t *testing.T) {
	s := openShop(t, paid(), "sign_in: { nonce: reusable }")
	p := newPayer(t)
	s.credit(p, 5_000_000_000)
	header := signIn(p, "/chat/completions")
	for range 3 {
		if r := s.tell("POST", "/chat/completions", chatBody, "SIGN-IN-WITH-X", header); r.status != 200 {
			t.Errorf("answered %s", r)
		}
	}
}

// The header has the exact balance, because packages show it to their users.
func TestAnswersHaveTheBalanceOfTheWallet(t *testing.T) {
	s := openShop(t, paid())
	p := newPayer(t)
	s.credit(p, 5_000_000_000)
	if r := s.chat(p); r.header.Get("X-Balance-Remaining") != "4.949990" {
		t.Errorf("left is %q", r.header.Get("X-Balance-Remaining"))
	}
	if r := s.tell("POST", "/chat/completions", chatBody, "Authorization", "Bearer "+s.Secret); r.status != 200 ||
		r.header.Get("X-Balance-Remaining") != "" {
		t.Errorf("with a key: %s, %v", r, r.header)
	}
	// If both are sent, the wallet pays.
	r := s.tell("POST", "/chat/completions", chatBody, "SIGN-IN-WITH-X", signIn(p, "/chat/completions"), "Authorization",
		"Bearer "+s.Secret)
	if r.header.Get("X-Balance-Remaining") != "4.899980" {
		t.Errorf("with both, left is %q: %s", r.header.Get("X-Balance-Remaining"), r)
	}
}

// A refusal for a low balance names the balance and how to top up, without further
// lookups.
func TestAWalletWithTooLittleReadsHowToTopUp(t *testing.T) {
	s := openShop(t, paid(), "min_top_up: 0.01")
	poor, stranger := newPayer(t), newPayer(t)
	s.credit(poor, 50_000_000)
	for has, p := range map[string]*payer.EVM{"0.05": poor, "0": stranger} {
		r := s.tell("POST", "/chat/completions", chatBody, "SIGN-IN-WITH-X",
			signIn(p, "/chat/completions"))
		if r.status != 402 || r.Get("error").Str != "Payment required" || r.Get("code").Str != "PAYMENT_REQUIRED" ||
			r.Get("reason").Str != "insufficient_balance" || r.Get("currentBalanceUsd").Raw != has ||
			r.Get("minimumBalanceUsd").Raw != "0.1" || r.Get("suggestedTopUpUsd").Raw != "10" ||
			r.Get("minimumTopUpUsd").Raw != "0.01" || r.Get("supportedTokens").Raw != `["USDC"]` ||
			r.Get("supportedChains").Raw != `["base"]` || r.Get("topUpInstructions.receiverWallet").Str != payTo ||
			r.Get("topUpInstructions.tokenDecimals").Int() != 6 || r.Get("siwxChallenge.info.domain").Str != "shop.test" {
			t.Errorf("answered %s", r)
		}
		if said := decoded(r.header.Get("PAYMENT-REQUIRED")); said.Get("accepts.0.amount").Str != "10000000" {
			t.Errorf("the header says %s", said.Raw)
		}
	}
}

// A wallet costs nothing, so failures of many wallets count for the address that sends
// them.
func TestFailuresOfWalletsCountForTheirAddress(t *testing.T) {
	s := openShop(t, paid())
	blocked := false
	for range 6 {
		p := newPayer(t)
		s.credit(p, 5_000_000_000)
		r := s.tell("POST", "/chat/completions", `{"model":"chat","messages":[]}`, "SIGN-IN-WITH-X",
			signIn(p, "/chat/completions"))
		blocked = blocked || r.status == 429
	}
	if !blocked {
		t.Error("six wallets failed from one address, where three may")
	}
	if r := s.tell("POST", "/chat/completions", chatBody, "Authorization", "Bearer "+s.Secret); r.status != 200 {
		t.Errorf("a key is answered %s", r)
	}
}

// One wallet gets no more than its share of the gateway.
func TestTooManyRequestsOfAWalletAtATime(t *testing.T) {
	s := openShop(t, paid(), "max_in_flight: 2")
	p := newPayer(t)
	s.credit(p, 5_000_000_000)
	key, err := s.Ledger.Wallets().Key(netip.Addr{}, p.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !s.Ledger.TryAcquire(key.Account, 2) {
			t.Fatal("a slot is taken already")
		}
	}
	header := signIn(p, "/chat/completions")
	r := s.tell("POST", "/chat/completions", chatBody, "SIGN-IN-WITH-X", header)
	if r.status != 429 || r.Get("code").Str != "X402_CONCURRENCY_LIMIT" || r.header.Get("Retry-After") == "" {
		t.Errorf("the third is answered %s", r)
	}
	s.Ledger.Release(key.Account)
	if r := s.tell("POST", "/chat/completions", chatBody, "SIGN-IN-WITH-X", header); r.status != 200 {
		t.Errorf("afterwards, with the same header, it is answered %s", r)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { s.chat(p) })
	}
	all.Wait()
	if r := s.chat(p); r.status != 200 {
		t.Errorf("slots were not released: %s", r)
	}
	s.Ledger.Release(key.Account)
}

// A contract is asked for wallets with a ledger alone: each question costs, and any
// client can make one up.
func TestContractsAreAskedForKnownWalletsOnly(t *testing.T) {
	d := paid()
	s := openShop(t, d)
	p, contract := newPayer(t), newPayer(t)
	sign := func() string { return signAs(p, contract.Address(), "/chat/completions") }
	if r := s.tell("POST", "/chat/completions", chatBody, "SIGN-IN-WITH-X", sign()); r.status != 402 || d.asked != 0 {
		t.Errorf("an unknown wallet is answered %s, and %d questions were asked", r, d.asked)
	}
	s.credit(contract, 5_000_000_000)
	if r := s.tell("POST", "/chat/completions", chatBody, "SIGN-IN-WITH-X", sign()); r.status != 401 ||
		r.Get("code").Str != "X402_SIGN_IN_INVALID_SIGNATURE" || d.asked != 1 {
		t.Errorf("a signature that the contract rejects is answered %s, and %d questions were asked", r, d.asked)
	}
	d.set(func(d *client) { d.signed = true })
	if r := s.tell("POST", "/chat/completions", chatBody, "SIGN-IN-WITH-X", sign()); r.status != 200 {
		t.Errorf("a signature that the contract accepts is answered %s", r)
	}
	d.set(func(d *client) { d.away = http.ErrHandlerTimeout })
	if r := s.tell("POST", "/chat/completions", chatBody, "SIGN-IN-WITH-X", sign()); r.status != 503 ||
		r.header.Get("Retry-After") == "" {
		t.Errorf("while no node answers, it is answered %s", r)
	}
}

// A captured request of a wallet cannot be used to link the wallet.
func TestAWalletIsLinkedByWhatItSignedForThat(t *testing.T) {
	s := openShop(t, paid(), "link: admin")
	p := newPayer(t)
	admin := s.admin()
	f := func(name, key, sign string, status int) reply {
		t.Helper()
		r := s.tell("POST", "/x402/link", "", "Authorization", "Bearer "+key, "SIGN-IN-WITH-X", sign)
		if r.status != status {
			t.Errorf("%s: answered %s, not %d", name, r, status)
		}
		return r
	}
	f("an INFERENCE key", s.Secret, signIn(p, "/x402/link"), 403)
	f("what was signed for a chat", admin, signIn(p, "/chat/completions"), 401)
	header := signIn(p, "/x402/link")
	f("all well", admin, header, 200)
	f("once more", admin, header, 401)
	f("linked already", admin, signIn(p, "/x402/link"), 409)
	if r := s.chat(p); r.status != 200 || r.header.Get("X-Balance-Remaining") != "999.949990" {
		t.Errorf("a chat of the linked wallet is answered %s, left is %q", r, r.header.Get("X-Balance-Remaining"))
	}
	none := openShop(t, paid())
	if r := none.tell("POST", "/x402/link", "", "Authorization", "Bearer "+none.admin(), "SIGN-IN-WITH-X",
		signIn(p, "/x402/link")); r.status != 404 {
		t.Errorf("where only the operator links, it is answered %s", r)
	}
}

// admin is an ADMIN key of the account of Secret.
func (s *shop) admin() string {
	s.Helper()
	key, err := billing.Do(s.Ledger, billing.CreateKey{NewKey: billing.NewKey{Account: "a", Type: store.Admin}})
	if err != nil {
		s.Fatal(err)
	}
	return key.Secret
}
