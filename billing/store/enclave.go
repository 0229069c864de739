package store

import "time"

// EnclaveRow is an answer that an enclave gave to an account.
type EnclaveRow struct {
	Account  uint32
	ID       string // the upstream's
	Model    string // its id here
	Upstream string // the operator's label
	Named    string // the model's name there
	SealedTo string // the key that the chat was sealed to; empty: it was not
	Request  []byte // SHA-256 of what was sent
	Response []byte // …and of what came
	AtUs     int64

	Signature []byte // what was said of its signature; nil: nobody has asked
}

// EnclaveStore keeps answers of enclaves for a day.
type EnclaveStore interface {
	// AddEnclaveAnswers adds answers; to add one again changes nothing. Where the account
	// has another answer of that id, it loses its sums: who answers twice with one id would
	// have the signature of one answer stand for the other.
	AddEnclaveAnswers(rows []*EnclaveRow) error
	// EnclaveAnswer gives an answer of an account that is not older than a day, or ErrNoRow.
	EnclaveAnswer(account uint32, id string, nowUs int64) (*EnclaveRow, error)
	// KeepEnclaveSignature keeps what was said of the signature of an answer.
	KeepEnclaveSignature(account uint32, id string, signature []byte) error
	// PurgeEnclaveAnswers removes at most so many that are older than a day.
	PurgeEnclaveAnswers(nowUs int64, most int) (removed int, err error)
}

// EnclaveAnswerLife is how long answers of enclaves are kept.
const EnclaveAnswerLife = 24 * time.Hour

const enclaveColumns = "account, id, model, upstream, named, sealed_to, request, response, at_us, signature"

func (s *sqlStore) AddEnclaveAnswers(rows []*EnclaveRow) error {
	return s.write(func(t *tx) error {
		for _, r := range rows {
			_, err := t.exec("INSERT INTO enclave_answer("+enclaveColumns+
				") VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, NULL) ON CONFLICT(account, id) DO UPDATE SET request = $10, "+
				"response = $10 WHERE enclave_answer.at_us <> excluded.at_us", r.Account, r.ID, r.Model, r.Upstream, r.Named,
				r.SealedTo, r.Request, r.Response, r.AtUs, []byte{})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *sqlStore) EnclaveAnswer(account uint32, id string, nowUs int64) (*EnclaveRow, error) {
	return ask(s, func(q *Query) (*EnclaveRow, error) {
		r := &EnclaveRow{}
		err := q.Row("SELECT "+enclaveColumns+" FROM enclave_answer WHERE account = $1 AND id = $2 AND at_us > $3", account,
			id, nowUs-EnclaveAnswerLife.Microseconds()).Scan(&r.Account, &r.ID, &r.Model, &r.Upstream, &r.Named,
			&r.SealedTo, &r.Request, &r.Response, &r.AtUs, &r.Signature)
		return r, noRow(err)
	})
}

func (s *sqlStore) KeepEnclaveSignature(account uint32, id string, signature []byte) error {
	_, err := s.affect("UPDATE enclave_answer SET signature = $3 WHERE account = $1 AND id = $2 AND signature IS NULL",
		account, id, signature)
	return err
}

func (s *sqlStore) PurgeEnclaveAnswers(nowUs int64, most int) (int, error) {
	return s.affect(`DELETE FROM enclave_answer WHERE (account, id) IN (
		SELECT account, id FROM enclave_answer WHERE at_us <= $1 ORDER BY at_us LIMIT $2)`,
		nowUs-EnclaveAnswerLife.Microseconds(), most)
}
