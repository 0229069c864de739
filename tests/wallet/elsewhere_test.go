package wallet

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"farebox/bench/upstream/chain"
	"farebox/tests/rig"
)

// Money also reaches pay_to without us: others settle authorizations for us, wallets send
// plain transfers, and a restored backup has forgotten payments.

// settledElsewhere is a payment that another party brought onto the chain.
func (w *world) settledElsewhere(p *chain.Payer, units int64) *signed {
	w.t.Helper()
	payment := w.sign(p, units)
	w.bring(payment)
	return payment
}

// bring brings a payment onto its chain without a gateway, and waits until it is there.
func (w *world) bring(payment *signed) (transaction string) {
	w.t.Helper()
	var err error
	if payment.network == solana {
		transaction, err = w.facilitator.Bring(payment.wire)
		w.solana.Wait()
	} else {
		transaction, err = w.evm.Pay(payment.auth, payment.payer.SignAuthorization(w.evm, payment.auth))
		w.evm.Wait()
		w.evm.Wait()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return transaction
}

// "Somebody settled my authorization before I sent it to you, and you told me to pay
// again": the chain proves it, so that it is credited, once, and no facilitator is asked.
func TestAPaymentThatSomebodyElseSettledIsCreditedOnce(t *testing.T) {
	t.Parallel()
	rig.OnBothStores(t, func(t *testing.T, store string) {
		s := openShopOn(t, store, options{})
		for _, p := range []*chain.Payer{chain.NewPayer(), chain.NewSolanaPayer()} {
			payment := s.settledElsewhere(p, 5*usd)
			first := s.pay(payment)
			if first.status != 200 || first.Get("data.amountCredited").Raw != "5" ||
				decoded(first.header.Get("PAYMENT-RESPONSE")).Get("transaction").Str == "" {
				t.Fatalf("on %s it is answered %s", payment.network, first)
			}
			again := s.tell("POST", topUp, "", "X-PAYMENT", payment.flat(1, short(payment)))
			if again.status != 200 || again.Raw != first.Raw {
				t.Errorf("again it is answered %s, first %s", again, first)
			}
			s.has(p, "5")
		}
		if n := s.facilitator.Calls("verify") + s.facilitator.Calls("settle"); n != 0 {
			t.Errorf("the facilitator was asked %d times", n)
		}
		s.verified()
	})
}

// Several nodes and shapes at once credit it once.
func TestAPaymentThatSomebodyElseSettledIsCreditedOnceByThreeNodes(t *testing.T) {
	t.Parallel()
	nodes := openChain(t, 3, options{})
	for _, p := range []*chain.Payer{chain.NewPayer(), chain.NewSolanaPayer()} {
		payment := nodes[0].settledElsewhere(p, 5*usd)
		headers := []string{payment.header(), payment.flat(1, short(payment)), payment.flat(2, payment.network)}
		answers := make([]reply, 9)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() {
				var err error
				if answers[i], err = tell(nodes[i%3].Gateway, "POST", topUp, "", "PAYMENT-SIGNATURE",
					headers[i/3]); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		credited := 0
		for _, r := range answers {
			if r.status == 200 {
				credited++
			} else if r.status != 409 {
				t.Errorf("answered %s", r)
			}
		}
		if credited == 0 {
			t.Error("no answer says that it was credited")
		}
		for _, s := range nodes {
			s.has(p, "5")
		}
	}
	nodes[0].verified()
}

// A store that was restored from a backup has forgotten the payments since. A payment that
// is sent again is credited, also when its authorization or its blockhash has expired.
func TestAPaymentThatARestoredStoreHasForgottenIsCreditedAgain(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	s.customer(chain.NewPayer(), 5*usd)
	backup := filepath.Join(t.TempDir(), "backup")
	s.CLI("backup", backup)
	p, q := chain.NewPayer(), chain.NewSolanaPayer()
	payments := []*signed{
		s.signAuthorization(p, p.Authorization(payEVM, 7*usd, time.Now().Add(20*time.Second))), s.sign(q, 7*usd)}
	for _, payment := range payments {
		if r := s.pay(payment); r.status != 200 {
			t.Fatalf("answered %s", r)
		}
		s.has(payment.payer, "7")
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s.Store = filepath.Join(t.TempDir(), "restored")
	s.CLI("restore", backup)
	s.solana.Skip(3 * chain.HashSlots)
	time.Sleep(time.Until(time.Unix(payments[0].auth.ValidBefore, 0)) + 100*time.Millisecond)
	s.Start()
	for _, payment := range payments {
		if r := s.balance(payment.payer); r.status != 404 {
			t.Fatalf("the restored store knows the wallet: %s", r)
		}
		for range 2 {
			if r := s.pay(payment); r.status != 200 || r.Get("data.newBalance").Raw != "7" {
				t.Errorf("the forgotten payment on %s is answered %s", payment.network, r)
			}
		}
		s.has(payment.payer, "7")
	}
	// A payment that expired and was never paid is refused as before.
	late := s.signAuthorization(p, p.Authorization(payEVM, 7*usd, time.Now().Add(-time.Minute)))
	if r := s.pay(late); r.status != 402 || r.Get("details.reason").Str != "authorization_expired" {
		t.Errorf("an expired payment is answered %s", r)
	}
	s.verified()
}

// A credit for a payment settled by others follows the chain like any other.
func TestLongAPaymentThatSomebodyElseSettledIsTakenBackWithItsBlock(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{network: ", final_depth: 3000"})
	p := chain.NewPayer()
	payment := s.sign(p, 5*usd)
	transaction := s.bring(payment)
	if r := s.pay(payment); r.status != 200 {
		t.Fatalf("answered %s", r)
	}
	s.evm.Reorganise(transaction)
	s.hasWithin(3*time.Minute, p, "0")
	s.verified()
}
