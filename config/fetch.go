package config

import (
	"fmt"
	"net/netip"
	"slices"
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

// Prefixes reads a checked list of addresses and prefixes.
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
	v.prefixes("fetch.allow", v.c.Fetch.Allow)
	v.prefixes("fetch.deny", v.c.Fetch.Deny)
}

// prefixes checks a list of them, in which further words may stand.
func (v *validator) prefixes(path string, list []string, words ...string) {
	if len(list) > maxPrefixes {
		v.wrong(path, "%d prefixes are listed; expected at most %d", len(list), maxPrefixes)
		return
	}
	for i, text := range list {
		if _, err := parsePrefix(text); err != nil && !slices.Contains(words, text) {
			also := ""
			if len(words) > 0 {
				also = ", or " + strings.Join(words, ", ")
			}
			v.wrong(fmt.Sprintf("%s[%d]", path, i),
				"%s is no address or prefix; expected one such as 10.1.0.0/16, without bits behind the prefix"+also,
				quote(text))
		}
	}
}
