package billing

import (
	"fmt"
	"time"

	"farebox/billing/store"
)

// EnclaveAnswer is an answer that an enclave gave to an account. It is kept for 24 hours.
type EnclaveAnswer struct {
	Account       *AccountState
	ID            string // the upstream's
	Model         string
	Upstream      string // the operator's label
	UpstreamModel string
	Key           string   // that the chat was sealed to; empty: it was not
	Request       [32]byte // the sums are zero where the upstream has given the id to several answers
	Response      [32]byte
	At            time.Time
	Signature     []byte // the answer of its enclave about its signature; nil: nobody has asked
}

// Enclaves is the part of a ledger that keeps answers of enclaves.
type Enclaves struct{ *Ledger }

// Enclaves keeps answers of enclaves.
func (l *Ledger) Enclaves() Enclaves { return Enclaves{l} }

// purgedAtOnce is how many old answers go in one transaction.
const purgedAtOnce = 1000

// AddEnclaveAnswers stores answers and removes old ones.
func (l Enclaves) AddEnclaveAnswers(list []*EnclaveAnswer) error {
	rows := make([]*store.EnclaveRow, len(list))
	for i, a := range list {
		rows[i] = &store.EnclaveRow{Account: a.Account.no, ID: a.ID, Model: a.Model, Upstream: a.Upstream,
			Named: a.UpstreamModel, SealedTo: a.Key, Request: a.Request[:], Response: a.Response[:],
			AtUs: a.At.UnixMicro()}
	}
	if err := l.store.AddEnclaveAnswers(rows); err != nil {
		return fmt.Errorf("cannot keep answers of enclaves: %w", err)
	}
	return l.PurgeEnclaveAnswers()
}

// PurgeEnclaveAnswers removes old answers, also when no new ones come.
func (l Enclaves) PurgeEnclaveAnswers() error {
	for {
		n, err := l.store.PurgeEnclaveAnswers(l.now()/1000, purgedAtOnce)
		if err != nil {
			return fmt.Errorf("cannot remove old answers of enclaves: %w", err)
		}
		if n < purgedAtOnce {
			return nil
		}
	}
}

// FindEnclaveAnswer gives an answer to an account, or store.ErrNoRow.
func (l Enclaves) FindEnclaveAnswer(account *AccountState, id string) (*EnclaveAnswer, error) {
	r, err := l.store.EnclaveAnswer(account.no, id, l.now()/1000)
	if err != nil {
		return nil, fmt.Errorf("cannot find an answer of an enclave: %w", err)
	}
	a := &EnclaveAnswer{Account: account, ID: r.ID, Model: r.Model, Upstream: r.Upstream, UpstreamModel: r.Named,
		Key: r.SealedTo, At: fromMicro(r.AtUs), Signature: r.Signature}
	copy(a.Request[:], r.Request)
	copy(a.Response[:], r.Response)
	return a, nil
}

// KeepEnclaveSignature stores the signature of an answer, which its enclave forgets sooner.
func (l Enclaves) KeepEnclaveSignature(a *EnclaveAnswer, signature []byte) error {
	if err := l.store.KeepEnclaveSignature(a.Account.no, a.ID, signature); err != nil {
		return fmt.Errorf("cannot keep a signature: %w", err)
	}
	return nil
}
