package chat

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"

	"farebox/providers/chat/dialect"
	"farebox/providers/fetch"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// Links in chat messages are passed on, and many upstreams follow them from
// Links in chat messages are passed on, and many upstreams follow them from where they run:
// inside the operator's network, with its file system, its neighbours and its cloud's metadata
// service in reach. Only links to the public internet go there, unless the operator allows more
// (upstreams.links). A name that resolves to a private address cannot be told apart here: the
// upstream that follows it must not (links: none for upstreams that do).

// checkLinks says which part of the messages has a link that this upstream is
// not given; nil: none has.
func (c *inference) checkLinks(t *dialect.Target) *dialect.Unsupported {
	policy := t.Upstream.Config.Links
	if policy == "any" || c.chat.Embedding {
		return nil
	}
	fields := c.chat.Doc.Fields
	messages := c.chat.Doc.TopIndex(dialect.ChatMessages)
	if messages < 0 {
		return nil
	}
	for m := messages + 1; m < fields[messages].Next; m = fields[m].Next {
		content := c.chat.Doc.Member(m, dialect.MessageContent)
		if content < 0 || fields[content].Kind != scan.Array {
			continue
		}
		for p := content + 1; p < fields[content].Next; p = fields[p].Next {
			for i := p + 1; i < fields[p].Next; i = fields[i].Next {
				switch fields[i].Name {
				case dialect.PartImage, dialect.PartVideo, dialect.PartFile:
				default:
					continue
				}
				// The link is the first member of every carrier's shape.
				if at := c.chat.Doc.Member(i, dialect.LinkURL); at >= 0 && !allowedLink(c.chat.Text(at), policy) {
					path := c.chat.Doc.Path(at)
					return &dialect.Unsupported{Path: path, Text: path + ": " + linkTexts[policy]}
				}
			}
		}
	}
	return nil
}

var linkTexts = map[string]string{
	"public": "must be a data URL, or a link that begins with https:// or http:// and leads to a public host.",
	"none":   "must be a data URL; this model follows no links.",
}

// allowedLink judges a link, with JSON's escapes as the client wrote them.
func allowedLink(escaped []byte, policy string) bool {
	head := escaped[:min(len(escaped), 5)]
	if bytes.EqualFold(head, []byte("data:")) {
		return true
	}
	link := escaped
	if bytes.IndexByte(escaped, '\\') >= 0 {
		if len(escaped) > 6*maxPassedLink {
			return false
		}
		link = jsontext.AppendUnescaped(nil, escaped)
		if len(link) >= 5 && bytes.EqualFold(link[:5], []byte("data:")) {
			return true
		}
	}
	return policy == "public" && len(link) <= maxPassedLink && publicLink(string(link))
}

// maxPassedLink is the longest link that is passed on, in bytes.
const maxPassedLink = 8 << 10

// publicLink says that every parser finds the same public host in a link. What
// two could read differently (user names, backslashes, odd numbers, escapes in
// the host) is not public.
func publicLink(link string) bool {
	for i := 0; i < len(link); i++ {
		if c := link[i]; c <= ' ' || c >= 0x7f || c == '\\' {
			return false
		}
	}
	scheme, rest, ok := strings.Cut(link, "://")
	if !ok || !strings.EqualFold(scheme, "https") && !strings.EqualFold(scheme, "http") {
		return false
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return publicHost(strings.ToLower(rest))
}

// publicHost judges host, host:port and [address]:port in lower case.
func publicHost(authority string) bool {
	host, port := authority, ""
	if strings.HasPrefix(authority, "[") {
		end := strings.IndexByte(authority, ']')
		if end < 0 {
			return false
		}
		ip, err := netip.ParseAddr(authority[1:end])
		if port = authority[end+1:]; err != nil || ip.Zone() != "" || !goodPort(port) {
			return false
		}
		return fetch.Public(ip)
	}
	if colon := strings.IndexByte(authority, ':'); colon >= 0 {
		host, port = authority[:colon], authority[colon:]
	}
	if !goodPort(port) {
		return false
	}
	host = strings.TrimSuffix(host, ".")
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	// Parsers take a last label of digits, or one that begins with 0x, for an
	// address in one of its odd forms.
	if last := labels[len(labels)-1]; last[0] >= '0' && last[0] <= '9' {
		ip, err := netip.ParseAddr(host)
		return err == nil && fetch.Public(ip)
	}
	if len(labels) < 2 || len(host) > 253 {
		return false
	}
	for _, suffix := range insideNames {
		if strings.HasSuffix(host, suffix) {
			return false
		}
	}
	return true
}

func goodPort(text string) bool {
	if text == "" {
		return true
	}
	n, err := strconv.ParseUint(text[1:], 10, 16)
	return text[0] == ':' && err == nil && n > 0
}

// insideNames end the names of hosts inside of networks, and public names that
// answer with whatever address is written in them.
var insideNames = []string{
	".local", ".localhost", ".internal", ".intranet", ".lan", ".corp", ".home", ".home.arpa", ".svc", ".arpa",
	".nip.io", ".sslip.io", ".xip.io", ".localtest.me", ".lvh.me",
}
