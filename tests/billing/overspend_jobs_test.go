package billing

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/overspend"
	"farebox/billing"
	"farebox/config"
	"farebox/tests/rig"
)

// jobsEnded waits until a job is finished, its refund included. A job that never ends is
// given up after jobs.timeout, and one that cannot be fetched a little later.
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
// that do not wait: finished media are paid, failed jobs are not.
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

// keyUse asks for the key's own use, where more than its limit left the account: cost
// beyond the limit is the account's debt, which it pays by itself.
func (b *overspendBooks) keyUse(cell string, f *overspend.Funds) error {
	g := b.lab.nodes[0]
	req, err := http.NewRequest(http.MethodGet, g.URL+"/api_keys/"+b.keys[cell][0], nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+b.keys[cell][1])
	res, err := rig.Client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	used, err := config.ParseNano(gjson.GetBytes(text, "data.currentPeriodUsage.usd").String())
	f.Key = int64(used)
	return err
}
