package facilitator

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"farebox/config"
)

// tokenLife is how long a token of the Coinbase Developer Platform holds: it is made
// for one request.
const tokenLife = 2 * time.Minute

// proof is the credential for requests. Its secret was read once.
type proof interface {
	// value of the header Authorization for a request.
	value(r *http.Request) (string, error)
}

// bearer is the same value for every request.
type bearer string

func (b bearer) value(*http.Request) (string, error) { return "Bearer " + string(b), nil }

// cdp signs a token for each request.
type cdp struct {
	keyID  string
	key    any
	method jwt.SigningMethod
	now    func() time.Time
}

// ErrSecret describes a valid secret of a key. It holds nothing of the secret.
var ErrSecret = errors.New("the secret is not a key of the Coinbase Developer Platform: expected 64 bytes as base64 " +
	"(Ed25519), or a key of P-256 as PEM")

func newCDP(keyID, secret string) (*cdp, error) {
	c := &cdp{keyID: keyID, now: time.Now}
	if block, _ := pem.Decode([]byte(secret)); block != nil {
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			key, err = x509.ParseECPrivateKey(block.Bytes)
		}
		own, ok := key.(*ecdsa.PrivateKey)
		if err != nil || !ok || own.Curve != elliptic.P256() {
			return nil, ErrSecret
		}
		c.key, c.method = own, jwt.SigningMethodES256
		return c, nil
	}
	b, err := base64.StdEncoding.DecodeString(secret)
	if err != nil || len(b) != ed25519.PrivateKeySize {
		return nil, ErrSecret
	}
	key := ed25519.NewKeyFromSeed(b[:ed25519.SeedSize])
	if !key.Equal(ed25519.PrivateKey(b)) {
		return nil, ErrSecret
	}
	c.key, c.method = key, jwt.SigningMethodEdDSA
	return c, nil
}

func (c *cdp) value(r *http.Request) (string, error) {
	var nonce [16]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return "", err
	}
	now := c.now()
	t := jwt.NewWithClaims(c.method, jwt.MapClaims{"sub": c.keyID, "iss": "cdp",
		"uris": []string{r.Method + " " + r.URL.Host + r.URL.Path}, "iat": now.Unix(), "nbf": now.Unix(),
		"exp": now.Add(tokenLife).Unix()})
	t.Header["kid"], t.Header["nonce"] = c.keyID, hex.EncodeToString(nonce[:])
	text, err := t.SignedString(c.key)
	if err != nil {
		return "", errors.New("cannot sign with the key of the facilitator")
	}
	return "Bearer " + text, nil
}

// proofOf reads the credential of a facilitator; nil: it needs none.
func proofOf(c *config.X402Facilitator) (proof, error) {
	switch c.Auth {
	case "bearer":
		return bearer(c.Token.Reveal()), nil
	case "cdp":
		return newCDP(c.KeyID, c.Secret.Reveal())
	}
	return nil, nil
}
