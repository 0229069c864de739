package chainclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"farebox/config"
	"farebox/config/onchain"
	"farebox/providers/rpc"
	"farebox/providers/wallet"
	"farebox/providers/x402"
	"farebox/providers/x402/chain"
	"farebox/providers/x402/facilitator"
	"farebox/proxy"
	"github.com/rs/zerolog"
)

// Client asks facilitators and chains about payments under one config. Its errors say that
// none answered, or that the answers do not agree: the outcome is unknown then. Safe for
// concurrent use.
type Client struct {
	Terms        *x402.Terms
	Facilitators *facilitator.Set
	chains       map[string]*chain.Chain // by CAIP-2 name
	config       *config.X402
	tokens       *tokenWatch
	asked        Observer
}

// Observer sees the answers of facilitators to "verify" and "settle".
type Observer func(question string, took time.Duration, r onchain.Reply, err error)

// New is for a checked config with x402. networks are of the same config. Connections
// to facilitators go on from before, which may be nil. asked may be nil.
func New(cfg *config.X402, networks *rpc.Networks, p *proxy.Proxy, log zerolog.Logger, asked Observer, before *Client) (*Client, error) {
	var old *facilitator.Set
	if before != nil {
		old = before.Facilitators
	}
	set, err := facilitator.NewSet(cfg, old)
	if err != nil {
		return nil, err
	}
	c := &Client{Facilitators: set, chains: map[string]*chain.Chain{}, config: cfg, tokens: &tokenWatch{log: log}, asked: asked}
	if c.Terms, err = x402.NewTerms(cfg, set); err != nil {
		return nil, err
	}
	for i := range cfg.Networks {
		n := &cfg.Networks[i]
		c.chains[n.Network], err = chain.New(n, c.Terms.Network(n.Network), networks.Find(n.RPC), p)
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Alone is a Client for a command, with connections of its own, which close ends.
func Alone(cfg *config.Config) (c *Client, close func(), err error) {
	networks, err := rpc.NewNetworks(cfg, nil)
	if err != nil {
		return nil, nil, err
	}
	px := proxy.New(proxy.Options{})
	if c, err = New(cfg.X402, networks, px, zerolog.Nop(), nil, nil); err != nil {
		px.Close()
		networks.Close(nil)
		return nil, nil, err
	}
	return c, func() { c.Close(nil); px.Close(); networks.Close(nil) }, nil
}

// Transfer is a transfer to pay_to, with the payment that it is or would be.
type Transfer struct {
	chain.Listed
	Payment *onchain.Payment
}

// Transfers lists the transfers to pay_to on a network between two times, as one node
// reports them. progress is called after each part.
func (c *Client) Transfers(ctx context.Context, network string, since, until time.Time,
	progress func(chain.Scan)) ([]Transfer, error) {
	n, err := c.network(network)
	if err != nil {
		return nil, err
	}
	listed, err := c.chains[n.Name].Transfers(ctx, since, until, progress)
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

// Proven returns a transfer to pay_to that all witnesses of a network have, deep enough to
// be credited. index selects one of several in a transaction; -1: it has only one.
func (c *Client) Proven(ctx context.Context, network, transaction string, index int) (*onchain.Payment, onchain.Result,
	error) {
	n, err := c.network(network)
	if err != nil {
		return nil, onchain.Result{}, err
	}
	list, err := c.chains[n.Name].TransfersOf(ctx, transaction)
	if err != nil {
		return nil, onchain.Result{}, err
	}
	if index >= 0 {
		list = slices.DeleteFunc(list, func(t x402.Transfer) bool { return t.Index != index })
	}
	if len(list) != 1 {
		return nil, onchain.Result{}, fmt.Errorf("%d transfers to pay_to in the transaction are meant; expected one, by its "+
			"--index", len(list))
	}
	p, err := n.Payment(&list[0])
	if err != nil {
		return nil, onchain.Result{}, err
	}
	f, err := c.Find(ctx, p, transaction)
	if err == nil && (f.State != onchain.Paid || !f.Settled) {
		err = errors.New("it is not deep enough in the chain yet, or the chain has lost it; try again later")
	}
	return p, f, err
}

func (c *Client) network(name string) (*x402.Network, error) {
	n := c.Terms.Network(name)
	if n == nil {
		return nil, fmt.Errorf("%q is not in x402.networks", name)
	}
	return n, nil
}

// Start asks facilitators in the background for their support, and chains whether
// their tokens are those of the config.
func (c *Client) Start() {
	c.Facilitators.Start()
	c.tokens.start(c.CheckTokens)
}

// Offer is x402.FeePayers.
func (c *Client) Offer(network string) string { return c.Facilitators.Offer(network) }

// Close ends the parts that next does not take over. next is another *Client, or nil.
func (c *Client) Close(next any) {
	c.tokens.close()
	if n, ok := next.(*Client); ok {
		c.Facilitators.Close(n.Facilitators)
		return
	}
	c.Facilitators.Close(nil)
}

// order returns the order of a payment, and its chain.
func (c *Client) order(p *onchain.Payment) (*x402.Order, *chain.Chain, error) {
	o, err := x402.ParseOrder(p.Order)
	if err != nil {
		return nil, nil, err
	}
	ch := c.chains[o.Network]
	if ch == nil {
		return nil, nil, fmt.Errorf("cannot check a payment on %s: the network is no longer in x402.networks; "+
			"keep it there until all payments on it have an outcome", o.Network)
	}
	return o, ch, nil
}

func no(reason string) *onchain.Refusal {
	return &onchain.Refusal{Code: onchain.CodeVerification, Reason: reason}
}

// Prepare asks the chain, before a payment is sent, whether it could still be spent and is
// covered. It returns the order with the place where Find begins. A refused payment is sent
// to no facilitator. An order beside a refusal is of a payment that the chain has already,
// exactly as it was signed.
func (c *Client) Prepare(ctx context.Context, p *onchain.Payment) ([]byte, *onchain.Refusal, error) {
	o, ch, err := c.order(p)
	if err != nil {
		return nil, nil, err
	}
	s, err := ch.Look(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	if !s.Used {
		if refused, err := c.refuse(ctx, p, o, s); refused != nil || err != nil {
			return nil, refused, err
		}
	}
	if refused, err := signed(ctx, ch, o); refused != nil || err != nil {
		return nil, refused, err
	}
	o.Past = s.Used
	text, err := o.At(s.Since)
	if err != nil || !s.Used {
		return text, nil, err
	}
	o.Since = s.Since
	f, err := ch.Find(ctx, o, "")
	switch {
	case err != nil:
		return nil, nil, err
	case f.State != onchain.Paid:
		return nil, no(onchain.ReasonNonceUsed), nil
	}
	return text, no(onchain.ReasonNonceUsed), nil
}

// refuse says why the chain would not take a payment that it does not have.
func (c *Client) refuse(ctx context.Context, p *onchain.Payment, o *x402.Order, s chain.StateBefore) (*onchain.Refusal, error) {
	if o.Solana != nil {
		// This follows the chain's answer: a payment that the chain has is not refused
		// because its fee payer has changed, or because no facilitator was asked yet.
		switch pays, err := c.Facilitators.Takes(ctx, o.Network, o.Solana.FeePayer); {
		case err != nil:
			return nil, err
		case !pays:
			return no(onchain.ReasonFeePayer), nil
		}
	}
	switch {
	case o.EVM != nil && (s.Expired || time.Until(p.Expires) < x402.LeastLife):
		return no(onchain.ReasonExpired), nil
	case s.Expired:
		return no(onchain.ReasonBlockhash), nil
	case !s.Covered:
		return no(onchain.ReasonFunds), nil
	}
	return nil, nil
}

// signed refuses a payment that the contract of its wallet did not sign.
func signed(ctx context.Context, ch *chain.Chain, o *x402.Order) (*onchain.Refusal, error) {
	if o.EVM == nil || !o.EVM.Contract {
		return nil, nil
	}
	a, digest, signature, err := o.Authorization()
	if err != nil {
		return nil, err
	}
	if ok, err := ch.Signed(ctx, a.From, digest, signature); err != nil || ok {
		return nil, err
	}
	return no(onchain.ReasonSignature), nil
}

// askFacilitators asks the facilitators of a payment, for the observer.
func (c *Client) askFacilitators(ctx context.Context, name string, p *onchain.Payment,
	ask func(context.Context, *facilitator.Question) (onchain.Reply, error)) (r onchain.Reply, err error) {
	began := time.Now()
	if c.asked != nil {
		defer func() { c.asked(name, time.Since(began), r, err) }()
	}
	o, err := x402.ParseOrder(p.Order)
	if err != nil {
		return r, err
	}
	q := &facilitator.Question{ID: p.ID, Network: o.Network}
	if o.Solana != nil {
		q.FeePayer = o.Solana.FeePayer
	}
	if q.Body, err = o.Body(); err != nil {
		return r, err
	}
	return ask(ctx, q)
}

// Verify asks the facilitator that a payment belongs to whether it would settle it.
func (c *Client) Verify(ctx context.Context, p *onchain.Payment) (onchain.Reply, error) {
	return c.askFacilitators(ctx, "verify", p, c.Facilitators.Verify)
}

// Settle has that facilitator bring it onto the chain. Its answer is a hint for the payer
// and for Find.
func (c *Client) Settle(ctx context.Context, p *onchain.Payment) (onchain.Reply, error) {
	return c.askFacilitators(ctx, "settle", p, c.Facilitators.Settle)
}

// Find asks the chain for the state of a payment. transaction is a hint that may be empty
// and is checked.
func (c *Client) Find(ctx context.Context, p *onchain.Payment, transaction string) (onchain.Result, error) {
	o, ch, err := c.order(p)
	if err != nil {
		return onchain.Result{}, err
	}
	return ch.Find(ctx, o, transaction)
}

// ContractSigned asks the nodes of a network whether a contract wallet signed a hash
// (EIP-1271), for sign-ins. An error says that they did not answer.
func (c *Client) ContractSigned(ctx context.Context, network string, who wallet.Address, hash [32]byte,
	signature []byte) (bool, error) {
	n := c.Terms.Network(network)
	if n == nil || !n.EVM() || !n.Contracts || who.Family() != wallet.EVM {
		return false, nil
	}
	return c.chains[n.Name].Signed(ctx, who, hash, signature)
}
