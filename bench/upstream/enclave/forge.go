package enclave

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
)

// Forgery changes a quote before it is signed, which takes the keys of the authority. A nil
// member leaves its part as it is.
type Forgery struct {
	Signed func(quote []byte)  // header and body, before they are signed
	Report func(report []byte) // of the quoting enclave, before it is signed
	// Certificates that are issued anew, with the keys that they have.
	Leaf, Between, Root func(*x509.Certificate)
	Chain               func(pem []byte) []byte // the certificates, as the quote shows them
}

// Forge makes a quote as Quote does, with the changes of a Forgery.
func (e *Enclave) Forge(data [64]byte, f Forgery) ([]byte, error) {
	m, by := *e.machine, *e.machine.by
	m.by, m.forgery = &by, f
	root := &by.root
	if f.Root != nil {
		if err := by.root.again(root, f.Root); err != nil {
			return nil, err
		}
	}
	if f.Between != nil {
		if err := by.pckCA.again(root, f.Between); err != nil {
			return nil, err
		}
	}
	if f.Leaf != nil {
		if err := m.pck.again(&by.pckCA, f.Leaf); err != nil {
			return nil, err
		}
	}
	return m.quoteOf(e.domain(data))
}

// again issues a certificate once more, changed.
func (c *cert) again(by *cert, change func(*x509.Certificate)) error {
	t := *c.Certificate
	t.RawSubject, t.ExtraExtensions = nil, nil
	for _, ext := range c.Extensions {
		if ext.Id.Equal(oidSGX) {
			t.ExtraExtensions = []pkix.Extension{ext}
		}
	}
	change(&t)
	parent := by.Certificate
	if by == c {
		parent = &t
	}
	der, err := x509.CreateCertificate(rand.Reader, &t, parent, c.key.Public(), by.key)
	if err != nil {
		return fmt.Errorf("cannot make the certificate %q: %w", t.Subject.CommonName, err)
	}
	c.Certificate, err = x509.ParseCertificate(der)
	return err
}
