package gpu

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"sync"
	"time"
)

// Known remembers certificates that were found to lead to a root, so that those which
// devices have in common, and a device's own at its next answer, are checked once: of a
// payload of eight devices that leaves eight signatures of forty. Their validity is checked
// each time. Safe for concurrent use; the zero value is empty.
type Known struct {
	mu    sync.Mutex
	links map[[sha256.Size]byte]*link
}

// maxLinks bounds them: two a device, and few that are shared. Only certificates of
// NVIDIA's get here.
const maxLinks = 1024

// link is a certificate that leads to a root, by way of certain others.
type link struct {
	*x509.Certificate
	from, until time.Time // of all of them together
}

// device is the key of a device whose chain ends at the root.
func (k *Known) device(e *Evidence, root Root, now time.Time) (*ecdsa.PublicKey, error) {
	chain, err := e.chain()
	if err != nil {
		return nil, err
	}
	var at *link
	var name [sha256.Size]byte // hash of the certificates so far
	for i := len(chain) - 1; i >= 0; i-- {
		name = sha256.Sum256(append(name[:], chain[i]...))
		if at, err = k.next(name, chain[i], at, root); err != nil {
			return nil, err
		}
	}
	if now.Before(at.from) || now.After(at.until) {
		return nil, errChain
	}
	key, ok := at.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P384() {
		return nil, errChain
	}
	return key, nil
}

// next goes from an issuer to the certificate that it signed; nil: it must be the root.
func (k *Known) next(name [sha256.Size]byte, der []byte, issuer *link, root Root) (*link, error) {
	if issuer == nil && sha256.Sum256(der) != root {
		return nil, errChain
	}
	k.mu.Lock()
	at := k.links[name]
	k.mu.Unlock()
	if at != nil {
		return at, nil
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, errChain
	}
	at = &link{c, c.NotBefore, c.NotAfter}
	if issuer != nil {
		if !signs(issuer.Certificate, c) {
			return nil, errChain
		}
		if issuer.from.After(at.from) {
			at.from = issuer.from
		}
		if issuer.until.Before(at.until) {
			at.until = issuer.until
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.links == nil || len(k.links) >= maxLinks {
		k.links = map[[sha256.Size]byte]*link{}
	}
	k.links[name] = at
	return at, nil
}

// chain are the certificates of a device, the device's own first.
func (e *Evidence) chain() (ders [][]byte, err error) {
	text, err := base64.StdEncoding.DecodeString(e.Certificate)
	if err != nil || len(text) > maxChainBytes {
		return nil, errChain
	}
	for rest := trimmed(text); len(rest) > 0; rest = trimmed(rest) {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil || block.Type != "CERTIFICATE" || len(ders) == maxChain {
			return nil, errChain
		}
		ders = append(ders, block.Bytes)
	}
	if len(ders) < 2 {
		return nil, errChain
	}
	return ders, nil
}
