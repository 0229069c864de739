package billing

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/config"
)

// Limits of an operator's notes about an account.
const (
	metadataMost      = 32
	metadataNameMost  = 40
	metadataValueMost = 256
)

// Profile has an operator's notes about an account. farebox itself uses only LowBalance.
type Profile struct {
	ExternalID string            `json:"external_id,omitempty"` // in another system; unique
	Email      string            `json:"email,omitempty"`
	Company    string            `json:"company,omitempty"`
	TaxID      string            `json:"tax_id,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	LowBalance Nano              `json:"low_balance_at,omitempty"` // warn below this balance; 0: never
}

func (p *Profile) check() error {
	for _, text := range []struct{ name, value string }{{"external id", p.ExternalID}, {"email", p.Email},
		{"company", p.Company}, {"tax id", p.TaxID}} {
		if len(text.value) > maxMemo {
			return fmt.Errorf("cannot use the %s: it has more than %d bytes", text.name, maxMemo)
		}
		if err := checkText(text.name, text.value); err != nil {
			return err
		}
	}
	switch {
	case p.Email != "" && (strings.Count(p.Email, "@") != 1 || strings.ContainsAny(p.Email, " ,;<>")):
		return fmt.Errorf("cannot use the email %q: expected one address such as name@example.com", p.Email)
	case p.LowBalance < 0 || p.LowBalance > money.MaxCredit:
		return fmt.Errorf("cannot use low_balance_at: expected 0 to %s", money.MaxCredit)
	case len(p.Metadata) > metadataMost:
		return fmt.Errorf("cannot use the metadata: it has more than %d members", metadataMost)
	}
	for name, value := range p.Metadata {
		if name == "" || len(name) > metadataNameMost || len(value) > metadataValueMost {
			return fmt.Errorf("cannot use the metadata: a name has 1 to %d bytes, a value at most %d", metadataNameMost,
				metadataValueMost)
		}
		if err := errors.Join(checkText("metadata", name), checkText("metadata", value)); err != nil {
			return err
		}
	}
	return nil
}

// fill writes the profile to a row.
func (p *Profile) fill(r *store.ProfileRow) error {
	r.ExternalID = nil
	if p.ExternalID != "" {
		r.ExternalID = &p.ExternalID
	}
	r.Email, r.Company, r.TaxID, r.LowBalance, r.Metadata = p.Email, p.Company, p.TaxID, p.LowBalance, ""
	if len(p.Metadata) == 0 {
		return nil
	}
	text, err := json.Marshal(p.Metadata)
	r.Metadata = string(text)
	return err
}

// AccountProfile is an account with its profile.
type AccountProfile struct {
	Account
	Profile
	Version  int64     `json:"version"` // for If-Match
	ErasedAt time.Time `json:"erased_at,omitzero"`
}

func profileInfo(r *store.ProfileRow) (p AccountProfile, err error) {
	p = AccountProfile{Account: Account{ID: r.ID, Name: r.Name}, Version: r.Version, ErasedAt: fromMicro(r.ErasedUs),
		Profile: Profile{Email: r.Email, Company: r.Company, TaxID: r.TaxID, LowBalance: r.LowBalance}}
	if r.ExternalID != nil {
		p.ExternalID = *r.ExternalID
	}
	if r.Metadata != "" {
		err = json.Unmarshal([]byte(r.Metadata), &p.Metadata)
	}
	return p, err
}

// taken are the errors of names and external ids that others have.
func taken(err error) error {
	if errors.Is(err, store.ErrExists) {
		return ErrNameTaken
	}
	return err
}

// Mistakes with If-Match.
var (
	ErrNoMatch = errors.New("give the version that you change as If-Match")
	ErrStale   = errors.New("somebody else has changed it meanwhile: read it again")
)

// ChangeAccount changes the profile of an account. Members that the query lacks stay; an
// empty text or object removes.
type ChangeAccount struct {
	Account    string             `json:"account"` // id or name
	Name       *string            `json:"name,omitempty"`
	ExternalID *string            `json:"external_id,omitempty"`
	Email      *string            `json:"email,omitempty"`
	Company    *string            `json:"company,omitempty"`
	TaxID      *string            `json:"tax_id,omitempty"`
	Metadata   *map[string]string `json:"metadata,omitempty"`
	LowBalance *Nano              `json:"low_balance_at,omitempty"`
}

func (ca ChangeAccount) carryOut(l *Ledger, c *call) (AccountProfile, error) {
	fail := func(err error) (AccountProfile, error) {
		return AccountProfile{}, fmt.Errorf("cannot change the account %q: %w", ca.Account, err)
	}
	a, err := l.findAccount(ca.Account)
	if err != nil {
		return fail(err)
	}
	row, err := l.store.Profile(a.no)
	if err != nil {
		return fail(err)
	}
	version, err := c.match(row.Version)
	if err != nil {
		return fail(err)
	}
	if row.ErasedUs != 0 {
		return fail(errors.New("it is erased"))
	}
	if err := ca.change(row); err != nil {
		return fail(err)
	}
	c.profile(a)
	switch err := c.store.ChangeProfile(row, version); {
	case errors.Is(err, store.ErrStale):
		return fail(ErrStale)
	case err != nil:
		return fail(taken(err))
	}
	a.rename(row.Name)
	return profileInfo(row)
}

// match is the version that the call changes.
func (c *call) match(now int64) (int64, error) {
	if c.Match == "" && !c.named {
		return now, nil
	}
	version, err := strconv.ParseInt(strings.Trim(c.Match, `"`), 10, 64)
	switch {
	case c.Match == "":
		return 0, ErrNoMatch
	case err != nil || version != now:
		return 0, ErrStale
	}
	return version, nil
}

// change brings the query into a row.
func (ca *ChangeAccount) change(row *store.ProfileRow) error {
	now, err := profileInfo(row)
	if err != nil {
		return err
	}
	p := now.Profile
	for _, f := range []struct{ from, to *string }{{ca.ExternalID, &p.ExternalID}, {ca.Email, &p.Email},
		{ca.Company, &p.Company}, {ca.TaxID, &p.TaxID}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	if ca.Metadata != nil {
		p.Metadata = *ca.Metadata
	}
	if ca.LowBalance != nil {
		p.LowBalance = *ca.LowBalance
	}
	if ca.Name != nil && *ca.Name != row.Name {
		if config.IsWallet(row.Name) || config.IsWallet(*ca.Name) {
			return errors.New("the name of a wallet's account is its address")
		}
		if err := checkName(*ca.Name); err != nil {
			return err
		}
		row.Name = *ca.Name
	}
	if err := p.check(); err != nil {
		return err
	}
	return p.fill(row)
}

// profile has the audit entry tell the profile before and after, which is also the answer.
func (c *call) profile(a *AccountState) {
	c.entry.Account, c.entry.Subject = a.no, a.ID
	c.answers(func(q *store.Query) (any, error) {
		row, err := q.Profile(a.no)
		if err != nil {
			return nil, err
		}
		return profileInfo(row)
	})
	c.entry.BeforeFunc = c.entry.AfterFunc
}

// GetAccount gives an account with its profile, money and spending.
type GetAccount struct {
	Account string `json:"account"` // id or name
}

// AccountDetail is an account with all that is known of it.
type AccountDetail struct {
	AccountInfo
	Profile
	Version    int64     `json:"version"` // for If-Match
	ErasedAt   time.Time `json:"erased_at,omitzero"`
	SpentToday Nano      `json:"spent_today"` // UTC
	SpentMonth Nano      `json:"spent_month"`
	DaysLeft   *int64    `json:"days_left"` // at the rate of the last seven days; null: nothing was spent
}

func (g GetAccount) carryOut(l *Ledger, _ *call) (AccountDetail, error) {
	fail := func(err error) (AccountDetail, error) {
		return AccountDetail{}, fmt.Errorf("cannot read the account %q: %w", g.Account, err)
	}
	day := l.Today()
	row, err := l.store.FindAccount(g.Account, day)
	if errors.Is(err, store.ErrNoRow) {
		err = ErrNoAccount
	}
	if err == nil {
		err = l.catchUp()
	}
	if err != nil {
		return fail(err)
	}
	return l.detail(row, day)
}

func (l *Ledger) detail(row *store.AccountRow, day int32) (d AccountDetail, err error) {
	profile, err := l.store.Profile(row.No)
	if err != nil {
		return d, err
	}
	month := calendar.FirstDay(calendar.MonthOf(day))
	days, err := l.store.Spent(row.No, min(month, day-6), day)
	if err != nil {
		return d, err
	}
	p, err := profileInfo(profile)
	d = AccountDetail{AccountInfo: l.describe(row), Profile: p.Profile, Version: p.Version, ErasedAt: p.ErasedAt,
		SpentToday: days[day]}
	var week Nano
	for at, n := range days {
		if at >= month {
			d.SpentMonth += n
		}
		if at > day-7 {
			week += n
		}
	}
	if week > 0 {
		left := int64((d.Lasting() + d.Leased.Lasting()) / max(1, week/7))
		d.DaysLeft = &left
	}
	return d, err
}
