package billing

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
)

// A token of the operator's API is tokenPrefix and tokenDigits of base62.
const (
	tokenPrefix = "fbo_"
	tokenDigits = 32
)

// ErrNoToken is a token that does not exist, has ended or is revoked.
var ErrNoToken = errors.New("there is no such token")

// TokenInfo is a token of the operator's API, without its secret.
type TokenInfo struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Role      Right     `json:"role"`
	MaxCredit Nano      `json:"max_credit"` // a UTC day, of the role support
	CreatedAt time.Time `json:"created_at"`
	EndsAt    time.Time `json:"ends_at"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
}

// CreateToken makes a token of the operator's API. Tokens of one name share the daily limit of
// credits and the idempotency keys.
type CreateToken struct {
	Name      string    `json:"name"`
	Role      Right     `json:"role"`
	Ends      time.Time `json:"ends"`
	MaxCredit Nano      `json:"max_credit,omitempty"` // most that support may credit a UTC day
}

// CreatedToken is a new token. Its secret is never shown again.
type CreatedToken struct {
	TokenInfo
	Secret string `json:"secret,omitempty"`
}

func (ct CreateToken) carryOut(l *Ledger, c *call) (CreatedToken, error) {
	fail := func(err error) (CreatedToken, error) {
		return CreatedToken{}, fmt.Errorf("cannot create the token %q: %w", ct.Name, err)
	}
	switch now := l.clock(); {
	case ct.Name == "" || len(ct.Name) > maxName || strings.TrimSpace(ct.Name) != ct.Name:
		return fail(fmt.Errorf("its name has 1 to %d bytes without space around", maxName))
	case ct.Role < MayList || ct.Role > MayOwn:
		return fail(errors.New("give its role: read-only, support, billing or owner"))
	case !ct.Ends.After(now):
		return fail(errors.New("give a time in the future when it ends"))
	case ct.MaxCredit < 0 || ct.MaxCredit > money.MaxCredit:
		return fail(fmt.Errorf("its daily limit of credits is between 0 and %s", money.MaxCredit))
	}
	if err := checkText("token name", ct.Name); err != nil {
		return fail(err)
	}
	secret := l.newToken(c)
	row := &store.TokenRow{ID: newUUID(), Name: ct.Name, Role: uint8(ct.Role), MAC: l.tokenMAC(secret),
		MaxCredit: ct.MaxCredit, CreatedUs: l.now() / 1000, EndsUs: ct.Ends.UnixMicro()}
	made := CreatedToken{TokenInfo: tokenInfo(row)}
	c.entry.Subject = row.ID
	c.answers(fixed(made))
	if err := c.store.AddOperatorToken(row); err != nil {
		return fail(err)
	}
	made.Secret = secret
	return made, nil
}

// reveal gives the secret again.
func (ct CreateToken) reveal(l *Ledger, c *call, made *CreatedToken) { made.Secret = l.newToken(c) }

func (l *Ledger) newToken(c *call) string {
	digits := base62Of(c.secretOf(l))
	return tokenPrefix + digits[len(digits)-tokenDigits:]
}

func (l *Ledger) tokenMAC(secret string) store.Digest {
	return l.hasher.digest([]byte("operator token " + secret))
}

// OperatorToken gives the token of a secret, or ErrNoToken where none is valid now.
func (l *Ledger) OperatorToken(secret string) (TokenInfo, error) {
	if len(secret) != len(tokenPrefix)+tokenDigits || !strings.HasPrefix(secret, tokenPrefix) {
		return TokenInfo{}, ErrNoToken
	}
	row, err := l.store.OperatorTokenByMAC(l.tokenMAC(secret))
	if errors.Is(err, store.ErrNoRow) || err == nil && (row.RevokedUs != 0 || row.EndsUs <= l.now()/1000) {
		err = ErrNoToken
	}
	if err != nil {
		return TokenInfo{}, err
	}
	return tokenInfo(row), nil
}

func tokenInfo(r *store.TokenRow) TokenInfo {
	return TokenInfo{ID: r.ID, Name: r.Name, Role: Right(r.Role), MaxCredit: r.MaxCredit, CreatedAt: fromMicro(r.CreatedUs),
		EndsAt: fromMicro(r.EndsUs), RevokedAt: fromMicro(r.RevokedUs)}
}

// ListTokens lists the tokens of the operator's API, the latest first.
type ListTokens struct{ Page }

func (lt ListTokens) carryOut(l *Ledger, _ *call) (list List[TokenInfo], err error) {
	var behind store.JobPlace
	if err := lt.after(&behind.CreatedUs, &behind.ID); err != nil {
		return list, err
	}
	rows, next, err := l.store.OperatorTokens(behind, lt.most())
	if err != nil {
		return list, fmt.Errorf("cannot list the tokens: %w", err)
	}
	return page(rows, next, func(r *store.TokenRow) string { return cursorAt(r.CreatedUs, r.ID) },
		func(rows []*store.TokenRow) (list []TokenInfo, err error) {
			for _, r := range rows {
				list = append(list, tokenInfo(r))
			}
			return list, nil
		})
}

// RevokeToken ends a token now.
type RevokeToken struct {
	ID string `json:"id"`
}

func (r RevokeToken) carryOut(l *Ledger, c *call) (TokenInfo, error) {
	c.entry.Subject = r.ID
	state := func(tx *store.Query) (any, error) {
		row, err := tx.OperatorToken(r.ID)
		if err != nil {
			return nil, err
		}
		return tokenInfo(row), nil
	}
	c.answers(state)
	c.entry.BeforeFunc = c.entry.AfterFunc
	err := c.store.RevokeOperatorToken(r.ID, l.now()/1000)
	var row *store.TokenRow
	if err == nil {
		row, err = l.store.OperatorToken(r.ID)
	}
	if errors.Is(err, store.ErrNoRow) {
		err = ErrNoToken
	}
	if err != nil {
		return TokenInfo{}, fmt.Errorf("cannot revoke the token %q: %w", r.ID, err)
	}
	return tokenInfo(row), nil
}
