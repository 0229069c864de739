package upstream

import (
	"strings"
	"sync"

	"farebox/bench/upstream/chain"
)

// payments are the chains and the facilitator of a Server, which are there once somebody
// asks for one of them.
type payments struct {
	once        sync.Once
	evm         *chain.EVM
	solana      *chain.Solana
	facilitator *chain.Facilitator
}

// Paths below the server's root where payments are simulated.
const (
	PathFacilitator = "/x402"
	PathPayEVM      = "/rpc/pay-evm"
	PathPaySolana   = "/rpc/solana-pay"
)

func (s *Server) paid() *payments {
	p := &s.payments
	p.once.Do(func() {
		p.evm, p.solana = chain.NewEVM(chain.EVMOptions{}), chain.NewSolana(chain.SolanaOptions{})
		p.facilitator = chain.NewFacilitator(p.evm, p.solana)
	})
	return p
}

func (s *Server) facilitator() *chain.Facilitator { return s.paid().facilitator }

// nodeOptions of a node by its name below /rpc/.
func (s *Server) nodeOptions(name string) NodeOptions {
	o := NodeOptions{Solana: strings.HasPrefix(name, "solana")}
	switch "/rpc/" + name {
	case PathPayEVM:
		o.Ledger = s.paid().evm
	case PathPaySolana:
		o.Ledger = s.paid().solana
	}
	return o
}
