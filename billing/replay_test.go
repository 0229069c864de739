package billing

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/journal"
	"farebox/billing/replay"
	"farebox/config"
)

// keyedFixture is a ledger with one key and money, and its store of idempotency keys.
type keyedFixture struct {
	*fixture
	k     *Key
	redis *servers.Redis // nil: files
}

// onBoth runs a story with both stores.
func onBoth(t *testing.T, story func(t *testing.T, f *keyedFixture)) {
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		story(t, openKeyed(t, nil))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		story(t, openKeyed(t, servers.StartRedis(t)))
	})
}

func openKeyed(t *testing.T, r *servers.Redis, adjust ...func(*Options)) *keyedFixture {
	t.Helper()
	f := &keyedFixture{redis: r}
	f.fixture = openLedger(t, append(adjust, func(o *Options) {
		if r != nil {
			// The timeout of the limits is long, because the machine is shared.
			o.Redis = config.Redis{Addresses: []string{r.Addr}, Timeout: 5 * time.Second, Away: "open"}
		}
	})...)
	f.account("a", 1000*usd)
	f.k, _ = f.key("a")
	return f
}

func (f *keyedFixture) claim(key, body string) *replay.Claim {
	return &replay.Claim{Account: f.k.Account.no, Key: []byte(key), Fingerprint: sha256.Sum256([]byte(body)),
		Patience: time.Minute, Wait: 30 * time.Second}
}

// begin looks a key up, and claims it if it is unknown.
func (f *keyedFixture) begin(c *replay.Claim) (*replay.Lead, *replay.Answer, error) {
	lead, answer, err := f.Idempotency().Begin(c)
	if lead != nil {
		err = lead.Claim()
	}
	return lead, answer, err
}

// carryOut executes a claimed lead as a route does.
func (f *keyedFixture) carryOut(l *replay.Lead, cost Nano, body string) Nano {
	f.t.Helper()
	a := f.ask(f.k, 1000)
	a.RequestID = l.RequestID()
	var h Hold
	if d := f.Admit(&h, a); d.Code != Admitted {
		f.t.Errorf("denied: %v", d.Code)
	}
	charged, _ := h.SettleKept(Settlement{Cost: cost, Model: "model", Status: 200, Now: f.clock.at()}, l,
		&replay.Answer{Status: 200, Header: []replay.Header{{Name: "X-Credits", Value: "20"}}, Body: []byte(body)})
	return charged
}

func (f *keyedFixture) spent() Nano {
	f.t.Helper()
	usd, _, _ := f.k.Balance()
	return 1000*1_000_000_000 - usd
}

func TestKeyedRequestIsCarriedOutOnceAndChargedOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f *keyedFixture) {
		i := f.Idempotency()
		large := string(bytes.Repeat([]byte("0123456789abcdef"), 10_000))
		for n, body := range []string{`{"result":"0x1"}`, large} {
			key := fmt.Sprint("key-", n)
			lead, answer, err := f.begin(f.claim(key, "request"))
			if err != nil || lead == nil || answer != nil {
				t.Fatalf("the first request: %v %v %v", lead, answer, err)
			}
			if charged := f.carryOut(lead, 14_000, body); charged != 1000+13_000 {
				t.Errorf("charged %d", charged)
			}
			for range 3 {
				lead, answer, err = i.Begin(f.claim(key, "request"))
				if err != nil || lead != nil {
					t.Fatalf("a repeat: %v %v", lead, err)
				}
				if answer.Status != 200 || string(answer.Body) != body ||
					!slices.Equal(answer.Header, []replay.Header{{Name: "X-Credits", Value: "20"}}) {
					t.Errorf("the repeat differs: %d %v, %d bytes", answer.Status, answer.Header, len(answer.Body))
				}
			}
		}
		if f.spent() != 28_000 {
			t.Errorf("spent %d", f.spent())
		}
		f.recount()
	})
}

// "Redis went away in the middle": an answer that cannot be kept is given all the same,
// and not charged.
func TestAnswerThatIsNotKeptIsNotCharged(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t)
	f := openKeyed(t, r)
	lead, _, err := f.begin(f.claim("k", "request"))
	if err != nil {
		t.Fatal(err)
	}
	r.Kill()
	if charged := f.carryOut(lead, 500, "answer"); charged != 0 {
		t.Errorf("charged %d", charged)
	}
	if f.spent() != 0 || f.Idempotency().Stats().Free != 1 {
		t.Errorf("spent %d, %+v", f.spent(), f.Idempotency().Stats())
	}
	f.recount()
}

// "I looked at the accounts after a crash, and the answers that had been given were
// free": an operator's command does not know the store of answers, so it leaves the
// charge of a kept answer to the server.
func TestOperatorLeavesKeyedChargesToTheServer(t *testing.T) {
	t.Parallel()
	f := openKeyed(t, servers.StartRedis(t))
	lead, _, err := f.begin(f.claim("key", "request"))
	if err != nil {
		t.Fatal(err)
	}
	a := f.ask(f.k, usd)
	a.RequestID = lead.RequestID()
	var h Hold
	if d := f.Admit(&h, a); d.Code != Admitted {
		t.Fatal(d.Code)
	}
	// Hold.SettleKept up to where the answer is kept.
	h.prepare(&Settlement{Cost: usd, Status: 200, Now: f.clock.at(), Flags: journal.FlagKeyed})
	if !lead.Keep(h.id, &replay.Answer{Status: 200, Body: []byte("answer")}) {
		t.Fatal("the answer was not kept")
	}
	f.journal.Flush()
	crashed := f.crash(func([]byte) {})
	h.Void(f.clock.at())

	server := crashed.options
	for range 2 {
		op, err := Open(Options{Dir: server.Dir, Brand: "svc", Clock: f.clock.now, segmentSize: server.segmentSize,
			idle: true})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := op.Verify(); err != nil || len(r.Faults) > 0 {
			t.Errorf("%v, %v", r.Faults, err)
		}
		if err := op.Close(); err != nil {
			t.Fatal(err)
		}
	}
	g := &keyedFixture{fixture: crashed, redis: f.redis}
	g.open()
	defer g.Close()
	g.adopt(t)
	if n := g.spent(); n != usd {
		t.Errorf("%s were charged for an answer that was kept", n)
	}
	if _, again, err := g.Idempotency().Begin(g.claim("key", "request")); err != nil || again == nil ||
		string(again.Body) != "answer" {
		t.Errorf("%v, %v", again, err)
	}
	g.recount()
}
