package tdx

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// parsedCollateral is a parsed collateral under a root. It does not depend on the time, and
// never changes.
type parsedCollateral struct {
	info             tcbInfo
	id               qeIdentity
	rootCRL, pckCRL  *x509.RevocationList
	between          *x509.Certificate // whose list pckCRL is
	levels, identity part              // whether info and id are valid
	lists            part              // whether both lists may be
	published        [4]time.Time      // info, id, pckCRL and rootCRL
}

// part is the validity of a part of a collateral.
type part struct {
	err   error // the fault that it has at any time
	spans []span
}

// span is when something is in effect.
type span struct {
	what        string
	from, until time.Time
}

// at says whether a part holds at a time, and until when it will.
func (p *part) at(now time.Time) (until time.Time, err error) {
	if p.err != nil {
		return until, p.err
	}
	return within(p.spans, now)
}

// last is when the content of a part was published.
func (p *part) last() time.Time { return p.spans[len(p.spans)-1].from }

// within says whether everything is in effect, and until when it will be.
func within(spans []span, now time.Time) (until time.Time, err error) {
	for i, s := range spans {
		if s.from.IsZero() || s.until.IsZero() || now.Before(s.from) || now.After(s.until) {
			return time.Time{}, fmt.Errorf("%s is not in effect at this time", s.what)
		}
		if i == 0 || s.until.Before(until) {
			until = s.until
		}
	}
	return until, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// open checks all that does not depend on the time.
func (c *Collateral) open(root Root) *parsedCollateral {
	o := &parsedCollateral{}
	o.levels = c.statement(c.TCBInfoChain, c.TCBInfo, c.TCBInfoSignature, root, &o.info, "TDX", 3)
	o.identity = c.statement(c.QEIdentityChain, c.QEIdentity, c.QEIdentitySignature, root, &o.id, "TD_QE", 2)
	certs, err := signers(c.PCKCRLChain, root)
	if err == nil {
		o.lists.spans = spansOf(certs)
		o.between = certs[0]
		o.pckCRL, err = o.lists.revocations(c.PCKCRL, certs[0])
	}
	if err == nil {
		o.rootCRL, err = o.lists.revocations(c.RootCRL, certs[1])
	}
	o.lists.err = err
	if o.levels.err == nil && o.identity.err == nil && err == nil {
		o.published = [4]time.Time{o.levels.last(), o.identity.last(), o.pckCRL.ThisUpdate, o.rootCRL.ThisUpdate}
	}
	return o
}

// tcbSigner is the signer of Intel's statements about processors and enclaves.
const tcbSigner = "Intel SGX TCB Signing"

// statement reads a statement of Intel's, which must be signed by a certificate that was
// made for this and that the root has not revoked.
func (c *Collateral) statement(chain, data, signature []byte, root Root, into any, id string, version int) (p part) {
	certs, err := signers(chain, root)
	if err != nil {
		return part{err: err}
	}
	p.spans = spansOf(certs)
	crl, err := p.revocations(c.RootCRL, certs[1])
	if err != nil {
		return part{err: err}
	}
	k, err := key(certs[0])
	var head struct {
		ID         string    `json:"id"`
		Version    int       `json:"version"`
		NextUpdate time.Time `json:"nextUpdate"`
		IssueDate  time.Time `json:"issueDate"`
	}
	switch {
	case err != nil:
	case revoked(crl, certs[0]):
		err = errors.New("the certificate of its signer is revoked")
	case certs[0].Subject.CommonName != tcbSigner:
		err = fmt.Errorf("it is signed by %q; expected %q", certs[0].Subject.CommonName, tcbSigner)
	case !signedBy(k, data, signature):
		err = errors.New("its signature is wrong")
	case json.Unmarshal(data, &head) != nil, json.Unmarshal(data, into) != nil, head.ID != id, head.Version != version:
		err = fmt.Errorf("it is not of %s in version %d", id, version)
	}
	p.err = err
	p.spans = append(p.spans, span{"it", head.IssueDate, head.NextUpdate})
	return p
}

// signers are the certificates of a part's signer and of the root. Mirrors and files may
// have white space around them.
func signers(chain []byte, root Root) ([]*x509.Certificate, error) {
	certs, err := certificates(bytes.TrimSpace(chain), 2)
	if err == nil {
		err = lead(certs, root)
	}
	return certs, err
}

// revocations reads a list, which its issuer must have signed.
func (p *part) revocations(der []byte, issuer *x509.Certificate) (*x509.RevocationList, error) {
	of := issuer.Subject.CommonName
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return nil, fmt.Errorf("the revocation list of %q cannot be read: %w", of, err)
	}
	if string(list.RawIssuer) != string(issuer.RawSubject) || list.CheckSignatureFrom(issuer) != nil {
		return nil, fmt.Errorf("the revocation list is not signed by %q", of)
	}
	for _, ext := range list.Extensions {
		if ext.Critical { // such as that it is of some certificates only
			return nil, fmt.Errorf("the revocation list of %q has a critical extension that is not known", of)
		}
	}
	p.spans = append(p.spans, span{fmt.Sprintf("the revocation list of %q", of), list.ThisUpdate, list.NextUpdate})
	return list, nil
}

func revoked(list *x509.RevocationList, c *x509.Certificate) bool {
	for i := range list.RevokedCertificateEntries {
		if list.RevokedCertificateEntries[i].SerialNumber.Cmp(c.SerialNumber) == 0 {
			return true
		}
	}
	return false
}
