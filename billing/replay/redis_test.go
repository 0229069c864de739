package replay

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"farebox/bench/servers"
)

// second is another process on the Redis of f, under the same store's name.
func (f *fixture) second(t *testing.T, node uint32) *Keys {
	t.Helper()
	o := f.options
	o.Node = node
	k, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	k.store.(*redisStore).backAt = time.Now().Add(-time.Hour)
	t.Cleanup(func() { _ = k.Close() })
	return k
}

// Two nodes: one executes a request, the other waits and replays the answer.
func TestNodesShareKeys(t *testing.T) {
	t.Parallel()
	f := open(t, servers.StartRedis(t))
	here, there := f.Keys, f.second(t, 2)
	lead, _, err := begin(here, f.claim("k", "request"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := begin(there, f.claim("k", "other")); !errors.Is(err, ErrReused) {
		t.Errorf("another request under the key: %v", err)
	}
	c := f.claim("k", "request")
	c.Wait = time.Millisecond
	if _, _, err := begin(there, c); !errors.Is(err, ErrBusy) {
		t.Errorf("while it is pending: %v", err)
	}
	type result struct {
		a   *Answer
		err error
	}
	got := make(chan result)
	go func() {
		_, a, err := begin(there, f.claim("k", "request"))
		got <- result{a, err}
	}()
	f.carryOut(lead, 500, "answer")
	if r := <-got; r.err != nil || r.a == nil || string(r.a.Body) != "answer" {
		t.Errorf("got %v, %v", r.a, r.err)
	}
	if f.charged.Load() != 500 {
		t.Errorf("spent %d", f.charged.Load())
	}
}

// A leader beyond its patience counts as dead. If it ends all the same, its answer is not
// kept and not charged: the other one's is.
func TestLateLeaderIsNotCharged(t *testing.T) {
	t.Parallel()
	f := open(t, servers.StartRedis(t))
	here, there := f.Keys, f.second(t, 2)
	c := f.claim("k", "request")
	c.Patience = -patienceSlack
	slow, _, err := begin(here, c)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Millisecond)
	next, _, err := begin(there, f.claim("k", "request"))
	if err != nil || next == nil {
		t.Fatalf("the lead of a slow one was not taken over: %v", err)
	}
	if charged := f.carryOut(slow, 500, "late"); charged != 0 {
		t.Errorf("the late leader was charged %d", charged)
	}
	if charged := f.carryOut(next, 500, "in time"); charged != 500 {
		t.Errorf("charged %d", charged)
	}
	if _, a, err := begin(here, f.claim("k", "request")); err != nil || string(a.Body) != "in time" {
		t.Errorf("got %v %v", a, err)
	}
}

// An earlier process of the same node is certainly dead.
func TestRestartedNodeGoesOnWithoutWaiting(t *testing.T) {
	t.Parallel()
	f := open(t, servers.StartRedis(t))
	earlier := f.second(t, 1)
	if _, _, err := begin(earlier, f.claim("k", "request")); err != nil {
		t.Fatal(err)
	}
	lead, _, err := begin(f.Keys, f.claim("k", "request"))
	if err != nil || lead == nil {
		t.Fatal(lead, err)
	}
	lead.Forget()
}

// "Redis went away in the middle": a pending request is answered and not charged. No node
// starts it again, and the answer is there when Redis returns with its data.
func TestRedisLostWhilePending(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	f := open(t, r)
	here, there := f.Keys, f.second(t, 2)
	lead, _, err := begin(here, f.claim("k", "request"))
	if err != nil {
		t.Fatal(err)
	}
	r.Kill()
	for _, i := range []*Keys{there, here} {
		for n := range 3 {
			if _, _, err := begin(i, f.claim(fmt.Sprint("new-", n), "request")); !errors.Is(err, ErrAway) {
				t.Errorf("a request was begun without Redis: %v", err)
			}
		}
	}
	if charged := f.carryOut(lead, 500, "answer"); charged != 0 {
		t.Errorf("charged %d", charged)
	}
	c := f.claim("k", "request")
	c.Wait = time.Millisecond
	if _, _, err := begin(here, c); !errors.Is(err, ErrBusy) {
		t.Errorf("the request can be begun again while its end is not known: %v", err)
	}
	if _, _, err := begin(there, c); !errors.Is(err, ErrAway) {
		t.Errorf("on another node: %v", err)
	}
	r.Start()
	for _, i := range []*Keys{there, here} {
		lead, a, err := begin(i, f.claim("k", "request"))
		if err != nil || lead != nil || string(a.Body) != "answer" {
			t.Errorf("after Redis was back: %v %v %v", lead, a, err)
		}
	}
	if f.charged.Load() != 0 || here.Stats().Free != 1 {
		t.Errorf("spent %d, %+v", f.charged.Load(), here.Stats())
	}
}

// After Redis was away a leader that looks dead gets some time: it may have been unable
// to report that it is done.
func TestLeaderHasGraceAfterRedisWasAway(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	f := open(t, r)
	there := f.second(t, 2)
	c := f.claim("k", "request")
	c.Patience = -patienceSlack
	if _, _, err := begin(f.Keys, c); err != nil {
		t.Fatal(err)
	}
	store := there.store.(*redisStore)
	store.mu.Lock()
	store.away = true
	store.mu.Unlock()
	quick := f.claim("k", "request")
	quick.Wait = 10 * time.Millisecond
	if _, _, err := begin(there, quick); !errors.Is(err, ErrBusy) {
		t.Errorf("the lead was taken at once: %v", err)
	}
	store.mu.Lock()
	store.backAt = time.Now().Add(-awayGrace - time.Second)
	store.mu.Unlock()
	lead, _, err := begin(there, quick)
	if err != nil || lead == nil {
		t.Fatalf("the lead was not taken later: %v", err)
	}
	lead.Forget()
}

// A Redis that lost its data still gets the answers of pending requests.
func TestRedisThatLostItsDataLearnsTheAnswer(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t)
	f := open(t, r)
	lead, _, err := begin(f.Keys, f.claim("k", "request"))
	if err != nil {
		t.Fatal(err)
	}
	client := r.Client()
	defer func() { _ = client.Close() }()
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if charged := f.carryOut(lead, 500, "answer"); charged != 500 {
		t.Errorf("charged %d", charged)
	}
	if _, a, err := begin(f.Keys, f.claim("k", "request")); err != nil || a == nil {
		t.Errorf("got %v %v", a, err)
	}
}

func TestKeysExpireInRedis(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t)
	f := open(t, r)
	lead, _, err := begin(f.Keys, f.claim("k", "request"))
	if err != nil {
		t.Fatal(err)
	}
	f.carryOut(lead, 1, "answer")
	client := r.Client()
	defer func() { _ = client.Close() }()
	keys, err := client.Keys(t.Context(), "svc:keys:0:[0-9a-f]*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if left := client.PTTL(t.Context(), keys[0]).Val(); left > 24*time.Hour || left < 24*time.Hour-time.Minute {
		t.Errorf("it lives for %s", left)
	}
}
