package enclave

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"time"
)

// machine makes quotes: a processor, its quoting enclave and the key of that.
type machine struct {
	by    *authority
	of    processor
	pck   cert
	quote *ecdsa.PrivateKey

	forgery Forgery
}

func newMachine(a *authority, now time.Time) (*machine, error) {
	m := &machine{by: a, of: processor{fmspc: [6]byte{0x7e, 0x57, 0, 0, 0, 1}, svn: 5, pceSVN: 13}}
	ext, err := m.of.extension()
	if err != nil {
		return nil, err
	}
	if m.pck, err = issue(&a.pckCA, subject("Intel SGX PCK Certificate"), false, now, elliptic.P256(), ext); err != nil {
		return nil, err
	}
	m.quote, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return m, err
}

// Domain is a quote's description of a trust domain.
type Domain struct {
	Version    int // of the quote; default 4
	Debug      bool
	Module     [2]byte // version of the TDX module; default 7 of TDX_01
	RTMR       [4][48]byte
	ConfigID   [48]byte
	ReportData [64]byte
}

const (
	moduleSVN     = 7
	moduleVersion = 1
	teeSVN        = 4
	qeSVN         = 6
	qeProduct     = 2
)

var (
	intelQE = unhex("939a7233f79c4ca9940a0db3957f0607")
	// mrTD and qeSigner are measurements of ours.
	mrTD     = sized(48, "farebox test domain")
	qeSigner = sized(32, "farebox test quoting enclave")
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic("enclave: " + err.Error())
	}
	return b
}

func sized(n int, text string) []byte {
	b := make([]byte, n)
	copy(b, text)
	return b
}

// body is the measurement of the domain.
func (d *Domain) body() []byte {
	module := d.Module
	if module == [2]byte{} {
		module = [2]byte{moduleSVN, moduleVersion}
	}
	tee := make([]byte, 16)
	for i := range tee {
		tee[i] = teeSVN
	}
	tee[0], tee[1] = module[0], module[1]
	attributes := make([]byte, 8)
	if d.Debug {
		attributes[0] = 1
	}
	b := append(tee, make([]byte, 48+48+8)...) // the module is Intel's: its signer is zero
	b = append(b, attributes...)
	b = append(b, 0xe7, 0x02, 0x06, 0, 0, 0, 0, 0)
	b = append(b, mrTD...)
	b = append(b, d.ConfigID[:]...)
	b = append(b, make([]byte, 48+48)...)
	for i := range d.RTMR {
		b = append(b, d.RTMR[i][:]...)
	}
	return append(b, d.ReportData[:]...)
}

// quoteOf makes and signs a quote.
func (m *machine) quoteOf(d *Domain) ([]byte, error) {
	le := binary.LittleEndian
	version := d.Version
	if version == 0 {
		version = 4
	}
	q := le.AppendUint16(nil, uint16(version))
	q = le.AppendUint16(q, 2)
	q = le.AppendUint32(q, 0x81)
	q = append(q, 0, 0, 0, 0)
	q = append(append(q, intelQE...), make([]byte, 20)...)
	body := d.body()
	if version == 5 {
		body = append(body, make([]byte, 64)...) // TD 1.5
		q = le.AppendUint32(le.AppendUint16(q, 3), uint32(len(body)))
	}
	q = append(q, body...)
	if change := m.forgery.Signed; change != nil {
		change(q)
	}
	sum := sha256.Sum256(q)
	signature, err := pair(m.quote, sum[:])
	if err != nil {
		return nil, err
	}
	point, err := m.quote.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	point = point[1:]
	auth := sized(32, "farebox test")
	report, err := m.report(point, auth)
	if err != nil {
		return nil, err
	}
	chain := pems(m.pck.Certificate, m.by.pckCA.Certificate, m.by.root.Certificate)
	if change := m.forgery.Chain; change != nil {
		chain = change(chain)
	}
	inner := le.AppendUint16(report, uint16(len(auth)))
	inner = append(inner, auth...)
	inner = le.AppendUint32(le.AppendUint16(inner, 5), uint32(len(chain)))
	inner = append(inner, chain...)
	data := append(signature, point...)
	data = le.AppendUint32(le.AppendUint16(data, 6), uint32(len(inner)))
	data = append(data, inner...)
	q = append(le.AppendUint32(q, uint32(len(data))), data...)
	return append(q, make([]byte, 70)...), nil // as real ones are padded
}

// report is that of the quoting enclave, which vouches for its key, with the
// signature of the processor.
func (m *machine) report(point, auth []byte) ([]byte, error) {
	r := make([]byte, 384)
	r[48] = 0x11
	copy(r[128:], qeSigner)
	binary.LittleEndian.PutUint16(r[256:], qeProduct)
	binary.LittleEndian.PutUint16(r[258:], qeSVN)
	sum := sha256.Sum256(append(append([]byte{}, point...), auth...))
	copy(r[320:], sum[:])
	if change := m.forgery.Report; change != nil {
		change(r)
	}
	signature, err := m.pck.sign(r)
	return append(r, signature...), err
}

// Collateral is Intel's collateral for the machine. Its members are those of files that
// tools of dstack save.
type Collateral struct {
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

// Published holds deviations from the usual collateral.
type Published struct {
	At, Next     time.Time
	Status       string // of the level that the platform reaches; default UpToDate
	ModuleStatus string
	QEStatus     string
	RevokePCK    bool
	RevokeCA     bool
}

func (m *machine) collateral(p Published) (*Collateral, error) {
	var revokedPCK, revokedCA = m.crls(p)
	root, err := m.by.root.crl(p.At, p.Next, revokedCA...)
	if err != nil {
		return nil, err
	}
	pck, err := m.by.pckCA.crl(p.At, p.Next, revokedPCK...)
	if err != nil {
		return nil, err
	}
	info, err := json.Marshal(m.tcbInfo(p))
	if err != nil {
		return nil, err
	}
	infoSignature, err := m.by.signer.sign(info)
	if err != nil {
		return nil, err
	}
	id, err := json.Marshal(m.qeIdentity(p))
	if err != nil {
		return nil, err
	}
	idSignature, err := m.by.signer.sign(id)
	if err != nil {
		return nil, err
	}
	signer := string(pems(m.by.signer.Certificate, m.by.root.Certificate))
	return &Collateral{
		PCKCRLIssuerChain: string(pems(m.by.pckCA.Certificate, m.by.root.Certificate)),
		RootCACRL:         hex.EncodeToString(root), PCKCRL: hex.EncodeToString(pck),
		TCBInfoIssuerChain: signer, TCBInfo: string(info), TCBInfoSignature: hex.EncodeToString(infoSignature),
		QEIdentityIssuerChain: signer, QEIdentity: string(id), QEIdentitySignature: hex.EncodeToString(idSignature),
	}, nil
}
