package chain

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"time"

	"farebox/config"
	"farebox/config/onchain"
	"farebox/providers/rpc"
	"farebox/providers/wallet"
	"farebox/providers/x402"
	"farebox/providers/x402/evm"
	"farebox/proxy"
)

// Chain is one network that payments are taken on, as its nodes see it. Safe for
// concurrent use.
type Chain struct {
	*witnesses
	asset, payTo  wallet.Address
	separator     evm.Word
	name, version string // of the domain that separator is made of
	reference     string // behind the colon of its name
	confirmations int64
	finalDepth    int64
}

// New is for a network of the config and of the terms that were made of it.
func New(c *config.X402Network, terms *x402.Network, network *rpc.Network, p *proxy.Proxy) (*Chain, error) {
	if network == nil {
		return nil, fmt.Errorf("cannot query %s: there is no network %q in rpc.networks", c.Network, c.RPC)
	}
	_, reference, _ := strings.Cut(c.Network, ":")
	chain := &Chain{asset: terms.Asset, payTo: terms.PayTo, separator: terms.Separator(), name: c.Name, version: c.Version,
		reference:     reference,
		confirmations: c.Confirmations, finalDepth: c.FinalDepth,
		witnesses: &witnesses{network: network, proxy: p, need: max(1, c.Witnesses), sound: map[string]time.Time{}}}
	chain.check = chain.checkEVM
	if !terms.EVM() {
		chain.check = chain.checkSolana
	}
	return chain, nil
}

// StateBefore is the state of a payment before it is sent to any facilitator.
type StateBefore struct {
	// Used says that the chain has it already, or its nonce. Only the answer of Find counts
	// then.
	Used    bool
	Covered bool // the payer has the money
	// Expired says that the chain would not take it.
	Expired bool
	// Since is where Find begins to look, which for one that is Used is in the past.
	Since int64
}

// Look asks for the state of a payment before it is sent to a facilitator.
func (c *Chain) Look(ctx context.Context, o *x402.Order) (StateBefore, error) {
	look := c.lookEVM
	if o.Solana != nil {
		look = c.lookSolana
	}
	views, err := agreed(ctx, c.witnesses, func(ctx context.Context, n *node) (StateBefore, error) { return look(ctx, n, o) },
		func(a, b StateBefore) bool {
			return a.Used == b.Used && a.Covered == b.Covered && a.Expired == b.Expired && near(a.Since, b.Since)
		})
	if err != nil {
		return StateBefore{}, err
	}
	s := views[0]
	for _, v := range views {
		s.Since = min(s.Since, v.Since)
	}
	return s, nil
}

// apart bounds the distance between the heads of nodes that agree: a node with an invented
// head would lead the search to the wrong place.
const apart = 256

func near(a, b int64) bool { return a-b <= apart && b-a <= apart }

// paymentState is the state of a payment at one node.
type paymentState struct {
	is          onchain.State
	transaction string
	block       int64
	reason      string

	settled, final bool // as this node sees it
}

// Find asks for the outcome of a payment. transaction is the one that a facilitator names.
func (c *Chain) Find(ctx context.Context, o *x402.Order, transaction string) (onchain.Result, error) {
	look := c.findEVM
	switch {
	case o.Solana != nil:
		look = c.findSolana
	case o.Moved != nil && c.evm():
		look = c.findMoved
	case o.Moved != nil:
		look = c.findMovedSolana
	}
	views, err := agreed(ctx, c.witnesses, func(ctx context.Context, n *node) (paymentState, error) {
		return look(ctx, n, o, transaction)
	}, func(a, b paymentState) bool {
		return a.is == b.is && a.transaction == b.transaction && a.block == b.block && a.reason == b.reason
	})
	if err != nil {
		return onchain.Result{}, err
	}
	f := onchain.Result{State: views[0].is, Transaction: views[0].transaction, Reason: views[0].reason,
		Settled: true, Final: true}
	for _, v := range views {
		f.Settled, f.Final = f.Settled && v.settled, f.Final && v.final
	}
	return f, nil
}

// Signed asks a wallet that is a contract whether it signed a hash (EIP-1271).
func (c *Chain) Signed(ctx context.Context, who wallet.Address, hash [32]byte, signature []byte) (bool, error) {
	views, err := agreed(ctx, c.witnesses, func(ctx context.Context, n *node) (bool, error) {
		return c.signed(ctx, n, who, hash, signature)
	}, func(a, b bool) bool { return a == b })
	return err == nil && views[0], err
}

// evm says that the network is one of EVM.
func (c *Chain) evm() bool { return c.asset.Family() == wallet.EVM }

// alone are the nodes where the first answer is enough: their answers decide nothing.
func (c *Chain) alone() *witnesses {
	return &witnesses{network: c.network, proxy: c.proxy, need: 1, check: c.check, sound: map[string]time.Time{}}
}

// isChain says that a node of EVM names our chain.
func (c *Chain) isChain(id *big.Int) bool { return id != nil && id.String() == c.reference }
