package config

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const (
	maxStatement = 200
	// microUSD is the least amount that a token with 6 decimals has.
	microUSD      = 1000
	networkOrName = "expected eip155:8453, solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp, or base, " +
		"base-sepolia, solana or solana-devnet"
	originExpected  = "expected https://host[:port] and nothing behind it"
	domainExpected  = "expected a host in lower case, with the port where it is not the usual one"
	facilitatorMust = "expected http://host[:port]/path or https://host[:port]/path, below which /verify, " +
		"/settle and /supported are"
)

var (
	evmReference    = regexp.MustCompile(`^[1-9][0-9]{0,30}$`)
	solanaReference = regexp.MustCompile(`^[1-9A-HJ-NP-Za-km-z]{32}$`)
	// statementText is the alphabet of statements in EIP-4361.
	statementText = regexp.MustCompile(`^[A-Za-z0-9 ._~:/?#\[\]@!$&'()*+,;=-]*$`)
	domainText    = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?|\[[0-9a-f:]{2,45}\])(:[0-9]{1,5})?$`)
	keyIDText     = regexp.MustCompile(`^[!-~]{1,256}$`)
)

func (v *validator) x402() {
	x := v.c.X402
	if x == nil {
		return
	}
	if !x.Inference && v.c.Web3Keys.Require == "deny" && x.Link == "none" {
		v.wrong("x402.inference", "no credit of a wallet could be spent, because web3_keys.require is deny and link is "+
			"none; expected inference: true, or one of these otherwise")
	}
	v.topUpAmounts(x)
	if x.MaxPendingPerWallet > x.MaxPending && !v.bad["x402.max_pending"] {
		v.wrong("x402.max_pending_per_wallet", "%s is more than max_pending (%d), which is of all wallets; expected at "+
			"most as many", v.shown("x402.max_pending_per_wallet"), x.MaxPending)
	}
	v.wallets("x402.allow", x.Allow)
	v.wallets("x402.deny", x.Deny)
	v.signIn(&x.SignIn)
	v.payNetworks(x)
	v.facilitators(x)
	if x.Simulated {
		v.onlySimulated(x)
	}
}

func (v *validator) topUpAmounts(x *X402) {
	for key, amount := range map[string]Nano{"min_top_up": x.MinTopUp, "max_top_up": x.MaxTopUp,
		"suggested_top_up": x.SuggestedTopUp} {
		if path := "x402." + key; amount%microUSD != 0 {
			v.wrong(path, "%s is finer than the token, which has 6 decimals; expected a multiple of 0.000001",
				v.shown(path))
		}
	}
	if x.MaxTopUp < x.MinTopUp && !v.bad["x402.min_top_up"] {
		v.wrong("x402.max_top_up", "%s is less than min_top_up (%s), so all payments would fail; expected at least as much",
			v.shown("x402.max_top_up"), x.MinTopUp)
	} else if !v.bad["x402.min_top_up"] && (x.SuggestedTopUp < x.MinTopUp || x.SuggestedTopUp > x.MaxTopUp) {
		v.wrong("x402.suggested_top_up", "%s is not an accepted top-up; expected %s to %s USD",
			v.shown("x402.suggested_top_up"), x.MinTopUp, x.MaxTopUp)
	}
}

func (v *validator) wallets(path string, list []string) {
	if v.ruledOut[path] {
		return
	}
	for i, address := range list {
		if at := fmt.Sprintf("%s[%d]", path, i); !IsWallet(address) {
			v.wrong(at, "%s is not a wallet address; %s, or %s", v.shown(at), evmExpected,
				strings.TrimPrefix(solanaExpected, "expected "))
		}
	}
}

func (v *validator) signIn(s *X402SignIn) {
	at := "x402.sign_in"
	if len(s.Statement) > maxStatement || !statementText.MatchString(s.Statement) {
		v.wrong(at+".statement", "%s does not fit into a message that wallets sign; expected at most %d letters, digits, "+
			"spaces and punctuation of URLs", v.shown(at+".statement"), maxStatement)
	}
	if len(s.Domains) == 0 {
		v.wrong(at+".domains", "the address for sign-ins is unknown; expected public_url with the address of this "+
			"service, or its hosts in domains:")
	}
	for i, domain := range s.Domains {
		one := fmt.Sprintf("%s.domains[%d]", at, i)
		if u, err := url.Parse("//" + domain); err != nil || !domainText.MatchString(domain) || badPort(u.Port()) {
			v.wrong(one, "%s is not a domain; %s", v.shown(one), domainExpected)
		}
	}
	for i, origin := range s.Origins {
		one := fmt.Sprintf("%s.origins[%d]", at, i)
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || !domainText.MatchString(u.Host) ||
			badPort(u.Port()) || u.Scheme+"://"+u.Host != origin {
			v.wrong(one, "%s is not an origin; %s", v.shown(one), originExpected)
		}
	}
}

func (v *validator) payNetworks(x *X402) {
	if len(x.Networks) == 0 {
		v.wrong("x402.networks", "there is no network to pay on; expected network, rpc and pay_to of each, or no x402: "+
			"at all")
	}
	names := map[string]int{}
	for i := range x.Networks {
		n := &x.Networks[i]
		path := fmt.Sprintf("x402.networks[%d]", i)
		family, reference := n.family()
		first, taken := names[n.Network]
		switch {
		case n.Network == "":
			v.wrong(path+".network", "the network has no name; "+networkOrName)
		case family == "", family == "evm" && !evmReference.MatchString(reference),
			family == "solana" && !solanaReference.MatchString(reference):
			v.wrong(path+".network", "%s is not a network for payments; "+networkOrName, v.shown(path+".network"))
		case taken:
			v.wrong(path+".network", "%s is the network of x402.networks[%d] too; expected every one once",
				v.shown(path+".network"), first)
		default:
			names[n.Network] = i
			v.payNetwork(path, n)
		}
	}
}

func (v *validator) payNetwork(path string, n *X402Network) {
	v.payAddress(path+".pay_to", "the network has no pay_to, where the money goes", n, n.PayTo)
	v.payAddress(path+".asset", "the token of "+n.Network+" is not known", n, n.Asset)
	if n.EVM() {
		for _, one := range []struct{ key, text, such string }{
			{"name", n.Name, "USD Coin"}, {"version", n.Version, "2"},
		} {
			if at := path + "." + one.key; one.text == "" || len(one.text) > 64 {
				v.wrong(at, "the %s in the token's EIP-712 domain is not known; expected 1 to 64 characters, such as %q",
					one.key, one.such)
			}
		}
		whole(v, path+".confirmations", n.Confirmations, 1, 10_000)
		whole(v, path+".final_depth", n.FinalDepth, 1, 100_000)
		if n.FinalDepth < n.Confirmations && !v.bad[path+".final_depth"] {
			v.wrong(path+".final_depth", "%s is less than confirmations (%d), at which a payment is credited; expected "+
				"at least as many", v.shown(path+".final_depth"), n.Confirmations)
		}
	}
	v.evidence(path, n)
}

func (v *validator) payAddress(path, missing string, n *X402Network, text string) {
	right, expected := isEVMAddress, evmExpected
	if !n.EVM() {
		right, expected = isSolanaAddress, solanaExpected
	}
	switch {
	case text == "":
		v.wrong(path, "%s; %s", missing, expected)
	case !right(text):
		v.wrong(path, "%s is not an address of %s; %s", v.shown(path), n.Network, expected)
	case strings.Trim(text, "0x") == "" || strings.Trim(text, "1") == "":
		v.wrong(path, "%s is an address without an owner; %s", v.shown(path), expected)
	}
}

// evidence checks the nodes that confirm payments.
func (v *validator) evidence(path string, n *X402Network) {
	family, reference := n.family()
	r := v.c.rpcNetwork(n.RPC)
	switch {
	case n.RPC == "":
		v.wrong(path+".rpc", "no RPC nodes confirm payments; expected the name of one of rpc.networks")
	case r == nil:
		v.wrong(path+".rpc", "%s is not in rpc.networks; expected the name of one", v.shown(path+".rpc"))
	case r.Family != family:
		v.wrong(path+".rpc", "%s is of family %s and %s of %s; expected a network of the same chain",
			v.shown(path+".rpc"), r.Family, n.Network, family)
	case r.ChainID == "":
		v.wrong(path+".rpc", "the chain of %s is unknown; expected its chain_id in rpc.networks", quote(n.RPC))
	case family == "evm" && string(r.ChainID) != reference,
		family == "solana" && !strings.HasPrefix(string(r.ChainID), reference):
		v.wrong(path+".rpc", "%s is chain %s, which is not %s; expected a network of the same chain",
			v.shown(path+".rpc"), r.ChainID, n.Network)
	case n.Witnesses < 1 || n.Witnesses > len(r.Upstreams):
		v.wrong(path+".witnesses", "%s is out of range; expected 1 to the number of nodes of %s, %d",
			v.shown(path+".witnesses"), quote(n.RPC), len(r.Upstreams))
	}
}

func (v *validator) facilitators(x *X402) {
	if len(x.Facilitators) == 0 {
		v.wrong("x402.facilitators", "no facilitator submits payments; expected name and url of one")
	}
	names := map[string]int{}
	for i := range x.Facilitators {
		f := &x.Facilitators[i]
		path := fmt.Sprintf("x402.facilitators[%d]", i)
		switch first, taken := names[f.Name]; {
		case f.Name == "":
			v.wrong(path+".name", "the facilitator has no name; expected one, for logs and metrics")
		case !upstreamName.MatchString(f.Name):
			v.wrong(path+".name", "%s cannot be a name; expected 1 to 64 letters, digits, . _ or -",
				v.shown(path+".name"))
		case taken:
			v.wrong(path+".name", "%s is the name of x402.facilitators[%d] too; expected every name once",
				v.shown(path+".name"), first)
		default:
			names[f.Name] = i
		}
		v.facilitator(path, x, f)
	}
	for i := range x.Networks {
		n := &x.Networks[i]
		if path := fmt.Sprintf("x402.networks[%d].network", i); len(x.Facilitators) > 0 && !slices.ContainsFunc(
			x.Facilitators, func(f X402Facilitator) bool {
				return len(f.Networks) == 0 || slices.Contains(f.Networks, n.Network)
			}) {
			v.wrong(path, "no facilitator is used for %s; expected it in networks: of one of x402.facilitators",
				v.shown(path))
		}
	}
}

func (v *validator) facilitator(path string, x *X402, f *X402Facilitator) {
	v.facilitatorURL(path+".url", f.URL.Reveal())
	v.headerValue(path+".token", f.Token)
	v.authority(path+".ca_file", f.CAFile)
	switch {
	case f.Auth == "bearer" && f.Token == "":
		v.wrong(path+".auth", "bearer needs a token; expected token:")
	case f.Auth != "bearer" && f.Token != "":
		v.wrong(path+".token", "a token is sent with auth: bearer only; expected that, or no token")
	case f.Auth == "cdp" && !keyIDText.MatchString(f.KeyID):
		v.wrong(path+".key_id", "cdp needs the id of a key; expected 1 to 256 characters, such as "+
			"organizations/…/apiKeys/… or a UUID")
	case f.Auth == "cdp" && !isCDPSecret(f.Secret.Reveal()):
		v.wrong(path+".secret", "this is not the secret of a CDP key; expected 64 bytes as base64 (Ed25519), or a key of P-256 "+
			"as PEM")
	case f.Auth != "cdp" && (f.KeyID != "" || f.Secret != ""):
		v.wrong(path+".auth", "key_id and secret are for auth: cdp only; expected that, or neither of them")
	}
	for i, name := range f.Networks {
		at := fmt.Sprintf("%s.networks[%d]", path, i)
		if !slices.ContainsFunc(x.Networks, func(n X402Network) bool { return n.Network == name }) {
			v.wrong(at, "%s is not in x402.networks; expected one of them", v.shown(at))
		}
	}
}

// facilitatorURL never shows the written address: it may hold a key.
func (v *validator) facilitatorURL(path, text string) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		v.wrong(path, "the facilitator has no address; "+facilitatorMust)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || badHost(u):
		v.wrong(path, "this is not an address of a facilitator; "+facilitatorMust)
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		v.wrong(path, "the address has credentials, a query or a fragment, and paths are appended to it; expected token: "+
			"with auth: bearer for the first, and nothing for the others")
	}
}

// isCDPSecret says that text is the secret of a key of the Coinbase Developer Platform.
func isCDPSecret(text string) bool {
	if block, _ := pem.Decode([]byte(text)); block != nil {
		var key any
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			key, err = x509.ParseECPrivateKey(block.Bytes)
		}
		own, ok := key.(*ecdsa.PrivateKey)
		return err == nil && ok && own.Curve.Params().BitSize == 256
	}
	b, err := base64.StdEncoding.DecodeString(text)
	return err == nil && len(b) == ed25519.PrivateKeySize &&
		slices.Equal(ed25519.NewKeyFromSeed(b[:ed25519.SeedSize]), b)
}

// onlySimulated refuses simulated money where anything else is real.
func (v *validator) onlySimulated(x *X402) {
	refuse := func(path string) {
		v.wrong(path, "this is on another machine, and x402.simulated gives credit without payments; "+
			"expected 127.0.0.1, or no x402.simulated")
	}
	for i := range v.c.Upstreams {
		if u := &v.c.Upstreams[i]; !onLoopback(u.BaseURL) {
			refuse(fmt.Sprintf("upstreams[%d].base_url", i))
		}
	}
	for i := range v.c.RPC.Networks {
		for k := range v.c.RPC.Networks[i].Upstreams {
			if u := &v.c.RPC.Networks[i].Upstreams[k]; !onLoopback(u.URL.Reveal()) {
				refuse(fmt.Sprintf("rpc.networks[%d].upstreams[%d].url", i, k))
			}
		}
	}
	if s := v.c.Augment.Search; s != nil {
		for provider, list := range s.Providers() {
			for i := range list {
				if !onLoopback(list[i].BaseURL) {
					refuse(fmt.Sprintf("augment.search.%s[%d].base_url", provider, i))
				}
			}
		}
	}
	for i := range x.Facilitators {
		if !onLoopback(x.Facilitators[i].URL.Reveal()) {
			refuse(fmt.Sprintf("x402.facilitators[%d].url", i))
		}
	}
}

// onLoopback says that an address is of this machine.
func onLoopback(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
