package config

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Nano is an amount of money in 1e-9 of its currency. Written in YAML and on
// the command line as a decimal ("0.10", "100"), never through a float.
type Nano int64

// Pico is a price in 1e-12 USD per unit. A price of 1 USD per 1,000,000
// tokens is 1,000,000 Pico a token.
type Pico int64

// Each is the price of one thing in 1e-12 USD, written in USD: 0.04 is
// 40,000,000,000.
type Each int64

// Size is a number of bytes, written as 512, 64KB, 35MB or 1GB (1024-based).
type Size int64

// Secret is text that never prints itself: formatting it gives "[secret]".
type Secret string

// Decimal is a decimal number kept as the operator wrote it.
type Decimal string

// ChainID names a chain as its nodes do. Numbers are in decimal, however they
// were written: 0x01, 0x1 and 1 are one chain. The id of a Solana network is
// text, the hash of its first block.
type ChainID string

// maxChainID is more than the id of any chain has.
const maxChainID = 128

// ParseChainID reads an operator's or a node's name of a chain.
func ParseChainID(s string) (ChainID, bool) {
	if s == "" || len(s) > maxChainID {
		return "", false
	}
	digits, base := s, 10
	if hex, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		digits, base = hex, 16
	}
	if n, ok := new(big.Int).SetString(digits, base); ok && digits[0] != '-' && digits[0] != '+' {
		return ChainID(n.String()), true
	}
	return ChainID(s), true
}

// Number says whether the id is a number other than 0.
func (c ChainID) Number() bool { return regexpDigits.MatchString(string(c)) && c != "0" }

const (
	nanoDigits           = 9
	picoPerUSDPerMillion = 6 // 1 USD/1M tokens = 10^6 pico a token
	picoDigits           = 12
)

// String is fmt.Stringer: logs do not show a secret.
func (Secret) String() string { return "[secret]" }

// GoString is fmt.GoStringer.
func (Secret) GoString() string { return "[secret]" }

// MarshalJSON is json.Marshaler.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"[secret]"`), nil }

// MarshalYAML is yaml.BytesMarshaler.
func (Secret) MarshalYAML() ([]byte, error) { return []byte(`"[secret]"`), nil }

// Reveal gives the text itself, for the one place that sends it.
func (s Secret) Reveal() string { return string(s) }

// ParseNano reads a non-negative decimal with up to 9 decimals.
func ParseNano(s string) (Nano, error) {
	v, err := parseDecimal(s, nanoDigits)
	return Nano(v), err
}

// ParsePrice reads USD per 1,000,000 tokens with up to 6 decimals.
func ParsePrice(s string) (Pico, error) {
	v, err := parseDecimal(s, picoPerUSDPerMillion)
	return Pico(v), err
}

// ParseEach reads USD with up to 12 decimals.
func ParseEach(s string) (Each, error) {
	v, err := parseDecimal(s, picoDigits)
	return Each(v), err
}

// String is the shortest decimal of the price in USD.
func (e Each) String() string { return string(AppendDecimal(nil, int64(e), picoDigits)) }

// String is the shortest decimal of the amount, e.g. "0.1", "100", "-3.5".
func (n Nano) String() string { return string(AppendDecimal(nil, int64(n), nanoDigits)) }

// MarshalText writes the shortest exact decimal: in JSON a string, so that no
// reader takes an amount for a float.
func (n Nano) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads the text of MarshalText: a decimal with up to 9 decimals, negative where
// money was taken or given back.
func (n *Nano) UnmarshalText(b []byte) (err error) {
	digits, negative := bytes.CutPrefix(b, []byte("-"))
	if *n, err = ParseNano(string(digits)); negative {
		*n = -*n
	}
	return err
}

// PerMillion is the shortest decimal of the price in USD per 1,000,000 units.
func (p Pico) PerMillion() string { return string(AppendDecimal(nil, int64(p), picoPerUSDPerMillion)) }

var (
	errDecimal  = errors.New("is not a decimal number such as 12 or 0.25")
	errTooFine  = errors.New("has too many decimals")
	errTooLarge = errors.New("is too large")
)

// parseDecimal reads digits[.digits] into an integer scaled by 10^scale. It
// refuses signs, exponents, excess decimals and overflow.
func parseDecimal(s string, scale int) (int64, error) {
	whole, frac, dot := strings.Cut(s, ".")
	if whole == "" || (dot && frac == "") {
		return 0, errDecimal
	}
	if len(frac) > scale {
		if strings.Trim(frac[scale:], "0") != "" {
			return 0, fmt.Errorf("%w: at most %d are kept", errTooFine, scale)
		}
		frac = frac[:scale]
	}
	frac += strings.Repeat("0", scale-len(frac))
	var v uint64
	for _, c := range []byte(whole + frac) {
		if c < '0' || c > '9' {
			return 0, errDecimal
		}
		if v > (math.MaxInt64-9)/10 {
			return 0, errTooLarge
		}
		v = v*10 + uint64(c-'0')
	}
	return int64(v), nil
}

// AppendDecimal appends v / 10^scale as the shortest exact decimal.
func AppendDecimal(dst []byte, v int64, scale int) []byte {
	u := uint64(v)
	if v < 0 {
		dst = append(dst, '-')
		u = -u
	}
	pow := uint64(1)
	for range scale {
		pow *= 10
	}
	dst = strconv.AppendUint(dst, u/pow, 10)
	rest := u % pow
	if rest == 0 {
		return dst
	}
	dst = append(dst, '.')
	for rest > 0 {
		pow /= 10
		dst = append(dst, byte('0'+rest/pow))
		rest %= pow
	}
	return dst
}

// ParseSize reads a whole number of bytes with an optional unit KB, MB or GB.
func ParseSize(s string) (Size, error) {
	digits, shift := s, 0
	for i, unit := range []string{"KB", "MB", "GB"} {
		if d, ok := strings.CutSuffix(s, unit); ok {
			digits, shift = d, 10*(i+1)
		}
	}
	if !regexpDigits.MatchString(digits) {
		return 0, errSize
	}
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || v > math.MaxInt64>>shift {
		return 0, errTooLarge
	}
	return Size(v << shift), nil
}

var errSize = errors.New("is not a size")

// String is the size with the largest unit that divides it.
func (s Size) String() string {
	for i, unit := range []string{"GB", "MB", "KB"} {
		if shift := 30 - 10*i; s != 0 && s%(1<<shift) == 0 {
			return strconv.FormatInt(int64(s>>shift), 10) + unit
		}
	}
	return strconv.FormatInt(int64(s), 10) + " bytes"
}
