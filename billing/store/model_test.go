package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"farebox/bench/servers"
	"farebox/billing/money"
)

// modelStore specifies a shared store as plainly as possible: one account in USD and
// DIEM, one key with a limit, some nodes.
type modelStore struct {
	free, spent, late, expired [money.Currencies]money.Nano
	lease                      []money.Parts // by node
	limit, used                money.Nano
	quota                      []money.Nano
}

func (m *modelStore) leased(place int) (n money.Nano) {
	for i := range m.lease {
		n += m.lease[i][place]
	}
	return n
}

func (m *modelStore) quotas() (n money.Nano) {
	for _, q := range m.quota {
		n += q
	}
	return n
}

// TestLeasesAgainstAModel runs random operations on a real store and on the model, and
// compares all state after each.
func TestLeasesAgainstAModel(t *testing.T) { leasesAgainstAModel(t, 2*time.Second) }

func TestLongLeasesAgainstAModel(t *testing.T) { leasesAgainstAModel(t, 4*time.Second) }

func leasesAgainstAModel(t *testing.T, length time.Duration) {
	t.Parallel()
	address := servers.Database(t)
	const nodes = 3
	stores := make([]*postgresStore, nodes)
	for i := range stores {
		stores[i] = openNode(t, address, fmt.Sprint("n", i))
	}
	deadline := time.Now().Add(length)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		if time.Now().After(deadline) && runs > 5 {
			return
		}
		runs++
		name := rand.Text()
		must := func(err error) {
			rt.Helper()
			if err != nil {
				rt.Fatal(err)
			}
		}
		a := &AccountRow{ID: name, Name: name, CreatedUs: 1}
		must(stores[0].AddAccount(a))
		m := &modelStore{lease: make([]money.Parts, nodes), quota: make([]money.Nano, nodes), limit: 500}
		k := &KeyRow{ID: name, Account: a.No, Type: Inference, Period: Epoch, LimitUSD: nano(m.limit), CreatedUs: 1}
		copy(k.Digest[:], name)
		must(stores[0].AddKey(k, 5))
		peers := make([]*peer, nodes)
		for i, s := range stores {
			peers[i] = newPeer(t, s)
		}
		credits := 0
		amount := rapid.Int64Range(0, 400)
		node := rapid.IntRange(0, nodes-1)
		place := rapid.SampledFrom([]int{money.InDIEM, money.InUSD})
		check := func() {
			for i, p := range peers {
				list, err := p.Funds([]uint32{a.No}, conformDay)
				must(err)
				f := list[0]
				for _, at := range []int{money.InDIEM, money.InBundled, money.InUSD} {
					if f.Lease[at] != m.lease[i][at] || f.Avail[at] != m.free[at] ||
						f.Others[at] != m.leased(at)-m.lease[i][at] {
						rt.Fatalf("node %d: %+v in the store, the model has %v of %v free and %+v", i, f, m.lease[i],
							m.free, m.lease)
					}
				}
				quota := money.Nano(0)
				if len(list) > 1 {
					quota = list[1].Lease[money.InUSD]
				}
				if quota != m.quota[i] {
					rt.Fatalf("node %d: %d of the limit in the store, the model has %d", i, quota, m.quota[i])
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { check() },
			"credit": func(rt *rapid.T) {
				at, n := place.Draw(rt, "place"), money.Nano(1+amount.Draw(rt, "amount"))
				ref := fmt.Sprint(name, credits)
				credits++
				for i := range 2 {
					ok, err := stores[i].Credit(&Credit{Account: a.No, Currency: money.SpendOrder[at], Day: conformDay,
						Amount: n, Ref: ref, NowUs: 1})
					must(err)
					if ok != (i == 0) {
						rt.Fatalf("credit %d of a reference: applied %v", i+1, ok)
					}
				}
				m.free[at] += n
			},
			"grant": func(rt *rapid.T) {
				i := node.Draw(rt, "node")
				p := peers[i]
				w := []Want{
					{Account: a.No, Day: conformDay, Amounts: money.Parts{money.Nano(amount.Draw(rt, "diem")), 0,
						money.Nano(amount.Draw(rt, "usd"))}},
					limit(a.No, k.No, Epoch, money.Nano(amount.Draw(rt, "limit"))),
				}
				p.op++
				var got money.Parts
				for at := range got {
					got[at] = min(w[0].Amounts[at], m.free[at])
				}
				room := min(w[1].Amounts[money.InUSD], max(0, m.limit-m.used-m.quotas()))
				for range 2 { // the answer to the first was lost
					list, err := p.Grant(p.op, w)
					must(err)
					if list[0].Granted != got || list[1].Granted[money.InUSD] != room {
						rt.Fatalf("granted %v and %v, the model %v and %d", list[0].Granted, list[1].Granted, got, room)
					}
				}
				for at := range got {
					m.free[at] -= got[at]
				}
				m.lease[i].Add(&got)
				m.quota[i] += room
			},
			"return": func(rt *rapid.T) {
				i := node.Draw(rt, "node")
				p := peers[i]
				w := []Want{
					{Account: a.No, Day: conformDay, Amounts: money.Parts{money.Nano(amount.Draw(rt, "diem")), 0,
						money.Nano(amount.Draw(rt, "usd"))}},
					limit(a.No, k.No, Epoch, money.Nano(amount.Draw(rt, "limit"))),
				}
				p.giveBack(w...)
				for at, n := range w[0].Amounts {
					n = min(n, m.lease[i][at])
					m.lease[i][at] -= n
					m.free[at] += n
				}
				m.quota[i] -= min(m.quota[i], w[1].Amounts[money.InUSD])
			},
			"charge": func(rt *rapid.T) {
				i := node.Draw(rt, "node")
				p := peers[i]
				var total money.Parts
				for range rapid.IntRange(1, 4).Draw(rt, "requests") {
					c := money.Parts{money.Nano(amount.Draw(rt, "diem")), 0, money.Nano(amount.Draw(rt, "usd"))}
					p.charge(a.No, k.No, conformDay, c)
					total.Add(&c)
				}
				p.apply()
				for at, n := range total {
					leased := min(n, m.lease[i][at])
					free := min(n-leased, m.free[at])
					m.lease[i][at] -= leased
					m.free[at] -= free
					m.spent[at] += leased + free
					m.late[at] += n - leased - free
				}
				m.used += total[money.InUSD]
				m.quota[i] -= min(m.quota[i], total[money.InUSD])
			},
			"limit": func(rt *rapid.T) {
				row, err := stores[0].KeyByID(name)
				must(err)
				m.limit = money.Nano(rapid.Int64Range(0, 3000).Draw(rt, "limit"))
				row.LimitUSD = nano(m.limit)
				must(stores[0].UpdateKey(row))
			},
			"die and be reclaimed": func(rt *rapid.T) {
				i := node.Draw(rt, "node")
				other := stores[(i+1)%nodes]
				_, err := stores[i].Beat(0)
				must(err)
				for range 50 { // until the clock has moved on
					list, err := other.Reclaim(0)
					must(err)
					if len(list) > 0 || m.lease[i] == (money.Parts{}) && m.quota[i] == 0 {
						break
					}
				}
				_, err = stores[i].Beat(time.Minute)
				must(err)
				for at, n := range m.lease[i] {
					m.free[at] += n
				}
				m.lease[i], m.quota[i] = money.Parts{}, 0
			},
			"restart": func(rt *rapid.T) {
				i := node.Draw(rt, "node")
				_, _, err := stores[i].Join(fmt.Sprint("ID-n", i), fmt.Sprint("n", i), time.Minute)
				must(err)
				peers[i] = newPeer(t, stores[i])
			},
			"leave": func(rt *rapid.T) {
				i := node.Draw(rt, "node")
				must(stores[i].Leave())
				_, _, err := stores[i].Join(fmt.Sprint("ID-n", i), fmt.Sprint("n", i), time.Minute)
				must(err)
				for at, n := range m.lease[i] {
					m.free[at] += n
				}
				m.lease[i], m.quota[i] = money.Parts{}, 0
			},
			"expire": func(*rapid.T) {
				if err := stores[0].ExpireDIEM(a.No, conformDay, 1); !errors.Is(err, ErrNoRow) {
					must(err)
				}
				m.expired[money.InDIEM] += m.free[money.InDIEM]
				m.free[money.InDIEM] = 0
			},
		})
		for i, s := range stores { // nothing stays for the next run
			must(s.Leave())
			_, _, err := s.Join(fmt.Sprint("ID-n", i), fmt.Sprint("n", i), time.Minute)
			must(err)
		}
		r, err := stores[0].Recount(func() {})
		must(err)
		c := r.Accounts[a.No]
		if c.Spent != money.Parts(m.spent) || c.late != money.Parts(m.late) {
			rt.Fatalf("spent %v and late %v, the model %v and %v", c.Spent, c.late, m.spent, m.late)
		}
		for _, f := range r.Report().Faults {
			rt.Errorf("recount: %s", f)
		}
	})
	t.Logf("%d runs", runs)
}
