package cli

import (
	"time"

	"farebox/billing"
	"farebox/billing/store"
	"farebox/config"
)

// DemoKeys are the secrets of the demonstration account, known only in the run that made them.
type DemoKeys struct{ Admin, Inference, Operator string }

// DemoAccount is the name of the demonstration's account.
const DemoAccount = "demo"

const (
	demoCredit = config.Nano(100_000_000_000) // 100 USD
	demoToken  = 365 * 24 * time.Hour
)

// OpenDemo makes the demonstration account with 100 USD and two keys,
// unless an earlier run did; then there are no secrets to show.
func OpenDemo(l *billing.Ledger) (*DemoKeys, error) {
	accounts, err := billing.All(l, billing.ListAccounts{})
	if err != nil {
		return nil, err
	}
	for _, a := range accounts {
		if a.Name == DemoAccount {
			return nil, nil
		}
	}
	a, err := billing.Do(l, billing.CreateAccount{Name: DemoAccount})
	if err != nil {
		return nil, err
	}
	if _, err := billing.Do(l, billing.CreditAccount{Account: a.ID, Currency: billing.USD, Amount: demoCredit,
		Ref: "demo-first-run", Memo: "demonstration credit"}); err != nil {
		return nil, err
	}
	keys := &DemoKeys{}
	for _, k := range []struct {
		typ  store.KeyType
		into *string
	}{{store.Admin, &keys.Admin}, {store.Inference, &keys.Inference}} {
		made, err := billing.Do(l, billing.CreateKey{NewKey: billing.NewKey{Account: a.ID, Type: k.typ,
			Description: "demonstration"}})
		if err != nil {
			return nil, err
		}
		*k.into = made.Secret
	}
	token, err := billing.Do(l, billing.CreateToken{Name: "demonstration", Role: billing.MayOwn, Ends: time.Now().Add(demoToken)})
	if err != nil {
		return nil, err
	}
	keys.Operator = token.Secret
	return keys, reviewDemo(l)
}

// reviewDemo says something of the characters of the demonstration.
func reviewDemo(l *billing.Ledger) error {
	for _, n := range []billing.NewReview{
		{Slug: "captain-elara", Rating: 5, Locale: "en", Message: "Calm under fire, and she always sends a probe."},
		{Slug: "captain-elara", Rating: 4, Locale: "de", Message: "Kurz und klar. Gerne mehr davon."},
		{Slug: "captain-elara", Rating: 5, Account: DemoAccount},
		{Slug: "old-tom", Rating: 4, Locale: "en", Message: "I came for an answer and stayed for the story."},
		{Slug: "old-tom", Rating: 3},
		{Slug: "dr-quill", Rating: 5, Locale: "en", Message: "Cut my letter by half. It was right."},
	} {
		if _, err := billing.Do(l, billing.AddReview{NewReview: n}); err != nil {
			return err
		}
	}
	return nil
}
