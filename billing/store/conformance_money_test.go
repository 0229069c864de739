package store

import (
	"fmt"
	"slices"
	"sync"

	"farebox/billing/journal"
	"farebox/billing/money"
)

func conformCredit(c *conform) {
	account := c.account("a", money.Parts{})
	other := c.account("b", money.Parts{})
	try := func(account uint32, currency money.Currency, n money.Nano, ref string) {
		ok, err := c.Credit(&Credit{Account: account, Currency: currency, Day: conformDay, Amount: n, Ref: ref,
			Memo: "m", NowUs: conformUs})
		c.say("%s %s to %d by %s: %t %s", n, currency, account, ref, ok, fail(err))
	}
	try(account, money.USD, 5*usd, "r1")
	try(account, money.USD, 5*usd, "r1")
	try(account, money.USD, 6*usd, "r1")
	try(account, money.Bundled, 5*usd, "r1")
	try(other, money.USD, 5*usd, "r1")
	try(account, money.DIEM, 7, "r2")
	try(account, money.Bundled, 9, "r3")
	try(account, money.USD, money.MaxCredit, "too much, with what is there")
	var wg sync.WaitGroup
	var mu sync.Mutex
	applied := map[string]int{}
	for i := range 24 {
		ref := fmt.Sprint("many-", i%3)
		wg.Go(func() {
			ok, err := c.Credit(&Credit{Account: other, Currency: money.USD, Amount: usd, Ref: ref, NowUs: conformUs})
			if err != nil {
				c.t.Errorf("credit: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if ok {
				applied[ref]++
			}
		})
	}
	wg.Wait()
	c.say("of 24 credits at once with 3 references: %v", applied)
	c.say("%v and %v", c.money(account, conformDay), c.money(other, conformDay))
}

func conformBatches(c *conform) {
	a := c.account("a", money.Parts{100, 200, 300})
	b := c.account("b", money.Parts{0, 0, 1000})
	k1, k2 := c.key(a, 1), c.key(b, 1)
	c.settle(a, k1.No, conformDay, money.Parts{50, 60, 0})
	c.settle(b, k2.No, conformDay, money.Parts{0, 0, 400})
	c.settle(a, k1.No, conformDay, money.Parts{0, 40, 70})
	c.b.Add(&journal.Record{Kind: journal.Hold, Seq: c.b.Last + 1})
	seq := c.b.Last + 1
	c.b.Add(&journal.Record{Kind: journal.Settle, Seq: seq, Hold: seq, Account: b, Key: uint32(k2.No), Model: 2,
		Day: conformDay, Amounts: money.Parts{0, 0, 600}, Shortfall: 33, TimeNs: 1})
	c.b.Sealed, c.b.NowUs = true, conformUs
	for range 3 { // the answers to the first two were lost
		c.must(c.Apply(c.b))
	}
	at, err := c.Applied(ToLedger)
	c.say("applied up to %d %s; %v and %v", at, fail(err), c.money(a, conformDay), c.money(b, conformDay))
	gap := NewBatch()
	gap.Begin(c.b.Last + 5)
	gap.Add(&journal.Record{Kind: journal.Void, Seq: c.b.Last + 6})
	c.say("a batch after a gap: %s", fail(c.Apply(gap)))
	part := NewBatch()
	part.Begin(c.b.Last - 2)
	part.Add(&journal.Record{Kind: journal.Void, Seq: c.b.Last - 1})
	c.say("a batch from the middle of what is applied: %s", fail(c.Apply(part)))
	at, err = c.Applied(ToLedger)
	c.say("applied up to %d %s", at, fail(err))
	short, err := c.Shortfall()
	c.say("shortfall %s %s", short, fail(err))
	r := c.recount()
	for _, no := range []uint32{a, b} {
		x := r.Accounts[no]
		c.say("%d: spent %v, daily %v in %d requests, short %s", no, x.Spent, x.daily, x.dailyCount, x.short)
	}
	// Many rows, more than go to the database at a time.
	c.b.Applied()
	c.b.Begin(c.b.Last)
	rich := c.account("c", money.Parts{0, 0, money.MaxCredit})
	for i := range bulkMost + 100 {
		c.settle(rich, int64(1000+i%(bulkMost+50)), conformDay-int32(i%2), money.Parts{0, 0, money.Nano(i)})
	}
	c.apply()
	x := c.recount().Accounts[rich]
	c.say("%d: spent %v in %d requests, has %v", rich, x.Spent, x.dailyCount, c.money(rich, conformDay))
}

func conformPages(c *conform) {
	a := c.account("a", money.Parts{0, 0, 1000 * usd})
	var set journal.Pages
	set.Begin(0)
	for seq := uint64(1); seq <= 3000; seq++ {
		r := journal.Record{Kind: journal.Settle, Seq: seq, Hold: seq, TimeNs: (conformUs + int64(seq)) * 1000,
			Account: a, Key: 1, Model: 1, Day: conformDay,
			Amounts: money.Parts{0, 0, money.Nano(seq)}, Lines: *worth(money.Nano(seq))}
		set.Add(&r)
		c.b.Add(&r)
	}
	c.apply()
	for range 2 {
		c.must(c.AddPages(set.List(), 1, 3000))
	}
	at, err := c.Applied(ToUsage)
	c.say("detail up to %d %s", at, fail(err))
	r := c.recount()
	c.say("%d requests, detail %v", r.Requests, r.Accounts[a].detail)
}

func conformProgress(c *conform) {
	a := c.account("a", money.Parts{0, 0, 1000})
	show := func() {
		list, err := c.OpenProgress()
		c.must(err)
		for _, r := range list {
			c.say("  hold %d at %d: %v", r.Hold, r.Seq, r.Amounts)
		}
	}
	progress := func(seq, hold uint64, n money.Nano) {
		c.b.Add(&journal.Record{Kind: journal.Progress, Seq: seq, Hold: hold, Account: a, Key: 1, Model: 1,
			Day: conformDay, TimeNs: 5, Amounts: money.Parts{0, 0, n}})
	}
	c.b.Add(&journal.Record{Kind: journal.Hold, Seq: 1, Account: a})
	c.b.Add(&journal.Record{Kind: journal.Hold, Seq: 2, Account: a})
	progress(3, 1, 10)
	progress(4, 2, 20)
	c.apply()
	c.say("two:")
	show()
	progress(5, 1, 30)
	c.b.Add(&journal.Record{Kind: journal.Void, Seq: 6, Hold: 2, Account: a})
	c.apply()
	c.say("one:")
	show()
	c.b.Add(&journal.Record{Kind: journal.Settle, Seq: 7, Hold: 1, Account: a, Key: 1, Model: 1, Day: conformDay,
		TimeNs: 5, Amounts: money.Parts{0, 0, 35}})
	c.apply()
	c.say("none:")
	show()
	c.say("%v", c.money(a, conformDay))
}

func conformDIEM(c *conform) {
	a := c.account("a", money.Parts{0, 0, 10})
	show := func(what string, day int32) { c.say("%s: %v", what, c.money(a, day)) }
	show("none", conformDay)
	c.must(c.SetAllowance(a, 1000, conformDay, conformUs))
	show("a first allowance counts at once", conformDay)
	c.must(c.SetAllowance(a, 500, conformDay, conformUs))
	show("a change does not", conformDay)
	show("but the next day", conformDay+1)
	ok, err := c.Credit(&Credit{Account: a, Currency: money.DIEM, Day: conformDay + 1, Amount: 7, Ref: "r",
		NowUs: conformUs})
	c.say("credit %t %s", ok, fail(err))
	show("with a credit", conformDay+1)
	c.lease(a, conformDay+2, money.Parts{500, 0, 0})
	c.settle(a, 1, conformDay+2, money.Parts{100, 0, 0})
	c.settle(a, 1, conformDay+2, money.Parts{1, 0, 0})
	c.apply()
	show("the first charge of a day", conformDay+2)
	c.must(c.SetAllowance(a, 0, conformDay+2, conformUs))
	show("taken away", conformDay+2)
	show("from the next day on", conformDay+3)
	if c.shared != nil { // leased money does not expire before it is returned
		c.op++
		_, err := c.shared.Return(c.op, []Want{{Account: a, Day: conformDay + 2, Amounts: money.Parts{399, 0, 0}}})
		c.must(err)
	}
	stale, err := c.StaleDIEM(conformDay + 3)
	slices.SortFunc(stale, func(x, y StaleDIEM) int { return int(x.Day - y.Day) })
	c.say("stale: %v %s", stale, fail(err))
	for _, d := range stale {
		for range 2 {
			c.must(c.ExpireDIEM(d.Account, d.Day, conformUs))
		}
		show("expired", d.Day)
	}
	stale, err = c.StaleDIEM(conformDay + 3)
	c.say("stale: %v %s", stale, fail(err))
	c.say("a bucket that is not there: %s", fail(c.ExpireDIEM(a, conformDay-9, conformUs)))
	list, err := c.Accounts(conformDay + 1)
	c.must(err)
	c.say("%s: allowance %s, spent %v, spendable %v", list[0].Name, list[0].DIEMDaily, list[0].Spent,
		c.money(a, conformDay+1))
}

// The last dollar: concurrent credits and charges, down to the last nano.
func conformLastDollar(c *conform) {
	a := c.account("a", money.Parts{})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if _, err := c.Credit(&Credit{Account: a, Currency: money.USD, Amount: usd / 40, Ref: fmt.Sprint("r", i),
				NowUs: conformUs}); err != nil {
				c.t.Errorf("credit: %v", err)
			}
		})
	}
	wg.Wait()
	c.lease(a, conformDay, money.Parts{0, 0, usd})
	for range 10 {
		for range 100 {
			c.settle(a, 1, conformDay, money.Parts{0, 0, usd / 1000})
		}
		c.apply()
	}
	c.say("%v left of a dollar after 1000 charges of 0.001", c.money(a, conformDay))
	c.settle(a, 1, conformDay, money.Parts{0, 0, 1})
	c.b.Sealed, c.b.NowUs = true, conformUs
	// One more is a fault in an embedded store, whose memory decides. Nodes may have lost
	// their lease meanwhile.
	if err := c.Apply(c.b); c.shared == nil && err == nil {
		c.t.Error("more was charged than there is")
	}
}
