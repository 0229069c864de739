package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"farebox/billing/calendar"
	"farebox/billing/money"
)

// ProfileRow has an operator's notes about an account.
type ProfileRow struct {
	No         uint32     `db:"no,late"`
	ID         string     `db:"id"`
	Name       string     `db:"name"`
	ExternalID *string    `db:"external_id"` // unique; nil: none
	Email      string     `db:"email"`
	Company    string     `db:"company"`
	TaxID      string     `db:"tax_id"`
	Metadata   string     `db:"metadata"`    // JSON object of texts; "": none
	LowBalance money.Nano `db:"low_balance"` // 0: none
	Version    int64      `db:"version"`     // counts changes by operators, from 1
	ErasedUs   int64      `db:"erased_us"`   // 0: not erased
}

// ErrExternalID is an external id that another account has.
var ErrExternalID = errors.New("another account has this external id")

var (
	profiles      = newTable[ProfileRow]("account")
	changeProfile = profiles.statement(`UPDATE account SET {SET name, external_id, email, company, tax_id, metadata,
		low_balance}, version = version + 1 WHERE no = $1 AND version = $2`)
)

// Profile gives the profile of an account as the transaction sees it.
func (q *Query) Profile(number uint32) (*ProfileRow, error) {
	return profiles.one(q, "no = $1", number)
}

// Profile gives the profile of an account.
func (s *sqlStore) Profile(number uint32) (*ProfileRow, error) {
	return ask(s, func(q *Query) (*ProfileRow, error) { return q.Profile(number) })
}

// Profiles gives the profiles of accounts by number.
func (s *sqlStore) Profiles(first, last uint32) ([]*ProfileRow, error) {
	return profiles.list(s, "no BETWEEN $1 AND $2 ORDER BY no", first, last)
}

// ChangeProfile writes a profile, unless it has changed since it had version.
func (s *sqlStore) ChangeProfile(r *ProfileRow, version int64) error {
	return s.write(func(t *tx) error {
		if err := t.freeProfile(r); err != nil {
			return err
		}
		n, err := changeProfile.exec(t, r, r.No, version)
		if err == nil && n == 0 {
			return ErrStale
		}
		r.Version = version + 1
		t.change(ChangeAccount, r.No, 0)
		return err
	})
}

// freeProfile refuses names and external ids of other accounts.
func (t *tx) freeProfile(r *ProfileRow) error {
	var names, ids int64
	err := t.Row("SELECT (SELECT count(*) FROM account WHERE name = $1 AND id <> $2), (SELECT count(*) FROM account WHERE "+
		"external_id = $3 AND id <> $2)", r.Name, r.ID, r.ExternalID).Scan(&names, &ids)
	switch {
	case err != nil:
		return err
	case names > 0:
		return ErrExists
	case ids > 0:
		return ErrExternalID
	}
	return nil
}

// ErasedName is the name of an account that was erased.
func ErasedName(id string) string { return "erased-" + id }

// Spent is the consumption of an account by day, in all currencies together.
func (s *sqlStore) Spent(account uint32, first, last int32) (map[int32]money.Nano, error) {
	return ask(s, func(q *Query) (map[int32]money.Nano, error) {
		days := map[int32]money.Nano{}
		err := each2(q, func(date int64, n money.Nano) { days[calendar.DayOfDate(date)] = n },
			"SELECT day, "+sumAmounts+` FROM (SELECT day, amount FROM usage_day WHERE account = $1 AND day BETWEEN $2 AND $3
			UNION ALL SELECT day, amount FROM usage_moved WHERE account = $1 AND day BETWEEN $2 AND $3) AS u GROUP BY day`,
			account, calendar.Date(first), calendar.Date(last))
		return days, err
	})
}

// AccountFilter selects accounts; zero fields select all.
type AccountFilter struct {
	Behind       AccountPlace
	ExternalID   string
	Status       *AccountStatus
	FromUs, ToUs int64 // of their creation
}

// AccountPlace is a place in a list of accounts.
type AccountPlace struct {
	CreatedUs int64
	No        uint32
}

// accountLine has the members that a list of accounts filters by.
type accountLine struct {
	AccountPlace
	status AccountStatus
}

// AccountsOf lists accounts in the order of their creation, with the DIEM of a day. next is where
// the list goes on; nil: nowhere.
func (s *sqlStore) AccountsOf(f AccountFilter, day int32, most int) (rows []*AccountRow, next *AccountRow, err error) {
	l := listing[accountLine]{text: "SELECT created_us, no, status FROM account WHERE ", order: "created_us, no",
		scan: func(scan func(...any) error) (*accountLine, error) {
			r := &accountLine{}
			return r, scan(&r.CreatedUs, &r.No, &r.status)
		},
		place:   func(r *accountLine) []any { return []any{r.CreatedUs, r.No} },
		matches: func(r *accountLine) bool { return f.Status == nil || r.status == *f.Status }}
	switch {
	case f.ExternalID != "":
		l.add("external_id = ", f.ExternalID, true)
	case f.Status != nil:
		l.add("status = ", int64(*f.Status), true)
	}
	l.within("created_us", f.FromUs, f.ToUs)
	if f.Behind != (AccountPlace{}) {
		l.behind = []any{f.Behind.CreatedUs, f.Behind.No}
	}
	found, last, err := l.readPage(s, most)
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	rows, err = s.accountsWith(found, day)
	if last != nil && err == nil {
		next = &AccountRow{No: last.No, CreatedUs: last.CreatedUs}
	}
	return rows, next, err
}

// accountsAtOnce is how many accounts one statement reads.
const accountsAtOnce = 500

// accountsWith reads the accounts of a list, in its order.
func (s *sqlStore) accountsWith(found []*accountLine, day int32) (rows []*AccountRow, err error) {
	for part := range slices.Chunk(found, accountsAtOnce) {
		args := []any{calendar.Date(day), calendar.DateText(day)}
		var places []string
		for _, r := range part {
			args = append(args, r.No)
			places = append(places, fmt.Sprint("$", len(args)))
		}
		text := selectAccounts + "WHERE a.no IN (" + strings.Join(places, ", ") + ")" + groupAccount + " ORDER BY a.created_us, a.no"
		list, err := ask(s, func(q *Query) ([]*AccountRow, error) { return q.accounts(text, args...) })
		if err != nil {
			return nil, err
		}
		rows = append(rows, list...)
	}
	return rows, nil
}
