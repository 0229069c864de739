package config

import "time"

// Requests configures the details that are kept of requests that did not simply succeed, for
// operators and customers.
type Requests struct {
	// How long details are kept of requests that failed, were refused, ended early or needed several attempts: limits,
	// sums and attempts, never texts. No request waits for them. 0: off, and stored details are removed.
	Keep time.Duration `yaml:"keep" default:"168h" range:"0|1m..2160h"`
	// Rows of all accounts, about 1 KB of disk each. Beyond that, the accounts with the most rows lose their oldest
	// ones within a minute.
	MaxRows int `yaml:"max_rows" default:"200000" range:"1000..2000000"`
}
