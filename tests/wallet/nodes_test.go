package wallet

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream/chain"
	"farebox/bench/upstream/facilitator"
	"farebox/tests/rig"
)

// openChain starts so many gateways of one house on PostgreSQL and Redis.
func openChain(t *testing.T, nodes int, o options) []*shop {
	t.Helper()
	w := newWorld(t)
	database, redis := servers.Database(t), servers.StartRedis(t).Addr
	all := make([]*shop, nodes)
	for i := range all {
		own, dir := o, filepath.Join(t.TempDir(), "node")
		rig.ShareJail(t, dir)
		own.more += fmt.Sprintf("\nnode: { name: n%d, dir: %q }\nredis: { addresses: [%q], timeout: 1s }\n", i+1,
			dir, redis)
		g := rig.NewGateway(t, w.config(own))
		g.Store = database
		g.ListenAndStart()
		all[i] = &shop{w, g}
	}
	return all
}

// The same payment sent to three nodes at once is credited once, and every node says so.
func TestAPaymentSentToThreeNodesAtOnceIsCreditedOnce(t *testing.T) {
	t.Parallel()
	nodes := openChain(t, 3, options{})
	for range 5 {
		for _, p := range []*chain.Payer{chain.NewPayer(), chain.NewSolanaPayer()} {
			payment := nodes[0].sign(p, 5*usd)
			answers := make([]reply, 9)
			var all sync.WaitGroup
			for i := range answers {
				all.Go(func() {
					var err error
					if answers[i], err = tell(nodes[i%3].Gateway, "POST", topUp, "", "PAYMENT-SIGNATURE",
						payment.header()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			credited := 0
			for _, r := range answers {
				switch r.status {
				case 200:
					credited++
				case 409:
				default:
					t.Errorf("answered %s", r)
				}
			}
			if credited == 0 {
				t.Error("no answer says that it was credited")
			}
			for _, s := range nodes {
				s.has(p, "5")
			}
		}
	}
	if n, m := len(nodes[0].evm.Moves()), len(nodes[0].solana.Transfers()); n != 5 || m != 5 {
		t.Errorf("%d and %d transfers, not 5", n, m)
	}
	nodes[0].verified()
}

// A sign-in that one node took is used for all.
func TestANonceCountsOnceOnAllNodes(t *testing.T) {
	t.Parallel()
	nodes := openChain(t, 2, options{})
	p := nodes[0].customer(chain.NewPayer(), 5*usd)
	for i := range 6 {
		header := signIn(p)
		statuses := make(chan int, 8)
		for k := range cap(statuses) {
			go func() {
				r, err := tell(nodes[(i+k)%2].Gateway, "POST", "/chat/completions", chatBody(""), signInHeader, header)
				if err != nil {
					r.status = -1
				}
				statuses <- r.status
			}()
		}
		got := map[int]int{}
		for range cap(statuses) {
			got[<-statuses]++
		}
		// The sixth meanwhile gets a 429 before the nonce is looked at.
		if got[200] != 1 || got[401]+got[429] != cap(statuses)-1 {
			t.Errorf("one sign-in sent to two nodes was answered %v", got)
		}
	}
	nodes[0].verified()
}

// A node that dies with a payment leaves it to the others.
func TestLongAPaymentOfADeadNodeIsFinishedByAnother(t *testing.T) {
	t.Parallel()
	nodes := openChain(t, 2, options{facilitator: ", settle_timeout: 2s, verify_timeout: 2s"})
	p := chain.NewPayer()
	payment := nodes[0].sign(p, 5*usd)
	nodes[0].facilitator.Draw(func(call string) chain.Lie {
		if call == "settle" {
			return facilitator.HangsAfter
		}
		return ""
	})
	go func() { _, _ = tell(nodes[0].Gateway, "POST", topUp, "", "PAYMENT-SIGNATURE", payment.header()) }()
	rig.Await(t, "it is on the chain", func() bool { return len(nodes[0].evm.Moves()) == 1 })
	nodes[0].Kill()
	nodes[1].facilitator.Always("")
	nodes[1].hasWithin(2*time.Minute, p, "5") // once the lease of the dead one has ended
	nodes[1].verified()
}
