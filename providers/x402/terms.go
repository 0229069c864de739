package x402

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"farebox/config"
	"farebox/providers/wallet"
	"farebox/providers/x402/evm"
)

const (
	// Version is the version of the protocol.
	Version = 2
	// scheme is the only one: the payer pays exactly the signed amount.
	scheme = "exact"
	// maxTimeoutSeconds is how long a payment should hold, as clients read it.
	maxTimeoutSeconds = 300
	// NanoPerUnit is the value of a unit of a token with 6 decimals.
	NanoPerUnit config.Nano = 1000
)

// bareNames are the names of networks in version 1 of the protocol.
var bareNames = map[string]string{
	"base": "eip155:8453", "base-sepolia": "eip155:84532",
	"solana": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "solana-devnet": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
	"solana-testnet": "solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z",
}

// FeePayers are the accounts with which facilitators pay for transactions on Solana.
type FeePayers interface {
	// Offer is the account to ask for on a network; empty if absent.
	Offer(network string) string
}

// Network is a network on which payments are accepted.
type Network struct {
	Name          string // CAIP-2
	bare          string // on Solana: the second name of its entry
	Asset, PayTo  wallet.Address
	token         Extra
	separator     evm.Word // of the token's domain
	Contracts     bool     // wallets that are contracts may pay
	leastU, mostU int64    // units
}

// EVM says that the network is one of EVM.
func (n *Network) EVM() bool { return n.Asset.Family() == wallet.EVM }

// Separator is the domain that authorizations of the token are signed under.
func (n *Network) Separator() evm.Word { return n.separator }

// Terms are the accepted payments. Immutable.
type Terms struct {
	Networks []*Network // EVM first, as they are offered
	byName   map[string]*Network
	fees     FeePayers
}

// NewTerms are those of a checked config.
func NewTerms(c *config.X402, fees FeePayers) (*Terms, error) {
	t := &Terms{byName: map[string]*Network{}, fees: fees}
	var solana []*Network
	for i := range c.Networks {
		n, err := newNetwork(c, &c.Networks[i])
		if err != nil {
			return nil, fmt.Errorf("cannot take payments on %s: %w", c.Networks[i].Network, err)
		}
		t.byName[n.Name] = n
		if n.EVM() {
			t.Networks = append(t.Networks, n)
		} else {
			solana = append(solana, n)
		}
	}
	t.Networks = append(t.Networks, solana...)
	for bare, name := range bareNames {
		if n := t.byName[name]; n != nil {
			t.byName[bare] = n
			if !n.EVM() {
				n.bare = bare
			}
		}
	}
	return t, nil
}

func newNetwork(x *config.X402, c *config.X402Network) (*Network, error) {
	n := &Network{Name: c.Network, token: Extra{Name: c.Name, Version: c.Version},
		Contracts: c.ContractWallets == nil || *c.ContractWallets,
		leastU:    int64((x.MinTopUp + NanoPerUnit - 1) / NanoPerUnit), mostU: int64(x.MaxTopUp / NanoPerUnit)}
	var err error
	if n.Asset, err = wallet.ParseAddress(c.Asset); err != nil {
		return nil, fmt.Errorf("asset %w", err)
	}
	if n.PayTo, err = wallet.ParseAddress(c.PayTo); err != nil {
		return nil, fmt.Errorf("pay_to %w", err)
	}
	family := wallet.Solana
	if reference, ok := strings.CutPrefix(n.Name, "eip155:"); ok {
		family = wallet.EVM
		chain, ok := new(big.Int).SetString(reference, 10)
		if !ok || chain.Sign() <= 0 || chain.BitLen() > 256 {
			return nil, fmt.Errorf("it is not a network; expected eip155: and the number of a chain")
		}
		domain := evm.Domain{Name: c.Name, Version: c.Version, ChainID: chain, Asset: n.Asset}
		n.separator = domain.Separator()
	}
	if n.Asset.Family() != family || n.PayTo.Family() != family {
		return nil, fmt.Errorf("asset and pay_to are of another kind of chain; expected addresses of this one")
	}
	return n, nil
}

// Network is one by its CAIP-2 name or its name of version 1; nil: not accepted.
func (t *Terms) Network(name string) *Network { return t.byName[name] }

// Requirement is the description of an accepted payment: an entry of accepts.
type Requirement struct {
	Scheme            string `json:"scheme"`
	Network           string `json:"network"`
	Amount            string `json:"amount"`
	Asset             string `json:"asset"`
	PayTo             string `json:"payTo"`
	MaxTimeoutSeconds int    `json:"maxTimeoutSeconds"`
	Extra             Extra  `json:"extra"`
}

// Extra is the further data for signing: of EVM the token's domain, of Solana the payer of
// the fee.
type Extra struct {
	Name     string `json:"name,omitempty"`
	Version  string `json:"version,omitempty"`
	FeePayer string `json:"feePayer,omitempty"`
}

// Accepts are the entries of a 402 answer: EVM, then Solana under its bare name, then under
// its CAIP-2 name. A network of Solana is there once a facilitator has named its fee payer.
func (t *Terms) Accepts(amount config.Nano) []Requirement {
	list := []Requirement{}
	for _, n := range t.Networks {
		r := n.Requirement(int64((amount + NanoPerUnit - 1) / NanoPerUnit))
		if !n.EVM() {
			if r.Extra.FeePayer = t.fees.Offer(n.Name); r.Extra.FeePayer == "" {
				continue
			}
			if n.bare != "" {
				bare := r
				bare.Network = n.bare
				list = append(list, bare)
			}
		}
		list = append(list, r)
	}
	return list
}

// Requirement is the entry for so many units; on Solana without the fee payer.
func (n *Network) Requirement(units int64) Requirement {
	return Requirement{Scheme: scheme, Network: n.Name, Amount: strconv.FormatInt(units, 10),
		Asset: n.Asset.Checksummed(), PayTo: n.PayTo.Checksummed(), MaxTimeoutSeconds: maxTimeoutSeconds, Extra: n.token}
}
