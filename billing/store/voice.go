package store

import "fmt"

// VoiceRow is a voice that an account had cloned, until it expires.
type VoiceRow struct {
	ID        string `db:"id"` // vv_…
	Account   uint32 `db:"account"`
	Model     string `db:"model"`    // its id here
	Upstream  string `db:"upstream"` // the operator's label
	Voice     string `db:"voice"`    // its name there
	CreatedUs int64  `db:"created_us"`
	UsedUs    int64  `db:"used_us"`
	ExpiresUs int64  `db:"expires_us"`
}

// VoiceStore keeps cloned voices.
type VoiceStore interface {
	// AddVoice adds a voice, or gives ErrManyVoices, or ErrExists for an id that is taken.
	AddVoice(r *VoiceRow) error
	// Voice gives a voice of an account that has not expired, or ErrNoRow.
	Voice(account uint32, id string, nowUs int64) (*VoiceRow, error)
	// Voices are those of an account, or of all with 0, newest first.
	Voices(account uint32) ([]*VoiceRow, error)
	// TouchVoice notes that a voice was used, and lets it live until a later time.
	TouchVoice(id string, nowUs, untilUs int64) error
	// ExpiredVoices gives voices whose time is over.
	ExpiredVoices(nowUs int64, most int) ([]*VoiceRow, error)
	// DeleteVoice removes a voice.
	DeleteVoice(id string) (done bool, err error)
}

// MaxVoices is how many voices an account may have at a time.
const MaxVoices = 100

// ErrManyVoices is an account with the most voices that it may have.
var ErrManyVoices = fmt.Errorf("the account has %d cloned voices, which is the most: they expire with time", MaxVoices)

var (
	voices   = newTable[VoiceRow]("voice")
	addVoice = voices.statement("INSERT INTO voice{INSERT}")
)

func (s *sqlStore) AddVoice(r *VoiceRow) error {
	return s.unique(s.write(func(t *tx) error {
		// Concurrent inserts of voices of one account run one after the other.
		var n int
		err := t.lockRows("SELECT no FROM account WHERE no = $1 {LOCK}", r.Account)
		if err == nil {
			err = t.Row("SELECT count(*) FROM voice WHERE account = $1 AND expires_us > $2", r.Account,
				r.CreatedUs).Scan(&n)
		}
		if err == nil && n >= MaxVoices {
			return ErrManyVoices
		}
		if err == nil {
			_, err = addVoice.exec(t, r)
		}
		return err
	}))
}

func (s *sqlStore) Voice(account uint32, id string, nowUs int64) (*VoiceRow, error) {
	return voices.find(s, "id = $1 AND account = $2 AND expires_us > $3", id, account, nowUs)
}

func (s *sqlStore) Voices(account uint32) ([]*VoiceRow, error) {
	return voices.list(s, "(account = $1 OR $1 = 0) ORDER BY created_us DESC, id", account)
}

func (s *sqlStore) TouchVoice(id string, nowUs, untilUs int64) error {
	_, err := s.affect("UPDATE voice SET used_us = $2, expires_us = CASE WHEN expires_us < $3 THEN $3 ELSE expires_us END "+
		"WHERE id = $1 AND used_us < $2", id, nowUs, untilUs)
	return err
}

func (s *sqlStore) ExpiredVoices(nowUs int64, most int) ([]*VoiceRow, error) {
	return voices.list(s, "expires_us <= $1 ORDER BY expires_us, id LIMIT $2", nowUs, most)
}

func (s *sqlStore) DeleteVoice(id string) (bool, error) {
	n, err := s.affect("DELETE FROM voice WHERE id = $1", id)
	return n > 0, err
}
