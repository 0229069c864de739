package store

import (
	"fmt"
	"sync"

	"farebox/billing/money"
)

func (c *conform) describe(k *KeyRow) {
	text := func(n *money.Nano) string {
		if n == nil {
			return "none"
		}
		return n.String()
	}
	c.say("  %d %s of %d %s %s, type %d, digest %x, %s %q, period %d, limits %s %s (%q %q), privacy %d, version %d, "+
		"times %d %d %d %d", k.No, k.ID, k.Account, k.AccountID, k.AccountName,
		k.Type, k.Digest[:4], k.Last6, k.Description, k.Period, text(k.LimitUSD), text(k.LimitDIEM), k.LimitTextUSD,
		k.LimitTextDIEM, k.Privacy, k.Version,
		k.CreatedUs, k.ExpiresUs, k.RevokedUs, k.LastUsedUs)
}

func conformKeys(c *conform) {
	account := c.account("a", money.Parts{})
	zero, most := money.Nano(0), money.Nano(1<<63-1)
	rows := []*KeyRow{
		{ID: "k1", Account: account, Type: Inference, Digest: Digest{1, 2, 3}, Last6: "aaaaaa", Period: Epoch,
			CreatedUs: 1},
		{ID: "k2", Account: account, Type: Admin, Digest: Digest{0xff, 0, 0xfe}, Last6: "bbbbbb",
			Description: "è'\"\\ ", Period: Lifetime,
			LimitUSD: &zero, LimitDIEM: &most, LimitTextDIEM: "9999999999", Privacy: PrivateOnly, CreatedUs: 2,
			ExpiresUs: conformUs},
		{ID: "k3", Account: account, Type: Inference, Digest: Digest{9}, Last6: "cccccc", Period: Month, CreatedUs: 3},
	}
	for _, k := range rows {
		c.say("add: %s", fail(c.AddKey(k, 3)))
	}
	c.say("one too many: %s",
		fail(c.AddKey(&KeyRow{ID: "k4", Account: account, Digest: Digest{7}, CreatedUs: 4, Period: Epoch,
			Type: Inference}, 3)))
	c.say("the same again: %s", fail(c.AddKey(rows[0], 3)))
	c.say("of nobody: %s", fail(
		c.AddKey(&KeyRow{ID: "k5", Account: 77, Digest: Digest{8}, Period: Epoch, Type: Inference}, 3)))
	for _, d := range []Digest{rows[0].Digest, rows[1].Digest, {5}} {
		k, err := c.KeyByDigest(d)
		c.say("by digest: %s", fail(err))
		if err == nil {
			c.describe(k)
		}
	}
	k, err := c.KeyByID("k2")
	c.must(err)
	stale := *k
	k.Description, k.LimitUSD, k.LimitDIEM, k.LimitTextDIEM, k.Period, k.ExpiresUs, k.Privacy = "new", nil, &zero, "",
		Month, 0, PrivateText
	c.say("update: %s, version %d", fail(c.UpdateKey(k)), k.Version)
	c.say("update of what was read before: %s", fail(c.UpdateKey(&stale)))
	c.must(c.TouchKeys(map[int64]int64{rows[0].No: 500, k.No: 700, 99: 1}))
	c.must(c.TouchKeys(map[int64]int64{rows[0].No: 400, k.No: 800}))
	c.must(c.TouchKeys(nil))
	c.must(c.RevokeKey(rows[2].No, 1234))
	c.must(c.RevokeKey(rows[2].No, 5678))
	k3, err := c.KeyByID("k3")
	c.must(err)
	c.say("update of a revoked key: %s", fail(c.UpdateKey(k3)))
	for _, of := range []uint32{0, account, 99} {
		list, err := c.Keys(of)
		c.must(err)
		c.say("keys of %d:", of)
		for _, k := range list {
			c.describe(k)
		}
	}
	n, first, err := c.KeysMade(account, 2)
	c.say("made since 2: %d, the first at %d, %s", n, first, fail(err))
}

func conformKeySums(c *conform) {
	account := c.account("a", money.Parts{usd, usd, 10 * usd})
	var keys []*KeyRow
	for i := range 5 {
		k := c.key(account, i)
		keys = append(keys, k)
		c.settle(account, k.No, conformDay, money.Parts{0, money.Nano(i), money.Nano(i+1) * 100})
		c.settle(account, k.No, conformDay-1, money.Parts{0, 0, 7})
		c.settle(account, k.No, conformDay-40, money.Parts{0, 0, 1})
	}
	c.settle(account, keys[0].No, conformDay, money.Parts{55, 0, 0})
	c.apply()
	c.must(c.RevokeKey(keys[3].No, 1))
	page, err := c.ActiveKeys(account, conformUs, 2, 1)
	c.must(err)
	for _, k := range page {
		c.describe(k)
	}
	for _, p := range []Period{Epoch, Month, Lifetime} {
		used, err := c.KeyUsed(account, keys[0].No, p, conformDay)
		c.say("%s: %v %s", p, used, fail(err))
	}
	for _, day := range []int32{conformDay - 40, conformDay - 1, conformDay} {
		later, err := c.KeyUsedLater(account, keys[0].No, day)
		c.say("after %d: %v %s", day, later, fail(err))
	}
	sums, err := c.KeySums(account, conformDay-7, conformDay)
	c.must(err)
	for _, k := range keys {
		c.say("key %d: %+v", k.No, sums[k.No])
	}
}

func conformModels(c *conform) {
	ids := []string{"m-a", "m-b", "m-c"}
	for _, id := range append(ids, ids...) {
		no, err := c.AddModel(id)
		c.say("%s: %d %s", id, no, fail(err))
	}
	var wg sync.WaitGroup
	got := make([]uint32, 32)
	for i := range got {
		wg.Go(func() {
			no, err := c.AddModel(fmt.Sprint("n-", i%8))
			if err != nil {
				c.t.Errorf("model: %v", err)
			}
			got[i] = no
		})
	}
	wg.Wait()
	list, err := c.Models()
	c.must(err)
	for i, no := range got {
		if list[no] != fmt.Sprint("n-", i%8) {
			c.t.Errorf("model n-%d got the number %d, which is %q", i%8, no, list[no])
		}
	}
	c.say("%d models, %q", len(list), []string{list[1], list[2], list[3]})
}

func conformViolations(c *conform) {
	a, b := c.account("a", money.Parts{}), c.account("b", money.Parts{})
	k := c.key(a, 1)
	for i := range 7 {
		var list []Violation
		for j := range 10 {
			list = append(list, Violation{Account: a, TimeUs: int64(i*10 + j), Key: k.No, Model: fmt.Sprint("m", j),
				Tier: "S", Kind: "RPM"})
		}
		list = append(list, Violation{Account: b, TimeUs: int64(i), Key: 99, Model: "x", Kind: "TPM"})
		c.must(c.AddViolations(list))
	}
	for _, no := range []uint32{a, b, 99} {
		list, err := c.Violations(no)
		c.must(err)
		c.say("%d: %d", no, len(list))
		for _, v := range list {
			c.say("  %+v", v)
		}
	}
	for _, use := range []struct {
		id           string
		expires, now int64
	}{{"t", 100, 1}, {"t", 100, 2}, {"u", 100, 3}, {"t", 300, 200}} {
		fresh, err := c.UseToken(use.id, use.expires, use.now)
		c.say("token %v: %t %s", use, fresh, fail(err))
	}
}
