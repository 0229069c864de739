package billing

import (
	"farebox/billing/money"
	"farebox/billing/store"
)

// Words of package money that this room uses in every file.
type (
	Nano     = money.Nano
	Currency = money.Currency
)

// The currencies that an account can hold, and VCU, a legacy label that filters
// may name.
const (
	USD     = money.USD
	DIEM    = money.DIEM
	Bundled = money.Bundled
	VCU     = money.VCU
)

// ParseCurrency reads USD, DIEM or BUNDLED_CREDITS in any case.
func ParseCurrency(s string) (Currency, error) { return money.ParseCurrency(s) }

// Schema is the version of the store's schema that this farebox reads and writes.
const Schema = store.Version
