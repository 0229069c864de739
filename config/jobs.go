package config

import (
	"net/url"
	"slices"
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

// Member is a member of a model's record in the catalog: a bool, number, text, list of texts or
// of numbers, Decimal, price (Each) or an object ([]Member). A *bool that is nil is left out.
type Member struct {
	Name  string
	Value any
}

// JobSpec is the Spec of a model that takes jobs.
type JobSpec interface {
	Spec
	// Record has the members that only records of the type have (addendum 7.3, 7.4), in their
	// order.
	Record() []Member
}

// JobKind is a kind of asynchronous job, described beside the Spec of its models.
type JobKind struct {
	Name string // of its models' type and of their tier; stored with each job
	Path string // that its endpoints begin with, here and at native upstreams
	// Required are members that a native upstream requires, each with the value for orders
	// without it.
	Required map[string]string
	Media    string   // prefix of the media types of its results
	Outputs  []string // members of an app's output that may have the result, in the order of the search

	dialects []string       // of upstreams that serve it
	things   string         // that it makes, in messages
	spec     func() JobSpec // without its defaults
}

// JobKinds are all kinds of jobs, in the order in which their types are listed.
var JobKinds = []*JobKind{MusicKind, VideoKind}

// JobKindOf is the kind of a name; nil: no jobs are called so.
func JobKindOf(name string) *JobKind {
	if i := slices.IndexFunc(JobKinds, func(k *JobKind) bool { return k.Name == name }); i >= 0 {
		return JobKinds[i]
	}
	return nil
}

// JobNames are the names of all kinds of jobs.
func JobNames() []string { return eachJob(func(k *JobKind) string { return k.Name }) }

func eachJob[T any](of func(*JobKind) T) (list []T) {
	for _, k := range JobKinds {
		list = append(list, of(k))
	}
	return list
}

// kind is the type of the models.
func (k *JobKind) kind() kind {
	return kind{k.Name, k.Name, Rate{RPM: 40}, func() Spec { return filledSpec(k.spec()) }}
}

// MakesJobs says that some model takes jobs, whose results are kept.
func (c *Config) MakesJobs() bool {
	return slices.ContainsFunc(c.Models, func(m Model) bool { return JobKindOf(m.Type) != nil })
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
