package tdx

import (
	"bytes"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Collateral is what Intel publishes of one kind of processor, as it was fetched:
// nothing of it is believed before Verify has checked it.
type Collateral struct {
	PCKCRLChain []byte // PEM: the intermediate, the root
	RootCRL     []byte // DER
	PCKCRL      []byte // DER, of the intermediate

	TCBInfoChain     []byte // PEM: the signer, the root
	TCBInfo          []byte // the very bytes that are signed
	TCBInfoSignature []byte // r ‖ s

	QEIdentityChain     []byte
	QEIdentity          []byte
	QEIdentitySignature []byte
}

// ParseCollateral reads a file as saved by tools of dstack: members with the names of
// Intel's library, lists and signatures in hexadecimal digits.
func ParseCollateral(file []byte) (*Collateral, error) {
	var f struct {
		PCKCRLIssuerChain     string `json:"pck_crl_issuer_chain"`
		RootCACRL             string `json:"root_ca_crl"`
		PCKCRL                string `json:"pck_crl"`
		TCBInfoIssuerChain    string `json:"tcb_info_issuer_chain"`
		TCBInfo               string `json:"tcb_info"`
		TCBInfoSignature      string `json:"tcb_info_signature"`
		QEIdentityIssuerChain string `json:"qe_identity_issuer_chain"`
		QEIdentity            string `json:"qe_identity"`
		QEIdentitySignature   string `json:"qe_identity_signature"`
	}
	if err := json.Unmarshal(file, &f); err != nil {
		return nil, fmt.Errorf("cannot read the collateral: %w", err)
	}
	c := &Collateral{PCKCRLChain: []byte(f.PCKCRLIssuerChain), TCBInfoChain: []byte(f.TCBInfoIssuerChain),
		TCBInfo: []byte(f.TCBInfo), QEIdentityChain: []byte(f.QEIdentityIssuerChain), QEIdentity: []byte(f.QEIdentity)}
	for text, to := range map[*string]*[]byte{&f.RootCACRL: &c.RootCRL, &f.PCKCRL: &c.PCKCRL,
		&f.TCBInfoSignature: &c.TCBInfoSignature, &f.QEIdentitySignature: &c.QEIdentitySignature} {
		raw, err := hex.DecodeString(*text)
		if err != nil || len(raw) == 0 {
			return nil, errors.New("cannot read the collateral: a list or signature is missing or not in hexadecimal digits")
		}
		*to = raw
	}
	return c, nil
}

// Check says whether all of it is signed under a root and of a kind of processor, and
// until when. Verify checks it again.
func (c *Collateral) Check(root Root, fmspc [6]byte, now time.Time) (until time.Time, err error) {
	info, until, err := c.tcbInfo(root, now)
	if err != nil {
		return until, fmt.Errorf("the levels of the processor: %w", err)
	}
	if !bytes.Equal(info.FMSPC, fmspc[:]) {
		return until, errors.New("the levels are of another kind of processor")
	}
	_, ends, err := c.qeIdentity(root, now)
	if err != nil {
		return until, fmt.Errorf("the identity of the quoting enclave: %w", err)
	}
	until = earlier(until, ends)
	certs, err := certificates(c.PCKCRLChain, 2)
	if err == nil {
		err = lead(certs, root, now)
	}
	if err != nil {
		return until, fmt.Errorf("the list of revoked processors: %w", err)
	}
	ofPCK, err := revocations(c.PCKCRL, certs[0], now)
	if err != nil {
		return until, err
	}
	ofRoot, err := revocations(c.RootCRL, certs[1], now)
	if err != nil {
		return until, err
	}
	return earlier(until, earlier(ofPCK.NextUpdate, ofRoot.NextUpdate)), nil
}

// tcbSigner is who signs what Intel says of processors and enclaves.
const tcbSigner = "Intel SGX TCB Signing"

// signed checks that bytes are signed by a certificate that Intel made for this, which
// the root has not revoked, and gives when the certificate ends.
func signedByIntel(chain, data, signature []byte, root Root, rootCRL []byte, now time.Time) (ends time.Time, err error) {
	certs, err := certificates(chain, 2)
	if err != nil {
		return ends, err
	}
	if err := lead(certs, root, now); err != nil {
		return ends, err
	}
	crl, err := revocations(rootCRL, certs[1], now)
	if err != nil {
		return ends, err
	}
	if revoked(crl, certs[0]) {
		return ends, errors.New("the certificate of its signer is revoked")
	}
	if certs[0].Subject.CommonName != tcbSigner {
		return ends, fmt.Errorf("it is signed by %q; expected %q", certs[0].Subject.CommonName, tcbSigner)
	}
	k, err := key(certs[0])
	if err != nil {
		return ends, err
	}
	if !signedBy(k, data, signature) {
		return ends, errors.New("its signature is wrong")
	}
	return certs[0].NotAfter, nil
}

// hexBytes are bytes that stand in hexadecimal digits of either case.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// level is a state of patches and what Intel says of it.
type level struct {
	TCB struct {
		ISVSVN *int `json:"isvsvn"`
		SGX    []struct {
			SVN int `json:"svn"`
		} `json:"sgxtcbcomponents"`
		PCESVN int `json:"pcesvn"`
		TDX    []struct {
			SVN int `json:"svn"`
		} `json:"tdxtcbcomponents"`
	} `json:"tcb"`
	Status     string   `json:"tcbStatus"`
	Advisories []string `json:"advisoryIDs"`
}

// module is the TDX module that a domain may run under.
type module struct {
	ID             string   `json:"id"`
	MRSigner       hexBytes `json:"mrsigner"`
	Attributes     hexBytes `json:"attributes"`
	AttributesMask hexBytes `json:"attributesMask"`
	Levels         []level  `json:"tcbLevels"`
}

// tcbInfo is what Intel says of processors of one kind.
type tcbInfo struct {
	ID         string    `json:"id"`
	Version    int       `json:"version"`
	NextUpdate time.Time `json:"nextUpdate"`
	IssueDate  time.Time `json:"issueDate"`
	FMSPC      hexBytes  `json:"fmspc"`
	PCEID      hexBytes  `json:"pceId"`
	Module     module    `json:"tdxModule"`
	Modules    []module  `json:"tdxModuleIdentities"`
	Levels     []level   `json:"tcbLevels"`
}

// qeIdentity is what Intel says of its quoting enclave.
type qeIdentity struct {
	ID             string    `json:"id"`
	Version        int       `json:"version"`
	NextUpdate     time.Time `json:"nextUpdate"`
	IssueDate      time.Time `json:"issueDate"`
	MiscSelect     hexBytes  `json:"miscselect"`
	MiscSelectMask hexBytes  `json:"miscselectMask"`
	Attributes     hexBytes  `json:"attributes"`
	AttributesMask hexBytes  `json:"attributesMask"`
	MRSigner       hexBytes  `json:"mrsigner"`
	ISVProdID      int       `json:"isvprodid"`
	Levels         []level   `json:"tcbLevels"`
}

// in says whether now lies in the time for which something was published.
func in(issued, next, now time.Time) error {
	if issued.IsZero() || next.IsZero() || now.Before(issued) || now.After(next) {
		return errors.New("it is not in effect at this time")
	}
	return nil
}

func (c *Collateral) tcbInfo(root Root, now time.Time) (*tcbInfo, time.Time, error) {
	ends, err := signedByIntel(c.TCBInfoChain, c.TCBInfo, c.TCBInfoSignature, root, c.RootCRL, now)
	if err != nil {
		return nil, ends, err
	}
	info := &tcbInfo{}
	if err := json.Unmarshal(c.TCBInfo, info); err != nil || info.ID != "TDX" || info.Version != 3 {
		return nil, ends, errors.New("it is not of TDX in version 3")
	}
	return info, earlier(ends, info.NextUpdate), in(info.IssueDate, info.NextUpdate, now)
}

func (c *Collateral) qeIdentity(root Root, now time.Time) (*qeIdentity, time.Time, error) {
	ends, err := signedByIntel(c.QEIdentityChain, c.QEIdentity, c.QEIdentitySignature, root, c.RootCRL, now)
	if err != nil {
		return nil, ends, err
	}
	id := &qeIdentity{}
	if err := json.Unmarshal(c.QEIdentity, id); err != nil || id.ID != "TD_QE" || id.Version != 2 {
		return nil, ends, errors.New("it is not of the quoting enclave of TDX in version 2")
	}
	return id, earlier(ends, id.NextUpdate), in(id.IssueDate, id.NextUpdate, now)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// masked says whether two values agree where the mask has ones. All must be of one
// length, which is not none.
func masked(got, want, mask []byte) bool {
	if len(got) == 0 || len(got) != len(want) || len(got) != len(mask) {
		return false
	}
	for i := range got {
		if got[i]&mask[i] != want[i]&mask[i] {
			return false
		}
	}
	return true
}

// FMSPC names the kind of processor that a quote comes from, and CA which intermediate
// certified it: what its collateral is found by. Neither is checked here.
func (q *Quote) FMSPC() (fmspc [6]byte, ca string, err error) {
	certs, err := certificates(q.chain, 3)
	if err != nil {
		return fmspc, "", err
	}
	p, err := processorOf(certs[0])
	if err != nil {
		return fmspc, "", err
	}
	ca = "processor"
	if certs[0].Issuer.CommonName == pckPlatformCA {
		ca = "platform"
	}
	return p.fmspc, ca, nil
}

// pckCRL is the list of a quote's intermediate, which must be the one that the
// collateral is for.
func (c *Collateral) pckCRL(issuer *x509.Certificate, now time.Time) (*x509.RevocationList, error) {
	certs, err := certificates(c.PCKCRLChain, 2)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(certs[0].RawSubject, issuer.RawSubject) {
		return nil, errors.New("the revocation list is of another issuer")
	}
	return revocations(c.PCKCRL, issuer, now)
}
