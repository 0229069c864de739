package money

import "farebox/config"

// Decimal is a Nano that is a decimal string in JSON, so that no reader takes it
// for a float.
type Decimal Nano

// MarshalText writes the shortest exact decimal.
func (a Decimal) MarshalText() ([]byte, error) { return []byte(Nano(a).String()), nil }

// UnmarshalText reads a decimal with up to 9 decimals.
func (a *Decimal) UnmarshalText(b []byte) error {
	v, err := config.ParseNano(string(b))
	*a = Decimal(v)
	return err
}
