package signin

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"farebox/providers/wallet"
)

// Rules are the sites and chains that a message may be for. They are not changed once they
// are in use.
type Rules struct {
	Domains []string // as browsers write them, with a port that is not the usual one
	Origins []string // https://api.example.com
	Chains  []Chain
	MaxAge  time.Duration // of a message
	Skew    time.Duration // of the client's clock
}

// Chain is one whose wallets may sign in.
type Chain struct {
	Name      string // CAIP-2: eip155:8453 or solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp
	Contracts bool   // wallets that are contracts may (EIP-1271); of EVM alone
}

// The namespaces of CAIP-2 that are known.
const (
	evmSpace    = "eip155:"
	solanaSpace = "solana:"
)

func family(chain string) wallet.Family {
	if strings.HasPrefix(chain, solanaSpace) {
		return wallet.Solana
	}
	return wallet.EVM
}

// SignIn is the content of a header, which is proven unless it is Unproven.
type SignIn struct {
	Wallet   wallet.Address
	Chain    string // CAIP-2
	URI      string // the requested resource, of one of our origins
	Nonce    string
	IssuedAt time.Time
	Until    time.Time // when the header expires
	// Unproven: the wallet's own key did not sign. If the wallet is a contract it may
	// have: its isValidSignature (EIP-1271) must be asked with Hash and Signature.
	Unproven  bool
	Hash      [32]byte // of EVM: the signed digest
	Signature []byte

	forget time.Time
}

// tokenGrace is how long a nonce is remembered beyond the time in which its message can
// be sent: clocks of nodes differ.
const tokenGrace = time.Minute

// Token is the id under which the use of the nonce is recorded, and until when.
// A client with many wallets cannot use up the nonce of another.
func (s *SignIn) Token() (id string, expires time.Time) {
	sum := sha256.Sum256([]byte(s.Wallet.String() + " " + s.Nonce))
	return "siwx:" + base64.RawURLEncoding.EncodeToString(sum[:]), s.forget
}

// Read judges a header by all checks that need no request.
func (r *Rules) Read(header []byte, now time.Time) (*SignIn, *Refusal) {
	c, refusal := readClaim(header)
	if refusal != nil {
		return nil, refusal
	}
	text := c.message
	if !c.verbatim {
		if text, refusal = c.rebuild(false); refusal != nil {
			return nil, refusal
		}
	}
	m, refusal := parseMessage(text)
	if refusal != nil {
		return nil, refusal
	}
	if refusal := r.place(c, m); refusal != nil {
		return nil, refusal
	}
	address, refusal := c.wallet(m)
	if refusal != nil {
		return nil, refusal
	}
	if refusal := r.time(c, m, now); refusal != nil {
		return nil, refusal
	}
	s := &SignIn{Wallet: address, Chain: c.chain, URI: m.uri, Nonce: m.nonce, IssuedAt: m.issued, Until: m.issued.Add(r.MaxAge),
		forget: m.issued.Add(r.MaxAge + r.Skew + tokenGrace)}
	if m.expiring && m.expires.Before(s.Until) {
		s.Until = m.expires
	}
	if refusal := r.prove(s, c, text); refusal != nil {
		return nil, refusal
	}
	return s, nil
}

// place checks the site and the chain that a message names.
func (r *Rules) place(c *claim, m *message) *Refusal {
	if !r.domain(m) {
		return refuse(DomainMismatch, "The message was made for another domain than that of this service.")
	}
	if !r.origin(m.uri) {
		return refuse(DomainMismatch, "The URI of the message is of another origin than this service.")
	}
	if m.version != "1" {
		return refuse(InvalidMessage, "The Version of the message must be 1.")
	}
	if _, ok := r.chain(c.chain); !ok {
		return refuse(UnsupportedChain, "Wallets of this chain cannot sign in here; supported: "+r.chainNames()+".")
	}
	if m.family != family(c.chain) {
		return refuse(ChainMismatch, "The message is of another kind of account than chainId.")
	}
	// Wallets of Solana sign the whole name or the part behind the colon.
	_, reference, _ := strings.Cut(c.chain, ":")
	if m.chain != reference && (m.family != wallet.Solana || m.chain != c.chain) {
		return refuse(ChainMismatch, "The Chain ID of the message differs from chainId.")
	}
	return nil
}

// domain says whether a message is for one of ours. If it names a scheme, too, that
// origin must be ours.
func (r *Rules) domain(m *message) bool {
	for _, d := range r.Domains {
		if d == m.domain {
			return m.scheme == "" || r.origin(m.scheme+"://"+m.domain)
		}
	}
	return false
}

func (r *Rules) origin(uri string) bool {
	for _, o := range r.Origins {
		if sameOrigin(o, uri) {
			return true
		}
	}
	return false
}

func (r *Rules) chain(name string) (Chain, bool) {
	for _, c := range r.Chains {
		if c.Name == name {
			return c, true
		}
	}
	return Chain{}, false
}

func (r *Rules) chainNames() string {
	names := make([]string, len(r.Chains))
	for i, c := range r.Chains {
		names[i] = c.Name
	}
	return strings.Join(names, ", ")
}

// time checks the times of a message.
func (r *Rules) time(c *claim, m *message, now time.Time) *Refusal {
	if c.stamped {
		// Whole milliseconds of any size: a subtraction could overflow.
		if at := float64(m.issued.UnixMilli()); c.timestamp < at-float64(r.Skew.Milliseconds()) ||
			c.timestamp > at+float64(r.Skew.Milliseconds()) {
			return refuse(TimestampMismatch, "timestamp must be within "+r.Skew.String()+" of the message's Issued At.")
		}
	}
	switch {
	case m.issued.After(now.Add(r.Skew)):
		return refuse(FutureTimestamp, "The message was issued in the future; set the clock that made it.")
	case now.Sub(m.issued) > r.MaxAge:
		return refuse(Expired, "The message is older than "+r.MaxAge.String()+"; sign a new one.")
	case m.expiring && !now.Before(m.expires):
		return refuse(Expired, "The message has expired; sign a new one.")
	case m.notBefore.After(now.Add(r.Skew)):
		return refuse(NotBefore, "The message is not valid yet.")
	}
	return nil
}
