package rpc

import (
	"testing"

	"farebox/billing"
)

// The cost header has 8 decimals, rounded half up (addendum 13).
func TestCostHeader(t *testing.T) {
	for nano, want := range map[billing.Nano]string{
		0: "0.00000000", 4: "0.00000000", 5: "0.00000001", 14_000: "0.00001400", 15_625: "0.00001563",
		12_500:      "0.00001250",
		999_999_999: "1.00000000", 123_456_789_012_345: "123456.78901235",
	} {
		if got := string(appendCost(nil, nano)); got != want {
			t.Errorf("%d nano is written %s, want %s", nano, got, want)
		}
	}
}
