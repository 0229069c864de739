package store

import (
	"testing"
	"time"

	"farebox/billing/money"
)

const usd = money.Nano(1_000_000_000)

func nano(n money.Nano) *money.Nano { return &n }

func eventually(t testing.TB, what string, within time.Duration, met func() bool) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < within; time.Sleep(10 * time.Millisecond) {
		if met() {
			return
		}
	}
	t.Fatalf("not within %s: %s", within, what)
}

// worth returns lines that cost n.
func worth(n money.Nano) *money.Lines {
	var l money.Lines
	l.Add(money.OutputTokens, int64(n), 1000)
	return &l
}
