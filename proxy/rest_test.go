package proxy

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"farebox/config/fair"
)

// A connection serves its own customer at once and another one after a rest, unless all
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

// A customer's own connection is used again at once without a question. All others are asked
// whether they are quiet: bytes on them are another request's answer.
func TestConnectionsAreAskedOnceTheySettled(t *testing.T) {
	t.Parallel()
	a, b := fair.Paid(1), fair.Paid(2)
	for name, c := range map[string]struct {
		owner, asks fair.Owner
		idle        time.Duration
		taken       bool
	}{
		"one's own, at once":             {a, a, 0, true},
		"one's own, just not settled":    {a, a, settled - 1, true},
		"one's own, settled":             {a, a, settled, false},
		"another's, at once":             {a, b, 0, false},
		"another's, rested":              {a, b, rest, false},
		"work without a client, at once": {fair.Owner{}, fair.Owner{}, 0, false},
	} {
		u := newUpstream(t, func(c net.Conn, _ *bufio.Reader, _ int) {
			_, _ = io.WriteString(c, jsonAnswer("somebody else's"))
			time.Sleep(time.Second)
		})
		e := endpoint(t, u.addr)
		e.o.MaxConns = 1 // another's connection serves at once where there is no other
		conn, err := net.Dial("tcp", u.addr)
		if err != nil {
			t.Fatal(err)
		}
		l := &link{Conn: conn, fd: rawFD(conn), of: e, owner: c.owner}
		for quiet(l.fd) {
			time.Sleep(time.Millisecond)
		}
		e.open = 1
		e.give(l, int64(time.Hour))
		got, _ := e.take(int64(time.Hour+c.idle), c.asks, false)
		if (got == l) != c.taken {
			t.Errorf("%s: taken %v, not %v", name, got == l, c.taken)
		}
		_ = conn.Close()
	}
}
