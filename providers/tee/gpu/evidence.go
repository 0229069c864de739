package gpu

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Root is the SHA-256 of a certificate that the devices' chains must end at.
type Root [sha256.Size]byte

// NVIDIA is the NVIDIA Device Identity CA.
var NVIDIA = Root{
	0x10, 0x2b, 0xf6, 0x59, 0xd5, 0x41, 0x96, 0x14, 0xc9, 0xd8, 0xe6, 0xae, 0xce, 0xbc, 0x80, 0x45,
	0x4e, 0xb2, 0x6b, 0x1d, 0xf6, 0xa7, 0x69, 0xac, 0x72, 0x0b, 0x9a, 0x69, 0x0b, 0x16, 0x7b, 0x48,
}

// Check is that of a Known that knows nothing.
func (p *Payload) Check(nonce [32]byte, root Root, now time.Time) error {
	return new(Known).Check(p, nonce, root, now)
}

// Check checks every device's chain and signature, and that it answered the nonce, once.
func (k *Known) Check(p *Payload, nonce [32]byte, root Root, now time.Time) error {
	if p.Nonce != hex.EncodeToString(nonce[:]) {
		return ErrNonce
	}
	seen := make([]*ecdsa.PublicKey, 0, maxDevices)
	for i := range p.Evidence {
		e := &p.Evidence[i]
		device, err := k.device(e, root, now)
		switch {
		case err != nil:
		case slices.ContainsFunc(seen, func(other *ecdsa.PublicKey) bool { return other.Equal(device) }):
			err = errTwice
		default:
			err = e.answered(nonce, device)
		}
		if err != nil {
			return fmt.Errorf("device %d: %w", i, err)
		}
		seen = append(seen, device)
	}
	return nil
}

// The faults of evidence, in words without a serial number. ErrNonce is evidence that was
// made for another nonce.
var (
	ErrNonce     = errors.New("it answers another nonce")
	errForm      = errors.New("its evidence is not of the known form")
	errChain     = errors.New("its certificates do not lead to NVIDIA")
	errTwice     = errors.New("it is in the list twice")
	errSignature = errors.New("its evidence is not signed by it")
)

// answered checks that a device signed measurements for a nonce.
func (e *Evidence) answered(nonce [32]byte, device *ecdsa.PublicKey) error {
	raw, err := base64.StdEncoding.DecodeString(e.Evidence)
	if err != nil || len(raw) > maxEvidence {
		return errForm
	}
	m, err := readMeasurements(raw)
	if err != nil {
		return err
	}
	if m.nonce != nonce {
		return ErrNonce
	}
	sum := sha512.Sum384(m.signed)
	r, s := new(big.Int).SetBytes(m.signature[:pairBytes/2]), new(big.Int).SetBytes(m.signature[pairBytes/2:])
	if !ecdsa.Verify(device, sum[:], r, s) {
		return errSignature
	}
	return nil
}

// signs checks that an issuer, which is marked as such, signed a certificate.
func signs(issuer, c *x509.Certificate) bool {
	return issuer.IsCA && (issuer.KeyUsage == 0 || issuer.KeyUsage&x509.KeyUsageCertSign != 0) &&
		bytes.Equal(c.RawIssuer, issuer.RawSubject) &&
		issuer.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}

// trimmed cuts the padding of devices' chains.
func trimmed(text []byte) []byte { return bytes.Trim(text, "\x00 \r\n\t") }
