package config

import (
	"reflect"
	"slices"
)

// Fixed names the keys that differ between old and next but cannot change in a
// running process; they need a restart.
func Fixed(old, next *Config) []string {
	var names []string
	differ := func(name string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			names = append(names, name)
		}
	}
	differ("brand", old.Brand, next.Brand)
	if !slices.Equal(old.BrandAliases, next.BrandAliases) {
		names = append(names, "brand_aliases")
	}
	differ("listen", old.Listen, next.Listen)
	differ("tls.cert", old.TLS.Cert, next.TLS.Cert)
	differ("tls.key", old.TLS.Key, next.TLS.Key)
	differ("store", old.Store, next.Store)
	differ("node.name", old.Node.Name, next.Node.Name)
	differ("node.dir", old.Node.Dir, next.Node.Dir)
	differ("billing.leases", old.Billing.Leases, next.Billing.Leases)
	differ("durability", old.Durability, next.Durability)
	differ("redis", old.Redis, next.Redis)
	differ("images.timeout", old.Images.Timeout, next.Images.Timeout)
	differ("images.memory", old.Images.Memory, next.Images.Memory)
	differ("idempotency", old.Idempotency, next.Idempotency)
	differ("fetch", old.Fetch, next.Fetch)
	a, b := reflect.ValueOf(old.Server), reflect.ValueOf(next.Server)
	for i := range a.NumField() {
		differ("server."+a.Type().Field(i).Tag.Get("yaml"), a.Field(i).Interface(), b.Field(i).Interface())
	}
	return names
}

// keepFixed gives c the values of the running config for those keys.
func (c *Config) keepFixed(running *Config) {
	c.Brand, c.BrandAliases = running.Brand, running.BrandAliases
	c.Listen, c.TLS = running.Listen, running.TLS
	c.Store, c.Durability = running.Store, running.Durability
	c.Node, c.Billing.Leases = running.Node, running.Billing.Leases
	c.Server, c.Redis, c.Idempotency = running.Server, running.Redis, running.Idempotency
	c.Fetch = running.Fetch
}
