package store

import "farebox/billing/money"

// TokenRow is a token of the operator's API. Of its secret only the MAC is stored.
type TokenRow struct {
	ID        string     `db:"id"`
	Name      string     `db:"name"`
	Role      uint8      `db:"role"`
	MAC       Digest     `db:"mac"`
	MaxCredit money.Nano `db:"max_credit"` // a UTC day, of the role support
	CreatedUs int64      `db:"created_us"`
	EndsUs    int64      `db:"ends_us"`
	RevokedUs int64      `db:"revoked_us"` // 0: not revoked
}

var (
	tokens   = newTable[TokenRow]("operator_token")
	addToken = tokens.statement("INSERT INTO operator_token{INSERT} ON CONFLICT(id) DO NOTHING")
)

// OperatorStore has the operators' tokens and their actions.
type OperatorStore interface {
	// As is a view of the store for one operation, whose first change writes the entry, too.
	As(e *AuditEntry) Store
	// Repeated gives a RepeatError when the change of an entry was made before.
	Repeated(e *AuditEntry) error
	SetAnswer(id, answer string) error
	Audit(f AuditFilter, most int) (rows []*AuditRow, next *AuditRow, err error)

	AddOperatorToken(r *TokenRow) error
	OperatorTokens(behind JobPlace, most int) (rows []*TokenRow, next *TokenRow, err error)
	OperatorToken(id string) (*TokenRow, error)
	OperatorTokenByMAC(mac Digest) (*TokenRow, error)
	RevokeOperatorToken(id string, nowUs int64) error
}

// AddOperatorToken makes a token.
func (s *sqlStore) AddOperatorToken(r *TokenRow) error {
	return s.write(func(t *tx) error {
		_, err := addToken.exec(t, r)
		return err
	})
}

// OperatorTokens lists all tokens, the latest first. next is where the list continues; nil: at its end.
func (s *sqlStore) OperatorTokens(behind JobPlace, most int) (rows []*TokenRow, next *TokenRow, err error) {
	l := listing[TokenRow]{text: tokens.brief, order: "created_us, id", down: true, scan: tokens.scan, behind: behind.behind(),
		place: func(r *TokenRow) []any { return []any{r.CreatedUs, r.ID} }}
	return l.readPage(s, most)
}

// OperatorToken gives a token as the transaction sees it.
func (q *Query) OperatorToken(id string) (*TokenRow, error) { return tokens.one(q, "id = $1", id) }

// OperatorToken gives a token by its id.
func (s *sqlStore) OperatorToken(id string) (*TokenRow, error) { return tokens.find(s, "id = $1", id) }

// OperatorTokenByMAC gives the token of a secret.
func (s *sqlStore) OperatorTokenByMAC(mac Digest) (*TokenRow, error) {
	return tokens.find(s, "mac = $1", mac[:])
}

// RevokeOperatorToken ends a token now.
func (s *sqlStore) RevokeOperatorToken(id string, nowUs int64) error {
	return s.write(func(t *tx) error {
		n, err := t.affect("UPDATE operator_token SET revoked_us = $2 WHERE id = $1 AND revoked_us = 0", id, nowUs)
		if n == 0 {
			t.unchanged()
		}
		return err
	})
}
