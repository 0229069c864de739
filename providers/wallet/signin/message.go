package signin

import (
	"strings"
	"time"

	"farebox/providers/wallet"
)

// message is a text of EIP-4361, or its sister of Solana, in its parts.
type message struct {
	scheme, domain string
	family         wallet.Family
	address        string
	uri            string
	version        string
	chain          string // as it is there
	nonce          string
	issued         time.Time
	expiring       bool
	expires        time.Time // if expiring
	notBefore      time.Time // zero: absent
}

const (
	asksEVM    = " wants you to sign in with your Ethereum account:"
	asksSolana = " wants you to sign in with your Solana account:"
	// Nonces: EIP-4361 asks for 8 letters and digits; 128 are enough for all clients.
	minNonce = 8
	maxNonce = 128
)

// lines are those of a text that were not read yet.
type lines struct {
	rest string
	more bool // there is a further line, if only an empty one
}

func (l *lines) next() string {
	line, rest, more := strings.Cut(l.rest, "\n")
	l.rest, l.more = rest, more
	return line
}

// field takes a line with that name.
func (l *lines) field(name string) (value string, ok bool) {
	if !l.more || !strings.HasPrefix(l.rest, name) {
		return "", false
	}
	return l.next()[len(name):], true
}

// parseMessage reads a text by the grammar of EIP-4361. Without a statement there are
// one to three empty lines before the URI, depending on the library.
func parseMessage(text string) (*message, *Refusal) {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\n' || c >= 0x7f {
			return nil, refuse(ParseError, "The message may have printable ASCII and line feeds only.")
		}
	}
	m := &message{}
	l := &lines{text, true}
	if !m.head(l.next()) {
		return nil, refuse(ParseError, "The first line of the message must be: <domain> wants you to sign in with your "+
			"Ethereum account: (or Solana account:).")
	}
	if m.address = l.next(); !l.more || l.next() != "" || !l.more {
		return nil, refuse(ParseError, "The message must have the address in its second line and an empty line after it.")
	}
	if refusal := skipStatement(l); refusal != nil {
		return nil, refusal
	}
	return m, m.body(l)
}

// head reads the first line.
func (m *message) head(line string) bool {
	var ok bool
	if m.domain, ok = strings.CutSuffix(line, asksEVM); ok {
		m.family = wallet.EVM
	} else if m.domain, ok = strings.CutSuffix(line, asksSolana); ok {
		m.family = wallet.Solana
	}
	if scheme, domain, found := strings.Cut(m.domain, "://"); found {
		if !isScheme(scheme) {
			return false
		}
		m.scheme, m.domain = scheme, domain
	}
	return ok && m.domain != ""
}

// skipStatement stops where the URI must begin. A statement is a line between empty
// ones.
func skipStatement(l *lines) *Refusal {
	before := *l
	line := l.next()
	if line != "" {
		if !l.more || !strings.HasPrefix(l.rest, "\n") {
			*l = before
			return nil
		}
		l.next()
		if !isStatement(line) {
			return refuse(InvalidMessage, "The statement of the message has characters that EIP-4361 does not allow.")
		}
		return nil
	}
	if strings.HasPrefix(l.rest, "\n") {
		l.next()
	}
	return nil
}

// body reads the fields.
func (m *message) body(l *lines) *Refusal {
	var ok bool
	if m.uri, ok = l.field("URI: "); !ok {
		return missing("URI")
	}
	if m.version, ok = l.field("Version: "); !ok {
		return missing("Version")
	}
	if m.chain, ok = l.field("Chain ID: "); !ok {
		return missing("Chain ID")
	}
	if m.nonce, ok = l.field("Nonce: "); !ok || m.nonce == "" {
		return refuse(MissingNonce, "The message has no Nonce.")
	}
	issued, ok := l.field("Issued At: ")
	if !ok {
		return missing("Issued At")
	}
	expires, expiring := l.field("Expiration Time: ")
	m.expiring = expiring
	notBefore, waiting := l.field("Not Before: ")
	request, _ := l.field("Request ID: ")
	good := isURI(m.uri) && isPath(request)
	if l.more && (l.rest == "Resources:" || strings.HasPrefix(l.rest, "Resources:\n")) {
		l.next()
		for l.more && good {
			resource, ok := l.field("- ")
			good = ok && isURI(resource)
		}
	}
	switch {
	case !good:
		return refuse(InvalidMessage, "The URI, the Request ID or a resource of the message is not one by RFC 3986.")
	case l.more:
		return refuse(ParseError, "The message has lines that are unknown or in another order than that of EIP-4361.")
	case !isNonce(m.nonce):
		return refuse(InvalidMessage, "The Nonce of the message must have 8 to 128 letters and digits.")
	}
	if !readTime(&m.issued, issued) || expiring && !readTime(&m.expires, expires) ||
		waiting && !readTime(&m.notBefore, notBefore) {
		return refuse(InvalidMessage, "A time of the message is not in RFC 3339 format, such as 2026-01-02T03:04:05Z.")
	}
	return nil
}

func missing(line string) *Refusal {
	return refuse(ParseError, "The message has no line \""+line+": …\" where EIP-4361 has it.")
}

// IsStatement says whether a text can be the statement of a message: one line of
// letters, digits, spaces, and the other reserved and unreserved characters of RFC 3986.
func IsStatement(s string) bool { return s != "" && isPrintable(s) && isStatement(s) }

// isStatement is IsStatement for callers that looked for control characters.
func isStatement(s string) bool {
	for i := range len(s) {
		if strings.IndexByte("\"%<>\\^`{|}", s[i]) >= 0 {
			return false
		}
	}
	return true
}

func isNonce(s string) bool {
	for i := range len(s) {
		if !alphanumeric(s[i]) {
			return false
		}
	}
	return len(s) >= minNonce && len(s) <= maxNonce
}

// readTime reads a time of RFC 3339, whose letters may be small ones. The decoder of
// texts is the strict one, but takes a comma before fractions of a second.
func readTime(t *time.Time, s string) bool {
	return strings.IndexByte(s, ',') < 0 && t.UnmarshalText([]byte(strings.ToUpper(s))) == nil
}

// rebuild makes the text that a wallet signed for the fields of a header, as the packages
// siwe and @x402/extensions make it. whole is for Solana: the chain's whole name instead of
// the part behind its colon.
func (c *claim) rebuild(whole bool) (string, *Refusal) {
	if !c.plain() {
		return "", refuse(InvalidMessage, "The fields of the sign-in header may have printable ASCII only.")
	}
	_, chain, _ := strings.Cut(c.chain, ":")
	if whole {
		chain = c.chain
	}
	evm, asks := true, asksEVM
	if family(c.chain) == wallet.Solana {
		evm, asks = false, asksSolana
	}
	f := &c.fields
	list := []string{f[fieldDomain].text + asks, c.shown(), ""}
	if s := f[fieldStatement]; evm && s.given || s.text != "" {
		list = append(list, s.text, "")
	} else if evm {
		list = append(list, "")
	}
	list = append(list, "URI: "+f[fieldURI].text, "Version: "+f[fieldVersion].text, "Chain ID: "+chain,
		"Nonce: "+f[fieldNonce].text, "Issued At: "+f[fieldIssued].text)
	return strings.Join(c.further(list, evm), "\n"), nil
}

// further appends the lines that a message need not have.
func (c *claim) further(list []string, evm bool) []string {
	if s := c.fields[fieldExpires]; s.text != "" {
		list = append(list, "Expiration Time: "+s.text)
	}
	if s := c.fields[fieldNotBefore]; s.text != "" {
		list = append(list, "Not Before: "+s.text)
	}
	if s := c.fields[fieldRequest]; evm && s.given || s.text != "" {
		list = append(list, "Request ID: "+s.text)
	}
	if len(c.resources) > 0 || evm && c.listed {
		list = append(list, "Resources:")
	}
	for _, r := range c.resources {
		list = append(list, "- "+r)
	}
	return list
}

// plain says whether every field can be in a line.
func (c *claim) plain() bool {
	for i := range c.fields {
		if !isPrintable(c.fields[i].text) {
			return false
		}
	}
	for _, r := range c.resources {
		if !isPrintable(r) {
			return false
		}
	}
	return isPrintable(c.address)
}

func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// shown is the address as it is in a rebuilt text: siwe writes those of EVM with
// their checksum.
func (c *claim) shown() string {
	if a, err := wallet.ParseEVM(c.address); err == nil {
		return a.Checksummed()
	}
	return c.address
}
