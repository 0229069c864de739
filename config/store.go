package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
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

// Redis holds the throughput limits of several nodes together. Without
// addresses every node counts for itself.
type Redis struct {
	// host:port of one server, of the Sentinels, or of some nodes of a cluster. At most 100. Default: none.
	Addresses []string `yaml:"addresses"`
	// Name of the master when addresses are Sentinels. Default: none.
	SentinelMaster string `yaml:"sentinel_master"`
	// Password of the Sentinels themselves. Default: none.
	SentinelPassword Secret `yaml:"sentinel_password"`
	// The addresses are nodes of a Redis Cluster.
	Cluster bool `yaml:"cluster"`
	// User name. Default: none.
	Username string `yaml:"username"`
	// Password, such as ${REDIS_PASSWORD}. Default: none.
	Password Secret `yaml:"password"`
	// Number of the database. A cluster has only 0.
	DB int `yaml:"db" default:"0" range:"0..1000000"`
	// Connect with TLS and the system's authorities.
	TLS bool `yaml:"tls"`
	// How long a request waits for an answer.
	Timeout time.Duration `yaml:"timeout" default:"30ms" range:"1ms..5s"`
	// While Redis does not answer. local_share: each node applies its share of the limits; open: each node applies
	// its own limits only; closed: limited requests get 503.
	Away string `yaml:"away" default:"local_share" oneof:"local_share open closed"`
}

// Used says whether limits are shared.
func (r Redis) Used() bool { return len(r.Addresses) > 0 }

const mostRedisAddresses = 100

func (v *validator) redis() {
	r := v.c.Redis
	if n := len(r.Addresses); n > mostRedisAddresses {
		v.wrong("redis.addresses",
			"%d addresses are listed; expected at most %d, since a few are enough to find the others", n,
			mostRedisAddresses)
	}
	for i, address := range r.Addresses {
		path := fmt.Sprintf("redis.addresses[%d]", i)
		v.address(path, address, false)
		if slices.Contains(r.Addresses[:i], address) {
			v.wrong(path, "%s is listed already; expected each address once", quote(address))
		}
	}
	switch {
	case !r.Used() && (r.Cluster || r.SentinelMaster != "" || v.has("redis.password") || v.has("redis.username")):
		v.wrong("redis", "no addresses are listed, so that no limit would be shared; expected addresses: [host:6379]")
	case r.Cluster && r.SentinelMaster != "":
		v.wrong("redis.cluster", "a cluster has no Sentinels; expected either cluster: true or sentinel_master")
	case r.Cluster && r.DB != 0:
		v.wrong("redis.db", "%s cannot be chosen in a cluster, which has only database 0; leave db out",
			v.shown("redis.db"))
	case len(r.Addresses) > 1 && !r.Cluster && r.SentinelMaster == "":
		v.wrong("redis.addresses",
			"%d addresses are listed, which of them counts is not said; expected cluster: true, sentinel_master, or "+
				"one address", len(r.Addresses))
	case r.SentinelMaster == "" && v.has("redis.sentinel_password"):
		v.wrong("redis.sentinel_password",
			"there are no Sentinels without sentinel_master; expected both, or password for Redis itself")
	}
	if r.Username != "" && r.Password == "" {
		v.wrong("redis.username", "a user without a password cannot log in; expected password too")
	}
}
