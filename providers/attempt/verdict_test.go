package attempt

import (
	"testing"
	"time"

	"farebox/providers/health"
	"farebox/proxy"
)

// Every status and every cause has one verdict, for all capabilities.
func TestEveryStatusHasItsVerdict(t *testing.T) {
	const asked = 90 * time.Second
	f := func(want Verdict, statuses ...int) {
		t.Helper()
		for _, status := range statuses {
			if got := Judge(status, asked); got != want {
				t.Errorf("%d is judged %+v, want %+v", status, got, want)
			}
		}
	}
	f(Verdict{Do: Accept, Health: Good}, 200, 201, 299)
	// The operator's address, key or account: no request can cause these.
	f(Verdict{Do: Retry, Health: Bad, Rest: asked, For: Everyone}, 301, 302, 401, 402, 407, 421)
	// A request may have caused these: alone they rest nothing for long.
	f(Verdict{Do: Retry, Health: Bad, Rest: asked}, 404, 405, 408, 409, 425, 429, 500, 502, 503, 504, 524, 529, 599)
	f(Verdict{Do: Retry}, 403)
	f(Verdict{}, 400, 406, 410, 411, 413, 414, 415, 418, 422, 451, 499)
}

func TestEveryCauseHasItsVerdict(t *testing.T) {
	f := func(want Verdict, causes ...proxy.Cause) {
		t.Helper()
		for _, c := range causes {
			if got := Lost(c); got != want {
				t.Errorf("%s is judged %+v, want %+v", c, got, want)
			}
		}
	}
	f(Verdict{Do: Fail}, proxy.ClientGone, proxy.ClientStalled, proxy.Shutdown, proxy.Cut, proxy.Panic)
	f(Verdict{Do: Retry}, proxy.NoFreeConn)
	f(Verdict{Do: Retry, Health: Bad, For: Everyone, Unsent: true}, proxy.ConnectFailed, proxy.ConnectTimeout)
	f(Verdict{Do: Retry, Health: Bad}, proxy.FirstByteTimeout, proxy.IdleTimeout, proxy.TotalTimeout,
		proxy.UpstreamReset, proxy.UpstreamTruncated, proxy.UpstreamMalformed)
}

// One account's failure never rests a target for longer than MaxAlone; a failure that no
// request can have caused does.
func TestReportsRestForThoseTheyConcern(t *testing.T) {
	now := int64(1e18)
	f := func(v Verdict, want time.Duration) {
		t.Helper()
		b := health.NewBreaker(100, time.Minute)
		v.Report(b, 7, now)
		if got := time.Duration(max(b.RestsUntil()-now, 0)); got != want {
			t.Errorf("%+v rests it for %v, want %v", v, got, want)
		}
	}
	f(Judge(429, 90*time.Second), health.MaxAlone)
	f(Judge(429, 2*time.Second), 2*time.Second)
	f(Judge(402, 90*time.Second), 90*time.Second)
	f(Judge(400, 90*time.Second), 0)
	f(Judge(403, 90*time.Second), 0)
	f(Lost(proxy.ClientGone), 0)
}
