package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Operator is the API of operators, below /operator/v1 on a listener of its own.
type Operator struct {
	// Where operators connect: unix for the socket operator.sock beside the ledger, unix:/path/to.sock, host:port, or off.
	// On a socket, the user that runs farebox and root are owners; everybody else needs a token.
	Listen string `yaml:"listen" default:"unix" restart:"key"`
	// Further names by which operators call a host:port, such as desk.example.com. Other names in Host are refused,
	// so that no page can call it by a name of its own. Default: none.
	Hosts []string `yaml:"hosts" default:"" most:"64 names"`
	// USD that a token or user of the role support may credit on a UTC day, unless its token says another sum.
	MaxCredit Nano `yaml:"max_credit" default:"0" range:"0..1000000"`
	// Header in which a proxy for single sign-on names the user, such as X-Forwarded-User. Default: none.
	UserHeader string `yaml:"user_header"`
	// Addresses and prefixes of that proxy. Those of this machine count only when they are written. Default: none.
	TrustedProxies []string `yaml:"trusted_proxies" default:"" most:"256 prefixes"`
	// The proxy sends this text in X-Farebox-Proxy-Secret. At least 16 characters.
	ProxySecret Secret `yaml:"proxy_secret"`
	// Users of user_header and their roles: read-only, support, billing or owner. Others get 403. Default: none.
	Users map[string]string `yaml:"users" most:"1000 users"`
}

// Words for Operator.Listen, and the name of the socket beside the ledger.
const (
	OperatorSocket     = "unix"
	OperatorOff        = "off"
	OperatorSocketFile = "operator.sock"
)

// OperatorRoles are the words for roles, in rising order of their rights.
var OperatorRoles = []string{"read-only", "support", "billing", "owner"}

const leastProxySecret = 16

func (v *validator) operator() {
	o := v.c.Operator
	if l := o.Listen; l != OperatorSocket && l != OperatorOff {
		v.address("operator.listen", l, true)
		if l == v.c.Listen || l == v.c.Server.MetricsListen {
			v.wrong("operator.listen", "this is the address of listen or of server.metrics_listen; expected another one, so that no "+
				"customer reaches the operators' API")
		}
		if host, _, err := net.SplitHostPort(l); err == nil && !isLoopback(host) && v.c.TLS.Cert == "" {
			v.doubt("operator.listen", "tokens cross the network unencrypted; expected an address of this machine, or tls:")
		}
	}
	for i, name := range o.Hosts {
		if !hostName.MatchString(name) {
			path := fmt.Sprintf("operator.hosts[%d]", i)
			v.wrong(path, "%s is not a name of a host; expected one such as desk.example.com, without a port", v.shown(path))
		}
	}
	v.prefixes("operator.trusted_proxies", o.TrustedProxies)
	v.signOn(&o)
	for _, name := range slices.Sorted(maps.Keys(o.Users)) {
		path := join("operator.users", name)
		if name == "" || len(name) > 128 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
			v.wrongKey(path, "%s is not a user; expected 1 to 128 characters of ASCII, as the proxy writes them", quote(name))
		}
		v.oneOf(path, o.Users[name], OperatorRoles...)
	}
}

// signOn checks the settings of the header of a proxy.
func (v *validator) signOn(o *Operator) {
	switch {
	case o.UserHeader == "":
		if len(o.Users) > 0 {
			v.wrong("operator.users", "no header names a user; expected user_header:, trusted_proxies: and proxy_secret: too")
		}
	case !headerName.MatchString(o.UserHeader):
		v.wrong("operator.user_header", "%s is no name of a header; expected one such as X-Forwarded-User",
			v.shown("operator.user_header"))
	case len(o.TrustedProxies) == 0:
		v.wrong("operator.user_header", "everybody could name any user; expected trusted_proxies: too")
	case len(o.ProxySecret) == 0:
		v.wrong("operator.user_header", "whatever runs on the proxy's machine could name any user; expected proxy_secret: too")
	}
	if n := len(o.ProxySecret); n > 0 && n < leastProxySecret {
		v.wrong("operator.proxy_secret", "the secret has %d characters; expected at least %d", n, leastProxySecret)
	}
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// Trusts says that a peer is a proxy whose word counts. Addresses of this machine are meant only where a prefix has
// nothing else.
func (o *Operator) Trusts(peer netip.Addr) bool {
	peer = peer.Unmap()
	return peer.IsValid() && slices.ContainsFunc(Prefixes(o.TrustedProxies), func(p netip.Prefix) bool {
		return p.Contains(peer) && (!peer.IsLoopback() || p.Addr().IsLoopback())
	})
}
