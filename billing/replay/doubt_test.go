package replay

import (
	"errors"
	"testing"
	"time"

	"farebox/bench/servers"
)

// A process was killed during a request that writes. Its repetition wrote a second time.
func TestAWriteOfUnknownOutcomeIsNotCarriedOutAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		writing := func(key, body string) *Claim {
			c := f.claim(key, body)
			c.Write = true
			return c
		}
		lead := func(key string) *Lead {
			t.Helper()
			l, _, err := begin(f.Keys, writing(key, "request"))
			if err != nil || l == nil {
				t.Fatalf("%s: %v %v", key, l, err)
			}
			return l
		}
		unknown := func(when, key string) {
			t.Helper()
			if l, a, err := begin(f.Keys, writing(key, "request")); l != nil || a != nil || !errors.Is(err, ErrUnknown) {
				t.Errorf("%s: %s gave %v %v %v", when, key, l, a, err)
			}
			if _, _, err := begin(f.Keys, writing(key, "other")); !errors.Is(err, ErrReused) {
				t.Errorf("%s: another request under %s gave %v", when, key, err)
			}
		}
		lead("killed") // and never ended
		lost := lead("lost")
		lost.Doubt()
		lost.Forget() // a second end changes nothing
		lead("refused").Forget()
		unknown("at once", "lost")
		for _, when := range []string{"after a restart", "after another"} {
			f.reopen()
			unknown(when, "killed")
			unknown(when, "lost")
		}
		if lost.Kept() || f.Kept(lost.RequestID(), 1) {
			t.Error("a request of unknown outcome would be charged")
		}
		lead("refused").Forget()
		if f.redis != nil {
			return // time is Redis's there
		}
		f.nowNs.Add(int64(25 * time.Hour))
		lead("killed").Forget()
		lead("lost").Forget()
	})
}

// While the node that leads a write may be alive, others wait. When it is certainly dead
// the outcome is unknown.
func TestAWriteOfADeadNodeIsOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	f := open(t, servers.StartRedis(t))
	other := f.second(t, 2)
	c := f.claim("k", "request")
	c.Write, c.Patience, c.Wait = true, 0, 10*time.Second
	if _, _, err := begin(other, c); err != nil {
		t.Fatal(err)
	}
	f.store.(*redisStore).backAt = time.Now().Add(-time.Hour)
	began := time.Now()
	if _, _, err := begin(f.Keys, c); !errors.Is(err, ErrUnknown) || time.Since(began) < patienceSlack/2 {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// An API key with an exhausted limit read the answer to another API key of its account.
func TestAPIKeysOfAnAccountHaveKeysOfTheirOwn(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		lead, _, err := begin(f.Keys, f.claim("k", "request"))
		if err != nil {
			t.Fatal(err)
		}
		f.carryOut(lead, 1, "mine")
		c := f.claim("k", "request")
		c.Caller = 2
		lead, a, err := begin(f.Keys, c)
		if err != nil || lead == nil {
			t.Fatalf("the other API key got %v, %v", a, err)
		}
		lead.Forget()
	})
}
