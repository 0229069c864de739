package upstream

import (
	"strconv"
	"strings"
	"sync"
	"time"

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
func (s *Server) nodeOptions(name string) chain.NodeOptions {
	o := chain.NodeOptions{Solana: strings.HasPrefix(name, "solana")}
	switch "/rpc/" + name {
	case PathPayEVM:
		o.Ledger = s.paid().evm
	case PathPaySolana:
		o.Ledger = s.paid().solana
	}
	return o
}

// FirstPayment is what whoever tries a gateway before this server may pay with: a wallet,
// whose key is nobody's secret, and 5 USD that it signed for.
type FirstPayment struct {
	Key, Address string
	Header       string // of version 2 of x402, PAYMENT-SIGNATURE
}

const (
	firstUnits = 5_000_000
	firstHolds = time.Hour
)

// FirstPayment signs one to a receiver.
func (s *Server) FirstPayment(payTo string) FirstPayment {
	evm, wallet := s.paid().evm, chain.NewPayer()
	a := wallet.Authorization(payTo, firstUnits, time.Now().Add(firstHolds))
	return FirstPayment{Key: wallet.Secret(), Address: wallet.Address, Header: chain.Header(map[string]any{
		"x402Version": 2, "payload": chain.EVMPayload(a, wallet.SignAuthorization(evm, a)),
		"accepted": map[string]any{"scheme": "exact", "network": "eip155:8453", "amount": strconv.Itoa(firstUnits),
			"asset": chain.USDC, "payTo": payTo, "maxTimeoutSeconds": 300,
			"extra": map[string]string{"name": "USD Coin", "version": "2"}},
	})}
}
