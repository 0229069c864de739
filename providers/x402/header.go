package x402

import (
	"encoding/base64"
	"strings"

	"farebox/config/onchain"
	"farebox/proxy/scan"
)

const (
	// MaxHeader bounds the header of a payment.
	MaxHeader = 16 << 10
	// maxDepth bounds the nesting of a payment, the members included that are not read.
	maxDepth = 32
)

// Members of payments, by their place in the shapes below.
const (
	topVersion = iota
	topScheme
	topNetwork
	topPayload
	topAccepted
)

const (
	acceptedScheme = iota
	acceptedNetwork
	acceptedAsset
)

const (
	payloadSignature = iota
	payloadAuthorization
	payloadTransaction
)

const (
	authFrom = iota
	authTo
	authValue
	authAfter
	authBefore
	authNonce
)

var (
	authorizationShape = scan.NewShape(scan.Members(nil, "from", "to", "value", "validAfter", "validBefore", "nonce")...)
	payloadShape       = scan.NewShape(scan.Members(map[string]*scan.Shape{"authorization": authorizationShape},
		"signature", "authorization", "transaction")...)
	acceptedShape = scan.NewShape(scan.Members(nil, "scheme", "network", "asset")...)
	topShape      = scan.NewShape(scan.Members(map[string]*scan.Shape{"payload": payloadShape,
		"accepted": acceptedShape}, "x402Version", "scheme", "network", "payload", "accepted")...)
)

// strictJSON is a payment's JSON, in which every member that is read is there once.
type strictJSON struct {
	text []byte
	doc  scan.Document
}

// open reads the JSON out of a header.
func open(header string) (*strictJSON, *onchain.Refusal) {
	if len(header) > MaxHeader {
		return nil, &onchain.Refusal{Code: onchain.CodeFormat, Text: "the payment header is too long; expected at most 16384 characters"}
	}
	text, ok := decode(strings.Trim(header, " \t"))
	if !ok {
		return nil, &onchain.Refusal{Code: onchain.CodeFormat, Text: "the payment header is not base64; expected the base64 of a JSON object"}
	}
	s := &strictJSON{text: text}
	if err := s.doc.SkimWhole(text, topShape, maxDepth); err != nil {
		return nil, &onchain.Refusal{Code: onchain.CodeFormat,
			Text: strings.Replace(err.Error(), "the request body", "the JSON in the payment header", 1)}
	}
	return s, nil
}

// decode reads base64 of either alphabet, padded or not.
func decode(s string) ([]byte, bool) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, false // the decoder would skip it
	}
	bare := strings.TrimRight(s, "=")
	if fill := len(s) - len(bare); fill > 2 || fill > 0 && len(s)%4 != 0 {
		return nil, false
	}
	text, err := base64.RawStdEncoding.Strict().DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(bare))
	return text, err == nil
}

// member is the index of a member, -1 if there is no member of that kind.
func (s *strictJSON) member(parent int32, id int, kind scan.Kind) int32 {
	i := s.doc.Member(parent, id)
	if i < 0 || s.doc.Fields[i].Kind != kind {
		return -1
	}
	return i
}

// has says that a member is there, of any kind.
func (s *strictJSON) has(parent int32, id int) bool { return s.doc.Member(parent, id) >= 0 }

// text of a member that is a string.
func (s *strictJSON) string(parent int32, id int) (text string, ok bool) {
	return s.doc.Text(s.text, s.doc.Member(parent, id))
}
