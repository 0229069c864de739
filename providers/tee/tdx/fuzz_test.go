package tdx

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"farebox/bench/upstream/enclave"
)

// FuzzProcessor: no extension panics, and its bytes contain the FMSPC and the PCE id.
func FuzzProcessor(f *testing.F) {
	q, _, _ := made(f, enclave.Options{})
	certs, err := certificates(q.chain, 3)
	if err != nil {
		f.Fatal(err)
	}
	for _, ext := range certs[0].Extensions {
		if ext.Id.Equal(oidSGX) {
			f.Add(ext.Value)
			f.Add(ext.Value[:len(ext.Value)/2])
		}
	}
	f.Add([]byte{0x30, 0})
	f.Fuzz(func(t *testing.T, value []byte) {
		p, err := processorOf(&x509.Certificate{Extensions: []pkix.Extension{{Id: oidSGX, Value: value}}})
		if err != nil {
			return
		}
		if !bytes.Contains(value, p.fmspc[:]) || !bytes.Contains(value, p.pceID[:]) || p.pceSVN < 0 || p.pceSVN > 0xffff {
			t.Errorf("%+v of %x", p, value)
		}
		for _, n := range p.svn {
			if n < 0 || n > 0xff {
				t.Errorf("%+v of %x", p, value)
			}
		}
	})
}

// FuzzCollateral: no file panics, and none is believed that differs from the signed data.
func FuzzCollateral(f *testing.F) {
	q, c, p := made(f, enclave.Options{Published: enclave.Published{Status: OutOfDate}})
	e, err := enclave.New(enclave.Options{})
	if err != nil {
		f.Fatal(err)
	}
	stranger, err := e.Collateral()
	if err != nil {
		f.Fatal(err)
	}
	own, err := json.Marshal(map[string]string{"pck_crl_issuer_chain": string(c.PCKCRLChain), "root_ca_crl": hex.EncodeToString(c.RootCRL),
		"pck_crl": hex.EncodeToString(c.PCKCRL), "tcb_info_issuer_chain": string(c.TCBInfoChain), "tcb_info": string(c.TCBInfo),
		"tcb_info_signature": hex.EncodeToString(c.TCBInfoSignature), "qe_identity_issuer_chain": string(c.QEIdentityChain),
		"qe_identity": string(c.QEIdentity), "qe_identity_signature": hex.EncodeToString(c.QEIdentitySignature)})
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range [][]byte{own, stranger, []byte(`{}`), []byte(`{"pck_crl":"00","root_ca_crl":"00"}`)} {
		f.Add(file)
	}
	fmspc, _, err := q.FMSPC(p.Root, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		other, err := ParseCollateral(file)
		if err != nil {
			return
		}
		if q.Verify(other, p, time.Now()).Valid() {
			t.Error("expired collateral is valid")
		}
		if _, err := other.Check(p.Root, fmspc, time.Now()); err == nil &&
			(!bytes.Equal(other.TCBInfo, c.TCBInfo) || !bytes.Equal(other.QEIdentity, c.QEIdentity)) {
			t.Errorf("%s", file)
		}
	})
}
