package tdx

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"math"
	"time"
)

// processor describes the processor of a PCK certificate.
type processor struct {
	svn    [16]int
	pceSVN int
	pceID  [2]byte
	fmspc  [6]byte
}

var (
	oidSGX    = asn1.ObjectIdentifier{1, 2, 840, 113741, 1, 13, 1}
	errNoSGX  = errors.New("the certificate of the processor does not say which it is for")
	sgxPPID   = append(oidSGX[:len(oidSGX):len(oidSGX)], 1)
	sgxTCB    = append(oidSGX[:len(oidSGX):len(oidSGX)], 2)
	sgxPCEID  = append(oidSGX[:len(oidSGX):len(oidSGX)], 3)
	sgxFMSPC  = append(oidSGX[:len(oidSGX):len(oidSGX)], 4)
	sgxPCESVN = 17 // below sgxTCB
	sgxCPUSVN = 18 // the others in the processor's own form
)

// member is one of an SGX extension: a name and its value.
type member struct {
	ID    asn1.ObjectIdentifier
	Value asn1.RawValue
}

// octets reads a member that is as many bytes.
func (m *member) octets(into []byte) bool {
	v := &m.Value
	return v.Class == asn1.ClassUniversal && v.Tag == asn1.TagOctetString && !v.IsCompound &&
		len(v.Bytes) == len(into) && copy(into, v.Bytes) == len(into)
}

// processorOf reads the extension of a PCK certificate, in which each member must be there
// once.
func processorOf(leaf *x509.Certificate) (*processor, error) {
	var list []member
	for _, ext := range leaf.Extensions {
		if !ext.Id.Equal(oidSGX) {
			continue
		}
		if rest, err := asn1.Unmarshal(ext.Value, &list); err != nil || len(rest) > 0 {
			return nil, errNoSGX
		}
	}
	p, seen := &processor{}, map[string]bool{}
	for _, m := range list {
		name := m.ID.String()
		if seen[name] || len(m.ID) != len(oidSGX)+1 || !m.ID[:len(oidSGX)].Equal(oidSGX) {
			return nil, errNoSGX
		}
		seen[name] = true
		ok := true
		switch {
		case m.ID.Equal(sgxPPID):
			ok = m.octets(make([]byte, 16))
		case m.ID.Equal(sgxTCB):
			ok = p.levels(m.Value.FullBytes)
		case m.ID.Equal(sgxPCEID):
			ok = m.octets(p.pceID[:])
		case m.ID.Equal(sgxFMSPC):
			ok = m.octets(p.fmspc[:])
		}
		if !ok {
			return nil, errNoSGX
		}
	}
	if !seen[sgxTCB.String()] || !seen[sgxPCEID.String()] || !seen[sgxFMSPC.String()] {
		return nil, errNoSGX
	}
	return p, nil
}

// levels reads the security versions of a processor's parts.
func (p *processor) levels(der []byte) bool {
	var list []member
	if rest, err := asn1.Unmarshal(der, &list); err != nil || len(rest) > 0 || len(list) != sgxCPUSVN {
		return false
	}
	seen := 0
	for _, m := range list {
		if len(m.ID) != len(sgxTCB)+1 || !m.ID[:len(sgxTCB)].Equal(sgxTCB) {
			return false
		}
		at := m.ID[len(sgxTCB)]
		if at == sgxCPUSVN && !m.octets(make([]byte, 16)) {
			return false
		}
		if at < 1 || at > sgxPCESVN {
			continue
		}
		var v int
		most := math.MaxUint8
		if at == sgxPCESVN {
			most = math.MaxUint16
		}
		if rest, err := asn1.Unmarshal(m.Value.FullBytes, &v); err != nil || len(rest) > 0 || v < 0 || v > most ||
			seen&(1<<at) != 0 {
			return false
		}
		seen |= 1 << at
		if at == sgxPCESVN {
			p.pceSVN = v
		} else {
			p.svn[at-1] = v
		}
	}
	return seen == 1<<(sgxPCESVN+1)-2
}

// verifiedChain is a chain that was found to lead to a root.
type verifiedChain struct {
	chain []byte
	root  Root
	certs []*x509.Certificate
}

// certificates are those of the processor, the intermediate and the root.
func (q *Quote) certificates(root Root) ([]*x509.Certificate, error) {
	if q.led != nil && q.led.root == root && bytes.Equal(q.led.chain, q.chain) {
		return q.led.certs, nil
	}
	certs, err := certificates(q.chain, 3)
	if err == nil {
		err = lead(certs, root)
	}
	if err == nil {
		err = ofProcessor(certs)
	}
	return certs, err
}

// FMSPC names the kind of processor that a quote comes from, and CA the intermediate that
// certified it: both find its collateral. Their certificates must lead to the root: no
// service is asked about names that a host made up. Verify goes on with them, so that it
// must not be under way.
func (q *Quote) FMSPC(root Root, now time.Time) (fmspc [6]byte, ca string, err error) {
	certs, err := q.certificates(root)
	if err == nil {
		_, err = within(spansOf(certs), now)
	}
	if err != nil {
		return fmspc, "", err
	}
	q.led = &verifiedChain{q.chain, root, certs}
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
