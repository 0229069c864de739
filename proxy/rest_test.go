package proxy

import (
	"net/netip"
	"testing"
	"time"

	"farebox/config/fair"
)

// A connection serves its own account at once and another one after a rest, unless all
// connections are taken.
func TestConnectionsRestBetweenCustomers(t *testing.T) {
	t.Parallel()
	var (
		a, b     = fair.Paid(1), fair.Paid(2)
		stranger = fair.Unpaid(netip.MustParseAddr("192.0.2.1"))
		nobody   fair.Owner
	)
	for name, c := range map[string]struct {
		owners []fair.Owner // of the idle connections, each used a millisecond after the one before
		most   int
		asks   fair.Owner
		after  time.Duration // since the last was used
		want   int
	}{
		"no connection":                    {nil, 9, a, 0, -1},
		"one's own":                        {[]fair.Owner{a, b}, 9, a, 0, 0},
		"one's own, the last used":         {[]fair.Owner{a, b, a, b}, 9, a, 0, 2},
		"another's":                        {[]fair.Owner{a, a}, 9, b, 0, -1},
		"another's, just not rested":       {[]fair.Owner{a, a}, 9, b, rest - time.Millisecond - 1, -1},
		"another's, one has rested":        {[]fair.Owner{a, a}, 9, b, rest - time.Millisecond, 0},
		"another's, both have rested":      {[]fair.Owner{a, a}, 9, b, rest, 1},
		"all are taken":                    {[]fair.Owner{a, a}, 2, b, 0, 0},
		"unpaid callers share an address":  {[]fair.Owner{stranger}, 9, stranger, 0, -1},
		"work without a client":            {[]fair.Owner{nobody}, 9, nobody, 0, -1},
		"work without a client, all taken": {[]fair.Owner{nobody}, 1, nobody, 0, 0},
	} {
		const start = int64(time.Hour)
		e := &Endpoint{o: EndpointOptions{MaxConns: c.most}, open: len(c.owners)}
		now := start + int64(c.after)
		for i, owner := range c.owners {
			e.idle = append(e.idle, &link{owner: owner, usedNs: start - int64(len(c.owners)-1-i)*int64(time.Millisecond)})
		}
		if got := e.fit(now, c.asks); got != c.want {
			t.Errorf("%s: connection %d, not %d", name, got, c.want)
		}
	}
}
