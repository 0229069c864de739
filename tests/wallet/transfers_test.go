package wallet

import (
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream/chain"
	"farebox/tests/rig"
)

// transfer is a transfer in the output of `farebox wallet transfers --json`.
type transfer struct {
	Transaction, Network, Payer, PaymentID, State string
	Index                                         int
	Units                                         int64
	Authorization                                 bool
	At                                            time.Time
}

// transfers lists the transfers to pay_to on a network.
func (s *shop) transfers(network string, args ...string) map[string]transfer {
	s.T.Helper()
	var list []transfer
	s.CLIJSON(&list, append([]string{"wallet", "transfers", "--network", network, "--since", "1h"}, args...)...)
	found := map[string]transfer{}
	for _, t := range list {
		found[t.Transaction] = t
	}
	if len(found) != len(list) {
		s.T.Errorf("transactions are listed twice: %+v", list)
	}
	return found
}

// foreign is money on Solana that came by another party's transaction.
func (w *world) foreign(p *chain.Payer, units int64) (signature string) {
	w.t.Helper()
	helper := chain.NewSolanaPayer()
	signature, err := helper.Bring(w.solana, p.Transaction(chain.Order{FeePayer: helper.Address, PayTo: paySVM,
		Mint: chain.SolanaUSDC, Units: units, Blockhash: w.solana.Blockhash()}))
	if err != nil {
		w.t.Fatal(err)
	}
	w.solana.Wait()
	return signature
}

// "A customer sent you money from an exchange and it is nobody's": the operator sees every
// transfer without a payment, and credits it to a wallet or an account, once.
func TestMoneyThatReachedPayToOtherwiseIsListedAndAssignedOnce(t *testing.T) {
	t.Parallel()
	rig.OnBothStores(t, func(t *testing.T, store string) {
		s := openShopOn(t, store, options{})
		s.CLI("account", "create", "--name", "acme")
		s.customer(chain.NewPayer(), 5*usd)
		s.customer(chain.NewSolanaPayer(), 5*usd)
		exchange, p, q := chain.NewPayer(), chain.NewPayer(), chain.NewSolanaPayer()
		plain := s.evm.Transfer(exchange.Address, payEVM, 3*usd)
		others := s.evm.Transfer(exchange.Address, p.Address, 4*usd)
		bySigned := s.sign(p, 6*usd)
		settled := s.bring(bySigned)
		onSolana := s.sign(q, 8*usd)
		landed, foreign := s.bring(onSolana), s.foreign(chain.NewSolanaPayer(), 2*usd)

		found := s.transfers("base")
		if a, b := found[plain], found[settled]; len(found) != 2 || a.Units != 3*usd || a.Payer != exchange.Address ||
			a.Authorization || b.Units != 6*usd || b.Payer != p.Address || !b.Authorization ||
			time.Since(a.At).Abs() > time.Minute {
			t.Fatalf("on base are listed %+v", found)
		}
		if all := s.transfers("base", "--all"); len(all) != 3 {
			t.Errorf("with --all are listed %+v", all)
		}
		if onSolana := s.transfers("solana"); len(onSolana) != 2 || onSolana[landed].Units != 8*usd ||
			onSolana[landed].Payer != q.Address || onSolana[foreign].Units != 2*usd {
			t.Fatalf("on solana are listed %+v", onSolana)
		}
		assign := func(transaction, to, network string) error {
			_, err := s.TryCLI("wallet", "assign", transaction, to, "--network", network, "--reason", "it is theirs")
			return err
		}
		for _, c := range []struct{ transaction, to, network string }{
			{plain, "acme", "base"}, {settled, chain.Checksummed(p.Address), "base"},
			{landed, q.Address, "solana"}, {foreign, "acme", "solana"},
		} {
			if err := assign(c.transaction, c.to, c.network); err != nil {
				t.Fatal(err)
			}
			if err := assign(c.transaction, "acme", c.network); err == nil ||
				!strings.Contains(err.Error(), "the payment is already resolved") {
				t.Errorf("assigned twice: %v", err)
			}
		}
		s.has(p, "6")
		s.has(q, "8")
		if usd := s.Settled()["acme"].USD.String(); usd != "5" {
			t.Errorf("acme has %s, not 5", usd)
		}
		// An assigned payment that is sent again is credited nothing.
		for _, payment := range []*signed{bySigned, onSolana} {
			if r := s.pay(payment); r.status == 200 {
				t.Errorf("an assigned payment is credited once more: %s", r)
			}
		}
		// A credited payment cannot be assigned.
		credited := s.evm.Moves()[0].Hash
		if err := assign(credited, "acme", "base"); err == nil {
			t.Error("a credited payment is assigned")
		}
		left := s.evm.Transfer(exchange.Address, payEVM, usd)
		// Listings go by the second of a block.
		for end := time.Now().Add(time.Minute); len(s.transfers("base")) == 0 && time.Now().Before(end); {
			time.Sleep(100 * time.Millisecond)
		}
		for what, err := range map[string]error{
			"money for an unknown account": assign(left, "nobody", "base"),
			"an unknown transaction":       assign("0x"+strings.Repeat("ab", 32), "acme", "base"),
			"no hash":                      assign("0x12", "acme", "base"),
			"a transfer to others":         assign(others, "acme", "base"),
			"a hash of another network":    assign(plain, "acme", "solana"),
			"money on no network":          assign(plain, "acme", "mars"),
		} {
			if err == nil {
				t.Errorf("%s is assigned", what)
			}
		}
		atBase, atSolana := s.transfers("base"), s.transfers("solana")
		if len(atBase) != 1 || len(atSolana) != 0 {
			t.Errorf("left are %+v and %+v", atBase, atSolana)
		}
		s.has(p, "6")
		s.has(q, "8")
		s.verified()
		// Without a server, too.
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		for transaction := range s.transfers("base") {
			if err := assign(transaction, "acme", "base"); err != nil {
				t.Error(err)
			}
		}
		s.verified()
		s.Start()
		if usd := s.Settled()["acme"].USD.String(); usd != "6" {
			t.Errorf("acme has %s, not 6", usd)
		}
	})
}

// An assigned transfer is taken back when the chain loses it.
func TestLongAnAssignedTransferIsTakenBackWithItsBlock(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{network: ", final_depth: 3000"})
	p := chain.NewPayer()
	hash := s.evm.Transfer(chain.NewPayer().Address, payEVM, 5*usd)
	s.evm.Wait()
	s.evm.Wait()
	s.CLI("wallet", "assign", hash, p.Address, "--reason", "it is theirs")
	s.has(p, "5")
	s.evm.Reorganise(hash)
	s.hasWithin(3*time.Minute, p, "0")
	s.verified()
}
