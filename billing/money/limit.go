package money

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"farebox/config"
)

// Limit is a consumption limit as its owner wrote it: an amount a period. The
// zero value is no limit.
type Limit struct {
	Set    bool
	Amount Nano
	// Text is the number as written where Amount had to be clamped to the
	// integer range (design.md 7); no account can spend as much, so it holds all
	// the same. Empty for all others.
	Text string
}

// Mistakes in a limit.
var (
	ErrLimitNegative = errors.New("must not be negative")
	ErrLimitTooLarge = errors.New("must be at most 9999999999")
	ErrLimitText     = errors.New("is not a number that can be a limit")
	ErrLimitLong     = fmt.Errorf("must be written with at most %d characters", maxLimitText)
)

const (
	maxLimit     = 9_999_999_999 // addendum 16.1
	maxLimitText = 64            // bytes of a number
	nanoDigits   = 9
)

// ParseLimit reads a JSON number, exactly: digits finer than a nano are cut
// off, which makes the limit smaller and never larger.
func ParseLimit(number string) (Limit, error) { return parseLimit(number, 0) }

// ParseVCULimit reads a limit in VCU, the legacy label of DIEM: 1 VCU is worth
// 0.1 (addendum 19.1).
func ParseVCULimit(number string) (Limit, error) { return parseLimit(number, -1) }

// parseLimit reads number x 10^shift.
func parseLimit(number string, shift int) (Limit, error) {
	if len(number) > maxLimitText {
		return Limit{}, ErrLimitLong
	}
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(number), "e")
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, dot := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if whole == "" || dot && fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return Limit{}, ErrLimitText
	}
	power := 0
	if scientific {
		var err error
		if power, err = strconv.Atoi(exponent); err != nil {
			return Limit{}, ErrLimitText
		}
	}
	switch {
	case digits == "":
		return Limit{Set: true}, nil
	case negative:
		return Limit{}, ErrLimitNegative
	}
	// The value is digits x 10^tens; tens is bounded before it becomes a
	// number of zeros.
	tens := min(max(power, -1000), 1000) - len(fraction)
	if len(digits)+tens > len(strconv.Itoa(maxLimit)) {
		return Limit{}, ErrLimitTooLarge
	}
	value, _ := new(big.Int).SetString(digits, 10)
	most := big.NewInt(maxLimit)
	if scaled := new(big.Int).Set(value); tens >= 0 {
		if scaled.Mul(scaled, tenTo(tens)).Cmp(most) > 0 {
			return Limit{}, ErrLimitTooLarge
		}
	} else if most.Mul(most, tenTo(-tens)).Cmp(value) < 0 {
		return Limit{}, ErrLimitTooLarge
	}
	if tens += nanoDigits + shift; tens >= 0 {
		value.Mul(value, tenTo(tens))
	} else {
		value.Quo(value, tenTo(-tens))
	}
	if !value.IsInt64() {
		return Limit{Set: true, Amount: math.MaxInt64, Text: number}, nil
	}
	return Limit{Set: true, Amount: Nano(value.Int64())}, nil
}

func tenTo(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// AppendJSON appends the limit as a JSON number, or null.
func (l Limit) AppendJSON(b []byte) []byte {
	switch {
	case !l.Set:
		return append(b, "null"...)
	case l.Text != "":
		return append(b, l.Text...)
	}
	return config.AppendDecimal(b, int64(l.Amount), nanoDigits)
}

// noLimit is a limit in text that limits nothing.
const noLimit = "none"

// MarshalText writes the number, or "none".
func (l Limit) MarshalText() ([]byte, error) {
	if !l.Set {
		return []byte(noLimit), nil
	}
	return l.AppendJSON(nil), nil
}

// UnmarshalText reads a decimal number, or "none".
func (l *Limit) UnmarshalText(text []byte) (err error) {
	*l = Limit{}
	if string(text) != noLimit {
		*l, err = ParseLimit(string(text))
	}
	return err
}

// AppendVCU appends a DIEM limit as a number of VCU, or null.
func (l Limit) AppendVCU(b []byte) []byte {
	switch {
	case !l.Set:
		return append(b, "null"...)
	case l.Text != "":
		// Clamped: beyond 9.2e9, so the text is worth the arithmetic.
		n, ok := new(big.Rat).SetString(l.Text)
		if !ok {
			return append(b, "null"...)
		}
		text := n.Mul(n, big.NewRat(10, 1)).FloatString(nanoDigits)
		return append(b, strings.TrimRight(strings.TrimRight(text, "0"), ".")...)
	}
	return config.AppendDecimal(b, int64(l.Amount), nanoDigits-1)
}

// Enforced is the amount that is enforced, nil for none.
func (l Limit) Enforced() *Nano {
	if !l.Set {
		return nil
	}
	n := l.Amount
	return &n
}

// StoredLimit is a limit as the store has it.
func StoredLimit(n *Nano, text string) Limit {
	if n == nil {
		return Limit{}
	}
	return Limit{Set: true, Amount: *n, Text: text}
}
