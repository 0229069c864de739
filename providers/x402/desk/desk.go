package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"farebox/config"
	"farebox/providers/rpc"
	"farebox/providers/wallet"
	"farebox/providers/x402"
	"farebox/providers/x402/chain"
	"farebox/providers/x402/facilitator"
	"farebox/proxy"
)

// Desk asks facilitators and chains about payments under one config. Its errors say that
// nobody could be asked, or that the answers do not agree: nothing is known then. Safe for
// concurrent use.
type Desk struct {
	Terms        *x402.Terms
	Facilitators *facilitator.Set
	chains       map[string]*chain.Chain // by CAIP-2 name
	config       *config.X402
}

// New is for a checked config with x402. networks are of the same config. Connections
// to facilitators go on from before, which may be nil.
func New(c *config.X402, networks *rpc.Networks, p *proxy.Proxy, before *Desk) (*Desk, error) {
	var old *facilitator.Set
	if before != nil {
		old = before.Facilitators
	}
	set, err := facilitator.NewSet(c, old)
	if err != nil {
		return nil, err
	}
	d := &Desk{Facilitators: set, chains: map[string]*chain.Chain{}, config: c}
	if d.Terms, err = x402.NewTerms(c, set); err != nil {
		return nil, err
	}
	for i := range c.Networks {
		n := &c.Networks[i]
		d.chains[n.Network], err = chain.New(n, d.Terms.Network(n.Network), networks.Find(n.RPC), p)
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Alone is a Desk for a command, with connections of its own, which close ends.
func Alone(cfg *config.Config) (d *Desk, close func(), err error) {
	networks, err := rpc.NewNetworks(cfg, nil)
	if err != nil {
		return nil, nil, err
	}
	px := proxy.New(proxy.Options{})
	if d, err = New(cfg.X402, networks, px, nil); err != nil {
		px.Close()
		networks.Close(nil)
		return nil, nil, err
	}
	return d, func() { d.Close(nil); px.Close(); networks.Close(nil) }, nil
}

// CheckTokens compares the token of every EVM network with what its chain says: a
// *chain.TokenError says what is wrong, any other error that its nodes do not tell.
func (d *Desk) CheckTokens(ctx context.Context) map[string]error {
	found := map[string]error{}
	for _, n := range d.Terms.Networks {
		if n.EVM() {
			found[n.Name] = d.chains[n.Name].CheckToken(ctx)
		}
	}
	return found
}

// Transfer is money that reached pay_to, and the payment that it is or would be.
type Transfer struct {
	chain.Listed
	Payment *x402.Payment
}

// Transfers lists what reached pay_to on a network between two times, by the word of one
// node.
func (d *Desk) Transfers(ctx context.Context, network string, since, until time.Time,
	told func(chain.Scan)) ([]Transfer, error) {
	n, err := d.network(network)
	if err != nil {
		return nil, err
	}
	listed, err := d.chains[n.Name].Transfers(ctx, since, until, told)
	if err != nil {
		return nil, err
	}
	list := make([]Transfer, len(listed))
	for i := range listed {
		list[i].Listed = listed[i]
		if list[i].Payment, err = n.Payment(&listed[i].Transfer); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Proven is a transfer to pay_to as all witnesses of a network have it, deep enough to be
// credited. index tells several of a transaction apart; -1 where there is one.
func (d *Desk) Proven(ctx context.Context, network, transaction string, index int) (*x402.Payment, x402.Finding,
	error) {
	n, err := d.network(network)
	if err != nil {
		return nil, x402.Finding{}, err
	}
	list, err := d.chains[n.Name].TransfersOf(ctx, transaction)
	if err != nil {
		return nil, x402.Finding{}, err
	}
	if index >= 0 {
		list = slices.DeleteFunc(list, func(t x402.Transfer) bool { return t.Index != index })
	}
	if len(list) != 1 {
		return nil, x402.Finding{}, fmt.Errorf("%d transfers to pay_to in the transaction are meant; expected one, by its "+
			"--index", len(list))
	}
	p, err := n.Payment(&list[0])
	if err != nil {
		return nil, x402.Finding{}, err
	}
	f, err := d.Find(ctx, p, transaction)
	if err == nil && (f.Fate != x402.Paid || !f.Settled) {
		err = errors.New("it is not deep enough in the chain yet, or the chain has lost it; try again later")
	}
	return p, f, err
}

func (d *Desk) network(name string) (*x402.Network, error) {
	n := d.Terms.Network(name)
	if n == nil {
		return nil, fmt.Errorf("%q is not in x402.networks", name)
	}
	return n, nil
}

// Start has facilitators asked in the background what they support.
func (d *Desk) Start() { d.Facilitators.Start() }

// Close ends what next, which may be nil, does not go on with.
func (d *Desk) Close(next *Desk) {
	if next == nil {
		d.Facilitators.Close(nil)
		return
	}
	d.Facilitators.Close(next.Facilitators)
}

// order reads a payment's, with the chain that it is for.
func (d *Desk) order(p *x402.Payment) (*x402.Order, *chain.Chain, error) {
	o, err := x402.ParseOrder(p.Order)
	if err != nil {
		return nil, nil, err
	}
	c := d.chains[o.Network]
	if c == nil {
		return nil, nil, fmt.Errorf("cannot check a payment on %s: the network is no longer in x402.networks; "+
			"keep it there until all payments on it have an outcome", o.Network)
	}
	return o, c, nil
}

func no(reason string) *x402.Refusal {
	return &x402.Refusal{Code: x402.CodeVerification, Reason: reason}
}

// Prepare asks the chain, before anybody else hears of a payment, whether it could still be
// spent and is covered, and gives its Order with what Find begins at. Where it is refused,
// nobody is to be sent anything; an Order beside a refusal is of a payment that the chain
// has already, exactly as it was signed, whoever brought it there.
func (d *Desk) Prepare(ctx context.Context, p *x402.Payment) ([]byte, *x402.Refusal, error) {
	o, c, err := d.order(p)
	if err != nil {
		return nil, nil, err
	}
	s, err := c.Look(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	if !s.Used {
		if refused, err := d.refuse(ctx, p, o, s); refused != nil || err != nil {
			return nil, refused, err
		}
	}
	if refused, err := signed(ctx, c, o); refused != nil || err != nil {
		return nil, refused, err
	}
	o.Past = s.Used
	text, err := o.At(s.Since)
	if err != nil || !s.Used {
		return text, nil, err
	}
	o.Since = s.Since
	f, err := c.Find(ctx, o, "")
	switch {
	case err != nil:
		return nil, nil, err
	case f.Fate != x402.Paid:
		return nil, no(x402.ReasonNonceUsed), nil
	}
	return text, no(x402.ReasonNonceUsed), nil
}

// refuse says why a payment that is not on the chain would not come onto it.
func (d *Desk) refuse(ctx context.Context, p *x402.Payment, o *x402.Order, s chain.Standing) (*x402.Refusal, error) {
	if o.Solana != nil {
		// Not earlier: a payment that the chain has is not refused because its fee payer
		// is not any more, or because no facilitator was asked yet.
		switch pays, err := d.Facilitators.Takes(ctx, o.Network, o.Solana.FeePayer); {
		case err != nil:
			return nil, err
		case !pays:
			return no(x402.ReasonFeePayer), nil
		}
	}
	switch {
	case o.EVM != nil && (s.Expired || time.Until(p.Expires) < x402.LeastLife):
		return no(x402.ReasonExpired), nil
	case s.Expired:
		return no(x402.ReasonBlockhash), nil
	case !s.Covered:
		return no(x402.ReasonFunds), nil
	}
	return nil, nil
}

// signed refuses a payment that the contract of its wallet did not sign.
func signed(ctx context.Context, c *chain.Chain, o *x402.Order) (*x402.Refusal, error) {
	if o.EVM == nil || !o.EVM.Contract {
		return nil, nil
	}
	a, digest, signature, err := o.Authorization()
	if err != nil {
		return nil, err
	}
	if ok, err := c.Signed(ctx, a.From, digest, signature); err != nil || ok {
		return nil, err
	}
	return no(x402.ReasonSignature), nil
}

func (d *Desk) question(p *x402.Payment) (*facilitator.Question, error) {
	o, err := x402.ParseOrder(p.Order)
	if err != nil {
		return nil, err
	}
	q := &facilitator.Question{ID: p.ID, Network: o.Network}
	if o.Solana != nil {
		q.FeePayer = o.Solana.FeePayer
	}
	q.Body, err = o.Body()
	return q, err
}

// Verify asks the facilitator that a payment belongs to whether it would settle it.
func (d *Desk) Verify(ctx context.Context, p *x402.Payment) (x402.Reply, error) {
	q, err := d.question(p)
	if err != nil {
		return x402.Reply{}, err
	}
	return d.Facilitators.Verify(ctx, q)
}

// Settle has that facilitator bring it onto the chain. What it answers is a hint for the
// payer and for Find.
func (d *Desk) Settle(ctx context.Context, p *x402.Payment) (x402.Reply, error) {
	q, err := d.question(p)
	if err != nil {
		return x402.Reply{}, err
	}
	return d.Facilitators.Settle(ctx, q)
}

// Find asks the chain what became of a payment. transaction is a hint, may be empty and is
// not believed.
func (d *Desk) Find(ctx context.Context, p *x402.Payment, transaction string) (x402.Finding, error) {
	o, c, err := d.order(p)
	if err != nil {
		return x402.Finding{}, err
	}
	return c.Find(ctx, o, transaction)
}

// ContractSigned asks the nodes of a network whether a wallet that is a contract
// signed a hash (EIP-1271), for signing in. An error says that they do not tell.
func (d *Desk) ContractSigned(ctx context.Context, network string, who wallet.Address, hash [32]byte,
	signature []byte) (bool, error) {
	n := d.Terms.Network(network)
	if n == nil || !n.EVM() || !n.Contracts || who.Family() != wallet.EVM {
		return false, nil
	}
	return d.chains[n.Name].Signed(ctx, who, hash, signature)
}
