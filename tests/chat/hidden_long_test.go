package chat

import "testing"

// The same with as many bodies as a night's attacker sends.
func TestLongEveryReaderReadsWhatWasPriced(t *testing.T) { hide(t, 60_000) }
