package billing

import (
	"testing"
	"time"

	"farebox/bench/overspend"
	"farebox/tests/rig"
)

// jobsEnded waits until nothing of a job is left to do, the last refund included.
func (l *lab) jobsEnded() {
	l.t.Helper()
	rig.Await(l.t, "all jobs have ended", func() bool {
		left := 0.0
		for _, state := range []string{"submitting", "running", "storing", "cancelling"} {
			n, _ := l.nodes[0].Metric(`farebox_jobs{state="` + state + `"}`)
			left += n
		}
		return left == 0
	})
	before := l.nodes[0].Settled()
	rig.Await(l.t, "nothing is booked any more", func() bool {
		time.Sleep(200 * time.Millisecond)
		after := l.nodes[0].Settled()
		same := true
		for name, a := range after {
			same = same && a == before[name]
		}
		before = after
		return same
	})
}

// Music and videos that are ordered and never asked for, of upstreams that lie, by clients
// that do not wait: what was made is paid, what came to nothing is not.
func TestJobsLeftUnseenArePaidAndFailedOnesAreNot(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1)
	r := l.run("j-", richMoney, "", 1, 1, func(o *overspend.Options) {
		o.Endpoints, o.Ended = overspendEndpoints(t, "music", "video"), l.jobsEnded
		o.Rotate, o.Lanes = false, 32
	})
	judge(t, r)
	if t.Failed() || testing.Verbose() {
		printCells(t, r)
	}
	l.verify()
}
