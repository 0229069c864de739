package store

import (
	"fmt"

	"farebox/billing/money"
)

// Answers of enclaves are their account's, for a day, and are not written over.
func conformEnclaves(c *conform) {
	a, b := c.account("a", money.Parts{}), c.account("b", money.Parts{})
	show := func(account uint32, id string, at int64) {
		c.t.Helper()
		r, err := c.EnclaveAnswer(account, id, at)
		if err != nil {
			c.say("%d %s: %s", account, id, fail(err))
			return
		}
		c.say("%d %s: %+v", account, id, *r)
	}
	day := EnclaveAnswerLife.Microseconds()
	row := func(account uint32, id string, at int64, model string) *EnclaveRow {
		return &EnclaveRow{Account: account, ID: id, Model: model, Upstream: "u", Named: "org/m", SealedTo: "04ab",
			Request: []byte{1, 2}, Response: []byte{3}, AtUs: at}
	}
	c.must(c.AddEnclaveAnswers([]*EnclaveRow{row(a, "x", conformUs, "m"), row(b, "x", conformUs, "n"),
		row(a, "y", conformUs-day/2, "m")}))
	c.must(c.AddEnclaveAnswers([]*EnclaveRow{row(a, "x", conformUs, "m"), row(b, "x", conformUs+1, "other")})) // the one again
	if r, err := c.EnclaveAnswer(a, "x", conformUs); err != nil || len(r.Request) != 2 || len(r.Response) != 1 {
		c.t.Errorf("added again: %+v, %v", r, err)
	}
	if r, err := c.EnclaveAnswer(b, "x", conformUs); err != nil || len(r.Request)+len(r.Response) > 0 || r.Model != "n" {
		c.t.Errorf("another of the same id: %+v, %v", r, err)
	}
	for _, account := range []uint32{a, b} {
		for _, id := range []string{"x", "y", "z"} {
			show(account, id, conformUs)
		}
	}
	c.must(c.KeepEnclaveSignature(a, "x", []byte("signed")))
	c.must(c.KeepEnclaveSignature(a, "x", []byte("again")))
	c.must(c.KeepEnclaveSignature(a, "none", []byte("signed")))
	show(a, "x", conformUs)
	show(a, "y", conformUs+day/2-1)
	show(a, "y", conformUs+day/2)
	for range 3 {
		n, err := c.PurgeEnclaveAnswers(conformUs+day, 2)
		c.say("%s", fmt.Sprint(n, fail(err)))
	}
	show(a, "x", conformUs)
}
