package account

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	// web3Life is how long a wallet has to sign a token (addendum 16.6).
	web3Life = 15 * time.Minute
	// web3Issuer and web3Audience tie a token to this use of the secret.
	web3Issuer   = "farebox"
	web3Audience = "generate_web3_key"
	web3TokenID  = 26 // characters of rand.Text
)

// Mistakes in a token, in the words that clients know (notes: web3 key).
var (
	errTokenExpired   = errors.New("JWT has expired")
	errTokenSignature = errors.New("JWT signature is invalid")
	errTokenClaims    = errors.New("JWT claims are invalid")
	errTokenMalformed = errors.New("JWT is malformed")
)

// web3Tokens makes and checks the tokens that wallets sign. The algorithm is fixed: the algorithm
// that a token names is only compared.
type web3Tokens struct {
	secret []byte
	parser *jwt.Parser
}

func newWeb3Tokens(secret []byte, now func() time.Time) *web3Tokens {
	return &web3Tokens{secret: secret, parser: jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithIssuer(web3Issuer),
		jwt.WithAudience(web3Audience),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithStrictDecoding(), jwt.WithTimeFunc(now),
	)}
}

func (w *web3Tokens) issue(now time.Time) (string, error) {
	return jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Issuer: web3Issuer, Audience: jwt.ClaimStrings{web3Audience}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(web3Life)),
	}).SignedString(w.secret)
}

// check gives the id under which the use of a token is recorded, and until when.
func (w *web3Tokens) check(token string) (id string, expires time.Time, err error) {
	var claims jwt.RegisteredClaims
	_, err = w.parser.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return w.secret, nil })
	switch {
	case err == nil:
	case errors.Is(err, jwt.ErrTokenMalformed):
		return "", time.Time{}, errTokenMalformed
	case errors.Is(err, jwt.ErrTokenSignatureInvalid), errors.Is(err, jwt.ErrTokenUnverifiable):
		return "", time.Time{}, errTokenSignature
	case errors.Is(err, jwt.ErrTokenExpired):
		return "", time.Time{}, errTokenExpired
	default:
		return "", time.Time{}, errTokenClaims
	}
	if len(claims.ID) != web3TokenID || claims.IssuedAt == nil ||
		claims.ExpiresAt.Sub(claims.IssuedAt.Time) > web3Life {
		return "", time.Time{}, errTokenClaims
	}
	return claims.ID, claims.ExpiresAt.Time, nil
}
