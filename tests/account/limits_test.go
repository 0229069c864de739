package account

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

type window struct {
	Limit, Remaining *int64
	Used             int64
	ResetsAt         time.Time
}

type rateLimits struct {
	Data struct {
		AccessPermitted bool
		APITier         struct {
			ID        string
			IsCharged bool
		}
		Balances        struct{ USD, DIEM json.RawMessage }
		KeyExpiration   *string
		NextEpochBegins time.Time
		RateLimits      []struct {
			APIModelID string
			RateLimits []struct {
				Amount int64
				Type   string
			}
		}
		Windows struct{ Minute, Hour, Day, Month window }
	}
}

// limitedConfig is rig.PrepaidConfig with a tier of three requests a minute for the
// free model.
func limitedConfig(url, more string) string {
	text := strings.Replace(fmt.Sprintf(rig.PrepaidConfig, url), "limits: {",
		"limits: { tiers: { three: { rpm: 3, rpd: 1000, tpm: 100000 } },"+more, 1)
	return strings.Replace(text, "  - id: sim-free\n    tier: unlimited", "  - id: sim-free\n    tier: three", 1)
}

// A key reads its limits, its use and the time of the next reset.
func TestRateLimitsOfAKey(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, strings.Replace(limitedConfig(sim.URL, " key: { rpm: 100, rpd: 500 },"),
		"minimum_balance: 0", "minimum_balance: 0.10", 1))
	g.NewAccount("a", "1.05")
	g.Credit("a", "0.25", "--currency", "BUNDLED_CREDITS")
	key := g.Key("a", "--expires", "2033-01-01")
	for range 3 {
		g.Must(200, "POST", "/chat/completions", key, rig.Ask("sim-free", "x", ""), nil)
	}
	var r rateLimits
	g.Must(200, "GET", "/api_keys/rate_limits", key, "", &r)
	d := &r.Data
	now := time.Now().UTC()
	if !d.AccessPermitted || d.APITier.ID == "" || !d.APITier.IsCharged || string(d.Balances.USD) != "1.3" ||
		string(d.Balances.DIEM) != "0" || d.KeyExpiration == nil ||
		!strings.HasPrefix(*d.KeyExpiration, "2033-01-01T00:00:00") {
		t.Errorf("%+v", d)
	}
	if next := now.Truncate(24 * time.Hour).Add(24 * time.Hour); !d.NextEpochBegins.Equal(next) {
		t.Errorf("the next epoch begins %s", d.NextEpochBegins)
	}
	if len(d.RateLimits) != 4 || d.RateLimits[3].APIModelID != "count-tokens" || d.RateLimits[2].APIModelID != "sim-free" ||
		fmt.Sprint(d.RateLimits[2].RateLimits) != "[{3 RPM} {1000 RPD} {100000 TPM}]" ||
		fmt.Sprint(d.RateLimits[3].RateLimits) != "[{600 RPM}]" ||
		d.RateLimits[0].RateLimits == nil || len(d.RateLimits[0].RateLimits) != 0 {
		t.Errorf("the limits of models are %+v", d.RateLimits)
	}
	w := &d.Windows
	if w.Minute.Limit == nil || *w.Minute.Limit != 100 || w.Minute.Used < 1 || w.Minute.Used > 3 ||
		*w.Minute.Remaining != 100-w.Minute.Used {
		t.Errorf("the minute is %+v", w.Minute)
	}
	if w.Hour.Limit != nil || w.Hour.Remaining != nil || w.Hour.Used != 3 || w.Hour.ResetsAt.Sub(now) > time.Hour ||
		w.Hour.ResetsAt.Before(now) {
		t.Errorf("the hour is %+v", w.Hour)
	}
	if w.Day.Limit == nil || *w.Day.Limit != 500 || w.Day.Used != 3 || *w.Day.Remaining != 497 ||
		!w.Day.ResetsAt.Equal(d.NextEpochBegins) {
		t.Errorf("the day is %+v", w.Day)
	}
	if first := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC); w.Month.Limit != nil ||
		!w.Month.ResetsAt.Equal(first) {
		t.Errorf("the month is %+v", w.Month)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		g.Must(200, "GET", "/api_keys/rate_limits", key, "", &r)
		if r.Data.Windows.Month.Used == 3 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the month counts %d of 3 requests", r.Data.Windows.Month.Used)
		}
	}
	g.NewAccount("poor", "0.09")
	g.Must(200, "GET", "/api_keys/rate_limits", g.Key("poor"), "", &r)
	if r.Data.AccessPermitted {
		t.Error("access is permitted below the admission floor")
	}
}

type limitLog struct {
	Object string
	Data   []struct {
		APIKeyID, ModelID, RateLimitTier, RateLimitType string
		Timestamp                                       time.Time
	}
}

// Refusals by limits are logged for the account: the last 50, newest first, also after a
// restart, and other accounts do not see them.
func TestLogOfRefusalsByLimits(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	text := strings.Replace(limitedConfig(sim.URL, ""), "failed_requests: { count: 0 }",
		"failed_requests: { count: 5, window: 30s, block: 30s }", 1)
	g := rig.StartGateway(t, text)
	g.NewAccount("a", "1")
	g.NewAccount("b", "1")
	admin, other := g.Key("a", "--type", "ADMIN"), g.Key("b", "--type", "ADMIN")
	id, key := g.NewKey("a")
	read := func(key string) (l limitLog) {
		t.Helper()
		g.Must(200, "GET", "/api_keys/rate_limits/log", key, "", &l)
		return l
	}
	if l := read(admin); l.Object != "list" || l.Data == nil || len(l.Data) != 0 {
		t.Errorf("an empty log is %+v", l)
	}
	began := time.Now().Add(-time.Millisecond)
	for i := range 70 {
		want := 429
		if i < 3 {
			want = 200
		}
		g.Must(want, "POST", "/chat/completions", key, rig.Ask("sim-free", "x", ""), nil)
	}
	for range 6 {
		g.Post("/chat/completions", key, rig.Ask("sim-chat", "x", `,"temperature":9`))
	}
	g.Must(429, "POST", "/chat/completions", key, rig.Ask("sim-chat", "x", ""), nil)
	check := func(l limitLog) {
		t.Helper()
		if len(l.Data) != 50 {
			t.Fatalf("the log has %d entries", len(l.Data))
		}
		for i, v := range l.Data {
			kind, model := "RPM", "sim-free"
			if i == 0 {
				kind, model = "FAILED_REQUESTS", "sim-chat"
			}
			if v.APIKeyID != id || v.ModelID != model || v.RateLimitType != kind || v.RateLimitTier == "" ||
				v.Timestamp.Before(began.Truncate(time.Millisecond)) || v.Timestamp.After(time.Now()) {
				t.Fatalf("entry %d is %+v", i, v)
			}
			if i > 0 && v.Timestamp.After(l.Data[i-1].Timestamp) {
				t.Fatalf("entry %d is newer than the one before", i)
			}
		}
	}
	check(read(admin))
	time.Sleep(2500 * time.Millisecond) // now it is in the store
	check(read(admin))
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	g.Start()
	check(read(admin))
	if l := read(other); len(l.Data) != 0 {
		t.Errorf("another account sees %+v", l)
	}
}
