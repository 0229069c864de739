package billing

import (
	"testing"
	"time"

	"farebox/bench/overspend"
	"farebox/billing"
)

// jobsEnded waits until nothing of a job is left to do, its refund included. What never
// ends is given up after jobs.timeout, and what cannot be fetched a little later.
func (l *lab) jobsEnded() {
	l.t.Helper()
	op, err := l.operator()
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = op.Close() }()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		jobs, err := billing.All(op, billing.ListJobs{Page: billing.Page{Limit: 10_000}})
		if err != nil {
			l.t.Fatal(err)
		}
		left := 0
		for _, j := range jobs {
			if j.EndedAt.IsZero() || j.PaidAt.IsZero() || j.Owed && j.RefundedAt.IsZero() {
				left++
			}
		}
		if left == 0 {
			return
		}
		if time.Now().After(end) {
			l.t.Fatalf("%d of %d jobs have not ended", left, len(jobs))
		}
	}
}

// Music and videos that are ordered and never asked for, of upstreams that lie, by clients
// that do not wait: what was made is paid, what came to nothing is not.
func TestJobsLeftUnseenArePaidAndFailedOnesAreNot(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1)
	r := l.run("j-", richMoney, "", 1, 1, func(o *overspend.Options) {
		o.Endpoints, o.Ended = overspendEndpoints(t, "music", "video", "video", "video"), l.jobsEnded
		o.Endpoints[2].Model, o.Endpoints[3].Model = "over-fal", "over-replicate"
		o.Rotate, o.Lanes = false, 32
	})
	judge(t, r)
	if t.Failed() || testing.Verbose() {
		printCells(t, r)
	}
	l.verify()
}
