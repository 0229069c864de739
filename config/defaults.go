package config

import (
	"maps"
	"slices"
)

// Defaults of keys that tags cannot express.

const (
	// Unlimited is the tier without limits.
	Unlimited = "unlimited"
	// Unix, among server.trusted_proxies, are those on a Unix socket.
	Unix = "unix"
)

// builtinTiers are the paid limits of addendum 3.6 (rate-limits.yaml): those of
// text models, and those that the kinds of models bring along.
func builtinTiers() map[string]Rate {
	tiers := map[string]Rate{
		"XS":      {RPM: 500, TPM: 1_000_000},
		"S":       {RPM: 75, TPM: 750_000},
		"M":       {RPM: 50, TPM: 750_000},
		"L":       {RPM: 20, TPM: 500_000},
		Unlimited: {},
	}
	for _, k := range kinds {
		if _, ok := tiers[k.tier]; !ok {
			tiers[k.tier] = k.rate
		}
	}
	return tiers
}

// newConfig is a Config in which nothing has been written yet.
func newConfig() *Config {
	c := Default[Config]()
	c.Limits.Tiers = builtinTiers()
	return &c
}

// entry is a group with a default that no tag can say.
type entry interface{ defaults() }

// complete sets the defaults that depend on other values.
func (c *Config) complete() {
	c.completeRPC()
	c.completeTEE()
	c.completeX402()
	c.completeSearch()
	c.Images.complete()
	c.Characters.complete(c.Source)
	for i := range c.Upstreams {
		c.Upstreams[i].completeCloud()
		c.Upstreams[i].completeDrops(c.Characters != nil)
	}
	for i := range c.Models {
		c.Models[i].complete()
	}
}

// TierNames are the tiers in alphabetical order.
func (c *Config) TierNames() []string { return slices.Sorted(maps.Keys(c.Limits.Tiers)) }
