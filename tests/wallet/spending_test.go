package wallet

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/chain"
	"farebox/config"
	"farebox/tests/rig"
)

// nano reads a decimal of an answer exactly; it may be below zero.
func nano(t *testing.T, n gjson.Result) rig.Money {
	t.Helper()
	text := n.Raw
	if n.Type == gjson.String {
		text = n.Str
	}
	abs, below := strings.CutPrefix(text, "-")
	v, err := config.ParseNano(abs)
	if err != nil {
		t.Fatalf("%q is not an amount: %v", text, err)
	}
	if below {
		v = -v
	}
	return rig.Money(v)
}

// transactions are a wallet's, newest first.
func (s *shop) transactions(p *chain.Payer, query string) reply {
	s.T.Helper()
	return s.tell("GET", "/x402/transactions/"+p.Address+query, "", signInHeader, signIn(p))
}

// A wallet alone pays for everything that is sold, to the nano.
func TestAWalletPaysForEverythingThatIsSold(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	for _, p := range []*chain.Payer{s.customer(chain.NewPayer(), 5*usd), s.customer(chain.NewSolanaPayer(), 5*usd)} {
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		part, err := w.CreateFormFile("file", "a.txt")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write([]byte("Hello, world"))
		_ = w.Close()
		left := rig.Money(5_000_000_000)
		for _, c := range []struct{ name, path, body, kind string }{
			{"a chat", "/chat/completions", chatBody(""), ""},
			{"a stream", "/chat/completions", chatBody(`,"stream":true`), ""},
			{"a response", "/responses", `{"model":"sim-chat","input":"[[sim tokens=8]] Hello"}`, ""},
			{"a picture", "/image/generate", `{"model":"sim-image","prompt":"a square"}`, ""},
			{"speech", "/audio/speech", `{"model":"sim-speech","input":"Hello","voice":"alloy"}`, ""},
			{"a document", "/augment/text-parser", form.String(), w.FormDataContentType()},
			{"a call", "/crypto/rpc/base-mainnet", `{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}`, ""},
		} {
			kind := c.kind
			if kind == "" {
				kind = "application/json"
			}
			r := s.tell("POST", c.path, c.body, signInHeader, signIn(p), "Content-Type", kind, "Authorization",
				"Bearer none")
			if r.status != 200 {
				t.Errorf("%s: %.300s", c.name, r)
				continue
			}
			shown := r.header.Get("X-Balance-Remaining")
			if len(shown) < 8 || shown[len(shown)-7] != '.' {
				t.Errorf("%s: X-Balance-Remaining is %q", c.name, shown)
			}
			now := left
			rig.Await(t, c.name+" is charged", func() bool {
				s.Settled()
				now = nano(t, s.balance(p).Get("data.balanceUsd"))
				return now < left
			})
			// The header is sent before a stream's end, and otherwise as it is afterwards.
			told := nano(t, gjson.Result{Type: gjson.String, Str: shown})
			if off := told - now; c.name != "a stream" && (off > 1000 || off < -1000) {
				t.Errorf("%s: X-Balance-Remaining says %s, and there are %s", c.name, told, now)
			}
			left = now
		}
		r := s.transactions(p, "?limit=100")
		sum, charges := rig.Money(0), 0
		for _, row := range r.Get("data.transactions").Array() {
			sum += nano(t, row.Get("amount"))
			if row.Get("type").Str == "CHARGE" {
				charges++
			}
		}
		if sum != left || charges < 7 {
			t.Errorf("%d charges and the payments make %s, and the balance is %s", charges, sum, left)
		}
	}
	s.verified()
}

// Below 0.10 USD nothing begins, and the answer says how to pay; with it nothing more is
// spent than there is.
func TestAWalletThatIsShortReadsHowToPay(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{x402: "min_balance: 4.99999"})
	p := s.customer(chain.NewPayer(), 5*usd)
	if r := s.spend(p, ""); r.status != 200 {
		t.Fatalf("answered %s", r)
	}
	s.Settled()
	r := s.spend(p, "")
	if r.status != 402 || r.Get("error").Str != "Payment required" || r.Get("code").Str != "PAYMENT_REQUIRED" ||
		r.Get("reason").Str != "insufficient_balance" || r.Get("minimumBalanceUsd").Raw != "4.99999" ||
		r.Get("suggestedTopUpUsd").Raw != "10" || r.Get("minimumTopUpUsd").Raw != "5" ||
		r.Get("supportedTokens").Raw != `["USDC"]` || r.Get("supportedChains").Raw != `["base","solana"]` {
		t.Errorf("answered %s", r)
	}
	if nano(t, r.Get("currentBalanceUsd")) != nano(t, s.balance(p).Get("data.balanceUsd")) {
		t.Errorf("it says that there are %s", r.Get("currentBalanceUsd").Raw)
	}
	how := r.Get("topUpInstructions")
	if !strings.EqualFold(how.Get("receiverWallet").Str, payEVM) ||
		!strings.EqualFold(how.Get("tokenAddress").Str, chain.USDC) || how.Get("tokenDecimals").Int() != 6 ||
		how.Get("network").Str != base || how.Get("minimumAmountUsd").Raw != "5" ||
		how.Get("step1").Str == "" || how.Get("step2").Str == "" || how.Get("step3").Str == "" {
		t.Errorf("the instructions are %s", how.Raw)
	}
	ask := r.Get("siwxChallenge")
	if ask.Get("info.domain").Str != domain || !ask.Get("supportedChains.0.chainId").Exists() {
		t.Errorf("the sign-in that is asked for is %s", ask.Raw)
	}
	header := decoded(r.header.Get("PAYMENT-REQUIRED"))
	if header.Get("x402Version").Int() != 2 || !header.Get("accepts.0").Exists() {
		t.Errorf("PAYMENT-REQUIRED says %s", header.Raw)
	}
	if s.balance(p).Get("data.canConsume").Bool() {
		t.Error("the balance says that it can consume")
	}
	if r := s.pay(s.sign(p, 5*usd)); r.status != 200 {
		t.Errorf("a second top-up is answered %s", r)
	}
	if r := s.spend(p, ""); r.status != 200 {
		t.Errorf("after it the chat is answered %s", r)
	}
	s.verified()
}

// The default floor is 0.10 USD.
func TestTheFloorIsTenCents(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{x402: "min_top_up: 0.05"})
	p := s.customer(chain.NewPayer(), 99_999)
	if r := s.spend(p, ""); r.status != 402 || r.Get("minimumBalanceUsd").Raw != "0.1" ||
		r.Get("currentBalanceUsd").Raw != "0.099999" {
		t.Errorf("with less: %s", r)
	}
	s.customer(p, 50_000)
	if r := s.spend(p, ""); r.status != 200 {
		t.Errorf("with more: %s", r)
	}
	s.verified()
}

// Five requests of a wallet may be under way, streams to their end.
func TestFiveRequestsOfAWalletAreUnderWay(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	p, other := s.customer(chain.NewPayer(), 5*usd), s.customer(chain.NewPayer(), 5*usd)
	slow := rig.Ask("sim-chat", "[[sim tokens=8 gap_ms=1000]] Hello", `,"stream":true`)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			r, err := tell(s.Gateway, "POST", "/chat/completions", slow, signInHeader, signIn(p))
			if err != nil || r.status != 200 {
				t.Errorf("one of five: %v %s", err, r)
			}
		})
	}
	rig.Await(t, "five are under way", func() bool { return s.sim.Stats().Open == 5 })
	if r := s.spend(p, ""); r.status != 429 || r.Get("code").Str != "X402_CONCURRENCY_LIMIT" ||
		r.header.Get("Retry-After") == "" {
		t.Errorf("the sixth is answered %s", r)
	}
	if r := s.spend(other, ""); r.status != 200 {
		t.Errorf("another wallet is answered %s", r)
	}
	all.Wait()
	if r := s.spend(p, ""); r.status != 200 {
		t.Errorf("afterwards: %s", r)
	}
	s.verified()
}

// A payment belongs to the top-up; elsewhere it is refused and not used.
func TestAPaymentElsewhereIsNotUsed(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	p := s.customer(chain.NewPayer(), 5*usd)
	payment := s.sign(p, 5*usd)
	for _, header := range []string{"PAYMENT-SIGNATURE", "X-402-Payment", "X-PAYMENT"} {
		for _, path := range []string{"/chat/completions", "/image/generate", "/crypto/rpc/base-mainnet"} {
			r := s.tell("POST", path, chatBody(""), header, payment.header(), signInHeader, signIn(p))
			if r.status != 400 || r.Get("code").Str != "PAYMENT_HEADER_NOT_ACCEPTED" {
				t.Errorf("%s on %s: %s", header, path, r)
			}
		}
	}
	if n := len(s.evm.Moves()); n != 1 {
		t.Errorf("%d payments moved", n)
	}
}

// Transactions come newest first, page by page, each with the balance after it.
func TestTransactionsComePageByPage(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	p := s.customer(chain.NewPayer(), 5*usd)
	for range 3 {
		s.customer(p, 5*usd)
		if r := s.spend(p, ""); r.status != 200 {
			t.Fatalf("answered %s", r)
		}
	}
	s.Settled()
	var all []gjson.Result
	rig.Await(t, "all of it is listed", func() bool {
		r := s.transactions(p, "")
		all = r.Get("data.transactions").Array()
		return r.status == 200 && len(all) >= 10
	})
	if r := s.transactions(p, ""); r.Get("data.pagination").Raw != `{"limit":50,"offset":0,"hasMore":false}` ||
		r.Get("data.walletAddress").Str != p.Address ||
		nano(t, r.Get("data.currentBalance")) != nano(t, s.balance(p).Get("data.balanceUsd")) {
		t.Errorf("the list is %s", r)
	}
	balance := rig.Money(0)
	seen := map[string]bool{}
	for i := len(all) - 1; i >= 0; i-- {
		row := all[i]
		amount := nano(t, row.Get("amount"))
		balance += amount
		if nano(t, row.Get("balanceAfter")) != balance {
			t.Errorf("after %s there were %s", row.Raw, balance)
		}
		kind := row.Get("type").Str
		if (kind == "TOP_UP") != (amount > 0) || kind != "TOP_UP" && kind != "CHARGE" || seen[row.Get("id").Str] {
			t.Errorf("a row is %s", row.Raw)
		}
		seen[row.Get("id").Str] = true
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", row.Get("createdAt").Str); err != nil {
			t.Errorf("a row is of %s", row.Get("createdAt").Raw)
		}
		if kind == "CHARGE" && (row.Get("modelId").Str != "sim-chat" || row.Get("requestId").Str == "") ||
			!row.Get("modelId").Exists() || !row.Get("requestId").Exists() {
			t.Errorf("a row is %s", row.Raw)
		}
	}
	var paged []string
	for offset := 0; ; offset += 3 {
		r := s.transactions(p, fmt.Sprintf("?limit=3&offset=%d", offset))
		for _, row := range r.Get("data.transactions").Array() {
			paged = append(paged, row.Raw)
		}
		if more := r.Get("data.pagination.hasMore").Bool(); more != (len(paged) < len(all)) {
			t.Errorf("at %d hasMore is %v", offset, more)
		} else if !more {
			break
		}
	}
	for i, row := range all {
		if i >= len(paged) || paged[i] != row.Raw {
			t.Errorf("row %d of the pages is not %s", i, row.Raw)
			break
		}
	}
	for _, query := range []string{"?limit=0", "?limit=101", "?limit=x", "?offset=-1", "?limit=1.5"} {
		if r := s.transactions(p, query); r.status != 400 {
			t.Errorf("%s: %s", query, r)
		}
	}
}

// A wallet that lets its credit go to an account spends that account's.
func TestALinkedWalletSpendsItsAccount(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{x402: "link: admin"})
	id := s.NewAccount("team", "20")
	admin, plain := s.Key("team", "--type", "ADMIN"), s.Key("team")
	p, rich := chain.NewPayer(), s.customer(chain.NewPayer(), 5*usd)
	link := func(p *chain.Payer, key, uri string) reply {
		header := chain.Header(p.SignInMembers(chain.SignIn{Domain: domain, URI: uri}))
		return s.tell("POST", "/x402/link", "{}", "Authorization", "Bearer "+key, signInHeader, header)
	}
	at := origin + "/api/v1/x402/link"
	if r := link(p, plain, at); r.status != 403 && r.status != 401 {
		t.Errorf("with a key other than ADMIN: %s", r)
	}
	if r := link(p, admin, origin+"/api/v1"); r.status != 401 {
		t.Errorf("with a message for something else: %s", r)
	}
	if r := link(rich, admin, at); r.status != 409 {
		t.Errorf("with credit of its own: %s", r)
	}
	if r := link(p, admin, at); r.status != 200 || r.Get("data.walletAddress").Str != p.Address {
		t.Fatalf("the link is answered %s", r)
	}
	s.customer(p, 5*usd)
	if r := s.spend(p, ""); r.status != 200 {
		t.Errorf("a chat of the wallet is answered %s", r)
	}
	team := s.Settled()["team"]
	if team.ID != id || team.USD <= 24_000_000_000 || team.USD >= 25_000_000_000 {
		t.Errorf("the account has %s", team.USD)
	}
	if r := s.balance(p); nano(t, r.Get("data.balanceUsd")) != team.USD {
		t.Errorf("the wallet sees %s", r)
	}
	s.verified()
	// And an operator links without a key of either.
	q := chain.NewPayer()
	s.CLI("wallet", "link", q.Address, "team")
	if r := s.spend(q, ""); r.status != 200 {
		t.Errorf("a wallet that the operator linked is answered %s", r)
	}
}
