package tdx

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// Root is the root of all certificates, by the SHA-256 of its DER.
type Root [sha256.Size]byte

// Intel is the Intel SGX Root CA, valid until the end of 2049.
var Intel = Root{
	0x44, 0xa0, 0x19, 0x6b, 0x2b, 0x99, 0xf8, 0x89, 0xb8, 0xe1, 0x49, 0xe9, 0x5b, 0x80, 0x7a, 0x35,
	0x0e, 0x74, 0x24, 0x96, 0x43, 0x99, 0xe8, 0x85, 0xa7, 0xcb, 0xb8, 0xcc, 0xfa, 0xb6, 0x74, 0xd3,
}

// RootOf is the Root that a certificate in PEM or DER is.
func RootOf(file []byte) (Root, error) {
	der := file
	if block, _ := pem.Decode(file); block != nil {
		der = block.Bytes
	}
	if _, err := x509.ParseCertificate(der); err != nil {
		return Root{}, fmt.Errorf("cannot read the root certificate: %w", err)
	}
	return sha256.Sum256(der), nil
}

const maxChainBytes = 32 << 10

// certificates reads a chain that is PEM and nothing else, but for one zero behind it.
func certificates(text []byte, want int) ([]*x509.Certificate, error) {
	if len(text) > maxChainBytes {
		return nil, fmt.Errorf("the chain has %d bytes; at most %d are read", len(text), maxChainBytes)
	}
	list, rest := make([]*x509.Certificate, 0, want), text
	for range want {
		rest = bytes.TrimLeft(rest, "\r\n")
		block, after := pem.Decode(rest)
		switch {
		case !bytes.HasPrefix(rest, pemBegin):
			return nil, fmt.Errorf("the chain is not of %d certificates", want)
		case block == nil || block.Type != "CERTIFICATE" || len(block.Headers) > 0,
			bytes.Count(rest[:len(rest)-len(after)], pemBegin) != 1: // blocks that are broken are passed over
			return nil, errors.New("the chain is not in PEM")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("a certificate cannot be read: %w", err)
		}
		list, rest = append(list, c), after
	}
	if len(rest) > 1 || len(rest) == 1 && rest[0] != 0 {
		return nil, fmt.Errorf("the chain is not of %d certificates alone", want)
	}
	return list, nil
}

var pemBegin = []byte("-----BEGIN CERTIFICATE-----")

// lead checks that each certificate is signed by the next, and the last is the root,
// which is pinned with its own signature.
func lead(chain []*x509.Certificate, root Root) error {
	last := len(chain) - 1
	if sha256.Sum256(chain[last].Raw) != root {
		return errors.New("the chain does not end at the pinned root")
	}
	for i, c := range chain {
		issuer := chain[min(i+1, last)]
		if _, err := key(c); err != nil || c.Version != 3 || c.SignatureAlgorithm != x509.ECDSAWithSHA256 {
			return fmt.Errorf("the certificate %q is not of the form of Intel's", c.Subject.CommonName)
		}
		switch {
		case !bytes.Equal(c.RawIssuer, issuer.RawSubject):
			return fmt.Errorf("the certificate %q is of another issuer", c.Subject.CommonName)
		case len(c.UnhandledCriticalExtensions) > 0:
			return fmt.Errorf("the certificate %q has a critical extension that is not known", c.Subject.CommonName)
		}
		if i < last && c.CheckSignatureFrom(issuer) != nil {
			return fmt.Errorf("the certificate %q is not signed by its issuer", c.Subject.CommonName)
		}
	}
	return nil
}

// spansOf is when certificates are in effect.
func spansOf(chain []*x509.Certificate) []span {
	spans := make([]span, 0, len(chain)+2) // two more in a collateral
	for _, c := range chain {
		spans = append(spans, span{"the certificate " + c.Subject.CommonName, c.NotBefore, c.NotAfter})
	}
	return spans
}

// Names of a processor's certificate, and of its issuers.
const (
	pckName        = "Intel SGX PCK Certificate"
	pckPlatformCA  = "Intel SGX PCK Platform CA"
	pckProcessorCA = "Intel SGX PCK Processor CA"
)

// ofProcessor checks that a chain is that of a processor, and not of something else that
// Intel certifies.
func ofProcessor(chain []*x509.Certificate) error {
	by := chain[1].Subject.CommonName
	if chain[0].Subject.CommonName != pckName || by != pckPlatformCA && by != pckProcessorCA {
		return errors.New("a certificate of the processor has another name than Intel gives it")
	}
	return nil
}

// key is the P-256 key of a certificate.
func key(c *x509.Certificate) (*ecdsa.PublicKey, error) {
	k, ok := c.PublicKey.(*ecdsa.PublicKey)
	if !ok || k.Curve != elliptic.P256() {
		return nil, fmt.Errorf("the certificate %q has no key of P-256", c.Subject.CommonName)
	}
	return k, nil
}

// signedBy checks a signature r ‖ s over the SHA-256 of data.
func signedBy(k *ecdsa.PublicKey, data, pair []byte) bool {
	if len(pair) != pairBytes {
		return false
	}
	sum := sha256.Sum256(data)
	return ecdsa.VerifyASN1(k, sum[:], derPair(pair))
}

// derPair is a pair r ‖ s as the library reads it.
func derPair(pair []byte) []byte {
	integer := func(b []byte) []byte {
		b = bytes.TrimLeft(b, "\x00")
		if len(b) == 0 || b[0] >= 0x80 {
			b = append([]byte{0}, b...)
		}
		return append([]byte{2, byte(len(b))}, b...)
	}
	half := len(pair) / 2
	both := append(integer(pair[:half]), integer(pair[half:])...)
	if len(both) > 0x7f { // P-384 stays below 256
		return append([]byte{0x30, 0x81, byte(len(both))}, both...)
	}
	return append([]byte{0x30, byte(len(both))}, both...)
}
