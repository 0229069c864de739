package config

import (
	"net/url"
	"strings"
	"time"
)

// Jobs has the settings of work that outlives its request: music and videos.
type Jobs struct {
	// Shortest time between two polls of an upstream. A job is polled after a sixth of its age.
	PollMin time.Duration `yaml:"poll_min" default:"1s" range:"100ms..1h"`
	// Longest time between two polls, at least poll_min. Above 6,000 waiting jobs it grows, for at most 100 polls a
	// second.
	PollMax time.Duration `yaml:"poll_max" default:"1m" range:"100ms..1h"`
	// A job that its upstream has not ended by then is cancelled and refunded.
	Timeout time.Duration `yaml:"timeout" default:"1h" range:"1s..168h"`
	// Jobs of one account that may wait; 429 beyond.
	PerAccount int `yaml:"per_account" default:"20" range:"1..100000"`
	// Jobs of all accounts that may wait; 429 beyond.
	Total int `yaml:"total" default:"20000" range:"1..1000000"`
	// How upstreams reach this gateway to report that a job changed, such as https://api.example.com. Default: they
	// are only polled.
	WebhookURL string `yaml:"webhook_url"`
}

func (v *validator) jobs() {
	j := v.c.Jobs
	if j.PollMax < j.PollMin && !v.bad["jobs.poll_min"] && !v.bad["jobs.poll_max"] {
		v.wrong("jobs.poll_max", "%s is less than poll_min (%s); expected at least as much", j.PollMax, j.PollMin)
	}
	if j.WebhookURL != "" {
		u, err := url.Parse(j.WebhookURL)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil ||
			u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(j.WebhookURL, "/") {
			v.wrong("jobs.webhook_url", "upstreams cannot call %s; expected one such as "+
				"https://api.example.com, without credentials, query or a slash at its end", v.shown("jobs.webhook_url"))
		}
	}
}
