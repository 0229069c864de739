package payment

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/store"
	"farebox/config/fair"
)

// "Three servers got my payment at the same moment, and I was credited three times."
func TestThreeNodesCreditOnePaymentOnce(t *testing.T) {
	t.Parallel()
	address := servers.Database(t)
	s := &stage{t: t, world: newWorld(2)}
	s.world.always = "fine"
	var machines []*Machine
	for i := range 3 {
		s.l = ledgerOn(t, address, fmt.Sprint("node-", i))
		machines = append(machines, s.machine(s.l))
	}
	for round := range 5 {
		p := payment(fmt.Sprint("pay_", round))
		var wg sync.WaitGroup
		var mu sync.Mutex
		endings := map[Ending]int{}
		for i := range 30 {
			wg.Go(func() {
				out := machines[i%3].Submit(context.Background(), p, fair.Owner{})
				mu.Lock()
				defer mu.Unlock()
				endings[out.Ending]++
				if out.Ending == Credited && !out.Again {
					endings[0]++
				}
			})
		}
		wg.Wait()
		if endings[0] != 1 || endings[Credited]+endings[InProgress]+endings[0] != 31 {
			t.Errorf("round %d ended with %v", round, endings)
		}
	}
	if s.world.settles != 5 {
		t.Errorf("facilitators were asked %d times", s.world.settles)
	}
	s.has(25_000_000_000)
}

// "The node died while it settled, and nobody knew of my payment": another one goes on
// when its lease is over.
func TestAnotherNodeGoesOnWithWhatADeadOneLeft(t *testing.T) {
	t.Parallel()
	address := servers.Database(t)
	s := &stage{t: t, world: newWorld(3)}
	s.world.always = "fine"
	first := ledgerOn(t, address, "node-1")
	l := &life{}
	l.left.Store(13) // up to where it was settled
	m := s.machine(first, func(o *setup) {
		o.Store, o.Client = &mortal{Store: first.Payments(), life: l}, &mortalClient{s.world, l}
	})
	m.t.margin = 3 * time.Second // its lease lasts until the other one was asked, also on a busy machine
	out := m.Submit(context.Background(), payment("pay_a"), fair.Owner{})
	s.l = ledgerOn(t, address, "node-2")
	s.Machine = s.machine(s.l)
	if row := s.row("pay_a"); out.Ending != Unknown || row.State != store.PaymentSubmitted || s.world.settles != 1 {
		t.Fatalf("the first node left %+v, settled %d times", row, s.world.settles)
	}
	s.submit(payment("pay_a"), InProgress) // it may live yet
	s.begin()
	row := s.becomes("pay_a", store.PaymentFinal)
	if row.Owner != s.l.NodeNo() || s.world.settles != 1 {
		t.Errorf("it ended as %+v, settled %d times", row, s.world.settles)
	}
	s.has(5_000_000_000)
}
