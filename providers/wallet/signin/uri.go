package signin

import (
	"net/netip"
	"strings"
)

// sameOrigin says whether a URI is of an origin: the same scheme, host and port, where
// case does not count and the usual port may be left out.
func sameOrigin(origin, uri string) bool {
	scheme, host, ok := splitOrigin(uri)
	if !ok {
		return false
	}
	ours, at, ok := splitOrigin(origin)
	return ok && strings.EqualFold(scheme, ours) && strings.EqualFold(host, at)
}

// splitOrigin gives scheme and host of an absolute URI. One with a user name has no origin:
// the part before its @ can look like a host.
func splitOrigin(uri string) (scheme, host string, ok bool) {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || !isScheme(scheme) {
		return "", "", false
	}
	if end := strings.IndexAny(rest, "/?#\\"); end >= 0 {
		rest = rest[:end]
	}
	if strings.EqualFold(scheme, "https") {
		rest = strings.TrimSuffix(rest, ":443")
	} else if strings.EqualFold(scheme, "http") {
		rest = strings.TrimSuffix(rest, ":80")
	}
	for i := range len(rest) {
		// Folding of case must be that of ASCII alone.
		if rest[i] == '@' || rest[i] >= 0x80 {
			return "", "", false
		}
	}
	return scheme, rest, rest != ""
}

func isScheme(s string) bool {
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && (c != '+' && c != '-' && c != '.' || i == 0) {
			return false
		}
	}
	return s != "" && s[0] > '9'
}

// isURI says whether a text is a URI by RFC 3986.
func isURI(s string) bool {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || !isScheme(scheme) {
		return false
	}
	rest, fragment, _ := strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	if !isTail(fragment) || !isTail(query) {
		return false
	}
	if authority, found := strings.CutPrefix(rest, "//"); found {
		end := strings.IndexByte(authority, '/')
		if end < 0 {
			end = len(authority)
		}
		return isAuthority(authority[:end]) && isPathOf(authority[end:], "/")
	}
	return isPathOf(rest, "/")
}

// isAuthority knows user@host:port.
func isAuthority(s string) bool {
	if user, host, found := strings.Cut(s, "@"); found {
		if !isPathOf(user, "") || strings.IndexByte(user, '@') >= 0 {
			return false
		}
		s = host
	}
	if literal, found := strings.CutPrefix(s, "["); found {
		address, port, ok := strings.Cut(literal, "]")
		ip, err := netip.ParseAddr(address)
		return ok && err == nil && ip.Is6() && ip.Zone() == "" && (port == "" || port[0] == ':' && isPort(port[1:]))
	}
	host, port, _ := strings.Cut(s, ":")
	return isPathOf(host, "") && strings.IndexByte(host, '@') < 0 && isPort(port)
}

func isPort(s string) bool {
	for i := range len(s) {
		if s[i]-'0' > 9 {
			return false
		}
	}
	return true
}

// isPath says whether a text has the characters of a segment alone.
func isPath(s string) bool { return isPathOf(s, "") }

func isTail(s string) bool { return isPathOf(s, "/?") }

// isPathOf says whether a text has characters of a segment (pchar), and those more.
func isPathOf(s, more string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case alphanumeric(c) || strings.IndexByte("-._~!$&'()*+,;=:@", c) >= 0 || strings.IndexByte(more, c) >= 0:
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			i += 2
		default:
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'f' }
