package config

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Fetch is how links are followed that clients and image upstreams name. Only
// the public internet is asked unless something else is allowed.
type Fetch struct {
	// Allow are addresses and prefixes (10.1.0.0/16) that may be asked though
	// they are not public, at any port: the operator's own image servers.
	Allow []string `yaml:"allow"`
	// Deny are public ones that may not.
	Deny []string `yaml:"deny"`
	// Limit is the time for one link. Default 20s, 1s to 5m.
	Limit time.Duration `yaml:"limit"`
}

// maxPrefixes bounds each list: every dial goes through both.
const maxPrefixes = 256

// Prefixes reads a checked list of Allow or Deny.
func Prefixes(list []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range list {
		if p, err := parsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// parsePrefix reads 10.1.0.0/16, or a single address.
func parsePrefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("not an address")
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err == nil && p != p.Masked() {
		err = fmt.Errorf("bits behind the prefix")
	}
	return p, err
}

func (v *validator) fetch() {
	v.duration("fetch.limit", v.c.Fetch.Limit, time.Second, 5*time.Minute)
	for name, list := range map[string][]string{"fetch.allow": v.c.Fetch.Allow, "fetch.deny": v.c.Fetch.Deny} {
		if len(list) > maxPrefixes {
			v.wrong(name, "%d prefixes are listed; expected at most %d", len(list), maxPrefixes)
			continue
		}
		for i, text := range list {
			if _, err := parsePrefix(text); err != nil {
				v.wrong(fmt.Sprintf("%s[%d]", name, i), "%s is no address or prefix; expected one such as 10.1.0.0/16, without bits behind the prefix", quote(text))
			}
		}
	}
}
