package billing

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"farebox/bench/servers"
	"farebox/billing/report"
	"farebox/billing/store"
	"farebox/config"
)

// skewedNodes are nodes on one PostgreSQL. skews is how far their clocks are ahead of it,
// storeAhead how far it is ahead of the machine's clock.
func skewedNodes(t *testing.T, storeAhead time.Duration, redis config.Redis, skews ...time.Duration) []*Ledger {
	t.Helper()
	times := nodeTimes{
		beat: 100 * time.Millisecond, ttl: 30 * time.Second, poll: 20 * time.Millisecond, keep: 50 * time.Millisecond,
		idle: 200 * time.Millisecond, ask: 10 * time.Second, recall: 1500 * time.Millisecond,
	}
	return nodesOn(t, servers.Database(t), len(skews), func(i int, o *Options) {
		o.times, o.compares, o.Redis, o.storeAhead = times, true, redis, storeAhead
		o.Clock = func() time.Time { return time.Now().Add(storeAhead + skews[i]) }
	})
}

// skewedAccount makes an account and a key, and returns the key on each node.
func skewedAccount(t *testing.T, nodes []*Ledger, credit, daily Nano, how func(*NewKey)) (id string, keys []*Key) {
	t.Helper()
	a, err := nodes[0].CreateAccount("a")
	if err == nil && credit > 0 {
		_, _, err = nodes[0].Credit(a.ID, USD, credit, "", "")
	}
	if err == nil && daily > 0 {
		_, err = nodes[0].SetAllowance(a.ID, daily)
	}
	k := NewKey{Account: a.ID, Type: store.Inference}
	how(&k)
	var secret string
	if err == nil {
		_, secret, err = nodes[0].CreateKey(k)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range nodes {
		key, err := l.Lookup([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	return a.ID, keys
}

// spendAll opens holds of one price on every node until enough of them are refused. It
// returns the total charge and the number of charges.
func spendAll(t *testing.T, nodes []*Ledger, keys []*Key, rate *config.Rate, price Nano,
	refusal DenialCode) (charged Nano, n int64) {
	t.Helper()
	var sum, count atomic.Int64
	var all sync.WaitGroup
	for i, l := range nodes {
		slot := l.ModelNumber("model")
		for range 2 {
			all.Go(func() {
				for refused := 0; refused < 2; {
					var h Hold
					switch d := l.Admit(&h, &Admission{Key: keys[i], Slot: slot, Rate: rate, Hold: price, Min: price,
						Now: l.at()}); d.Code {
					case Admitted:
						c, _ := h.Settle(Settlement{Cost: price, Now: l.at(), Status: 200})
						sum.Add(int64(c))
						count.Add(1)
					case refusal:
						refused++
						time.Sleep(5 * time.Millisecond)
					case StoreAway: // PostgreSQL is too slow on a busy machine
						time.Sleep(20 * time.Millisecond)
					default:
						t.Errorf("denied with %+v", d)
						return
					}
				}
			})
		}
	}
	all.Wait()
	return Nano(sum.Load()), count.Load()
}

// audited projects everything and recounts the store.
func audited(t *testing.T, nodes []*Ledger) {
	t.Helper()
	for _, l := range nodes {
		if err := l.project.drain(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := nodes[0].Audit()
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range r.Faults {
		t.Error(fault)
	}
	if r.Shortfall != 0 {
		t.Errorf("%s shortfall", r.Shortfall)
	}
}

// "One node's clock was two minutes off, and customers got more than they had
// paid for", "than their limit", "and the history lacked what that node served".
func TestClocksThatAreApartCostNoLimitAndNoMoney(t *testing.T) { clocksApart(t, 2*time.Minute) }

func TestLongClocksThatAreApartCostNoLimitAndNoMoney(t *testing.T) { clocksApart(t, 5*time.Second) }

func clocksApart(t *testing.T, skew time.Duration) {
	t.Parallel()
	redis := config.Redis{Addresses: []string{servers.StartRedis(t).Addr}, Timeout: 5 * time.Second,
		Away: "local_share"}
	nodes := skewedNodes(t, 0, redis, skew, 0, -skew)
	const price = usd / 100

	id, keys := skewedAccount(t, nodes, 100*usd, 0, func(k *NewKey) { k.LimitUSD = nano(usd) })
	began := time.Now()
	if charged, _ := spendAll(t, nodes, keys, nil, price, KeyLimitUSD); charged != usd {
		t.Errorf("%s were charged on a key with a limit of 1 USD", charged)
	}
	ended := time.Now()

	rate := &config.Rate{RPD: 90, RPM: 60_000}
	_, other, err := nodes[0].CreateKey(NewKey{Account: id, Type: store.Inference})
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range nodes {
		if keys[i], err = l.Lookup([]byte(other)); err != nil {
			t.Fatal(err)
		}
	}
	if _, n := spendAll(t, nodes, keys, rate, 1, RateRequests); n != 90 {
		t.Errorf("%d requests passed a limit of 90 a day", n)
	}

	audited(t, nodes)
	var all sync.WaitGroup
	for i, l := range nodes {
		all.Go(func() {
			list, err := historyAll(l, keys[i], report.HistoryQuery{PageSize: 60})
			if err != nil || len(list) != 190 {
				t.Errorf("node %d shows %d entries of 190: %v", i, len(list), err)
				return
			}
			for _, e := range list[:100] {
				if at := time.UnixMicro(e.AtUs); at.Before(began.Add(-time.Second)) ||
					at.After(ended.Add(time.Second)) {
					t.Errorf("a request between %s and %s is listed at %s", began, ended, at)
					return
				}
			}
		})
		if store, redis := l.Skew(); (store-[]time.Duration{skew, 0, -skew}[i]).Abs() > time.Second ||
			(redis-store).Abs() > time.Second {
			t.Errorf("node %d says that its clock is %s and %s ahead", i, store, redis)
		}
	}
	all.Wait()
}

// "At midnight the node with the fast clock gave the day's DIEM twice", "and the
// slow one none".
func TestADayBeginsOnceWithClocksThatAreApart(t *testing.T) {
	t.Parallel()
	before := 4 * time.Second
	for !aDayBegins(t, before) { // on a slow machine midnight came too early
		before *= 2
	}
}

func aDayBegins(t *testing.T, before time.Duration) (tried bool) {
	const skew, daily = 2 * time.Minute, 2 * usd
	now := time.Now().UTC()
	midnight := now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	nodes := skewedNodes(t, midnight.Sub(now)-before, config.Redis{}, skew, -skew)
	_, keys := skewedAccount(t, nodes, 0, daily, func(*NewKey) {})
	yesterday := int32(now.Unix() / (24 * 3600))
	charged, _ := spendAll(t, nodes, keys, nil, usd/20, InsufficientBalance)
	if nodes[0].Today() != yesterday {
		return false
	}
	if charged != daily {
		t.Errorf("%s of %s DIEM were spent on the day before", charged, daily)
	}
	for _, l := range nodes {
		eventually(t, "the day begins", 2*before+30*time.Second, func() bool { return l.Today() == yesterday+1 })
	}
	if charged, _ := spendAll(t, nodes, keys, nil, usd/20, InsufficientBalance); charged != daily {
		t.Errorf("%s of %s DIEM were spent on the next day", charged, daily)
	}
	audited(t, nodes)
	return true
}

// A node whose clock is off by minutes reports it before the first request.
func TestNodeWithAWrongClockDoesNotStart(t *testing.T) {
	t.Parallel()
	address, redis := servers.Database(t), servers.StartRedis(t)
	for _, c := range []struct {
		skew time.Duration
		want string
	}{
		{3 * time.Minute, "the clock of this machine is 3m0s ahead of PostgreSQL's"},
		{-40 * 24 * time.Hour, "the clock of this machine is 960h0m0s behind PostgreSQL's"},
	} {
		clock := func() time.Time { return time.Now().Add(c.skew) }
		for name, o := range map[string]Options{
			"node":     {Dir: t.TempDir(), Shared: address, Brand: "svc", NodeName: "n", Clock: clock, compares: true},
			"operator": {Dir: t.TempDir(), Shared: address, Brand: "svc", Clock: clock, compares: true, idle: true},
		} {
			l, err := Open(o)
			if err == nil {
				if name == "operator" {
					_, err = Do(l, CreateAccount{Name: "x"})
				}
				_ = l.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "NTP") {
				t.Errorf("%s with a clock that is off by %s: %v", name, c.skew, err)
			}
		}
		l, err := Open(Options{
			Dir: t.TempDir(), Brand: "svc", Clock: clock, compares: true,
			Redis: config.Redis{Addresses: []string{redis.Addr}, Timeout: time.Second, Away: "local_share"},
		})
		if err == nil {
			_ = l.Close()
		}
		if want := strings.ReplaceAll(c.want, "PostgreSQL", "Redis"); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("with a clock that is %s ahead of Redis's: %v", c.skew, err)
		}
	}
}

// "A key leaked while the clock of the database was ten minutes off, and the command
// that revokes it wanted NTP first."
func TestAWrongClockDoesNotPreventRevoking(t *testing.T) {
	t.Parallel()
	address := servers.Database(t)
	l := nodesOn(t, address, 1, func(_ int, o *Options) { o.times = quickTimes })[0]
	for _, skew := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		name := skew.String()
		if _, err := l.CreateAccount(name); err != nil {
			t.Fatal(err)
		}
		var ids, secrets [2]string
		for i := range ids {
			row, secret, err := l.CreateKey(NewKey{Account: name, Type: store.Inference})
			if err != nil {
				t.Fatal(err)
			}
			ids[i], secrets[i] = row.ID, secret
		}
		refused := func(i int, why string) {
			t.Helper()
			for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				if _, err := l.Lookup([]byte(secrets[i])); err != nil {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("%s: key %d is taken although %s", name, i, why)
				}
			}
		}
		op, err := Open(Options{Shared: address, Brand: "svc", compares: true, idle: true,
			Clock: func() time.Time { return time.Now().Add(skew) }})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Do(op, RevokeKey{ID: ids[0]}); err != nil {
			t.Errorf("%s: it was not revoked: %v", name, err)
		}
		refused(0, "it was revoked")
		if _, err := Do(op, SuspendAccount{name}); err != nil {
			t.Errorf("%s: it was not suspended: %v", name, err)
		}
		refused(1, "its account was suspended")
		if list, err := Do(op, ListAccounts{}); err != nil || len(list.Items) == 0 {
			t.Errorf("%s: the accounts are %v, %v", name, list, err)
		}
		if _, err := Do(op, CreditAccount{Account: name}); err == nil || !strings.Contains(err.Error(), "NTP") {
			t.Errorf("%s: a credit by a wrong clock: %v", name, err)
		}
		if err := op.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A clock that goes wrong under load stops no requests. The node logs it, and its writes
// keep the store's time.
func TestWrongClockIsReportedAndNotBelieved(t *testing.T) {
	t.Parallel()
	var log lockedLog
	var off atomic.Int64
	nodes := nodesOn(t, servers.Database(t), 1, func(_ int, o *Options) {
		o.times = quickTimes
		o.compares, o.Log = true, zerolog.New(&log)
		o.Clock = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
	})
	l := nodes[0]
	_, keys := skewedAccount(t, nodes, usd, 0, func(*NewKey) {})
	charge := func() {
		var h Hold
		if d := l.Admit(&h, &Admission{Key: keys[0], Slot: l.ModelNumber("m"), Hold: 1, Min: 1, Now: l.at()}); d.Code !=
			Admitted {
			t.Fatalf("denied with %+v", d)
		}
		h.Settle(Settlement{Cost: 1, Now: l.at(), Status: 200})
	}
	charge()
	off.Store(int64(time.Hour))
	eventually(t, "the difference is known", time.Minute, func() bool {
		store, _ := l.Skew()
		return (store-time.Hour).Abs() < time.Second && l.ahead.Load() != 0
	})
	charge()
	eventually(t, "the difference is reported", time.Minute, func() bool {
		return strings.Contains(log.String(), "the clock of this machine is 1h0m0s ahead of PostgreSQL's")
	})
	if err := l.Healthy(); err != nil {
		t.Errorf("the node serves no longer: %v", err)
	}
	list, err := listAll(l, keys[0], report.ListQuery{Limit: 10})
	if err != nil || len(list) != 2 {
		t.Fatalf("%d entries are listed: %v", len(list), err)
	}
	for _, e := range list {
		if at := time.UnixMicro(e.AtUs); time.Since(at).Abs() > 30*time.Second {
			t.Errorf("an entry is listed at %s", at)
		}
	}
	off.Store(0)
	eventually(t, "its end is reported", time.Minute, func() bool {
		return strings.Contains(log.String(), "the clocks agree again")
	})
	if n := strings.Count(log.String(), "the clock of this machine is"); n != 1 {
		t.Errorf("it is logged %d times", n)
	}
}

// lockedLog is a log that a test reads while it is written.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
