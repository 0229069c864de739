package store

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"farebox/billing/journal"
	"farebox/billing/money"
)

func jobRow(id string, account uint32, key int64, hold uint64) *JobRow {
	r := &JobRow{ID: id, Kind: "music", Model: "m", Named: "em", Account: account, Key: key, Node: 1, Hold: hold, State: JobSubmitting,
		Owner: 1, Epoch: 1, Upstream: "u", Target: "t", Order: []byte(`{"prompt":"it's"}`), Detail: []byte("{}"),
		CreatedUs: conformUs + int64(hold)}
	r.Request[0] = byte(hold)
	return r
}

// sayJob records a whole job.
func (c *conform) sayJob(id string) {
	r, err := c.Job(id)
	if err != nil {
		c.say("  %s: %s", id, fail(err))
		return
	}
	r.PokedUs = 0 // only nodes that share a store tell each other
	c.say("  %+v", *r)
}

func (c *conform) sayJobs(what string, list []*JobRow, err error) {
	ids := []string{}
	for _, r := range list {
		ids = append(ids, fmt.Sprintf("%s(%d bytes)", r.ID, len(r.Order)+len(r.Detail)))
	}
	c.say("%s: %s %s", what, strings.Join(ids, " "), fail(err))
}

func (c *conform) addJob(r *JobRow, since int64) {
	found, err := c.AddJob(r, since)
	c.say("add %s since %d: %s", r.ID, since-conformUs, fail(err))
	if found != nil {
		c.say("  there is %s", found.ID)
	}
}

func conformJobs(c *conform) {
	a, b := c.account("a", money.Parts{}), c.account("b", money.Parts{})
	for i := range 4 {
		c.addJob(jobRow(fmt.Sprint("j", i), a, 7, uint64(i+1)), conformUs)
	}
	c.addJob(jobRow("j1", a, 7, 2), conformUs) // its answer was lost
	again := jobRow("again", a, 7, 9)
	again.Request = jobRow("", a, 7, 3).Request
	c.addJob(again, conformUs+3)   // the same request: its job exists
	c.addJob(again, conformUs+4)   // which is too long ago
	c.addJob(again, conformUs+100) // itself, once more
	other := jobRow("other", b, 8, 10)
	other.Request = again.Request
	c.addJob(other, conformUs) // of another account
	none := jobRow("none", b, 8, 11)
	none.Request = [16]byte{}
	c.addJob(none, conformUs)
	none.ID, none.Hold = "none2", 12
	c.addJob(none, conformUs)
	c.addJob(jobRow("j3", b, 8, 13), conformUs) // an id that is taken
	c.addJob(jobRow("j9", b, 8, 1), conformUs)  // a hold that is taken
	for _, id := range []string{"j1", "j2", "again", "none2", "nothing"} {
		c.sayJob(id)
	}

	drop := func(r *JobRow) {
		gone, err := c.DropJob(r)
		c.say("drop %s: %t %s", r.ID, gone, fail(err))
	}
	drop(jobRow("j3", a, 7, 4))
	drop(jobRow("j3", a, 7, 4))      // it is gone
	drop(jobRow("never", a, 7, 77))  // it never came
	c.sayJob("never")                // and will not
	running := jobRow("j2", a, 7, 3) // it has been accepted
	running.State = JobRunning       //
	ok, err := c.UpdateJob(running, JobSubmitting)
	c.say("run: %t %s", ok, fail(err))
	drop(jobRow("j2", a, 7, 3))
	for hold := range uint64(5) {
		sold, err := c.JobSold(1, hold)
		c.say("hold %d sold: %t %s", hold, sold, fail(err))
	}
	sold, err := c.JobSold(1, 77)
	c.say("a hold without one: %t %s", sold, fail(err))
	drop(none)
	conformJobStates(c, a)
	conformJobLists(c, a, b)
}

// conformJobStates takes one job through its states.
func conformJobStates(c *conform, a uint32) {
	r, err := c.Job("j1")
	c.must(err)
	update := func(what string, from ...JobState) {
		ok, err := c.UpdateJob(r, from...)
		c.say("%s: %t %s, released %d", what, ok, fail(err), r.ReleasedUs)
		c.sayJob("j1")
	}
	r.Order, r.Detail = nil, nil
	r.State, r.Handle, r.Upstream, r.Target = JobRunning, []byte{0, 255}, "up", "tgt"
	r.SubmittedUs, r.Tries, r.Account, r.Model, r.CreatedUs = conformUs+50, 2, 99, "another", 1
	update("run", JobSubmitting)
	update("run again", JobSubmitting)
	r.Order, r.Detail, r.State = []byte{}, []byte(`{"seed":1}`), JobStoring
	update("fetch", JobRunning, JobSubmitting)
	released, err := c.ReleaseJob("j1", conformUs+60)
	c.say("release: %t %s", released, fail(err))
	released, err = c.ReleaseJob("j1", conformUs+61)
	c.say("release again: %t %s", released, fail(err))
	for _, u := range []LinkUse{{Links: []byte{1, 0, 200}}, {}, {EndUs: conformUs + 64}, {Links: []byte{9}}} {
		err := c.UseLinks("j1", func(links []byte, alive func(uint32) bool) LinkUse {
			c.say("links were used up to %v, a node of none is alive: %t", links, alive(777))
			return u
		})
		c.say("use links: %s", fail(err))
		c.sayJob("j1")
	}
	c.say("use what is not: %s", fail(c.UseLinks("nothing", func([]byte, func(uint32) bool) LinkUse {
		return LinkUse{EndUs: 1}
	})))
	for range 2 {
		revoked, err := c.RevokeLinks("j1", conformUs+65)
		c.say("revoke: %t %s", revoked, fail(err))
	}
	revoked, err := c.RevokeLinks("nothing", conformUs+65)
	c.say("revoke what is not: %t %s", revoked, fail(err))
	r.Epoch = 2
	update("as the next owner", JobStoring)
	r.Epoch, r.Owner = 1, 5
	update("as another node", JobStoring)
	r.Owner, r.State, r.Owed, r.Code, r.Error, r.Cancel = 1, JobFailed, true, "X", "it's bad", true
	r.MediaType, r.MediaBytes, r.EndedUs, r.ExpiresUs = "audio/mpeg", 5000, conformUs+70, conformUs+80
	r.Suggestion, r.Recommend = "a kind song", "another"
	update("fail", JobRunning, JobStoring)
	r.State = JobCompleted
	update("complete what has failed", JobFailed, JobStoring)
	r.State, r.Owed, r.Cancel = JobFailed, false, false
	update("cancelled", JobFailed)
	_, err = c.UpdateJob(r)
	c.say("from nothing: %s", fail(err))
	list, err := c.Jobs(a, JobPlace{}, 1)
	c.sayJobs("newest", list, err)
	if len(list) > 0 {
		list, err = c.Jobs(a, list[0].Place(), 10)
	}
	c.sayJobs("behind it", list, err)
}

func conformJobLists(c *conform, a, b uint32) {
	all := func(what string) {
		c.say("%s", what)
		for _, owner := range []uint32{1, 5} {
			list, err := c.JobsOf(owner)
			c.sayJobs(fmt.Sprint("  jobs of ", owner), list, err)
		}
		for _, account := range []uint32{a, b, 99} {
			counts, err := c.JobCounts(account)
			c.say("  %d has %+v %s", account, counts, fail(err))
			list, err := c.Jobs(account, JobPlace{}, 10)
			c.sayJobs("  its jobs", list, err)
		}
		list, err := c.ExpiredJobs(1, conformUs+80, 10)
		c.sayJobs("  expired", list, err)
		for _, owner := range []uint32{1, 5} {
			tally, err := c.JobTally(owner)
			c.say("  beside those of %d: %+v %s", owner, tally, fail(err))
		}
	}
	for i := range 4 {
		r := jobRow(fmt.Sprint("done", i), b, 8, uint64(20+i))
		c.addJob(r, conformUs)
		r.State, r.SubmittedUs, r.EndedUs = JobCompleted, r.CreatedUs+1000, r.CreatedUs+int64(1000*(i+2))
		r.MediaType, r.MediaBytes, r.ExpiresUs = "audio/wav", int64(100*i), conformUs+int64(70+10*i)
		ok, err := c.UpdateJob(r, JobSubmitting)
		c.say("complete: %t %s", ok, fail(err))
	}
	all("at first")
	times, err := c.FinishedTimes("m", 3)
	c.say("finished in %v %s", times, fail(err))
	strange := jobRow("strange", b, 8, 30)
	strange.Node, strange.Owner = 5, 5
	c.addJob(strange, conformUs)
	c.addJob(jobRow("mine", b, 8, 31), conformUs)
	take := func(own bool) {
		n, err := c.TakeJobs(1, own)
		c.say("take over, %t: %d %s", own, n, fail(err))
		for _, id := range []string{"strange", "mine", "done1"} {
			r, err := c.Job(id)
			c.must(err)
			c.say("  %s of %d in epoch %d", id, r.Owner, r.Epoch)
		}
	}
	take(false)
	take(false)
	take(true)
	gone, err := c.DropJob(strange)
	c.say("drop what was taken over: %t %s", gone, fail(err))
	all("then")
	for _, id := range []string{"mine", "strange", "mine", "nothing"} {
		c.say("poke %s: %s", id, fail(c.PokeJob(id, conformUs+90)))
	}
	for range 2 {
		list, err := c.PokedJobs(1)
		slices.SortFunc(list, func(a, b *JobRow) int { return strings.Compare(a.ID, b.ID) })
		c.sayJobs("poked", slices.DeleteFunc(list, func(r *JobRow) bool { return r.ID == "j1" }), err)
	}
	n, err := c.PurgeJobs(conformUs+1e9, 10)
	c.say("purged %d %s: none is paid", n, fail(err))
}

// Charges and refunds of jobs.
func conformRefunds(c *conform) {
	a := c.account("a", money.Parts{100, 200, 1000})
	k := c.key(a, 1)
	var set journal.Pages
	set.Begin(0)
	c.b.Begin(0)
	charge := func(id string, amounts money.Parts, day int32) {
		seq := c.b.Last + 1
		c.addJob(jobRow(id, a, k.No, seq), conformUs)
		r := &journal.Record{Kind: journal.Settle, Flags: journal.FlagJob, Seq: seq, Hold: seq, Account: a,
			Key: uint32(k.No), Model: 1, Day: day, TimeNs: conformUs * 1000, Amounts: amounts}
		r.Lines.Add(money.Tracks, 1, money.Pico(amounts.Total()*1000))
		c.b.Add(r)
		set.Add(r)
	}
	fail2 := func(id string) {
		r, err := c.Job(id)
		c.must(err)
		r.State, r.Owed, r.EndedUs = JobFailed, true, conformUs+70
		ok, err := c.UpdateJob(r, JobSubmitting)
		c.say("fail %s: %t %s", id, ok, fail(err))
	}
	refund := func(id string, day int32) {
		r, err := c.RefundJob(id, day, conformUs+90)
		c.say("refund %s: %s", id, fail(err))
		if r != nil {
			c.say("  %+v", *r)
		}
		c.sayJob(id)
	}
	due := func() {
		list, err := c.RefundsDue(10)
		used, usedErr := c.KeyUsed(a, k.No, Epoch, conformDay)
		sums, sumsErr := c.KeySums(a, conformDay, conformDay)
		c.say("due: %v %s; %v; used %v %s, %v %s", list, fail(err), c.money(a, conformDay), used, fail(usedErr),
			sums[k.No], fail(sumsErr))
	}
	charge("mixed", money.Parts{10, 20, 30}, conformDay)
	charge("usd", money.Parts{0, 0, 40}, conformDay)
	charge("kept", money.Parts{0, 0, 50}, conformDay)
	charge("free", money.Parts{}, conformDay)
	charge("tomorrow", money.Parts{5, 0, 0}, conformDay)
	fail2("mixed")
	due()
	refund("mixed", conformDay) // not paid yet
	c.apply()
	pages := set.List()
	for _, p := range pages {
		p.Node = 1
	}
	c.must(c.AddPages(pages, 1, c.b.Last))
	c.recount()
	due()
	fail2("free")
	fail2("tomorrow")
	refund("mixed", conformDay)
	refund("mixed", conformDay)
	refund("kept", conformDay)
	refund("nothing", conformDay)
	refund("free", conformDay)
	refund("tomorrow", conformDay+1)
	fail2("usd")
	due()
	var wg sync.WaitGroup
	var mu sync.Mutex
	given := 0
	for range 8 {
		wg.Go(func() {
			r, err := c.RefundJob("usd", conformDay, conformUs+91)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				c.t.Error(err)
			} else if r != nil {
				given++
			}
		})
	}
	wg.Wait()
	c.say("of 8 refunds at once %d were booked", given)
	due()
	c.recount()
	n, err := c.PurgeJobs(conformUs+1e9, 2)
	c.say("purged %d %s", n, fail(err))
	n, err = c.PurgeJobs(conformUs+1e9, 10)
	c.say("purged %d %s", n, fail(err))
	due()
}

func conformVoices(c *conform) {
	a, b := c.account("a", money.Parts{}), c.account("b", money.Parts{})
	add := func(id string, account uint32, at int64) {
		c.say("add %s: %s", id, fail(c.AddVoice(&VoiceRow{ID: id, Account: account, Model: "m", Upstream: "u", Voice: "x",
			CreatedUs: at, UsedUs: at, ExpiresUs: at + 100})))
	}
	get := func(account uint32, id string, at int64) {
		v, err := c.Voice(account, id, at)
		c.say("%s of %d at %d: %s", id, account, at, fail(err))
		if err == nil {
			c.say("  %+v", *v)
		}
	}
	add("vv_1", a, 10)
	add("vv_1", b, 10)
	add("vv_2", b, 20)
	get(a, "vv_1", 50)
	get(b, "vv_1", 50)
	get(a, "vv_1", 110)
	c.must(c.TouchVoice("vv_1", 60, 0))
	c.must(c.TouchVoice("vv_1", 30, 500))
	get(a, "vv_1", 50)
	for _, account := range []uint32{0, a, b} {
		list, err := c.Voices(account)
		c.say("of %d: %s", account, fail(err))
		for _, v := range list {
			c.say("  %+v", *v)
		}
	}
	list, err := c.ExpiredVoices(110, 10)
	c.say("expired: %d %s %s", len(list), list[0].ID, fail(err))
	for range 2 {
		done, err := c.DeleteVoice("vv_1")
		c.say("delete: %t %s", done, fail(err))
	}
	for i := range MaxVoices {
		if err := c.AddVoice(&VoiceRow{ID: fmt.Sprint("vv_m", i), Account: a, CreatedUs: 10, ExpiresUs: 100}); err != nil {
			c.t.Fatal(err)
		}
	}
	add("vv_more", a, 20)
	add("vv_later", a, 100)
}
