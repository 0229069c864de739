package store

import (
	"errors"
	"fmt"
	"slices"

	"farebox/billing/money"
)

// AuditRow tells of one change by an operator. It is written in the transaction of the change.
type AuditRow struct {
	No        int64      `db:"no,late"`
	ID        string     `db:"id"`
	AtUs      int64      `db:"at_us"`
	Who       string     `db:"who"`
	Role      string     `db:"role"`
	Origin    string     `db:"origin"` // address, control socket or command line
	Operation string     `db:"operation"`
	Account   uint32     `db:"account"` // 0: of none
	Subject   string     `db:"subject"` // id of the changed object
	Reason    string     `db:"reason"`
	Idem      string     `db:"idem"`   // idempotency key; unique for each Who
	Digest    Digest     `db:"digest"` // of operation and query
	Before    string     `db:"before_state"`
	After     string     `db:"after_state"`
	Answer    string     `db:"answer"` // JSON without secrets; "": not known yet
	Day       int32      `db:"day,date"`
	Credited  money.Nano `db:"credited"`
}

// AuditEntry is the audit row of an operation under way, and how it is filled in the
// transaction. The functions see the store as the transaction does.
type AuditEntry struct {
	AuditRow
	BeforeFunc func(*Query) (string, error)
	AfterFunc  func(*Query) (string, error)
	AnswerFunc func(*Query) (string, error)
	// MostCredit bounds the sum of the credits of Who on Day; below 0: no bound.
	MostCredit money.Nano
	written    bool
	uncertain  bool // an earlier attempt may have been written: only its answer was lost
}

// Written says that the change and its row are in the store.
func (e *AuditEntry) Written() bool { return e.written }

// Errors of audited changes.
var (
	ErrOtherQuery = errors.New("the idempotency key belongs to another query: use a new one")
	ErrMostCredit = errors.New("the daily limit for credits is reached")
)

// RepeatError is an idempotency key whose change was made before.
type RepeatError struct{ Row *AuditRow }

func (e *RepeatError) Error() string {
	return "the operation was carried out before, with the same idempotency key"
}

var (
	audits   = newTable[AuditRow]("audit")
	addAudit = audits.statement("INSERT INTO audit{INSERT} ON CONFLICT(id) DO NOTHING")
)

// As is a view of the store for one operation: its first change that is made writes the entry,
// too. Later ones of the same operation do not.
func (s *sqliteStore) As(e *AuditEntry) Store { return &sqliteStore{s.as(e)} }

// As is a view of the store for one operation.
func (s *postgresStore) As(e *AuditEntry) Store { return &postgresStore{s.as(e), s.session} }

func (s *sqlStore) as(e *AuditEntry) *sqlStore {
	view := *s
	view.audited = e
	return &view
}

// beginAudit lets operators change the store one after the other, on all nodes, and finds a
// change that was made before. Other writers do not wait here.
func (t *tx) beginAudit() error {
	if t.audited == nil {
		return nil
	}
	if err := t.lockRows("SELECT value FROM counter WHERE name = 'operator' {LOCK}"); err != nil {
		return err
	}
	if t.audited.uncertain {
		row, err := audits.one(&t.Query, "id = $1", t.audited.ID)
		if err == nil {
			return &RepeatError{row}
		}
		if !errors.Is(err, ErrNoRow) {
			return err
		}
	}
	if err := t.repeated(t.audited); err != nil || t.audited.BeforeFunc == nil {
		return err
	}
	var err error
	t.audited.Before, err = t.audited.BeforeFunc(&t.Query)
	return err
}

// byIdem finds a change by its key. It repeats the condition of the index audit_idem, which is not used
// otherwise.
const byIdem = "who = $1 AND idem = $2 AND idem <> ''"

// repeated gives a RepeatError for a key whose change was made before.
func (q *Query) repeated(e *AuditEntry) error {
	if e.Idem == "" {
		return nil
	}
	row, err := audits.one(q, byIdem, e.Who, e.Idem)
	switch {
	case errors.Is(err, ErrNoRow):
		return nil
	case err != nil:
		return err
	case row.Digest != e.Digest:
		return ErrOtherQuery
	}
	return &RepeatError{row}
}

// Repeated gives a RepeatError when the change of an entry was made before.
func (s *sqlStore) Repeated(e *AuditEntry) error {
	return s.read(func(q *Query) error { return q.repeated(e) })
}

// unchanged is for a transaction that finds its change made before, by its reference.
func (t *tx) unchanged() { t.audited = nil }

// credits counts a credit of the operator.
func (t *tx) credits(n money.Nano) error {
	e := t.audited
	if e == nil {
		return nil
	}
	e.Credited = n
	if e.MostCredit < 0 {
		return nil
	}
	list, err := values[int64](&t.Query, "SELECT credited FROM audit WHERE who = $1 AND day = $2 AND credited > 0", e.Who,
		addAudit.dateOf(&e.AuditRow))
	var sum money.Nano
	for _, n := range list {
		sum += money.Nano(n)
	}
	if err == nil && n > e.MostCredit-sum {
		err = fmt.Errorf("%w: %s of %s are left today", ErrMostCredit, max(0, e.MostCredit-sum), e.MostCredit)
	}
	return err
}

// dateOf is the day of a row as it is stored.
func (st *statement[R]) dateOf(r *R) any {
	i := slices.IndexFunc(st.columns, func(c *column) bool { return c.date })
	return st.args(r)[i]
}

// endAudit writes the entry.
func (t *tx) endAudit() (err error) {
	e := t.audited
	if e == nil {
		return nil
	}
	if e.AfterFunc != nil {
		if e.After, err = e.AfterFunc(&t.Query); err != nil {
			return err
		}
	}
	if e.AnswerFunc != nil {
		if e.Answer, err = e.AnswerFunc(&t.Query); err != nil {
			return err
		}
	}
	_, err = addAudit.exec(t, &e.AuditRow)
	return err
}

// SetAnswer adds the answer of an operation whose change does not tell it.
func (s *sqlStore) SetAnswer(id, answer string) error {
	return s.write(func(t *tx) error {
		_, err := t.exec("UPDATE audit SET answer = $2 WHERE id = $1 AND answer = ''", id, answer)
		return err
	})
}

// AuditFilter selects audit rows; zero fields select all.
type AuditFilter struct {
	Who, Operation, Subject string
	Account                 uint32
	FromUs, ToUs            int64
	Behind                  AuditPlace
}

// AuditPlace is a place in the audit log.
type AuditPlace struct{ AtUs, No int64 }

// Audit lists audit rows, the latest first. next is where the list continues; nil: at its end.
func (s *sqlStore) Audit(f AuditFilter, most int) (rows []*AuditRow, next *AuditRow, err error) {
	l := listing[AuditRow]{text: audits.brief, order: "at_us, no", down: true, scan: audits.scan,
		place: func(r *AuditRow) []any { return []any{r.AtUs, r.No} }, matches: f.matches}
	switch {
	case f.Subject != "":
		l.add("subject = ", f.Subject, true)
	case f.Account != 0:
		l.add("account = ", f.Account, true)
	case f.Who != "":
		l.add("who = ", f.Who, true)
	case f.Operation != "":
		l.add("operation = ", f.Operation, true)
	}
	l.within("at_us", f.FromUs, f.ToUs)
	if f.Behind != (AuditPlace{}) {
		l.behind = []any{f.Behind.AtUs, f.Behind.No}
	}
	return l.readPage(s, most)
}

func (f *AuditFilter) matches(r *AuditRow) bool {
	return (f.Who == "" || r.Who == f.Who) && (f.Operation == "" || r.Operation == f.Operation) &&
		(f.Subject == "" || r.Subject == f.Subject) && (f.Account == 0 || r.Account == f.Account)
}
