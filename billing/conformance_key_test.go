package billing

import (
	"fmt"
	"sync"

	"farebox/billing/money"
)

func (c *conform) describe(k *keyRow) {
	text := func(n *Nano) string {
		if n == nil {
			return "none"
		}
		return n.String()
	}
	c.say("  %d %s of %d %s %s, type %d, digest %x, %s %q, period %d, limits %s %s (%q %q), privacy %d, version %d, times %d %d %d %d", k.no, k.id, k.account, k.accountID, k.accountName,
		k.typ, k.digest[:4], k.last6, k.description, k.period, text(k.limitUSD), text(k.limitDIEM), k.limitTextUSD, k.limitTextDIEM, k.privacy, k.version,
		k.createdUs, k.expiresUs, k.revokedUs, k.lastUsedUs)
}

func conformKeys(c *conform) {
	account := c.account("a", money.Parts{})
	zero, most := Nano(0), Nano(1<<63-1)
	rows := []*keyRow{
		{id: "k1", account: account, typ: Inference, digest: digest{1, 2, 3}, last6: "aaaaaa", period: Epoch, createdUs: 1},
		{id: "k2", account: account, typ: Admin, digest: digest{0xff, 0, 0xfe}, last6: "bbbbbb", description: "è'\"\\ ", period: Lifetime,
			limitUSD: &zero, limitDIEM: &most, limitTextDIEM: "9999999999", privacy: PrivateOnly, createdUs: 2, expiresUs: conformUs},
		{id: "k3", account: account, typ: Inference, digest: digest{9}, last6: "cccccc", period: Month, createdUs: 3},
	}
	for _, k := range rows {
		c.say("add: %s", fail(c.AddKey(k, 3)))
	}
	c.say("one too many: %s", fail(c.AddKey(&keyRow{id: "k4", account: account, digest: digest{7}, createdUs: 4, period: Epoch, typ: Inference}, 3)))
	c.say("the same again: %s", fail(c.AddKey(rows[0], 3)))
	c.say("of nobody: %s", fail(c.AddKey(&keyRow{id: "k5", account: 77, digest: digest{8}, period: Epoch, typ: Inference}, 3)))
	for _, d := range []digest{rows[0].digest, rows[1].digest, {5}} {
		k, err := c.KeyByDigest(d)
		c.say("by digest: %s", fail(err))
		if err == nil {
			c.describe(k)
		}
	}
	k, err := c.KeyByID("k2")
	c.must(err)
	stale := *k
	k.description, k.limitUSD, k.limitDIEM, k.limitTextDIEM, k.period, k.expiresUs, k.privacy = "new", nil, &zero, "", Month, 0, PrivateText
	c.say("update: %s, version %d", fail(c.UpdateKey(k)), k.version)
	c.say("update of what was read before: %s", fail(c.UpdateKey(&stale)))
	c.must(c.TouchKeys(map[int64]int64{rows[0].no: 500, k.no: 700, 99: 1}))
	c.must(c.TouchKeys(map[int64]int64{rows[0].no: 400, k.no: 800}))
	c.must(c.TouchKeys(nil))
	c.must(c.RevokeKey(rows[2].no, 1234))
	c.must(c.RevokeKey(rows[2].no, 5678))
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
	var keys []*keyRow
	for i := range 5 {
		k := c.key(account, i)
		keys = append(keys, k)
		c.settle(account, k.no, conformDay, money.Parts{0, Nano(i), Nano(i+1) * 100})
		c.settle(account, k.no, conformDay-1, money.Parts{0, 0, 7})
		c.settle(account, k.no, conformDay-40, money.Parts{0, 0, 1})
	}
	c.settle(account, keys[0].no, conformDay, money.Parts{55, 0, 0})
	c.apply()
	c.must(c.RevokeKey(keys[3].no, 1))
	page, err := c.ActiveKeys(account, conformUs, 2, 1)
	c.must(err)
	for _, k := range page {
		c.describe(k)
	}
	for _, p := range []Period{Epoch, Month, Lifetime} {
		used, err := c.KeyUsed(account, keys[0].no, p, conformDay)
		c.say("%s: %v %s", p, used, fail(err))
	}
	for _, day := range []int32{conformDay - 40, conformDay - 1, conformDay} {
		later, err := c.KeyUsedLater(account, keys[0].no, day)
		c.say("after %d: %v %s", day, later, fail(err))
	}
	sums, err := c.KeySums(account, conformDay-7, conformDay)
	c.must(err)
	for _, k := range keys {
		c.say("key %d: %+v", k.no, sums[k.no])
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
		var list []violation
		for j := range 10 {
			list = append(list, violation{account: a, timeUs: int64(i*10 + j), key: k.no, model: fmt.Sprint("m", j), tier: "S", kind: "RPM"})
		}
		list = append(list, violation{account: b, timeUs: int64(i), key: 99, model: "x", kind: "TPM"})
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
