package servers

import (
	"os"
	"testing"
	"time"
)

// clockOffset is how far the clock of this process is ahead of the machine's,
// which the servers have: .ci/clocks runs tests with a shifted package time.
const clockOffset = "FAREBOX_CLOCK_OFFSET"

// clockApart is how far the clocks of farebox and its servers may differ; a
// test may not fail for less.
const clockApart = 2 * time.Minute

// needMachineClock leaves a test out that would mix the shifted clock with a
// server's: farebox refuses that.
func needMachineClock(tb testing.TB) {
	tb.Helper()
	if d, _ := time.ParseDuration(os.Getenv(clockOffset)); d.Abs() > clockApart {
		tb.Skipf("the servers have the machine's clock, this process one that is %s ahead; make test runs this test", d)
	}
}
