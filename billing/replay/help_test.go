package replay

import (
	"crypto/sha256"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"farebox/bench/servers"
	"farebox/config"
)

// fixture is a process's store of keys, with a clock of its own, and the charges for the
// requests that it executed.
type fixture struct {
	*Keys
	t       testing.TB
	options Options
	redis   *servers.Redis // nil: files
	nowNs   atomic.Int64
	charged atomic.Int64
	holds   atomic.Uint64
}

// onBoth runs a story with both stores.
func onBoth(t *testing.T, story func(t *testing.T, f *fixture)) {
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		story(t, open(t, nil))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		story(t, open(t, servers.StartRedis(t)))
	})
}

func open(t *testing.T, r *servers.Redis, adjust ...func(*Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, redis: r}
	f.nowNs.Store(time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC).UnixNano())
	f.options = Options{Dir: t.TempDir(), Prefix: "svc:keys:0:", Node: 1, Log: zerolog.Nop(), Now: f.nowNs.Load}
	if r != nil {
		f.options.Redis = config.Redis{Addresses: []string{r.Addr}}
	}
	for _, a := range adjust {
		a(&f.options)
	}
	f.open()
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func (f *fixture) open() {
	f.t.Helper()
	var err error
	if f.Keys, err = Open(f.options); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) reopen() {
	f.t.Helper()
	if err := f.Close(); err != nil {
		f.t.Fatal(err)
	}
	f.open()
}

func (f *fixture) claim(key, body string) *Claim {
	return &Claim{Account: 1, Key: []byte(key), Fingerprint: sha256.Sum256([]byte(body)), Patience: time.Minute,
		Wait: 30 * time.Second}
}

// carryOut executes a lead as a route does.
func (f *fixture) carryOut(l *Lead, cost int64, body string) (charged int64) {
	if !l.Keep(f.holds.Add(1), &Answer{Status: 200, Header: []Header{{"X-Credits", "20"}}, Body: []byte(body)}) {
		return 0
	}
	f.charged.Add(cost)
	return cost
}

// begin starts a request as a route does that admits it at once.
func begin(k *Keys, c *Claim) (*Lead, *Answer, error) {
	lead, answer, err := k.Begin(c)
	if lead == nil {
		return nil, answer, err
	}
	switch err := lead.Claim(); {
	case errors.Is(err, ErrLost):
		answer, err = lead.Follow()
		return nil, answer, err
	case err != nil:
		return nil, nil, err
	}
	return lead, nil, nil
}
