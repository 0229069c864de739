package chat

import (
	"testing"

	"farebox/bench/servers"
)

// The same with as many bodies as a night's attacker sends.
func TestLongEveryReaderReadsWhatWasPriced(t *testing.T) { hide(t, uint64(servers.Campaign(20_000))) }
