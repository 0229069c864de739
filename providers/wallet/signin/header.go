package signin

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"farebox/providers/wallet"
	"farebox/proxy/scan"
)

const (
	// MaxHeader is the longest header in bytes: a message has a kilobyte, and a
	// signature of a contract wallet up to 8.
	MaxHeader = 16 << 10
	// maxDepth is how deep the header's JSON may nest; ours nests twice.
	maxDepth = 8
)

// claim is the content of a header, as it is there.
type claim struct {
	address   string
	signature string
	chain     string // CAIP-2
	message   string
	verbatim  bool // message is the signed text; else the fields are
	timestamp float64
	stamped   bool
	fields    [fieldCount]optional
	resources []string
	listed    bool // resources are given, maybe as an empty list
}

// optional is a text that may be missing.
type optional struct {
	text  string
	given bool
}

// The members of a header; those before fieldCount are lines of the message.
const (
	fieldDomain = iota
	fieldStatement
	fieldURI
	fieldVersion
	fieldNonce
	fieldIssued
	fieldExpires
	fieldNotBefore
	fieldRequest
	fieldCount
)

// The other members.
const (
	memberResources = fieldCount + iota
	memberAddress
	memberMessage
	memberSignature
	memberTimestamp
	memberChain
	memberType
	memberScheme
)

var headerShape = scan.NewShape(scan.Members(map[string]*scan.Shape{"resources": scan.NewShape()},
	"domain", "statement", "uri", "version", "nonce", "issuedAt", "expirationTime", "notBefore", "requestId",
	"resources", "address", "message", "signature", "timestamp", "chainId", "type", "signatureScheme")...)

var documents = sync.Pool{New: func() any { return new(scan.Document) }}

// payload is a header's JSON while it is read.
type payload struct {
	text string
	doc  *scan.Document
	bad  string // the first member of another type than it must have
}

func readClaim(header []byte) (*claim, *Refusal) {
	if len(header) > MaxHeader {
		return nil, refuse(InvalidPayload, "The sign-in header must not exceed "+strconv.Itoa(MaxHeader)+" bytes.")
	}
	body, ok := decode(header)
	if !ok {
		return nil, refuse(InvalidPayload, "The sign-in header must be base64 of a JSON object.")
	}
	doc := documents.Get().(*scan.Document)
	defer documents.Put(doc)
	defer doc.Reset()
	begin := scan.Space(body, 0)
	if end, why := scan.Value(body, begin, 0, maxDepth); why != 0 || scan.Space(body, end) != len(body) ||
		!utf8.Valid(body) {
		return nil, refuse(InvalidPayload, "The sign-in header is not base64 of valid JSON.")
	}
	if err := doc.Skim(body, headerShape); err != nil {
		return nil, refuse(InvalidPayload, "The sign-in header must be one JSON object that gives each member once, "+
			"in exactly the letters of its name.")
	}
	p := &payload{text: string(body), doc: doc}
	return p.claim()
}

// decode reads base64 of either alphabet, padded or not.
func decode(header []byte) ([]byte, bool) {
	text := make([]byte, len(header))
	for i, c := range header {
		switch c {
		case '-':
			c = '+'
		case '_':
			c = '/'
		case '\r', '\n': // the decoder would skip them
			return nil, false
		}
		text[i] = c
	}
	encoding := base64.RawStdEncoding
	if len(text)%4 == 0 && len(text) > 0 && text[len(text)-1] == '=' {
		encoding = base64.StdEncoding
	}
	n, err := encoding.Strict().Decode(text, text)
	return text[:n], err == nil && n > 0
}

func (p *payload) claim() (*claim, *Refusal) {
	c := &claim{}
	address, message := p.string(memberAddress), p.string(memberMessage)
	signature := p.string(memberSignature)
	c.address, c.message, c.signature, c.verbatim = address.text, message.text, signature.text, message.given
	for i := range c.fields {
		c.fields[i] = p.string(i)
	}
	p.readResources(c)
	p.readTimestamp(c)
	kind, scheme := p.string(memberType), p.string(memberScheme)
	switch {
	case p.bad != "":
		return nil, refuse(InvalidPayload, "The member "+p.bad+" of the sign-in header has the wrong type.")
	case !address.given || !signature.given:
		return nil, refuse(InvalidPayload, "The sign-in header must have the members address and signature.")
	case c.verbatim:
	case !c.fields[fieldNonce].given || c.fields[fieldNonce].text == "":
		return nil, refuse(MissingNonce, "The sign-in header has no nonce.")
	case !c.fields[fieldDomain].given || !c.fields[fieldURI].given || !c.fields[fieldVersion].given ||
		!c.fields[fieldIssued].given:
		return nil, refuse(InvalidPayload,
			"The sign-in header must have a message, or domain, uri, version, nonce and issuedAt.")
	}
	var ok bool
	if c.chain, ok = p.chain(); !ok {
		return nil, refuse(InvalidChainID,
			"chainId must name a chain: a number or eip155: with a number, or solana: with the beginning of its genesis.")
	}
	return c, checkKind(family(c.chain), kind.text, scheme.text)
}

// checkKind checks the stated kind of signature; the chain decides the kind, so that it may
// only agree.
func checkKind(of wallet.Family, kind, scheme string) *Refusal {
	if kind == "eip6492" || scheme == "eip6492" {
		return errUndeployed
	}
	known := map[wallet.Family]string{wallet.EVM: " eip191 eip1271 ", wallet.Solana: " ed25519 siws "}[of]
	for _, word := range [...]string{kind, scheme} {
		if word != "" && !strings.Contains(known, " "+word+" ") {
			return refuse(InvalidPayload, "type must be eip191 or eip1271 for EVM, and ed25519 for Solana.")
		}
	}
	return nil
}

// string is the text of a member; null counts as absent.
func (p *payload) string(id int) optional {
	f, ok := p.doc.Top(id)
	if !ok || f.Kind == scan.Null {
		return optional{}
	}
	if f.Kind != scan.String {
		p.bad = headerShape.Name(id)
		return optional{}
	}
	return optional{p.unquote(&f), true}
}

func (p *payload) unquote(f *scan.Field) string {
	quoted := p.text[f.From:f.To]
	if strings.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	if json.Unmarshal([]byte(quoted), &s) != nil {
		return "\x00" // which no text may have
	}
	return s
}

func (p *payload) readResources(c *claim) {
	at := p.doc.TopIndex(memberResources)
	if at < 0 || p.doc.Fields[at].Kind == scan.Null {
		return
	}
	if p.doc.Fields[at].Kind != scan.Array {
		p.bad = "resources"
		return
	}
	c.listed = true
	for i := at + 1; i < p.doc.Fields[at].Next; i = p.doc.Fields[i].Next {
		if p.doc.Fields[i].Kind != scan.String {
			p.bad = "resources"
			return
		}
		c.resources = append(c.resources, p.unquote(&p.doc.Fields[i]))
	}
}

func (p *payload) readTimestamp(c *claim) {
	f, ok := p.doc.Top(memberTimestamp)
	if !ok || f.Kind == scan.Null {
		return
	}
	ms, err := strconv.ParseFloat(p.text[f.From:f.To], 64)
	if f.Kind != scan.Number || err != nil || math.IsNaN(ms) {
		p.bad = "timestamp"
		return
	}
	c.timestamp, c.stamped = ms, true
}

// chain is the CAIP-2 name in chainId.
func (p *payload) chain() (string, bool) {
	f, ok := p.doc.Top(memberChain)
	if !ok {
		return "", false
	}
	text := p.text[f.From:f.To]
	switch f.Kind {
	case scan.Number:
	case scan.String:
		text = p.unquote(&f)
		if reference, ok := strings.CutPrefix(text, solanaSpace); ok {
			return text, isReference(reference)
		}
		text = strings.TrimPrefix(text, evmSpace)
	default:
		return "", false
	}
	return evmSpace + text, isNumber(text)
}

// isNumber is for chains of EVM: digits without a zero before them.
func isNumber(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != "" && s[0] != '0' && len(s) <= 20
}

// isReference checks the part behind the colon of CAIP-2.
func isReference(s string) bool {
	for i := range len(s) {
		if !alphanumeric(s[i]) && s[i] != '-' && s[i] != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 32
}

func alphanumeric(c byte) bool { return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'z' }
