package tdx

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// Check is one of the required checks. Err is why it does not hold.
type Check struct {
	Name string
	Err  error
	// Unmade is why the check was not made; empty: it was made.
	Unmade string
}

// Holds says that the check was made and holds.
func (c *Check) Holds() bool { return c.Err == nil && c.Unmade == "" }

// Names of the checks, in their order.
const (
	CheckChain      = "certificate_chain"
	CheckRevocation = "revocation"
	CheckQE         = "quoting_enclave_report"
	CheckKey        = "attestation_key"
	CheckSignature  = "quote_signature"
	CheckQEIdentity = "quoting_enclave_identity"
	CheckTCBInfo    = "tcb_info"
	CheckTCB        = "tcb_status"
	CheckDebug      = "debug_off"
)

// Checks are the names of all checks of a quote.
var Checks = []string{CheckChain, CheckRevocation, CheckQE, CheckKey, CheckSignature, CheckTCBInfo, CheckQEIdentity,
	CheckTCB, CheckDebug}

// Verdict is the result of a quote's checks.
type Verdict struct {
	Checks []Check // all, those that hold as well
	// Status and Advisories are of the platform, where CheckTCBInfo and CheckQEIdentity
	// hold.
	Status     string
	Advisories []string
	// Until is the earliest expiry of the evidence.
	Until time.Time
	// Checked says that the lists of revocations were in effect and searched, and
	// Revoked that a certificate is there.
	Checked, Revoked bool
}

// Valid says that every check holds.
func (v *Verdict) Valid() bool {
	return len(v.Checks) > 0 && !slices.ContainsFunc(v.Checks, func(c Check) bool { return c.Err != nil })
}

// Holds says that a check was made and holds.
func (v *Verdict) Holds(name string) bool {
	at := slices.IndexFunc(v.Checks, func(c Check) bool { return c.Name == name })
	return at >= 0 && v.Checks[at].Holds()
}

func (v *Verdict) note(name string, err error) bool {
	v.Checks = append(v.Checks, Check{Name: name, Err: err})
	return err == nil
}

// Policy is the set of accepted quotes.
type Policy struct {
	Root   Root
	Accept []string // statuses; Revoked never is
}

// ErrNoCollateral is the error of checks that need the missing collateral.
var ErrNoCollateral = errors.New("there is no collateral for this processor")

var errEarlier = errors.New("an earlier check did not hold")

// Verify checks a quote as of a time. Without a collateral only the quote's own checks can
// hold.
func (q *Quote) Verify(c *Collateral, p *Policy, now time.Time) *Verdict {
	v := &Verdict{}
	certs, err := q.certificates(p.Root)
	if err == nil {
		v.Until, err = within(spansOf(certs), now)
	}
	chained := v.note(CheckChain, err)
	var o *parsedCollateral
	if c != nil {
		o = c.under(p.Root)
	}
	v.note(CheckRevocation, q.revocation(o, certs, chained, v, now))
	v.note(CheckQE, q.report(certs, chained))
	v.note(CheckKey, q.bound())
	v.note(CheckSignature, q.signatureOf())
	platform, module := q.standings(o, certs, chained, v, now)
	qe := q.enclave(o, v, now)
	if v.Holds(CheckTCBInfo) && v.Holds(CheckQEIdentity) {
		all := together(platform, module, qe)
		v.Status, v.Advisories = all.status, all.advisories
		v.note(CheckTCB, accepted(v.Status, p.Accept))
	} else {
		v.note(CheckTCB, errEarlier)
	}
	err = nil
	if q.Body.Debug() {
		err = errors.New("the domain can be debugged: its memory is open to its host")
	}
	v.note(CheckDebug, err)
	return v
}

func accepted(status string, accept []string) error {
	if status == Revoked || !slices.Contains(accept, status) {
		return errors.New("the platform is " + status + ", which the policy does not accept")
	}
	return nil
}

func (q *Quote) revocation(o *parsedCollateral, certs []*x509.Certificate, chained bool, v *Verdict, now time.Time) error {
	switch {
	case !chained:
		return errEarlier
	case o == nil:
		return ErrNoCollateral
	}
	ends, err := o.lists.at(now)
	if err != nil {
		return err
	}
	// Another certificate of the same key signs the same lists.
	if by := certs[1]; !bytes.Equal(by.RawSubject, o.between.RawSubject) ||
		!bytes.Equal(by.RawSubjectPublicKeyInfo, o.between.RawSubjectPublicKeyInfo) {
		return errors.New("the revocation list is of another issuer")
	}
	v.Until = earlier(v.Until, ends)
	v.Checked, v.Revoked = true, revoked(o.rootCRL, certs[1]) || revoked(o.pckCRL, certs[0])
	if v.Revoked {
		return errors.New("a certificate of the processor is revoked")
	}
	return nil
}

// report checks that the processor's key signed the identity of the quoting enclave.
func (q *Quote) report(certs []*x509.Certificate, chained bool) error {
	if !chained {
		return errEarlier
	}
	k, err := key(certs[0])
	if err != nil {
		return err
	}
	if !signedBy(k, q.qeReport, q.qeSignature) {
		return errors.New("the report of the quoting enclave is not signed by the processor")
	}
	return nil
}

// bound checks that the quoting enclave vouches for the key that signed the quote.
func (q *Quote) bound() error {
	h := sha256.New()
	h.Write(q.key)
	h.Write(q.qeAuth)
	want := append(h.Sum(nil), make([]byte, 32)...)
	if !bytes.Equal(q.qeReport[qeReportData:qeReportData+64], want) {
		return errors.New("the quoting enclave does not vouch for the key of the quote")
	}
	return nil
}

func (q *Quote) signatureOf() error {
	k, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append([]byte{4}, q.key...))
	if err != nil {
		return errors.New("the key of the quote is not on its curve")
	}
	if !signedBy(k, q.signed, q.signature) {
		return errors.New("the quote is not signed by its key")
	}
	return nil
}

// standings are those of the platform and of its TDX module.
func (q *Quote) standings(o *parsedCollateral, certs []*x509.Certificate, chained bool, v *Verdict,
	now time.Time) (platform, module standing) {
	if !chained || o == nil {
		v.note(CheckTCBInfo, errEarlierOr(chained))
		return platform, module
	}
	ends, err := o.levels.at(now)
	var of *processor
	if err == nil {
		of, err = processorOf(certs[0])
	}
	if err == nil {
		platform, err = o.info.platform(of, &q.Body)
	}
	if err == nil {
		module, err = o.info.module(&q.Body)
	}
	if v.note(CheckTCBInfo, err) {
		v.Until = earlier(v.Until, ends)
	}
	return platform, module
}

func errEarlierOr(chained bool) error {
	if !chained {
		return errEarlier
	}
	return ErrNoCollateral
}

// enclave checks that the quoting enclave is Intel's, and gives its status.
func (q *Quote) enclave(o *parsedCollateral, v *Verdict, now time.Time) (s standing) {
	if o == nil {
		v.note(CheckQEIdentity, ErrNoCollateral)
		return s
	}
	ends, err := o.identity.at(now)
	if err == nil {
		s, err = o.id.standing(q.qeReport)
	}
	if v.note(CheckQEIdentity, err) {
		v.Until = earlier(v.Until, ends)
	}
	return s
}

func (id *qeIdentity) standing(report []byte) (standing, error) {
	// It is written as a number, and is in the report with its lowest byte first.
	misc := slices.Clone(report[qeMiscSelect : qeMiscSelect+4])
	slices.Reverse(misc)
	switch {
	case !bytes.Equal(report[qeMRSigner:qeMRSigner+signatureBytesOfQE], id.MRSigner),
		int(binary.LittleEndian.Uint16(report[qeISVProdID:])) != id.ISVProdID,
		!masked(misc, id.MiscSelect, id.MiscSelectMask),
		!masked(report[qeAttributes:qeAttributes+16], id.Attributes, id.AttributesMask):
		return standing{}, errors.New("the quoting enclave is not Intel's")
	}
	return at(id.Levels, int(binary.LittleEndian.Uint16(report[qeISVSVN:])))
}
