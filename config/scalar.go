package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Reading single values from their written text. Every error has the mistake and the expected
// value, without the value itself: the caller puts it in front unless it is a secret.

var (
	numberText = regexp.MustCompile(
		`^[-+]?(?:[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$|^0[xob][0-9a-fA-F_]+$|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$`)
	exponent   = regexp.MustCompile(`^[-+]?[0-9.]+[eE][-+]?[0-9]+$`)
	comma      = regexp.MustCompile(`^[0-9]+(?:[.,][0-9]+)*,[0-9]+$`)
	shortCount = regexp.MustCompile(`^([0-9]+)(?:\.[0-9]+)?([kKmMgG])[bB]?$`)
	jsonNumber = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$`)
)

func looksNumber(s string) bool { return numberText.MatchString(s) }

func looksBool(s string) bool {
	switch s {
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return true
	}
	return false
}

func readBool(s string) (bool, error) {
	switch s {
	case "true", "True", "TRUE":
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	}
	return false, errors.New("is not a switch; expected true or false")
}

func readInt(s string) (int64, error) {
	if !regexpDigits.MatchString(s) {
		switch {
		case strings.HasPrefix(s, "-"):
			return 0, errors.New("is negative; expected a whole number such as 1000")
		case exponent.MatchString(s):
			return 0, errors.New("has an exponent; expected a whole number written out, such as 1000000")
		case comma.MatchString(s):
			return 0, errors.New("has a comma; expected digits only, such as 1000")
		case shortCount.MatchString(s):
			return 0, errors.New("is shortened, which may mean thousands of 1000 or of 1024; expected a whole number " +
				"written out, such as 128000")
		}
		return 0, errors.New("is not a whole number; expected digits only, such as 1000")
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("is too large; expected at most %d", int64(math.MaxInt64))
	}
	return v, nil
}

var regexpDigits = regexp.MustCompile(`^(?:0|[1-9][0-9]*)$`)

// readDuration takes Go's notation and asks for a unit.
func readDuration(s string) (time.Duration, error) {
	const expected = "expected a duration such as 500ms, 30s, 5m or 1h"
	if regexpDigits.MatchString(s) && s != "0" {
		return 0, fmt.Errorf("has no unit; %s", expected)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("is not a duration; %s", expected)
	}
	if d < 0 {
		return 0, fmt.Errorf("is negative; %s", expected)
	}
	return d, nil
}

func readSize(s string) (Size, error) {
	v, err := ParseSize(s)
	if err != nil {
		return 0, fmt.Errorf("%w; expected a size such as 512, 64KB, 35MB or 1GB", err)
	}
	return v, nil
}

func readNano(s string) (Nano, error) {
	v, err := ParseNano(s)
	return v, moneyError(err, s, "expected an amount such as 0.10 with at most 9 decimals")
}

// freeRate is how an operator confirms that one kind of token costs nothing
// while another costs something; a 0 there is more often a forgotten price.
const freeRate = "free"

func readPrice(s string) (Pico, error) {
	if s == freeRate {
		return 0, nil
	}
	v, err := ParsePrice(s)
	if price, ok := ofOne(s); ok && err != nil {
		return 0, fmt.Errorf("looks like the price of one, and prices are of 1,000,000; expected %s", price)
	}
	return v, moneyError(err, s, "expected USD per 1,000,000 tokens such as 0.15, with at most 6 decimals")
}

func readEach(s string) (Each, error) {
	if s == freeRate {
		return 0, nil
	}
	v, err := ParseEach(s)
	return v, moneyError(err, s, "expected USD such as 0.04, with at most 12 decimals")
}

func moneyError(err error, s, expected string) error {
	switch {
	case err == nil:
		return nil
	case strings.HasPrefix(s, "-"):
		return fmt.Errorf("is negative; %s", expected)
	case exponent.MatchString(s):
		return fmt.Errorf("has an exponent, which is easily misread in money; %s", expected)
	case strings.ContainsAny(s, "$€"):
		return fmt.Errorf("has a currency sign; %s", expected)
	}
	if comma.MatchString(s) {
		return fmt.Errorf("has a comma; use a decimal point and no thousands separator; %s",
			expected)
	}
	return fmt.Errorf("%w; %s", err, expected)
}

// readDecimal keeps the text, which goes into JSON as it is.
func readDecimal(s string) (Decimal, error) {
	if comma.MatchString(s) {
		return "", errors.New("has a comma; expected a point before the decimals, such as 0.7")
	}
	if !jsonNumber.MatchString(s) || len(s) > 16 {
		return "", errors.New("is not a decimal number; expected one such as 0.7, without exponent or leading zeros")
	}
	return Decimal(s), nil
}

func readChainID(s string) (ChainID, error) {
	id, ok := ParseChainID(s)
	if !ok {
		return "", fmt.Errorf("is not the id of a chain; expected 1 to %d characters", maxChainID)
	}
	return id, nil
}

// readTime takes a moment or a day, which starts at 00:00 UTC.
func readTime(s string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil {
			if t.Year() < 2000 || t.Year() > 9999 {
				break
			}
			return t.UTC(), nil
		}
	}
	return time.Time{}, errors.New("is not a date; expected YYYY-MM-DD or 2026-08-31T12:00:00Z, from the year 2000 on")
}
