package config

import (
	"net/url"
	"strings"
	"time"
)

// Jobs is how work is driven that outlives its request: tracks and videos.
type Jobs struct {
	// PollMin and PollMax bound how often an upstream is asked how a job stands: a
	// sixth of the job's age, between these. Defaults 1s and 1m, 100ms to 1h. Where more
	// than 6,000 jobs wait PollMax grows, so that it has no more than 100 questions a second.
	PollMin time.Duration `yaml:"poll_min"`
	PollMax time.Duration `yaml:"poll_max"`
	// Timeout ends a job that its upstream has not: it is cancelled there, and its price
	// given back. Default 1h, 1s to 168h.
	Timeout time.Duration `yaml:"timeout"`
	// PerAccount is how many jobs of one account may wait, Total how many of all; what
	// is beyond gets 429. Defaults 20 and 20000, 1 to 100000 and 1 to 1000000.
	PerAccount int `yaml:"per_account"`
	Total      int `yaml:"total"`
	// WebhookURL is how upstreams reach this gateway, to say that a job has changed:
	// https://api.example.com. Empty: they are only asked.
	WebhookURL string `yaml:"webhook_url"`
}

// DefaultJobs is what holds when nothing is written.
func DefaultJobs() Jobs {
	return Jobs{PollMin: time.Second, PollMax: time.Minute, Timeout: time.Hour, PerAccount: 20, Total: 20_000}
}

func (v *validator) jobs() {
	j := v.c.Jobs
	v.duration("jobs.poll_min", j.PollMin, 100*time.Millisecond, time.Hour)
	v.duration("jobs.poll_max", j.PollMax, 100*time.Millisecond, time.Hour)
	if j.PollMax < j.PollMin && !v.bad["jobs.poll_min"] && !v.bad["jobs.poll_max"] {
		v.wrong("jobs.poll_max", "%s is less than poll_min (%s); expected at least as much", j.PollMax, j.PollMin)
	}
	v.duration("jobs.timeout", j.Timeout, time.Second, 168*time.Hour)
	whole(v, "jobs.per_account", j.PerAccount, 1, 100_000)
	whole(v, "jobs.total", j.Total, 1, 1_000_000)
	if j.WebhookURL != "" {
		u, err := url.Parse(j.WebhookURL)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil ||
			u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(j.WebhookURL, "/") {
			v.wrong("jobs.webhook_url", "%s is no address that upstreams can call; expected one such as "+
				"https://api.example.com, without credentials, query or a slash at its end", v.shown("jobs.webhook_url"))
		}
	}
}
