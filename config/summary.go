package config

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Summary is the line that `farebox check` prints about a good file.
func Summary(c *Config) string {
	name := "the built-in config"
	if c.Source != "" {
		name = filepath.Base(c.Source)
	}
	types, free, aliases := map[string]int{}, 0, 0
	for i := range c.Models {
		m := &c.Models[i]
		types[m.Type]++
		aliases += len(m.Aliases)
		if m.Spec.Free() {
			free++
		}
	}
	var parts []string
	for _, t := range ModelTypes() {
		if n := types[t]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, t))
		}
	}
	if free > 0 {
		parts = append(parts, fmt.Sprintf("%d of them free", free))
	}
	scheme := "http"
	if c.TLS.Cert != "" {
		scheme = "https"
	}
	models := count(len(c.Models), "model")
	if len(parts) > 0 {
		models += " (" + strings.Join(parts, ", ") + ")"
	}
	if n := len(c.RPC.Networks); n > 0 {
		models += ", " + count(n, "blockchain network")
	}
	if c.X402 != nil {
		models += ", wallets on " + count(len(c.X402.Networks), "network")
	}
	for _, kind := range []struct {
		offered bool
		name    string
	}{{c.Augment.Scrape != nil, "scrape"}, {c.Augment.Search != nil, "search"}, {c.Augment.TextParser != nil, "text parser"}} {
		if kind.offered {
			models += ", " + kind.name
		}
	}
	return fmt.Sprintf("%s is good: %s, %s, %s, %s; %s on %s, ledger in %s",
		name, count(len(c.Upstreams), "upstream"), models,
		count(aliases, "alias"), count(len(c.Limits.Tiers), "tier"), scheme, c.Listen, c.StoreName())
}

func count(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "s"):
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
