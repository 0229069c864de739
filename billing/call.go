package billing

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"

	"farebox/billing/store"
)

// Act is one call of an operation.
type Act struct {
	By     Actor
	Reason string // of a change, for the audit log
	Key    string // idempotency key: the same key with the same query gives the first answer again
	Match  string // If-Match of an operation that changes a row in place
}

// Actor is an operator, or a program of one.
type Actor struct {
	Name      string // of the token, the single sign-on user, or "uid 0"
	Role      Right
	From      string // address, "control socket" or "command line"
	MaxCredit Nano   // most that [MaySupport] credits in a UTC day; 0: nothing
}

// Mistakes of calls.
var (
	ErrNotAllowed  = errors.New("your role does not allow this operation")
	ErrNoOperation = errors.New("there is no such operation")
	ErrQuery       = errors.New("the query is invalid")
	ErrOtherQuery  = store.ErrOtherQuery
	ErrMostCredit  = store.ErrMostCredit
	ErrAnswerLost  = errors.New("the operation was carried out before, and its answer is lost: read the state again")
)

// call is an operation under way.
type call struct {
	Act
	ctx   context.Context
	named bool              // By.Name is an authenticated person: queries do not name another
	store store.Store       // where changes are made, with their entry in the audit log
	entry *store.AuditEntry // nil: the operation changes nothing
}

// by is the deciding operator: an authenticated operator's name, or the name in the query.
func (c *call) by(query string) string {
	if c.named || query == "" {
		return c.By.Name
	}
	return query
}

// why is the reason of the query, or that of the call.
func (c *call) why(query string) string { return cmp.Or(query, c.Reason) }

// local is the operator of a command that works on the ledger itself.
func local() Act {
	return Act{By: Actor{Name: "uid " + strconv.Itoa(os.Getuid()), Role: MayOwn, From: "command line"}}
}

// perform executes an operation on the ledger itself. Every operation passes here,
// whichever way it came. A change is made in one transaction with its entry in the audit log.
func perform[A any](l *Ledger, c *call, q Operation[A]) (answer A, err error) {
	o := operationOf[reflect.TypeOf(q)]
	if err := o.allow(c.By); err != nil {
		return answer, err
	}
	if err := l.mayChange(o.mode); err != nil {
		return answer, err
	}
	if o.mode&alone != 0 {
		l.operating.Lock()
		defer l.operating.Unlock()
	}
	if err := c.ctx.Err(); err != nil {
		return answer, err // no caller waits for it any more
	}
	c.store = l.store
	if o.mode&change == 0 {
		return q.carryOut(l, c)
	}
	if err = c.beginAudit(l, o, q); err == nil {
		answer, err = q.carryOut(l, c)
	}
	var before *store.RepeatError
	switch {
	case errors.As(err, &before):
		return repeated(l, c, q, before.Row)
	case err == nil && c.Key != "" && c.entry.Written():
		return kept(l, c, answer)
	}
	return answer, err
}

// beginAudit makes the audit entry of a change, and finds one that was made before.
func (c *call) beginAudit(l *Ledger, o *operationRow, query any) error {
	text, err := json.Marshal(query)
	if err != nil {
		return err
	}
	now := l.now()
	c.entry = &store.AuditEntry{MostCredit: -1, AuditRow: store.AuditRow{ID: newUUID(), AtUs: now / 1000,
		Who: c.By.Name, Role: c.By.Role.String(), Origin: c.By.From, Operation: o.name, Reason: c.Reason, Idem: c.Key,
		Digest: sha256.Sum256(append([]byte(o.name+"\n"), text...)), Day: l.day(now)}}
	if c.By.Role < MayBook {
		c.entry.MostCredit = max(0, c.By.MaxCredit)
	}
	c.store = l.store.As(c.entry)
	if c.Key == "" {
		return nil
	}
	return l.store.Repeated(c.entry)
}

// Note writes a change of the process, which the store does not have, into the audit log.
func (l *Ledger) Note(act Act, operation, subject string, query, after any) error {
	c := &call{Act: act, ctx: context.Background(), named: true}
	if err := c.beginAudit(l, &operationRow{name: operation}, query); err != nil {
		return err
	}
	c.entry.Subject = subject
	c.entry.AfterFunc = jsonOf(fixed(after))
	s, ok := c.store.(store.Settings)
	if !ok {
		return errors.New("this store has no audit log")
	}
	return s.Note()
}

// kept ensures that the answer is stored for the next time, and gives it as it is stored.
func kept[A any](l *Ledger, c *call, answer A) (A, error) {
	if c.entry.AnswerFunc != nil {
		return merged(answer, c.entry.Answer)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return answer, err
	}
	return answer, l.store.SetAnswer(c.entry.ID, string(text))
}

// merged is an answer as it is stored. Members that are not stored stay: the secret of a new key.
func merged[A any](answer A, text string) (A, error) {
	return answer, json.Unmarshal([]byte(text), &answer)
}

// secretive is an operation whose answer has a secret, which is not stored.
type secretive[A any] interface {
	reveal(l *Ledger, c *call, answer *A)
}

// repeated gives the first answer to a change again.
func repeated[A any](l *Ledger, c *call, q Operation[A], row *store.AuditRow) (answer A, err error) {
	if row.Answer == "" {
		return answer, ErrAnswerLost
	}
	if err := json.Unmarshal([]byte(row.Answer), &answer); err != nil {
		return answer, fmt.Errorf("cannot read the first answer: %w", err)
	}
	if s, ok := q.(secretive[A]); ok && l.now()/1000-row.AtUs < secretUs {
		s.reveal(l, c, &answer)
	}
	return answer, nil
}

// secretUs is how long a repeat of the same call gets the secret again.
const secretUs = int64(24 * 3600 * 1e6)

// secretOf is the randomness of a secret. With an idempotency key it is always the same, and
// unpredictable without the pepper of the store.
func (c *call) secretOf(l *Ledger) (b [32]byte) {
	if c == nil || c.Key == "" {
		_, _ = rand.Read(b[:])
		return b
	}
	mac := hmac.New(sha256.New, l.DeriveSecret("secrets of repeatable operations"))
	for _, text := range [][]byte{[]byte(c.By.Name), []byte(c.Key), c.entry.Digest[:]} {
		mac.Write(binary.AppendUvarint(nil, uint64(len(text))))
		mac.Write(text)
	}
	mac.Sum(b[:0])
	return b
}

// answers has the audit entry keep the answer that state gives, and state itself as the
// changed state. Both are read in the transaction of the change.
func (c *call) answers(state func(*store.Query) (any, error)) {
	c.entry.AnswerFunc = jsonOf(state)
	c.entry.AfterFunc = jsonOf(state)
}

// jsonOf is the JSON text of the result of state.
func jsonOf(state func(*store.Query) (any, error)) func(*store.Query) (string, error) {
	return func(q *store.Query) (string, error) {
		v, err := state(q)
		if err != nil {
			return "", err
		}
		text, err := json.Marshal(v)
		return string(text), err
	}
}

// account puts the store's state of an account before and after into the audit entry.
func (c *call) account(l *Ledger, a *AccountState) {
	c.entry.Account, c.entry.Subject = a.no, a.ID
	state := jsonOf(func(q *store.Query) (any, error) {
		row, err := q.Account(a.no, l.Today())
		if err != nil {
			return nil, err
		}
		return storedInfo(row), nil
	})
	c.entry.BeforeFunc, c.entry.AfterFunc = state, state
}

// key is account for a key, which is also the answer.
func (c *call) key(row *store.KeyRow) {
	c.entry.Account, c.entry.Subject = row.Account, row.ID
	state := jsonOf(func(q *store.Query) (any, error) {
		row, err := q.Key(row.ID)
		if err != nil {
			return nil, err
		}
		return keyInfo(row), nil
	})
	c.entry.BeforeFunc, c.entry.AfterFunc, c.entry.AnswerFunc = state, state, state
}

// fixed is a state that is known before.
func fixed(v any) func(*store.Query) (any, error) {
	return func(*store.Query) (any, error) { return v, nil }
}

// allow refuses an operator whose role lacks the right.
func (o *operationRow) allow(by Actor) error {
	if by.Role >= o.right {
		return nil
	}
	return fmt.Errorf("%w: %s needs the role %s, and %q has the role %q", ErrNotAllowed, o.name, o.right, by.Name, by.Role)
}

// Perform executes an operation by its name, for an authenticated operator.
func (l *Ledger) Perform(ctx context.Context, act Act, name string, query []byte) (answer any, err error) {
	o := operationNamed[name]
	if o == nil {
		return nil, fmt.Errorf("%w: %q", ErrNoOperation, name)
	}
	if err := o.allow(act.By); err != nil {
		return nil, err
	}
	if len(act.Reason) > maxMemo || len(act.Key) > maxMemo {
		return nil, fmt.Errorf("%w: reason and idempotency key may have at most %d bytes", ErrQuery, maxMemo)
	}
	if err := errors.Join(checkText("reason", act.Reason), checkText("idempotency key", act.Key)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrQuery, err)
	}
	if err := o.known(query); err != nil {
		return nil, err
	}
	return o.serve(l, &call{Act: act, ctx: ctx, named: true}, query)
}
