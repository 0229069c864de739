package tdx

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Collateral is Intel's publication about one kind of processor, as it was fetched: nothing
// of it is trusted before Verify has checked it.
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

	kept *verifiedCollateral // nil: nothing is remembered
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

// Check says whether all of it is signed under a root and of a kind of processor, and until
// when. It is for the fetcher, before others have it: from then on the verdict on its
// signatures is remembered, and Verify checks the time alone.
func (c *Collateral) Check(root Root, fmspc [6]byte, now time.Time) (until time.Time, err error) {
	c.kept = &verifiedCollateral{}
	o := c.under(root)
	for i, p := range []struct {
		name string
		part *part
	}{{"the levels of the processor", &o.levels}, {"the identity of the quoting enclave", &o.identity},
		{"the revocation lists", &o.lists}} {
		ends, err := p.part.at(now)
		if err != nil {
			return time.Time{}, fmt.Errorf("%s: %w", p.name, err)
		}
		if i == 0 {
			until = ends
		}
		until = earlier(until, ends)
	}
	if !bytes.Equal(o.info.FMSPC, fmspc[:]) {
		return time.Time{}, errors.New("the levels are of another kind of processor")
	}
	return until, nil
}

// Older says whether a part of it was published before that of another: a mirror may serve
// a version from before a hole was known. Both were checked under the root.
func (c *Collateral) Older(than *Collateral, root Root) bool {
	before := than.under(root).published
	for i, at := range c.under(root).published {
		if at.Before(before[i]) {
			return true
		}
	}
	return false
}

// verifiedCollateral is the verdict on a collateral under a root. Both are keyed by the hash of all their bytes:
// nothing can be taken for another, be it a copy with a member changed.
type verifiedCollateral struct {
	mu   sync.Mutex
	name [sha256.Size]byte
	*parsedCollateral
}

// under parses a collateral under a root. Signatures, which take time, are
// checked once where it is remembered.
func (c *Collateral) under(root Root) *parsedCollateral {
	if c.kept == nil {
		return c.open(root)
	}
	name := c.name(root)
	c.kept.mu.Lock()
	defer c.kept.mu.Unlock()
	if c.kept.parsedCollateral == nil || c.kept.name != name {
		c.kept.name, c.kept.parsedCollateral = name, c.open(root)
	}
	return c.kept.parsedCollateral
}

func (c *Collateral) name(root Root) (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write(root[:])
	var size [8]byte
	for _, b := range [][]byte{c.PCKCRLChain, c.RootCRL, c.PCKCRL, c.TCBInfoChain, c.TCBInfo, c.TCBInfoSignature,
		c.QEIdentityChain, c.QEIdentity, c.QEIdentitySignature} {
		binary.LittleEndian.PutUint64(size[:], uint64(len(b)))
		h.Write(size[:])
		h.Write(b)
	}
	h.Sum(sum[:0])
	return sum
}
