package store

import "time"

// EnclaveRow is an answer that an enclave gave to an account.
type EnclaveRow struct {
	Account   uint32 `db:"account"`
	ID        string `db:"id"`        // the upstream's
	Model     string `db:"model"`     // its id here
	Upstream  string `db:"upstream"`  // the operator's label
	Named     string `db:"named"`     // the model's name there
	SealedTo  string `db:"sealed_to"` // the key that the chat was sealed to; empty: it was not
	Request   []byte `db:"request"`   // SHA-256 of the request
	Response  []byte `db:"response"`  // SHA-256 of the answer
	AtUs      int64  `db:"at_us"`
	Signature []byte `db:"signature,late"` // the signature as the upstream gave it; nil: not requested yet
}

// EnclaveStore keeps answers of enclaves for a day.
type EnclaveStore interface {
	// AddEnclaveAnswers adds answers; to add one again changes nothing. Where the account
	// has another answer of that id, it loses its sums: an enclave that answers twice with one
	// id could present the signature of one answer as that of the other.
	AddEnclaveAnswers(rows []*EnclaveRow) error
	// EnclaveAnswer gives an answer of an account that is not older than a day, or ErrNoRow.
	EnclaveAnswer(account uint32, id string, nowUs int64) (*EnclaveRow, error)
	// KeepEnclaveSignature stores the signature of an answer.
	KeepEnclaveSignature(account uint32, id string, signature []byte) error
	// PurgeEnclaveAnswers removes at most so many that are older than a day.
	PurgeEnclaveAnswers(nowUs int64, most int) (removed int, err error)
}

// EnclaveAnswerLife is how long answers of enclaves are kept.
const EnclaveAnswerLife = 24 * time.Hour

var (
	enclaveAnswers   = newTable[EnclaveRow]("enclave_answer")
	addEnclaveAnswer = enclaveAnswers.statement(`INSERT INTO enclave_answer{INSERT} ON CONFLICT(account, id)
		DO UPDATE SET request = $1, response = $1 WHERE enclave_answer.at_us <> excluded.at_us`)
)

func (s *sqlStore) AddEnclaveAnswers(rows []*EnclaveRow) error {
	return s.write(func(t *tx) error {
		for _, r := range rows {
			if _, err := addEnclaveAnswer.exec(t, r, []byte{}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *sqlStore) EnclaveAnswer(account uint32, id string, nowUs int64) (*EnclaveRow, error) {
	return enclaveAnswers.find(s, "account = $1 AND id = $2 AND at_us > $3", account, id,
		nowUs-EnclaveAnswerLife.Microseconds())
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
