package audio

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// entry is a job as `farebox job list` shows it.
type entry struct {
	ID, Model, Account, State string
	Tries                     int
	Paid, Refunded            amounts
	Owed                      bool
	Code, Error               string
	MediaType                 string    `json:"media_type"`
	PaidAt                    time.Time `json:"paid_at"`
	RefundedAt                time.Time `json:"refunded_at"`
	ReleasedAt                time.Time `json:"released_at"`
}

func (e *entry) ended() bool { return e.State == "completed" || e.State == "failed" }

// stopping reports a released job whose upstream keeps running, and refuses to stop for minutes.
func (e *entry) stopping() bool {
	return (e.State == "running" || e.State == "storing") && !e.ReleasedAt.IsZero()
}

type amounts struct{ USD, DIEM, Bundled rig.Money }

func (a amounts) total() rig.Money { return a.USD + a.DIEM + a.Bundled }

func (a amounts) minus(b amounts) amounts {
	return amounts{a.USD - b.USD, a.DIEM - b.DIEM, a.Bundled - b.Bundled}
}

func (h *house) entries() map[string]*entry {
	var list []*entry
	h.nodes[0].CLIJSON(&list, "job", "list", "--limit", "10000")
	all := make(map[string]*entry, len(list))
	for _, e := range list {
		all[e.ID] = e
	}
	return all
}

// unsettled are jobs that something is left to be done for: that have not ended, or are
// not paid, or are owed and not given back.
func unsettled(all map[string]*entry) (left []*entry) {
	for _, e := range all {
		if !e.ended() && !e.stopping() || e.PaidAt.IsZero() || e.Owed && e.RefundedAt.IsZero() {
			left = append(left, e)
		}
	}
	return left
}

// books are the audited sides: the ledger, the upstreams and the clients.
type books struct {
	*house
	all     map[string]*entry
	made    map[string][]upstream.Ordered // by the name of their order
	alarmed map[string]bool

	done, failed, refused, released, refunds, losses int
}

// audit awaits the end of all jobs and compares the books.
func (h *house) audit() {
	t := h.t
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		left := unsettled(h.entries())
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Errorf("%d jobs never come to an end, such as %+v", len(left), left[0])
			break
		}
	}
	for _, p := range h.patrons {
		p.finish(time.Now().Add(time.Minute))
	}
	b := &books{house: h, all: h.entries(), made: map[string][]upstream.Ordered{}, alarmed: map[string]bool{}}
	for _, o := range h.sim.Orders() {
		words := strings.Fields(o.Prompt)
		name := words[len(words)-1]
		b.made[name] = append(b.made[name], o)
	}
	taken := 0
	for _, g := range h.nodes {
		taken += strings.Count(g.Log(), "another node has taken a job over") +
			strings.Count(g.Log(), "those of a node that ended are taken over")
		for _, line := range alarm.FindAllStringSubmatch(g.Log(), -1) {
			b.alarmed[line[1]] = true
		}
	}
	orphans := b.sweep()
	for _, g := range h.nodes {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	}
	h.nodes[0].CLI("verify")
	accounts := h.nodes[0].Accounts()
	known := map[string]*commission{}
	for _, p := range h.patrons {
		for _, w := range p.wrong {
			t.Error(w)
		}
		b.balance(p, accounts[p.name])
		for _, o := range p.orders {
			if o.id != "" && known[o.id] != nil {
				t.Errorf("%s and %s are both the job %s", o.name, known[o.id].name, o.id)
			}
			known[o.id] = o
			b.compare(o)
		}
	}
	b.strangers(known)
	if h.kills >= 20 && (b.done == 0 || b.failed == 0 || b.refunds == 0) {
		t.Error("the test tests little")
	}
	t.Logf("%d kills, each start took %s; %d jobs: %d done, %d failed, %d let go unseen, %d refused while queued; "+
		"%d charges, %d refunds, %d made and given back, of each of which the log tells; %d files without a job "+
		"before the sweep; the log tells of %d takeovers", h.kills, (h.starting / time.Duration(max(h.starts, 1))).Round(time.Millisecond), len(b.all),
		b.done, b.failed, b.released, b.refused, len(b.all), b.refunds, b.losses, orphans, taken)
}

// alarm is the log's message about a job that its upstream may charge for.
var alarm = regexp.MustCompile(`"queue_id":"([^"]*)".*a job failed that its upstream may charge for`)

// compare audits the outcome of one order.
func (b *books) compare(o *commission) {
	t := b.t
	bad := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s %s %s (%s, plan %d; done %t, failed %t, let go %t): "+format, append([]any{o.model, o.name, o.id,
			o.spoiled, o.plan, o.done, o.failed, o.letting}, args...)...)
	}
	most := 1
	if o.spoiled == "job=double polls=2" {
		most = 2
	}
	made, charged, free := b.made[o.name], false, false
	for _, m := range made {
		charged = charged || m.Charged
		free = free || m.Cancelled && !m.Charged
		if m.Asked > 1 && !o.idempotent {
			bad("its upstream was asked %d times", m.Asked)
		}
		if m.Leaked {
			bad("a key was sent with a link")
		}
	}
	if len(made) > most {
		bad("its upstreams have it %d times", len(made))
	}
	if o.id == "" {
		b.refused++
		if charged && !o.refunded {
			bad("it was refused, and its upstream has it: %+v", made)
		}
		return
	}
	e := b.all[o.id]
	if e == nil {
		bad("it is lost")
		return
	}
	if e.Model != o.model || e.Paid.total() != o.price {
		bad("it is %s for %s, in place of %s for %s", e.Model, e.Paid.total(), o.model, o.price)
	}
	back := e.Refunded.total() != 0
	switch {
	case !e.ended() && (!e.stopping() || o.spoiled != "job=refuse_cancel polls=9"):
		bad("it is %s", e.State)
	case e.State == "completed" && (back || e.Owed):
		bad("it is completed, and was given back")
	case e.State == "completed" && !charged:
		bad("it is completed, and was not made: %+v", made)
	case e.State == "failed" && !e.Owed && !o.letting:
		bad("it failed, and is not owed: %+v", e)
	case e.State == "failed" && !e.Owed && free:
		bad("it was cancelled for nothing, and is not owed: %+v", made)
	case o.done && e.State != "completed":
		bad("it was seen, and is %s", e.State)
	case o.failed && e.State != "failed":
		bad("it was seen as failed, and is %s", e.State)
	}
	switch {
	case e.State == "completed":
		b.done++
	case e.Owed:
		b.failed++
	default:
		b.released++
	}
	b.refund(e)
	if back && charged {
		// Its upstream is paid, and no client pays us: an operator must know.
		if b.losses++; !b.alarmed[e.ID] {
			bad("it was made and given back (%s), and nothing in the log says so", e.Code)
		}
	}
}

// refund checks that an owed amount was refunded in the currency of the payment; but DIEM
// of a past day are gone.
func (b *books) refund(e *entry) {
	want := amounts{}
	if e.Owed {
		want = e.Paid
		b.refunds++
	}
	if e.Refunded != want && !(e.Refunded.DIEM == 0 && e.RefundedAt.UTC().Day() != e.PaidAt.UTC().Day()) {
		b.t.Errorf("the job %s paid %v, gave back %v, and is owed: %t", e.ID, e.Paid, e.Refunded, e.Owed)
	}
}

// strangers are jobs that no client has heard of: they failed while they were queued, and
// were given back.
func (b *books) strangers(known map[string]*commission) {
	n, told := 0, 0
	for id, e := range b.all {
		if known[id] != nil {
			continue
		}
		if n++; e.State != "failed" || !e.Owed {
			b.t.Errorf("no client knows the job %s: %+v", id, e)
		}
		b.refund(e)
	}
	for _, p := range b.patrons {
		for _, o := range p.orders {
			if o.id == "" && o.refunded {
				told++
			}
		}
	}
	if n != told {
		b.t.Errorf("no client knows %d jobs, and %d clients got a refund", n, told)
	}
}

// balance checks that an account has its first balance, less the cost of its jobs.
func (b *books) balance(p *patron, a rig.Account) {
	const unit = rig.Money(1_000_000_000)
	want := amounts{1000 * unit, 2 * unit, 3 * unit}
	for _, e := range b.all {
		if e.Account == p.name {
			want = want.minus(e.Paid.minus(e.Refunded))
		}
	}
	has := amounts{a.USD, a.DIEM, a.Bundled}
	if has.DIEM == 0 {
		has.DIEM = want.DIEM // another day began
	}
	if has != want || a.Held != 0 {
		b.t.Errorf("%s has %v, by its jobs %v; %s are held", p.name, has, want, a.Held)
	}
}

// sweep makes all that is kept old enough to be swept, awaits that, and gives the number
// of files that no job had.
func (b *books) sweep() (orphans int) {
	wanted := map[string]bool{}
	for id, e := range b.all {
		if e.MediaType != "" && e.ReleasedAt.IsZero() {
			wanted[id] = true
		}
	}
	for path := range b.files() {
		if !wanted[filepath.Base(path)] {
			orphans++
		}
		old := time.Now().Add(-2 * time.Hour)
		_ = os.Chtimes(path, old, old) // it may be gone by now
	}
	rig.Await(b.t, "only media of jobs are kept", func() bool {
		for path := range b.files() {
			if !wanted[filepath.Base(path)] {
				return false
			}
		}
		return true
	})
	for path := range b.files() {
		delete(wanted, filepath.Base(path))
	}
	for id := range wanted {
		b.t.Errorf("the media of job %s are gone", id)
	}
	return orphans
}

// files are those below the media store.
func (h *house) files() map[string]bool {
	all := map[string]bool{}
	_ = filepath.WalkDir(h.media, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			all[path] = true
		}
		return nil
	})
	return all
}
