package money

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"testing"
)

const usd = Nano(1_000_000_000)

// "My limit of 9999999999 came back as 9223372036.85", "0.1 became 0.09999".
func TestLimitsAreExactAndEchoed(t *testing.T) {
	for _, c := range []struct {
		number string
		amount Nano
		json   string
	}{
		{"0", 0, "0"}, {"-0", 0, "0"}, {"0.0e5", 0, "0"}, {"50", 50 * usd, "50"}, {"0.1", usd / 10, "0.1"},
		{"1.25e1", 12*usd + usd/2, "12.5"}, {"125E-1", 12*usd + usd/2, "12.5"},
		{"0.30000000000000004", 3 * usd / 10, "0.3"}, {"0.0000000019", 1, "0.000000001"}, {"1e-400", 0, "0"},
		{"0e999", 0, "0"},
		{"9223372036.854775807", math.MaxInt64, "9223372036.854775807"},
		{"9223372036.854775808", math.MaxInt64, "9223372036.854775808"},
		{"9999999999", math.MaxInt64, "9999999999"}, {"9.999999999e9", math.MaxInt64, "9.999999999e9"},
		{"9999999999.000", math.MaxInt64, "9999999999.000"},
	} {
		l, err := ParseLimit(c.number)
		if err != nil || l.Amount != c.amount || !l.Set {
			t.Errorf("%s: %+v, %v", c.number, l, err)
		}
		if got := string(l.AppendJSON(nil)); got != c.json {
			t.Errorf("%s is shown as %s", c.number, got)
		}
	}
	for number, want := range map[string]error{
		"-1": ErrLimitNegative, "-0.000000001": ErrLimitNegative, "10000000000": ErrLimitTooLarge,
		"9999999999.1": ErrLimitTooLarge, "1e10": ErrLimitTooLarge, "1e999999999": ErrLimitTooLarge,
		"": ErrLimitText, "NaN": ErrLimitText, "1e": ErrLimitText, "0x10": ErrLimitText, "1.": ErrLimitText,
		".5": ErrLimitText, "1_0": ErrLimitText,
	} {
		if l, err := ParseLimit(number); !errors.Is(err, want) {
			t.Errorf("%q: %+v, %v; want %v", number, l, err, want)
		}
	}
	if got := string(Limit{}.AppendJSON(nil)); got != "null" {
		t.Errorf("no limit is shown as %s", got)
	}
}

// VCU are the legacy label of DIEM, 0.1 each.
func TestVCULimits(t *testing.T) {
	for number, vcu := range map[string]string{"50": "50", "0.1": "0.1", "9999999999": "9999999999",
		"12.345678901": "12.34567890"} {
		l, err := ParseVCULimit(number)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := new(big.Rat).SetString(vcu)
		if got, ok := new(big.Rat).SetString(string(l.AppendVCU(nil))); !ok || got.Cmp(want) != 0 {
			t.Errorf("%s VCU are shown as %s", number, l.AppendVCU(nil))
		}
	}
	if l, _ := ParseVCULimit("50"); l.Amount != 5*usd {
		t.Errorf("50 VCU are %s DIEM", l.Amount)
	}
	if l, _ := ParseLimit("9999999999"); string(l.AppendVCU(nil)) != "99999999990" {
		t.Errorf("9999999999 DIEM are %s VCU", l.AppendVCU(nil))
	}
}

// FuzzLimit compares ParseLimit with rational arithmetic.
func FuzzLimit(f *testing.F) {
	for _, s := range []string{"0", "1", "-1", "0.1", "1e9", "1.5E-3", "9999999999", "9223372036.854775807", "1e-1000",
		"1e309", "00.5", "-0"} {
		f.Add(s)
	}
	most, unit := big.NewRat(maxLimit, 1), big.NewRat(int64(usd), 1)
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLimit(s)
		if err != nil {
			return
		}
		shown := l.AppendJSON(nil)
		if !json.Valid(shown) && json.Valid([]byte(s)) {
			t.Fatalf("%q is shown as %s", s, shown)
		}
		if len(s) > 20 {
			return // big.Rat would spend its time on exponents
		}
		n, ok := new(big.Rat).SetString(s)
		if !ok {
			return // an exponent beyond the range of big.Rat
		}
		if n.Sign() < 0 || n.Cmp(most) > 0 {
			t.Fatalf("%q was taken for %+v", s, l)
		}
		n.Mul(n, unit)
		want := new(big.Int).Quo(n.Num(), n.Denom())
		if l.Text == "" && want.Cmp(big.NewInt(int64(l.Amount))) != 0 || l.Text != "" && want.IsInt64() {
			t.Fatalf("%q is %+v, exactly %s nano", s, l, want)
		}
	})
}
