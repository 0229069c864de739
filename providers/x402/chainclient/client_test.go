package chainclient

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mr-tron/base58"

	"farebox/bench/upstream/chain"
	simulated "farebox/bench/upstream/facilitator"
	"farebox/bench/upstream/node"
	"farebox/config"
	"farebox/config/onchain"
	"farebox/providers/wallet"
	"farebox/providers/x402"
	"farebox/providers/x402/facilitator"
	"farebox/providers/x402/payer"
)

// A payment goes the whole way on both chains, with and without a word of where it is.
func TestPaymentsGoTheWholeWay(t *testing.T) {
	t.Parallel()
	w := begin(t, 2, nil)
	for _, p := range w.payments() {
		p = w.prepared(p)
		if r, err := w.Verify(soon(t), p); err != nil || !r.OK {
			t.Fatalf("%s: verify says %+v %v; complaints %v", p.Network, r, err, w.helper.Complaints())
		}
		w.finds(p, "", onchain.Open)
		r, err := w.Settle(soon(t), p)
		if err != nil || !r.OK || r.Transaction == "" {
			t.Fatalf("%s: settle says %+v %v; complaints %v", p.Network, r, err, w.helper.Complaints())
		}
		for _, hint := range []string{r.Transaction, "", "0x12", strings.Repeat("z", 200), "0x" + strings.Repeat("ab", 32)} {
			if f := w.finds(p, hint, onchain.Paid); f.Transaction != r.Transaction || !f.Settled {
				t.Errorf("%s with hint %q: %+v", p.Network, hint, f)
			}
		}
		w.until("final", func() bool { f, err := w.Find(soon(t), p, ""); return err == nil && f.Final })
		if _, refused, err := w.Prepare(soon(t), p); err != nil || refused == nil || refused.Reason != onchain.ReasonNonceUsed {
			t.Errorf("%s: a paid payment would be accepted again: %v %v", p.Network, refused, err)
		}
	}
	if c := w.helper.Complaints(); len(c) != 0 {
		t.Errorf("the facilitator complains: %v", c)
	}
}

// A payment that the chain would refuse is refused before anything is sent.
func TestChainIsAskedFirst(t *testing.T) {
	t.Parallel()
	w := begin(t, 2, nil)
	refuses := func(what string, p *onchain.Payment, want string) {
		t.Helper()
		if _, refused, err := w.Prepare(soon(t), p); err != nil || refused == nil || refused.Reason != want ||
			refused.Code != onchain.CodeVerification {
			t.Errorf("%s: %v %v", what, refused, err)
		}
	}
	poor, canceled := chain.NewPayer(), chain.NewPayer()
	w.evm.Fund(poor.Address, 5_999_999)
	refuses("a wallet without the money", w.onEVM(poor, time.Hour), onchain.ReasonFunds)
	a := canceled.Authorization(receiver, 6_000_000, time.Now().Add(time.Hour))
	w.evm.Cancel(a.From, a.Nonce)
	w.evm.Wait()
	refuses("a canceled authorization", w.read(header(t, base, chain.EVMPayload(a, canceled.SignAuthorization(w.evm, a)))),
		onchain.ReasonNonceUsed)
	p := w.onEVM(chain.NewPayer(), time.Minute)
	q := w.onSolana(chain.NewSolanaPayer())
	w.evm.Skip(2 * time.Minute)
	w.evm.Wait()
	w.sol.Skip(chain.HashSlots + 10)
	refuses("an authorization that is over by the chain's clock", p, onchain.ReasonExpired)
	refuses("an old blockhash", q, onchain.ReasonBlockhash)
	broke := chain.NewSolanaPayer()
	w.sol.Fund(chain.TokenAccount(broke.Address, chain.SolanaUSDC), 1)
	refuses("a Solana wallet without the money", w.onSolana(broke), onchain.ReasonFunds)
	if n := w.helper.Calls("verify") + w.helper.Calls("settle"); n != 0 {
		t.Errorf("the facilitator was asked %d times", n)
	}
}

// A contract wallet pays when its contract says that it signed, and only then.
func TestContractWalletsPay(t *testing.T) {
	t.Parallel()
	w := begin(t, 2, nil)
	owner := chain.NewPayer()
	contract := "0x00000000000000000000000000000000000c0de5"
	pay := func(signer *chain.Payer) *onchain.Payment {
		a := signer.As(contract).Authorization(receiver, 6_000_000, time.Now().Add(time.Hour))
		return w.read(header(t, base, chain.EVMPayload(a, signer.SignAuthorization(w.evm, a))))
	}
	refuses := func(what string, p *onchain.Payment) {
		t.Helper()
		if _, refused, err := w.Prepare(soon(t), p); err != nil || refused == nil || refused.Reason != onchain.ReasonSignature {
			t.Errorf("%s: %v %v", what, refused, err)
		}
	}
	refuses("a wallet without a contract", pay(owner))
	w.evm.Contract(contract, owner.Address)
	refuses("another signer", pay(chain.NewPayer()))
	p := w.prepared(pay(owner))
	if r, err := w.Settle(soon(t), p); err != nil || !r.OK {
		t.Fatalf("settle says %+v %v", r, err)
	}
	if f := w.finds(p, "", onchain.Paid); p.Wallet != contract || !f.Settled {
		t.Errorf("%s paid %+v", p.Wallet, f)
	}
	who, err := wallet.ParseAddress(contract)
	if err != nil {
		t.Fatal(err)
	}
	hash := [32]byte{1, 2, 3}
	for signer, want := range map[*chain.Payer]bool{owner: true, chain.NewPayer(): false} {
		if ok, err := w.ContractSigned(soon(t), base, who, hash, signer.SignDigest(hash[:])); err != nil || ok != want {
			t.Errorf("the contract signed: %v %v, expected %v", ok, err, want)
		}
	}
	if ok, err := w.ContractSigned(soon(t), solana, who, hash, nil); ok || err != nil {
		t.Errorf("a contract signed on Solana: %v %v", ok, err)
	}
}

// A facilitator's word is one thing, the chain's state another.
func TestChainDecidesWhateverFacilitatorsSay(t *testing.T) {
	t.Parallel()
	w := begin(t, 2, nil)
	for _, lie := range simulated.Lies {
		w.helper.Always("")
		for _, p := range w.payments() {
			p = w.prepared(p)
			w.helper.Always(lie)
			began := time.Now()
			r, err := w.Settle(soon(t), p)
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("%s: settle took %v", lie, took)
			}
			known := err == nil && !r.Unclear
			switch lie {
			case "", simulated.Enlarges, simulated.Misnames, simulated.Admits, simulated.Rejects, simulated.Claims:
				if !known || !r.OK {
					t.Errorf("%s: %+v %v", lie, r, err)
				}
			case simulated.Denies, simulated.Declines, simulated.Twice:
				if !known || r.OK || r.Reason == "" {
					t.Errorf("%s: %+v %v", lie, r, err)
				}
			default:
				if known || r.OK {
					t.Errorf("%s: an unclear outcome counts as an answer: %+v %v", lie, r, err)
				}
			}
			want := onchain.Paid
			if lie == simulated.Claims || lie == simulated.Declines || lie == simulated.Hangs || lie == simulated.Down {
				want = onchain.Open
			}
			w.finds(p, r.Transaction, want)
		}
	}
	if c := w.helper.Complaints(); len(c) != 0 {
		t.Errorf("the facilitator complains: %v", c)
	}
}

// One node of three that lies or fails makes no finding and hinders none.
func TestOneNodeDecidesNothing(t *testing.T) {
	t.Parallel()
	w := begin(t, 2, nil)
	for _, fault := range []node.Faults{{Lie: chain.Invents}, {Lie: chain.Hides}, {Lie: chain.Inflates},
		{Lie: chain.Diverts}, {Lie: chain.Stranger}, {Status: 503}, {Truncate: true}, {Drop: true}, {Foreign: true},
		{Empty: true}, {Lag: 1}, {Without: []string{"eth_getLogs", "getSignaturesForAddress"}}} {
		for at := range 3 {
			open, paid := w.payments(), w.payments()
			for i := range open {
				open[i], paid[i] = w.prepared(open[i]), w.prepared(paid[i])
				if r, err := w.Verify(soon(t), open[i]); err != nil || !r.OK { // so that a node may invent it
					t.Fatalf("verify says %+v %v", r, err)
				}
				if r, err := w.Settle(soon(t), paid[i]); err != nil || !r.OK {
					t.Fatalf("settle says %+v %v", r, err)
				}
			}
			w.nodes[at].Fault(fault)
			w.nodes[3+at].Fault(fault)
			for i := range open {
				w.finds(open[i], "", onchain.Open)
				w.finds(paid[i], "", onchain.Paid)
			}
			w.nodes[at].Fault(node.Faults{})
			w.nodes[3+at].Fault(node.Faults{})
		}
	}
}

// Where the witnesses do not agree, nothing is known, and it says so.
func TestDisagreementIsNotAFinding(t *testing.T) {
	t.Parallel()
	w := begin(t, 3, nil)
	for i, p := range w.payments() {
		p = w.prepared(p)
		if r, err := w.Verify(soon(t), p); err != nil || !r.OK {
			t.Fatalf("verify says %+v %v", r, err)
		}
		w.nodes[3*i].Fault(node.Faults{Lie: chain.Invents})
		w.until("the nodes disagree", func() bool {
			f, err := w.Find(soon(t), p, "")
			if err == nil {
				t.Fatalf("%s: a finding of two of three: %+v", p.Network, f)
			}
			return errors.Is(err, onchain.ErrDisagree)
		})
		w.nodes[3*i].Fault(node.Faults{Status: 500})
		if _, err := w.Find(soon(t), p, ""); err == nil || errors.Is(err, onchain.ErrDisagree) {
			t.Errorf("%s: with two nodes of three it is %v", p.Network, err)
		}
	}
}

// A payment that was not paid in time never will be, and neither will a canceled one; a
// chain that is reorganised loses its payments.
func TestPaymentsEnd(t *testing.T) {
	t.Parallel()
	w := begin(t, 2, nil)
	short := w.prepared(w.onEVM(chain.NewPayer(), time.Minute))
	blockhash := w.prepared(w.onSolana(chain.NewSolanaPayer()))
	spender := chain.NewPayer()
	a := spender.Authorization(receiver, 6_000_000, time.Now().Add(time.Hour))
	spent := w.prepared(w.read(header(t, base, chain.EVMPayload(a, spender.SignAuthorization(w.evm, a)))))
	for _, p := range []*onchain.Payment{short, blockhash, spent} {
		w.finds(p, "", onchain.Open)
	}
	w.evm.Cancel(a.From, a.Nonce)
	if f := w.finds(spent, "", onchain.Spent); f.Reason != "authorization_canceled" {
		t.Errorf("a canceled one: %+v", f)
	}
	w.evm.Skip(2 * time.Minute)
	w.sol.Skip(chain.HashSlots + 40)
	if f := w.finds(short, "", onchain.Over); f.Reason != "authorization_expired" {
		t.Errorf("one that is too old: %+v", f)
	}
	if f := w.finds(blockhash, "", onchain.Over); f.Reason != "blockhash_expired" {
		t.Errorf("one whose blockhash is too old: %+v", f)
	}
	for _, p := range w.payments() {
		p = w.prepared(p)
		r, err := w.Settle(soon(t), p)
		if err != nil || !r.OK {
			t.Fatalf("settle says %+v %v", r, err)
		}
		w.finds(p, r.Transaction, onchain.Paid)
		lose, restore := w.evm.Reorganise, w.evm.Restore
		if p.Network == solana {
			lose, restore = w.sol.Reorganise, w.sol.Restore
		}
		if !lose(r.Transaction) {
			t.Fatal("there is nothing to lose")
		}
		w.finds(p, r.Transaction, onchain.Open)
		if !restore(r.Transaction) {
			t.Fatal("there is nothing to restore")
		}
		w.finds(p, "", onchain.Paid)
	}
}

// A payment that was paid long after it was prepared is found, also by nodes that give
// few blocks of logs at once.
func TestLatePaymentsAreFound(t *testing.T) {
	t.Parallel()
	w := begin(t, 2, nil)
	from := chain.NewPayer()
	a := from.Authorization(receiver, 6_000_000, time.Now().Add(time.Hour))
	p := w.read(header(t, base, chain.EVMPayload(a, from.SignAuthorization(w.evm, a))))
	o, err := x402.ParseOrder(p.Order)
	if err != nil {
		t.Fatal(err)
	}
	if p.Order, err = o.At(w.evm.Head() - 30_000_000); err != nil { // years ago
		t.Fatal(err)
	}
	hash, err := w.evm.Pay(a, from.SignAuthorization(w.evm, a))
	if err != nil {
		t.Fatal(err)
	}
	if f := w.finds(p, "", onchain.Paid); f.Transaction != hash {
		t.Errorf("found as %+v", f)
	}
}

// The operator's try reports every step, and which one failed.
func TestTryReportsEveryStep(t *testing.T) {
	t.Parallel()
	w := begin(t, 2, nil)
	secret := chain.NewPayer().Secret()
	key, err := payer.ParseEVM(secret)
	if err != nil {
		t.Fatal(err)
	}
	try := func(network, secret string) (steps []Step, good bool) {
		good = w.Try(soon(t), network, secret, 1, func(s Step) { steps = append(steps, s) })
		return steps, good
	}
	if steps, good := try("base", secret); !good || len(steps) != 6 {
		t.Errorf("a good config: %v %+v", good, steps)
	}
	own := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	list, err := json.Marshal(numbers(own))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{base58.Encode(own), string(list)} {
		if steps, good := try("solana", secret); !good || len(steps) != 6 {
			t.Errorf("a good config: %v %+v", good, steps)
		}
	}
	for _, wrong := range []string{"", "0x12", base58.Encode(own[:63]), "[1,2]", "[" + strings.Repeat("256,", 63) + "0]",
		base58.Encode(append(bytes.Repeat([]byte{8}, 32), own[32:]...)), secret} {
		if steps, good := try("solana", wrong); good || len(steps) != 2 || wrong != "" &&
			strings.Contains(steps[1].Err.Error(), wrong) {
			t.Errorf("a wrong key: %v %+v", good, steps)
		}
	}
	if steps, good := try("tron", secret); good || len(steps) != 1 || steps[0].Err == nil {
		t.Errorf("an unknown network: %v %+v", good, steps)
	}
	w.evm.Fund(key.Address().String(), 0)
	if steps, good := try(base, secret); good || len(steps) != 3 || !strings.Contains(steps[2].Err.Error(), onchain.ReasonFunds) {
		t.Errorf("a wallet without money: %v %+v", good, steps)
	}
}

func numbers(b []byte) (list []int) {
	for _, c := range b {
		list = append(list, int(c))
	}
	return list
}

// A facilitator that is simulated is used only where the config says so.
func TestSimulatedFacilitatorsAreRefused(t *testing.T) {
	t.Parallel()
	w := begin(t, 2, nil)
	p := w.prepared(w.onEVM(chain.NewPayer(), time.Hour))
	real := *w.config
	real.Simulated = false
	c := *w.Client
	var err error
	if c.Facilitators, err = facilitator.NewSet(&real, w.Facilitators); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Verify(soon(t), p); err == nil || !strings.Contains(err.Error(), "simulated") {
		t.Errorf("a simulated facilitator says %+v %v", r, err)
	}
	if c.Facilitators.Offer(solana) != "" {
		t.Error("the fee payer of a simulated facilitator is offered")
	}
}

// A transaction whose fee payer no facilitator has is refused; while the owner of the fee
// payer is unknown it is not, for the payer would sign another one.
func TestFeePayersOfOthersAreRefused(t *testing.T) {
	w := begin(t, 2, nil)
	from := chain.NewSolanaPayer()
	foreign := w.read(header(t, solana, chain.SolanaPayload(from.Transaction(chain.Order{
		FeePayer: chain.NewSolanaPayer().Address, PayTo: solanaReceiver, Mint: chain.SolanaUSDC, Units: 6_000_000,
		Blockhash: w.sol.Blockhash()}))))
	if _, no, err := w.Prepare(soon(t), foreign); err != nil || no == nil || no.Reason != onchain.ReasonFeePayer {
		t.Errorf("another's fee payer: %v, %v", no, err)
	}
	p := w.onSolana(from)
	w.helper.Rotate()
	w.prepared(p)
	away, err := facilitator.NewSet(&config.X402{Facilitators: []config.X402Facilitator{{Name: "away",
		URL: "http://127.0.0.1:9", Auth: "none", VerifyTimeout: time.Second, SettleTimeout: time.Second, MaxInFlight: 1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer away.Close(nil)
	if takes, err := away.Takes(soon(t), solana, w.helper.FeePayer()); takes || err == nil {
		t.Errorf("with no facilitator at hand: %v, %v", takes, err)
	}
}
