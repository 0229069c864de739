package chainclient

import (
	"errors"
	"testing"
	"time"

	"farebox/bench/upstream/chain"
	"farebox/bench/upstream/node"
	"farebox/config"
	"farebox/config/onchain"
	look "farebox/providers/x402/chain"
)

// elsewhere are payments of both chains that another party settled, with the transactions
// that they were settled by.
func (w *world) elsewhere() map[string]*onchain.Payment {
	w.t.Helper()
	from, source := chain.NewPayer(), chain.NewSolanaPayer()
	a := from.Authorization(receiver, 6_000_000, time.Now().Add(time.Hour))
	signature := from.SignAuthorization(w.evm, a)
	hash, err := w.evm.Pay(a, signature)
	if err != nil {
		w.t.Fatal(err)
	}
	wire := source.Transaction(chain.Order{FeePayer: w.helper.FeePayer(), PayTo: solanaReceiver, Mint: chain.SolanaUSDC,
		Units: 6_000_000, Blockhash: w.sol.Blockhash()})
	name, err := w.helper.Bring(wire)
	if err != nil {
		w.t.Fatal(err)
	}
	w.evm.Wait()
	w.evm.Wait()
	w.sol.Wait()
	return map[string]*onchain.Payment{hash: w.read(header(w.t, base, chain.EVMPayload(a, signature))),
		name: w.read(header(w.t, solana, chain.SolanaPayload(wire)))}
}

// A payment settled by another party is recognised by the chain alone, also when one node
// of three lies; and it is the same payment for an operator who assigns it.
func TestPaymentsSettledByOthersAreProvenByWitnesses(t *testing.T) {
	t.Parallel()
	w := begin(t, 2, nil)
	for _, fault := range []node.Faults{{}, {Lie: chain.Hides}, {Lie: chain.Inflates}, {Lie: chain.Diverts},
		{Lie: chain.Stranger}, {Status: 503}, {Truncate: true}, {Without: []string{"eth_getLogs"}}} {
		w.nodes[0].Fault(fault)
		w.nodes[3].Fault(fault)
		for transaction, p := range w.elsewhere() {
			order, no, err := w.Prepare(soon(t), p)
			if err != nil || order == nil || no == nil || no.Reason != onchain.ReasonNonceUsed {
				t.Fatalf("%+v: Prepare on %s says %q %v %v", fault, p.Network, order, no, err)
			}
			same := *p
			same.Order = order
			if f := w.finds(&same, "", onchain.Paid); f.Transaction != transaction || !f.Settled {
				t.Errorf("%+v: on %s is found %+v", fault, p.Network, f)
			}
			got, f, err := w.Proven(soon(t), p.Network, transaction, -1)
			if err != nil || f.State != onchain.Paid || got.ID != p.ID || got.Units != p.Units || got.Amount != p.Amount ||
				got.Wallet != p.Wallet {
				t.Fatalf("%+v: on %s is proven %+v %+v %v, not %+v", fault, p.Network, got, f, err, p)
			}
			if _, err := w.Verify(soon(t), got); err == nil && p.Network == solana {
				t.Error("a facilitator was asked about a transfer that was not signed for us")
			}
			w.until("final", func() bool { f, err := w.Find(soon(t), got, ""); return err == nil && f.Final })
		}
	}
	w.nodes[0].Fault(node.Faults{})
	w.nodes[3].Fault(node.Faults{})
	for transaction, p := range w.elsewhere() {
		at := map[string]int{base: 0, solana: 3}[p.Network]
		w.nodes[at].Fault(node.Faults{Lie: chain.Hides})
		w.nodes[at+1].Fault(node.Faults{Lie: chain.Hides})
		if _, _, err := w.Proven(soon(t), p.Network, transaction, -1); !errors.Is(err, look.ErrNoTransfer) {
			t.Errorf("a transfer that two of three nodes do not have is proven: %v", err)
		}
		w.nodes[at].Fault(node.Faults{})
		w.nodes[at+1].Fault(node.Faults{})
	}
}

// Of two authorizations with a nonce only the one counts that the chain took.
func TestAnotherAuthorizationWithItsNonceIsNotPaid(t *testing.T) {
	t.Parallel()
	w := begin(t, 2, nil)
	from := chain.NewPayer()
	a := from.Authorization(receiver, 6_000_000, time.Now().Add(time.Hour))
	if _, err := w.evm.Pay(a, from.SignAuthorization(w.evm, a)); err != nil {
		t.Fatal(err)
	}
	w.evm.Wait()
	w.evm.Wait()
	a.Value = 60_000_000
	p := w.read(header(t, base, chain.EVMPayload(a, from.SignAuthorization(w.evm, a))))
	if order, no, err := w.Prepare(soon(t), p); err != nil || order != nil || no == nil ||
		no.Reason != onchain.ReasonNonceUsed {
		t.Errorf("it is taken for paid: %q %v %v", order, no, err)
	}
}

// Whatever reached pay_to is listed with the payment that it is, though a node fails; and
// a plain transfer is gone when its block is.
func TestEveryTransferToPayToIsListed(t *testing.T) {
	t.Parallel()
	w := begin(t, 2, func(c *config.X402) { c.Networks[0].FinalDepth = 10_000 })
	w.nodes[0].Fault(node.Faults{Status: 503})
	w.nodes[3].Fault(node.Faults{Truncate: true})
	want := w.elsewhere()
	from := chain.NewPayer()
	plain := w.evm.Transfer(from.Address, receiver, 123)
	w.evm.Transfer(from.Address, from.Address, 1_000_000)
	w.evm.Wait()
	w.evm.Wait()
	for network, most := range map[string]int{base: 2, solana: 1} {
		now := time.Now()
		list, err := w.Transfers(soon(t), network, now.Add(-time.Hour), now.Add(time.Minute), func(look.Scan) {})
		if err != nil || len(list) != most {
			t.Fatalf("on %s are listed %+v (%v)", network, list, err)
		}
		for _, one := range list {
			switch p := want[one.Transaction]; {
			case one.Transaction == plain:
				if one.Units != 123 || one.From != from.Address || one.Nonce != "" {
					t.Errorf("the plain one is %+v", one)
				}
			case p == nil || p.ID != one.Payment.ID || p.Wallet != one.From:
				t.Errorf("on %s is listed %+v, not %+v", network, one, p)
			}
		}
		if list, err = w.Transfers(soon(t), network, now.Add(-2*time.Hour), now.Add(-time.Hour),
			func(look.Scan) {}); err != nil || len(list) != 0 {
			t.Errorf("an hour earlier are listed %+v (%v)", list, err)
		}
	}
	p, _, err := w.Proven(soon(t), base, plain, -1)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Proven(soon(t), base, plain, 7); err == nil {
		t.Error("a transfer that the transaction does not have is proven")
	}
	w.evm.Reorganise(plain)
	w.finds(p, plain, onchain.Open)
}
