package billing

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/replay"
	"farebox/config"
)

// keyedChildDir says that this process carries out keyed requests until it is killed.
const keyedChildDir = "FAREBOX_KEYED_CHILD"

const keyedChildCost = 700

// beKilledKeyed executes requests under the keys 0, 1, 2 … from the first number on
// standard input, with the second as the seed of its pauses, each until it is answered,
// and prints:
// S key charged, R key for an answer that was kept, or U key for a write of unknown outcome.
func beKilledKeyed(dir, redis string) {
	o := Options{Dir: dir, Brand: "svc", segmentSize: 32 << 10, detailNow: true}
	if redis != "" {
		o.Redis = config.Redis{Addresses: []string{redis}, Timeout: 5 * time.Second, Away: "open"}
	}
	fail := func(what ...any) {
		fmt.Fprintln(os.Stderr, what...)
		os.Exit(1)
	}
	l, err := Open(o)
	if err != nil {
		fail("cannot open:", err)
	}
	keys, err := l.store.Keys(0)
	if err != nil || len(keys) == 0 {
		fail("no keys:", err)
	}
	k, err := l.adoptForTest(keys[0])
	if err != nil {
		fail(err)
	}
	var next atomic.Int64
	var from int64
	var seed uint64
	if _, err := fmt.Scan(&from, &seed); err != nil {
		fail(err)
	}
	next.Store(from)
	slot := l.ModelNumber("model")
	fmt.Println("B 0 0")
	for writer := range childWriters {
		go func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(writer)))
			for {
				n := next.Add(1) - 1
				c := replay.Claim{
					Account: k.Account.no, Key: strconv.AppendInt(nil, n, 10),
					Fingerprint: sha256.Sum256([]byte("request")),
					Patience:    time.Minute, Wait: time.Minute, Write: n%8 == 0,
				}
				lead, answer, err := l.Idempotency().Begin(&c)
				if c.Write && errors.Is(err, replay.ErrUnknown) {
					fmt.Printf("U %d 0\n", n)
					continue
				}
				if err != nil {
					fail("begin:", err)
				}
				if answer != nil {
					fmt.Printf("R %d 0\n", n)
					continue
				}
				a := Admission{Key: k, Slot: slot, Hold: 1000, Min: 1000, Now: At(time.Now()),
					RequestID: lead.RequestID()}
				var h Hold
				if d := l.Admit(&h, &a); d.Code != Admitted {
					fail("denied:", d.Code)
				}
				if err := lead.Claim(); err != nil {
					fail("claim:", err)
				}
				if rnd.IntN(4) == 0 {
					time.Sleep(time.Duration(rnd.IntN(2000)) * time.Microsecond)
				}
				charged, _ := h.SettleKept(Settlement{Cost: keyedChildCost, Now: At(time.Now())}, lead,
					&replay.Answer{Status: 200, Body: []byte(strconv.FormatInt(n, 10))})
				fmt.Printf("S %d %d\n", n, charged)
			}
		}()
	}
	select {}
}

// "The process was killed between sending and keeping the answer, and the client tried
// again": every request is charged exactly once. FAREBOX_KILLS rounds in the long form,
// 20 if not set.
func TestKilledProcessChargesKeyedRequestsOnce(t *testing.T) { killedKeyed(t, 5) }

func TestLongKilledProcessChargesKeyedRequestsOnce(t *testing.T) {
	killedKeyed(t, servers.Campaign(10))
}

func killedKeyed(t *testing.T, rounds int) {
	t.Run("files", func(t *testing.T) { t.Parallel(); killKeyed(t, openKeyed(t, nil, realClock), rounds) })
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		killKeyed(t, openKeyed(t, servers.StartRedis(t), realClock), rounds)
	})
}

func realClock(o *Options) { o.Clock = time.Now }

func killKeyed(t *testing.T, f *keyedFixture, rounds int) {
	answered, unknown := map[int64]bool{}, map[int64]bool{}
	from, replayed := int64(0), 0
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	// A busy machine executes fewer requests between kills, and makes more rounds
	// instead.
	for round := 0; round < rounds || round < 4*rounds && len(answered) <= 10*rounds; round++ {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), keyedChildDir+"="+f.options.Dir)
		if f.redis != nil {
			cmd.Env = append(cmd.Env, keyedChildDir+"_REDIS="+f.redis.Addr)
		}
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintln(in, from, random.Uint64()); err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		kill := func() { once.Do(func() { _ = cmd.Process.Kill() }) }
		limit := time.AfterFunc(60*time.Second, kill)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var kind string
			var n int64
			var charged Nano
			if _, err := fmt.Sscan(lines.Text(), &kind, &n, &charged); err != nil {
				break // torn
			}
			switch {
			case kind == "B":
				time.AfterFunc(time.Duration(5+random.IntN(60))*time.Millisecond, kill)
				continue
			case kind == "U":
				unknown[n] = true
				continue
			case kind == "R":
				replayed++
			case charged != keyedChildCost:
				t.Errorf("request %d was charged %d", n, charged)
			}
			answered[n] = true
		}
		limit.Stop()
		kill()
		_ = cmd.Wait()
		// The first request without an answer is tried again by the next process.
		for answered[from] || unknown[from] {
			from++
		}
		f.open()
		f.recount()
	}
	f.adopt(t)
	last := int64(0)
	for n := range answered {
		last = max(last, n)
	}
	for n := range last + 1 {
		lead, a, err := f.begin(f.claim(fmt.Sprint(n), "request"))
		switch {
		case errors.Is(err, replay.ErrUnknown) && n%8 == 0 && !answered[n]:
			unknown[n] = true // a write that was under way at a kill
		case err != nil:
			t.Fatalf("request %d: %v", n, err)
		case unknown[n]:
			t.Fatalf("the outcome of request %d is known again", n)
		case lead != nil && answered[n]:
			t.Fatalf("request %d was answered, but is to be carried out again", n)
		case lead != nil:
			f.carryOut(lead, keyedChildCost, fmt.Sprint(n))
		case string(a.Body) != fmt.Sprint(n):
			t.Errorf("request %d has the answer %q", n, a.Body)
		}
	}
	charges := map[[16]byte]int{}
	for _, r := range f.allUsage(t) {
		if r.Amounts.Total() != keyedChildCost {
			t.Errorf("charged %d", r.Amounts.Total())
		}
		charges[r.RequestID]++
	}
	for n := range last + 1 {
		id := f.claim(fmt.Sprint(n), "request").RequestID()
		want := 1
		if unknown[n] {
			want = 0
		}
		if charges[id] != want {
			t.Errorf("request %d is charged %d times; its outcome is unknown: %t", n, charges[id], unknown[n])
		}
		delete(charges, id)
	}
	for id, n := range charges {
		// Executed after the last request that the child reported.
		if n != 1 {
			t.Errorf("%x is charged %d times", id, n)
		}
	}
	if last < int64(10*rounds) {
		t.Errorf("only %d requests in %d rounds: the test tests little", last, rounds)
	}
	t.Logf("%d rounds: %d requests, %d of them answered again after a kill", rounds, last+1, replayed)
}

// adopt finds the key again after the ledger was opened anew.
func (f *keyedFixture) adopt(t *testing.T) {
	t.Helper()
	keys, err := f.store.Keys(0)
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	if f.k, err = f.adoptForTest(keys[0]); err != nil {
		t.Fatal(err)
	}
}
