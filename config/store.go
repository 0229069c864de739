package config

import (
	"net/url"
	"strings"
)

// SharedStore says whether the ledger is in a PostgreSQL that several nodes
// may share.
func (c *Config) SharedStore() bool {
	return strings.HasPrefix(c.Store, "postgres://") || strings.HasPrefix(c.Store, "postgresql://")
}

// StoreName is the store for people: never with a password, wherever in the
// address it may stand.
func (c *Config) StoreName() string {
	if !c.SharedStore() {
		return c.Store
	}
	u, err := url.Parse(c.Store)
	if err != nil {
		return "PostgreSQL"
	}
	host := u.Host
	if host == "" {
		host = u.Query().Get("host")
	}
	return "PostgreSQL " + strings.Trim(u.Path, "/") + " on " + host
}

// LedgerDir is the directory that belongs to this process alone: the embedded
// ledger, or the journal of a node.
func (c *Config) LedgerDir() string {
	if c.SharedStore() {
		return c.Node.Dir
	}
	return c.Store
}

// SharedAddress is the address of the shared store; empty for an embedded ledger.
func (c *Config) SharedAddress() string {
	if c.SharedStore() {
		return c.Store
	}
	return ""
}
