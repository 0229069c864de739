package config

import (
	"net/url"
	"strings"
)

// knownChain is the built-in knowledge of a chain.
type knownChain struct {
	network string // CAIP-2
	// asset is USDC; name and version are of its EIP-712 domain.
	asset, name, version string
	chain                ChainID // as its nodes call it
}

// knownChains are the networks with a name of their own, by it.
var knownChains = map[string]knownChain{
	"base": {"eip155:8453", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "USD Coin", "2", "8453"},
	"base-sepolia": {"eip155:84532", "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "USDC", "2",
		"84532"},
	"solana": {"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", "", "",
		"5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"},
	"solana-devnet": {"solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU", "", "",
		"EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"},
}

// chainName is a network by its CAIP-2 name, whichever was written.
func chainName(text string) string {
	if known, ok := knownChains[text]; ok {
		return known.network
	}
	return text
}

// family is evm or solana, as rpc calls the families of chains, and reference what
// follows it in the name; empty: it is neither.
func (n *X402Network) family() (family, reference string) {
	if reference, ok := strings.CutPrefix(n.Network, "eip155:"); ok {
		return "evm", reference
	}
	if reference, ok := strings.CutPrefix(n.Network, "solana:"); ok {
		return "solana", reference
	}
	return "", ""
}

// ShortName is base, solana and the like, where a network has such a name.
func (n *X402Network) ShortName() string {
	for name, known := range knownChains {
		if known.network == n.Network {
			return name
		}
	}
	return n.Network
}

// EVM says that wallets of the network have 0x addresses.
func (n *X402Network) EVM() bool { family, _ := n.family(); return family == "evm" }

// completeX402 sets the known values of networks, and those that follow from public_url.
func (c *Config) completeX402() {
	x := c.X402
	if x == nil {
		return
	}
	for i := range x.Networks {
		c.completeChain(&x.Networks[i])
	}
	for i := range x.Facilitators {
		for k, name := range x.Facilitators[i].Networks {
			x.Facilitators[i].Networks[k] = chainName(name)
		}
	}
	x.SignIn.complete(c.PublicURL, c.Brand)
	x.allow, x.deny = walletNames(x.Allow), walletNames(x.Deny)
}

func (c *Config) completeChain(n *X402Network) {
	n.Network = chainName(n.Network)
	if n.ContractWallets == nil {
		yes := true
		n.ContractWallets = &yes
	}
	var known knownChain
	for _, one := range knownChains {
		if one.network == n.Network {
			known = one
		}
	}
	if n.Asset == "" {
		n.Asset = known.asset
	}
	if walletName(n.Asset) == walletName(known.asset) {
		if n.Name == "" {
			n.Name = known.name
		}
		if n.Version == "" {
			n.Version = known.version
		}
	}
	r := c.rpcNetwork(n.RPC)
	if r == nil {
		return
	}
	if n.Witnesses == 0 {
		n.Witnesses = min(2, len(r.Upstreams))
	}
	// A chain that decides about money is never taken at the word of its nodes.
	if family, reference := n.family(); r.ChainID == "" && family == "evm" {
		r.ChainID, _ = ParseChainID(reference)
	} else if r.ChainID == "" && family == "solana" {
		r.ChainID = known.chain
	}
}

// rpcNetwork is one of rpc.networks; nil if no network has that name.
func (c *Config) rpcNetwork(name string) *RPCNetwork {
	for i := range c.RPC.Networks {
		if n := &c.RPC.Networks[i]; n.Name == name && name != "" {
			return n
		}
	}
	return nil
}

func (s *X402SignIn) complete(public, brand string) {
	own := ""
	if u, err := url.Parse(public); err == nil && u.Host != "" {
		own = u.Scheme + "://" + strings.ToLower(u.Host)
		if s.Domains == nil {
			s.Domains = []string{strings.ToLower(u.Host)}
		}
	}
	if s.Origins == nil {
		// The public address comes first: packages of wallets sign for nothing but the
		// very origin that they called.
		if own != "" {
			s.Origins = append(s.Origins, own)
		}
		for _, domain := range s.Domains {
			if secure := "https://" + domain; secure != own {
				s.Origins = append(s.Origins, secure)
			}
		}
	}
	if s.Statement == "" && brand != "" {
		s.Statement = "Sign in to " + strings.ToUpper(brand[:1]) + brand[1:]
	}
}

func walletNames(list []string) map[string]bool {
	names := make(map[string]bool, len(list))
	for _, address := range list {
		names[walletName(address)] = true
	}
	return names
}
