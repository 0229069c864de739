package billing

import (
	"errors"
	"fmt"

	"farebox/billing/replay"
	"farebox/billing/store"
)

// EraseAccount removes a closed account's identity and texts: its name, profile,
// wallets, the descriptions of its keys, memos, texts of reviews and jobs, details of requests, kept
// answers, media and cloned voices. The books stay. It can be repeated at any time.
type EraseAccount struct {
	Account string `json:"account"` // id or name
}

// ErasedAccount is an account that was erased, and the number of its rows removed this time.
type ErasedAccount struct {
	AccountProfile
	Removed store.Erased `json:"removed"`
}

func (e EraseAccount) carryOut(l *Ledger, c *call) (answer ErasedAccount, err error) {
	fail := func(err error) (ErasedAccount, error) {
		return ErasedAccount{}, fmt.Errorf("cannot erase the account %q: %w", e.Account, err)
	}
	a, err := l.findAccount(e.Account)
	if err != nil {
		return fail(err)
	}
	c.profile(a)
	c.entry.BeforeFunc = nil
	c.entry.AnswerFunc = jsonOf(func(q *store.Query) (any, error) {
		row, err := q.Profile(a.no)
		if err != nil {
			return nil, err
		}
		answer.AccountProfile, err = profileInfo(row)
		return answer, err
	})
	status, err := l.store.Account(a.no, l.Today())
	if err == nil && status.Status != store.AccountClosed {
		err = fmt.Errorf("it is %s: close it first", status.Status)
	}
	if err == nil {
		answer.Removed.KeptAnswers, err = l.eraseKept(a.no)
	}
	if err == nil {
		answer.Removed.Requests, err = l.eraseRequests(a.no)
	}
	if err != nil {
		return fail(err)
	}
	// All before may take long: meanwhile operators revoke keys, and payments are credited.
	l.operating.Lock()
	defer l.operating.Unlock()
	if err := c.store.Erase(a.no, l.now()/1000, &answer.Removed); err != nil {
		return fail(err)
	}
	a.rename(store.ErasedName(a.ID))
	rows, err := l.store.Keys(a.no)
	for i := 0; err == nil && i < len(rows); i++ {
		err = l.Accounts().enforceKey(rows[i])
	}
	if err != nil {
		return fail(err)
	}
	return answer, nil
}

// eraseRequests removes the details of an account's requests, also those that wait to be written.
// Other nodes write theirs within a second.
func (l *Ledger) eraseRequests(account uint32) (int64, error) {
	if err := l.flushRequests(); err != nil {
		return 0, err
	}
	return l.store.EraseRequests(account)
}

// eraseKept removes the kept answers of an account, and their items: those of this node, or in
// Redis. Other nodes with files do so at the change in the feed.
func (l *Ledger) eraseKept(account uint32) (n int64, err error) {
	for _, erase := range []func(uint32) (int64, error){l.keyed.Erase, l.items.Erase, l.responses.Erase} {
		erased, failed := erase(account)
		n, err = n+erased, errors.Join(err, failed)
	}
	for i := range l.unopened {
		erased, failed := replay.EraseIn(l.unopened[i], account)
		n, err = n+erased, errors.Join(err, failed)
	}
	if err != nil {
		err = fmt.Errorf("its kept answers cannot be removed: %w", err)
	}
	return n, err
}

// eraseHere removes this node's data of an account that was erased on another. A failure
// holds up no other change: erasing is repeated by the operator.
func (n *node) eraseHere(account uint32) error {
	row, err := n.l.store.Profile(account)
	if err != nil || row.ErasedUs == 0 {
		return err
	}
	if _, err := n.l.eraseKept(account); err != nil {
		n.l.log.Error().Err(err).Str("account", row.ID).Msg("cannot erase what this node keeps of an account; erase it again")
	}
	return nil
}
