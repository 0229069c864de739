package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Fetch says which links of clients and image upstreams are fetched: those into the
// public internet, unless Allow has more.
type Fetch struct {
	// Addresses and prefixes that may be asked though they are not public, at any port: 10.1.0.0/16. Default: none.
	Allow []string `yaml:"allow" most:"256 prefixes"`
	// Public addresses and prefixes that may not be asked. Default: none.
	Deny []string `yaml:"deny" most:"256 prefixes"`
	// Time for one link.
	Limit time.Duration `yaml:"limit" default:"20s" range:"1s..5m"`
}

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
	v.prefixes("fetch.allow", v.c.Fetch.Allow)
	v.prefixes("fetch.deny", v.c.Fetch.Deny)
}

// prefixes checks a list of them, in which further words may stand.
func (v *validator) prefixes(path string, list []string, words ...string) {
	for i, text := range list {
		if _, err := parsePrefix(text); err != nil && !slices.Contains(words, text) {
			also := ""
			if len(words) > 0 {
				also = ", or " + strings.Join(words, ", ")
			}
			v.wrong(fmt.Sprintf("%s[%d]", path, i),
				"%s is not an address or prefix; expected one such as 10.1.0.0/16, without bits after the prefix"+also,
				quote(text))
		}
	}
}
