package signin

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"farebox/providers/wallet"
)

// challengeLife is the time that a client has to sign the message.
const challengeLife = 5 * time.Minute

// Challenge asks a client for a message, as JSON: the value of extensions'
// sign-in-with-x and of siwxChallenge (addendum 14.4).
type Challenge struct {
	Info            Info   `json:"info"`
	SupportedChains []Kind `json:"supportedChains"`
}

// Info is the required content of the message.
type Info struct {
	Domain         string `json:"domain"`
	URI            string `json:"uri"`
	Version        string `json:"version"`
	Nonce          string `json:"nonce"`
	IssuedAt       string `json:"issuedAt"`
	ExpirationTime string `json:"expirationTime"`
	Statement      string `json:"statement,omitempty"`
}

// Kind is a chain whose wallets may sign, and how.
type Kind struct {
	ChainID string `json:"chainId"`
	Type    string `json:"type"`
}

// Challenge asks for a message for a URI. Clients sign only messages with the host that
// they called, so that the domain is the one of ours that the URI has, else the first. The
// statement may be empty.
func (r *Rules) Challenge(now time.Time, uri, statement string) *Challenge {
	const form = "2006-01-02T15:04:05.000Z"
	var nonce [16]byte
	rand.Read(nonce[:]) // never fails
	c := &Challenge{Info: Info{Domain: r.domainOf(uri), URI: uri, Version: "1", Nonce: hex.EncodeToString(nonce[:]),
		IssuedAt: now.UTC().Format(form), ExpirationTime: now.Add(min(challengeLife, r.MaxAge)).UTC().Format(form),
		Statement: statement}}
	for _, chain := range r.Chains {
		if family(chain.Name) == wallet.Solana {
			c.SupportedChains = append(c.SupportedChains, Kind{chain.Name, "ed25519"})
			continue
		}
		c.SupportedChains = append(c.SupportedChains, Kind{chain.Name, "eip191"})
		if chain.Contracts {
			c.SupportedChains = append(c.SupportedChains, Kind{chain.Name, "eip1271"})
		}
	}
	return c
}

func (r *Rules) domainOf(uri string) string {
	_, host, _ := splitOrigin(uri)
	for _, d := range r.Domains {
		if strings.EqualFold(d, host) {
			return d
		}
	}
	if len(r.Domains) == 0 {
		return ""
	}
	return r.Domains[0]
}

// AppendJSON appends the challenge as it is sent.
func (c *Challenge) AppendJSON(dst []byte) []byte {
	b, err := json.Marshal(c)
	if err != nil {
		panic("signin: texts cannot be written as JSON: " + err.Error())
	}
	return append(dst, b...)
}
