package enclave

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// authority plays the part of Intel: a root, the issuer of processors' certificates, and the
// signer of collateral.
type authority struct {
	root, pckCA, signer cert
}

// cert is a certificate with its key.
type cert struct {
	*x509.Certificate
	key *ecdsa.PrivateKey
}

const testOnly = "TEST ONLY"

func subject(name string) pkix.Name {
	return pkix.Name{CommonName: name, Organization: []string{testOnly}, Country: []string{"XX"}}
}

// newAuthority makes one whose certificates hold around a time.
func newAuthority(now time.Time) (*authority, error) {
	a := &authority{}
	var err error
	if a.root, err = issue(nil, subject("Intel SGX Root CA"), true, now, elliptic.P256()); err != nil {
		return nil, err
	}
	if a.pckCA, err = issue(&a.root, subject("Intel SGX PCK Platform CA"), true, now, elliptic.P256()); err != nil {
		return nil, err
	}
	a.signer, err = issue(&a.root, subject("Intel SGX TCB Signing"), false, now, elliptic.P256())
	return a, err
}

// issue makes a certificate that an issuer signs; nil: it signs itself.
func issue(by *cert, name pkix.Name, ca bool, now time.Time, curve elliptic.Curve, more ...pkix.Extension) (c cert,
	err error) {
	if c.key, err = ecdsa.GenerateKey(curve, rand.Reader); err != nil {
		return c, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return c, err
	}
	usage := x509.KeyUsageDigitalSignature
	if ca {
		usage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	}
	t := &x509.Certificate{SerialNumber: serial, Subject: name, NotBefore: now.Add(-24 * time.Hour),
		NotAfter: now.AddDate(10, 0, 0), IsCA: ca, BasicConstraintsValid: true, KeyUsage: usage, ExtraExtensions: more,
		CRLDistributionPoints: []string{"https://certificates.example/root.crl"}}
	if t.SubjectKeyId, err = keyID(c.key); err != nil {
		return c, err
	}
	parent, key := t, c.key
	if by != nil {
		parent, key = by.Certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, c.key.Public(), key)
	if err != nil {
		return c, fmt.Errorf("cannot make the certificate %q: %w", name.CommonName, err)
	}
	c.Certificate, err = x509.ParseCertificate(der)
	return c, err
}

// keyID is the name of a key: real certificates of processors have it, and readers count
// their extensions.
func keyID(key *ecdsa.PrivateKey) ([]byte, error) {
	point, err := key.PublicKey.Bytes()
	sum := sha256.Sum256(point)
	return sum[:20], err
}

// crl is the list of an issuer's revocations.
func (c *cert) crl(now, next time.Time, revoked ...*x509.Certificate) ([]byte, error) {
	t := &x509.RevocationList{Number: big.NewInt(now.Unix()), ThisUpdate: now.Add(-time.Minute), NextUpdate: next}
	for _, r := range revoked {
		t.RevokedCertificateEntries = append(t.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: r.SerialNumber, RevocationTime: now.Add(-time.Minute)})
	}
	return x509.CreateRevocationList(rand.Reader, t, c.Certificate, c.key)
}

// sign makes r ‖ s over the SHA-256 of data.
func (c *cert) sign(data []byte) ([]byte, error) {
	sum := sha256.Sum256(data)
	return pair(c.key, sum[:])
}

func pair(key *ecdsa.PrivateKey, sum []byte) ([]byte, error) {
	r, s, err := ecdsa.Sign(rand.Reader, key, sum)
	if err != nil {
		return nil, err
	}
	half := (key.Params().BitSize + 7) / 8
	return append(r.FillBytes(make([]byte, half)), s.FillBytes(make([]byte, half))...), nil
}

func pems(certs ...*x509.Certificate) (text []byte) {
	for _, c := range certs {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return text
}

// processor is the description of a processor in a PCK certificate: its parts are all at
// one version.
type processor struct {
	fmspc  [6]byte
	svn    int
	pceSVN int
}

var oidSGX = asn1.ObjectIdentifier{1, 2, 840, 113741, 1, 13, 1}

func below(n ...int) asn1.ObjectIdentifier {
	return append(append(asn1.ObjectIdentifier{}, oidSGX...), n...)
}

// extension is the one of SGX that a PCK certificate has.
func (p processor) extension() (pkix.Extension, error) {
	type number struct {
		ID asn1.ObjectIdentifier
		V  int
	}
	type octets struct {
		ID asn1.ObjectIdentifier
		V  []byte
	}
	type tcb struct {
		ID asn1.ObjectIdentifier
		V  []asn1.RawValue
	}
	raw := func(v any) (r asn1.RawValue, err error) {
		r.FullBytes, err = asn1.Marshal(v)
		return r, err
	}
	var levels []asn1.RawValue
	for i := range 16 {
		r, err := raw(number{below(2, i+1), p.svn})
		if err != nil {
			return pkix.Extension{}, err
		}
		levels = append(levels, r)
	}
	var all []asn1.RawValue
	for _, v := range []any{number{below(2, 17), p.pceSVN}, octets{below(2, 18), make([]byte, 16)}} {
		r, err := raw(v)
		if err != nil {
			return pkix.Extension{}, err
		}
		levels = append(levels, r)
	}
	for _, v := range []any{octets{below(1), make([]byte, 16)}, tcb{below(2), levels}, octets{below(3), make([]byte, 2)},
		octets{below(4), p.fmspc[:]}} {
		r, err := raw(v)
		if err != nil {
			return pkix.Extension{}, err
		}
		all = append(all, r)
	}
	value, err := asn1.Marshal(all)
	return pkix.Extension{Id: oidSGX, Value: value}, err
}
