package wallet

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/upstream/chain"
	"farebox/bench/upstream/facilitator"
	"farebox/bench/upstream/node"
	"farebox/tests/rig"
)

// A facilitator's word moves no money: the chain decides, whatever it says.
func TestTheChainDecidesWhateverTheFacilitatorSays(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{facilitator: ", settle_timeout: 3s, verify_timeout: 20s"})
	for _, c := range []struct {
		lie     chain.Lie
		status  string // that it may be answered with
		settled bool
	}{
		{facilitator.Claims, "504", false},
		{facilitator.Denies, "200", true},
		{facilitator.Loses, "200 503", true},
		{facilitator.HangsAfter, "200 503 504", true},
		{facilitator.Breaks, "200 503", true},
		{facilitator.Pending, "200", true},
		{facilitator.Late, "200 504", true},
		{facilitator.Twice, "200", true},
		{facilitator.Enlarges, "200", true},
		{facilitator.Misnames, "200", true},
		{facilitator.Garbage, "200 503", true},
		{facilitator.Floods, "200 503", true},
		{facilitator.Doubles, "200 503", true},
		{facilitator.Admits, "200", true},
		{facilitator.Declines, "402", false},
	} {
		for _, p := range []*chain.Payer{chain.NewPayer(), chain.NewSolanaPayer()} {
			// Verify tells the truth, so that all of them come to the settlement.
			s.facilitator.Draw(func(call string) chain.Lie {
				if call == "verify" {
					return ""
				}
				return c.lie
			})
			payment := s.sign(p, 5*usd)
			r := s.pay(payment)
			if !strings.Contains(c.status, r.String()[:3]) {
				t.Errorf("%q on %s: %.300s, not %s", c.lie, payment.network, r, c.status)
			}
			if r.status == 402 && r.Get("error").Str != "SETTLEMENT_FAILED" ||
				r.status == 504 && r.Get("error").Str != "SETTLEMENT_TIMEOUT" ||
				r.status >= 500 && r.header.Get("Retry-After") == "" {
				t.Errorf("%q: %.300s", c.lie, r)
			}
			s.facilitator.Always("")
			if c.settled {
				s.has(p, "5")
				continue
			}
			if r := s.balance(p); r.status != 404 {
				t.Errorf("%q: nothing moved, and the balance is answered %s", c.lie, r)
			}
			// The same payment again is taken up again, and settles once.
			if r := s.pay(payment); r.status != 200 {
				t.Errorf("%q: the same payment again is answered %s", c.lie, r)
			}
			s.has(p, "5")
		}
	}
	s.verified()
}

// verify's word is a hint, too: a yes to an invalid payment credits nothing, and a no to
// one that it settled behind our back loses nothing.
func TestLiesOfVerifyCostNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	p := chain.NewPayer()
	s.facilitator.Always(facilitator.Rejects)
	if r := s.pay(s.sign(p, 5*usd)); r.status == 200 {
		t.Logf("credited at once: %s", r)
	} else if r.status != 402 && r.status != 504 {
		t.Errorf("answered %s", r)
	}
	s.facilitator.Always("")
	s.has(p, "5")
	s.verified()
}

// A facilitator that cannot be asked was sent nothing: 503, and the same payment later.
func TestAFacilitatorThatIsAwayCostsNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{facilitator: ", settle_timeout: 10s, verify_timeout: 4s"})
	for _, lie := range []chain.Lie{facilitator.Down, facilitator.Hangs} {
		p := chain.NewPayer()
		payment := s.sign(p, 5*usd)
		s.facilitator.Always(lie)
		r := s.pay(payment)
		if lie == facilitator.Hangs && (r.status != 503 || r.header.Get("Retry-After") == "") {
			t.Errorf("%q: %s", lie, r)
		}
		s.facilitator.Always("")
		if r := s.pay(payment); r.status != 200 && r.status != 409 {
			t.Errorf("%q: later it is answered %s", lie, r)
		}
		s.has(p, "5")
	}
	s.verified()
}

// While a payment settles, another request with it gets an error that asks it to wait,
// and a payer that disconnects changes nothing.
func TestAPaymentThatSettlesSlowlyIsNotSentTwice(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{facilitator: ", settle_timeout: 10s"})
	ctx, leave := context.WithTimeout(t.Context(), time.Minute)
	defer leave()
	s.facilitator.Draw(func(call string) chain.Lie {
		if call == "settle" {
			leave() // its client does not wait for it
			return facilitator.HangsAfter
		}
		return ""
	})
	p := chain.NewPayer()
	payment := s.sign(p, 5*usd)
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL+topUp, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("PAYMENT-SIGNATURE", payment.header())
	if res, err := http.DefaultClient.Do(req); err == nil {
		_ = res.Body.Close()
		t.Fatalf("answered %d at once", res.StatusCode)
	}
	if r := s.pay(payment); r.status != 409 || r.Get("error").Str != "PAYMENT_IN_PROGRESS" ||
		r.header.Get("Retry-After") == "" {
		t.Errorf("meanwhile: %s", r)
	}
	s.facilitator.Always("")
	s.has(p, "5") // by the gateway alone
	if moves := s.evm.Moves(); len(moves) != 1 {
		t.Errorf("the chain has %+v", moves)
	}
	s.verified()
}

// One node that lies gains nothing, and one that is behind delays a payment for a while only.
func TestOneLyingNodeGainsNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	for _, lie := range []chain.Lie{chain.Invents, chain.Hides, chain.Inflates, chain.Diverts} {
		s.evmNode[0].Fault(node.Faults{Lie: lie})
		s.solanaNode[0].Fault(node.Faults{Lie: lie})
		s.facilitator.Draw(func(call string) chain.Lie {
			if call == "settle" && lie == chain.Invents {
				return facilitator.Claims
			}
			return ""
		})
		for _, p := range []*chain.Payer{chain.NewPayer(), chain.NewSolanaPayer()} {
			r := s.pay(s.sign(p, 5*usd))
			if lie == chain.Invents {
				if r.status == 200 {
					t.Errorf("%s: %s", lie, r)
				}
				time.Sleep(500 * time.Millisecond)
				if r := s.balance(p); r.status != 404 {
					t.Errorf("%s: the balance is answered %s", lie, r)
				}
				continue
			}
			if r.status == 200 && r.Get("data.amountCredited").Raw != "5" {
				t.Errorf("%s: %s", lie, r)
			}
			s.evmNode[0].Fault(node.Faults{})
			s.solanaNode[0].Fault(node.Faults{})
			s.has(p, "5")
		}
	}
	s.verified()
}

// Nodes that do not answer, or not in their language, delay a payment and lose none.
func TestNodesThatFailDelayAPayment(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	for _, f := range []node.Faults{
		{Status: 502}, {Truncate: true}, {Drop: true}, {Hidden: "infura"}, {Lag: 200}, {Empty: true}, {NoID: true},
		{Without: []string{"eth_getLogs"}},
	} {
		p := chain.NewPayer()
		payment := s.sign(p, 5*usd)
		for _, n := range s.evmNode {
			n.Fault(f)
		}
		if r := s.pay(payment); r.status == 402 || r.status == 400 {
			t.Errorf("%+v: %s", f, r)
		}
		for _, n := range s.evmNode {
			n.Fault(node.Faults{})
		}
		rig.Await(t, "the payment is taken", func() bool {
			r := s.pay(payment)
			if r.status == 402 || r.status == 400 {
				t.Fatalf("%+v: later %s", f, r)
			}
			return r.status == 200
		})
		s.has(p, "5")
	}
	s.verified()
}

// A credit that the chain takes back becomes a debt, and comes back with the payment.
func TestLongAReversedPaymentBecomesADebt(t *testing.T) {
	t.Parallel()
	rig.OnBothStores(t, func(t *testing.T, store string) {
		s := openShopOn(t, store, options{network: ", final_depth: 60"})
		p := s.customer(chain.NewPayer(), 5*usd)
		if r := s.spend(p, ""); r.status != 200 {
			t.Fatalf("a chat is answered %s", r)
		}
		left := s.balance(p).Get("data.balanceUsd").Raw
		hash := s.evm.Moves()[0].Hash
		if !s.evm.Reorganise(hash) {
			t.Fatal("the payment was not there")
		}
		// A transaction that disappeared is polled for a minute, since forks come and go.
		s.hasWithin(3*time.Minute, p, "0") // and spent money is owed
		if r := s.balance(p); r.Get("data.canConsume").Bool() {
			t.Errorf("an account in debt may consume: %s", r)
		}
		if r := s.spend(p, ""); r.status != 402 || r.Get("reason").Str != "insufficient_balance" {
			t.Errorf("an account in debt gets %s", r)
		}
		s.verified()
		if !s.evm.Restore(hash) {
			t.Fatal("the payment does not come back")
		}
		s.hasWithin(time.Minute, p, left) // its debt paid
		s.verified()
	})
}

// A payment that is pending survives a restart and a new config, and is finished by the
// next process.
func TestAPendingPaymentSurvivesRestartAndReload(t *testing.T) {
	t.Parallel()
	rig.OnBothStores(t, func(t *testing.T, store string) {
		s := openShopOn(t, store, options{facilitator: ", settle_timeout: 2s"})
		settled := func(lie chain.Lie) *chain.Payer {
			s.facilitator.Draw(func(call string) chain.Lie {
				if call == "settle" {
					return lie
				}
				return ""
			})
			for _, n := range s.evmNode { // the outcome cannot be found out
				n.Fault(node.Faults{Lag: 10_000})
			}
			p := chain.NewPayer()
			if r := s.pay(s.sign(p, 5*usd)); r.status != 504 && r.status != 503 {
				t.Errorf("answered %s", r)
			}
			return p
		}
		p := settled(facilitator.Loses)
		s.WriteConfig(s.config(options{facilitator: ", settle_timeout: 2s", x402: "min_top_up: 6"}))
		s.Signal(rig.Hangup)
		for _, n := range s.evmNode {
			n.Fault(node.Faults{})
		}
		s.has(p, "5")
		s.WriteConfig(s.config(options{facilitator: ", settle_timeout: 2s"}))
		s.Signal(rig.Hangup)
		rig.Await(t, "the config of before is in force", func() bool {
			return s.tell("POST", topUp, "").Get("accepts.0.amount").Str == "5000000"
		})
		p = settled(facilitator.Loses)
		s.Kill()
		for _, n := range s.evmNode {
			n.Fault(node.Faults{})
		}
		s.Start()
		s.has(p, "5")
		s.verified()
	})
}

// An authorization that was not brought onto the chain is over when its time is, and
// signed anew it is paid.
func TestAnUnsettledPaymentIsOver(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{facilitator: ", settle_timeout: 2s"})
	s.facilitator.Draw(func(call string) chain.Lie {
		if call == "settle" {
			return facilitator.Claims
		}
		return ""
	})
	p, q := chain.NewPayer(), chain.NewSolanaPayer()
	payments := []*signed{s.sign(p, 5*usd), s.sign(q, 5*usd)}
	var all sync.WaitGroup
	for _, payment := range payments {
		all.Go(func() {
			if r, err := tell(s.Gateway, "POST", topUp, "", "PAYMENT-SIGNATURE", payment.header()); r.status != 504 {
				t.Errorf("answered %s, %v", r, err)
			}
		})
	}
	all.Wait()
	s.evm.Skip(time.Hour)
	s.solana.Skip(2 * chain.HashSlots)
	for _, payment := range payments {
		rig.Await(t, "the payment is over", func() bool {
			r := s.pay(payment)
			return r.status == 402 && r.Get("error").Str == "PAYMENT_VERIFICATION_FAILED"
		})
	}
	rig.Await(t, "nothing is pending", func() bool {
		return !strings.Contains(string(s.CLI("wallet", "payments", "--json")), `"submitted"`)
	})
	for _, p := range []*chain.Payer{p, q} {
		if r := s.balance(p); r.status != 404 {
			t.Errorf("the balance is answered %s", r)
		}
	}
	s.verified()
}
