package credential

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/tidwall/gjson"
)

// maxExpiry bounds the expiry in a token to times that time.Time can hold.
const maxExpiry = 1 << 40

// expiryOfClaims reads exp of the middle part of a JWT.
func expiryOfClaims(part string) (time.Time, bool) {
	claims, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil || !gjson.ValidBytes(claims) {
		return time.Time{}, false
	}
	exp := gjson.GetBytes(claims, "exp")
	if exp.Type != gjson.Number || !(exp.Num > 0 && exp.Num < maxExpiry) {
		return time.Time{}, false
	}
	return time.Unix(int64(exp.Num), 0), true
}

// claims are those with which a service account asks for a token (RFC 7523).
type claims struct {
	Issuer   string `json:"iss"`
	Scope    string `json:"scope"`
	Audience string `json:"aud"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

// signJWT is the JWT of claims, signed with RS256.
func signJWT(key *rsa.PrivateKey, keyID string, c claims) (string, error) {
	head, err := json.Marshal(struct {
		Algorithm string `json:"alg"`
		Type      string `json:"typ"`
		KeyID     string `json:"kid,omitempty"`
	}{"RS256", "JWT", keyID})
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	b64 := base64.RawURLEncoding
	text := b64.EncodeToString(head) + "." + b64.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", err
	}
	return text + "." + b64.EncodeToString(signature), nil
}
