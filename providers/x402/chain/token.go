package chain

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"farebox/providers/rpc"
	"farebox/providers/x402/evm"
)

// TokenError is a token that differs from the config: no payment of it can be taken.
type TokenError struct{ text string }

func (e *TokenError) Error() string { return e.text }

// token is a chain's description of a token.
type token struct {
	contract             bool // it has a domain at all
	separator, decimals  evm.Word
	name, version        string // by its functions, or else by eip712Domain
	domainName, domainIs string // by eip712Domain
}

// CheckToken compares the token of an EVM network with its nodes' answers. A *TokenError
// names the fault and the right setting; with any other error the token is not known.
func (c *Chain) CheckToken(ctx context.Context) error {
	if !c.evm() { // on Solana nothing is signed for a domain
		return nil
	}
	// Witnesses must have this token; these nodes are checked for the chain alone.
	nodes := &witnesses{network: c.network, proxy: c.proxy, need: c.need, check: c.checkID,
		sound: map[string]time.Time{}}
	views, err := agreed(ctx, nodes, c.token, func(a, b token) bool { return a == b })
	if err != nil {
		return err
	}
	return c.tokenError(&views[0])
}

// token asks one node. A function that the contract does not have gives nothing.
func (c *Chain) token(ctx context.Context, n *node) (t token, err error) {
	ask := func(data []byte) (answer []byte) {
		if err != nil {
			return nil
		}
		answer, err = soon(ctx, func() ([]byte, error) { return c.call(ctx, n, c.asset, data, "", "latest") })
		if said := (*rpc.CallError)(nil); errors.As(err, &said) && isRevert(said) {
			answer, err = nil, nil
		}
		return answer
	}
	if b := ask(evm.SeparatorCall()); len(b) == len(evm.Word{}) {
		t.contract, t.separator = true, evm.Word(b)
	}
	if b := ask(evm.DecimalsCall()); len(b) == len(evm.Word{}) {
		t.decimals = evm.Word(b)
	}
	t.name, _ = evm.Text(ask(evm.NameCall()), 0)
	t.version, _ = evm.Text(ask(evm.VersionCall()), 0)
	if domain := ask(evm.DomainCall()); len(domain) > 0 {
		t.domainName, _ = evm.Text(domain, 1)
		t.domainIs, _ = evm.Text(domain, 2)
	}
	return t, err
}

// tokenError is the fault of a token; nil: none.
func (c *Chain) tokenError(t *token) error {
	where := fmt.Sprintf("the token %s on eip155:%s ", c.asset.Checksummed(), c.reference)
	switch {
	case !t.contract:
		return &TokenError{where + "has no DOMAIN_SEPARATOR(), so that no payment of it can be signed; expected as asset " +
			"the address of a token with transferWithAuthorization (EIP-3009) on this chain"}
	case t.separator != c.separator:
		return &TokenError{where + fmt.Sprintf("has another EIP-712 domain than the config: expected name %q and version "+
			"%q, found %s", c.name, c.version, c.found(t))}
	case t.decimals != sixDecimals:
		return &TokenError{where + "has another number of decimals; expected a token with 6"}
	}
	return nil
}

// found names the domain of a token, and the right setting.
func (c *Chain) found(t *token) string {
	chain, _ := new(big.Int).SetString(c.reference, 10)
	for _, one := range [][2]string{{t.name, t.version}, {t.domainName, t.domainIs}, {t.name, c.version},
		{c.name, t.version}, {t.name, "1"}, {t.name, "2"}} {
		d := evm.Domain{Name: one[0], Version: one[1], ChainID: chain, Asset: c.asset}
		if d.Separator() == t.separator {
			return fmt.Sprintf("name %q and version %q; write these as name and version of this network in "+
				"x402.networks", one[0], one[1])
		}
	}
	return fmt.Sprintf("the separator %s, which does not match the name and version of the token (name %q, version %q); write "+
		"name and version as its issuer documents them for EIP-712", evm.Hex(t.separator[:]), t.name, t.version)
}
