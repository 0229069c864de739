package tdx

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// Quote is a quote as its signer laid it out. Its slices are parts of the bytes that
// Parse was given.
type Quote struct {
	Version int
	Body    Body

	signed      []byte // the bytes under the attestation key's signature
	signature   []byte // r ‖ s
	key         []byte // the attestation key, X ‖ Y
	qeReport    []byte
	qeSignature []byte // r ‖ s, by the PCK
	qeAuth      []byte
	chain       []byte // PEM: leaf, intermediate, root

	led *verifiedChain // FMSPC's checked chain; may be nil
}

// Body is a quote's description of a trust domain.
type Body struct {
	TeeTCBSVN      [16]byte
	MRSeam         [48]byte
	MRSignerSeam   [48]byte
	SeamAttributes [8]byte
	TDAttributes   [8]byte
	XFAM           [8]byte
	MRTD           [48]byte
	MRConfigID     [48]byte
	MROwner        [48]byte
	MROwnerConfig  [48]byte
	RTMR           [4][48]byte
	ReportData     [64]byte
}

// Debug says that the domain's memory can be looked into, or that another bit of the
// group that makes it untrusted is set.
func (b *Body) Debug() bool { return b.TDAttributes[0] != 0 }

// Sizes and constants of the layout (Intel TDX DCAP Quoting Library API, appendix A).
const (
	headerBytes   = 48
	bodyBytes     = 584 // TD 1.0
	body15Bytes   = 648 // TD 1.5: two more members follow
	reportBytes   = 384
	pairBytes     = 64 // r ‖ s, or X ‖ Y
	teeTDX        = 0x81
	keyECDSA256   = 2
	certQEReport  = 6
	certPEM       = 5
	bodyTD10      = 2
	bodyTD15      = 3
	maxQuoteBytes = 64 << 10
)

var intelQE = []byte{0x93, 0x9a, 0x72, 0x33, 0xf7, 0x9c, 0x4c, 0xa9, 0x94, 0x0a, 0x0d, 0xb3, 0x95, 0x7f, 0x06, 0x07}

var errShort = errors.New("it ends too early")

// reader takes bytes off the front; after the first that are missing all are.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.rest) {
		r.err = errShort
		return make([]byte, max(0, min(n, maxQuoteBytes)))
	}
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) u16() int { return int(binary.LittleEndian.Uint16(r.take(2))) }

// size is a length that the following bytes must have.
func (r *reader) size() []byte {
	n := binary.LittleEndian.Uint32(r.take(4))
	if n > maxQuoteBytes {
		r.err = errShort
		n = 0
	}
	return r.take(int(n))
}

// Parse takes a quote apart. Zeros may follow it: captured ones are padded.
func Parse(raw []byte) (*Quote, error) {
	if len(raw) > maxQuoteBytes {
		return nil, fmt.Errorf("cannot read the quote: it has %d bytes; at most %d are read", len(raw), maxQuoteBytes)
	}
	q := &Quote{}
	r := &reader{rest: raw}
	if err := q.read(raw, r); err != nil {
		return nil, fmt.Errorf("cannot read the quote: %w", err)
	}
	return q, nil
}

// ParseHex is Parse of hexadecimal digits.
func ParseHex(text string) (*Quote, error) {
	if len(text) > 2*maxQuoteBytes {
		return nil, fmt.Errorf("cannot read the quote: it has %d digits; at most %d are read", len(text), 2*maxQuoteBytes)
	}
	raw, err := hex.DecodeString(text)
	if err != nil {
		return nil, errors.New("cannot read the quote: it is not in hexadecimal digits")
	}
	return Parse(raw)
}

func (q *Quote) read(raw []byte, r *reader) error {
	if err := q.header(r); err != nil {
		return err
	}
	body, err := q.bodyOf(r)
	if err != nil {
		return err
	}
	q.signed = raw[:len(raw)-len(r.rest)]
	q.Body.readBody(body)
	data := &reader{rest: r.size()}
	padding := r.rest
	if r.err != nil {
		return r.err
	}
	if len(bytes.Trim(padding, "\x00")) > 0 {
		return errors.New("something follows it")
	}
	return q.evidence(data)
}

func (q *Quote) header(r *reader) error {
	h := r.take(headerBytes)
	if r.err != nil {
		return r.err
	}
	q.Version = int(binary.LittleEndian.Uint16(h))
	switch {
	case q.Version != 4 && q.Version != 5:
		return fmt.Errorf("it is of version %d; 4 and 5 are known", q.Version)
	case binary.LittleEndian.Uint16(h[2:]) != keyECDSA256:
		return errors.New("its key is not of ECDSA with P-256")
	case binary.LittleEndian.Uint32(h[4:]) != teeTDX:
		return errors.New("it is not of a TDX domain")
	case !bytes.Equal(h[12:28], intelQE):
		return errors.New("its quoting enclave is not Intel's")
	}
	return nil
}

// bodyOf is the body, which version 5 names the type and size of.
func (q *Quote) bodyOf(r *reader) ([]byte, error) {
	if q.Version == 4 {
		b := r.take(bodyBytes)
		return b, r.err
	}
	kind := r.u16()
	b := r.size()
	switch {
	case r.err != nil:
		return nil, r.err
	case kind == bodyTD10 && len(b) == bodyBytes, kind == bodyTD15 && len(b) == body15Bytes:
		return b, nil
	}
	return nil, fmt.Errorf("its body of type %d has %d bytes", kind, len(b))
}

func (b *Body) readBody(raw []byte) {
	r := &reader{rest: raw}
	for _, member := range [][]byte{b.TeeTCBSVN[:], b.MRSeam[:], b.MRSignerSeam[:], b.SeamAttributes[:], b.TDAttributes[:],
		b.XFAM[:], b.MRTD[:], b.MRConfigID[:], b.MROwner[:], b.MROwnerConfig[:], b.RTMR[0][:], b.RTMR[1][:],
		b.RTMR[2][:], b.RTMR[3][:], b.ReportData[:]} {
		copy(member, r.take(len(member)))
	}
}

// evidence reads the proof of the body. Each length must fit its content, so that
// no byte of it has two readings.
func (q *Quote) evidence(r *reader) error {
	q.signature, q.key = r.take(pairBytes), r.take(pairBytes)
	kind := r.u16()
	outer := &reader{rest: r.size()}
	switch {
	case r.err != nil:
		return r.err
	case kind != certQEReport:
		return fmt.Errorf("its certification data are of type %d; %d is known", kind, certQEReport)
	case len(r.rest) > 0:
		return errors.New("something follows its certification data")
	}
	q.qeReport, q.qeSignature = outer.take(reportBytes), outer.take(pairBytes)
	q.qeAuth = outer.take(outer.u16())
	kind = outer.u16()
	q.chain = outer.size()
	switch {
	case outer.err != nil:
		return outer.err
	case kind != certPEM:
		return fmt.Errorf("its certificates are of type %d; %d is known", kind, certPEM)
	case len(outer.rest) > 0:
		return errors.New("something follows its certificates")
	}
	return nil
}
