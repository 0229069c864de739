package published

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"farebox/providers/tee/tdx"
	"farebox/proxy/scan"
)

// Intel is the address of its service, and IntelRootCRL where the list of its root is.
const (
	Intel        = "https://api.trustedservices.intel.com"
	IntelRootCRL = "https://certificates.trustedservices.intel.com/IntelSGXRootCA.der"
)

// Service is a Source that speaks as Intel's service does (v4), or a mirror of it.
type Service struct {
	Base    string // http://host:port[/path]
	RootCRL string // empty: where mirrors have it
	HTTP    *http.Client
}

const (
	maxAnswer = 1 << 20
	maxDepth  = 32
	maxChain  = 32 << 10
)

// Fetch is Source. Its four answers are signed by Intel, so that no proxy can change them;
// the signed bytes are stored unchanged.
func (s *Service) Fetch(ctx context.Context, fmspc [6]byte, ca string) (*tdx.Collateral, error) {
	c, base := &tdx.Collateral{}, strings.TrimRight(s.Base, "/")
	var err error
	c.TCBInfo, c.TCBInfoSignature, c.TCBInfoChain, err = s.signed(ctx,
		base+"/tdx/certification/v4/tcb?fmspc="+hex.EncodeToString(fmspc[:]), "tcbInfo", "Tcb-Info-Issuer-Chain")
	if err != nil {
		return nil, fmt.Errorf("the levels of the processor: %w", err)
	}
	c.QEIdentity, c.QEIdentitySignature, c.QEIdentityChain, err = s.signed(ctx,
		base+"/tdx/certification/v4/qe/identity", "enclaveIdentity", "Sgx-Enclave-Identity-Issuer-Chain")
	if err != nil {
		return nil, fmt.Errorf("the identity of the quoting enclave: %w", err)
	}
	crl, head, err := s.get(ctx, base+"/sgx/certification/v4/pckcrl?encoding=der&ca="+url.QueryEscape(ca))
	if err == nil {
		c.PCKCRLChain, err = chain(head, "Sgx-Pck-Crl-Issuer-Chain")
	}
	if err != nil {
		return nil, fmt.Errorf("the list of revoked processors: %w", err)
	}
	c.PCKCRL = crl
	at := s.RootCRL
	if at == "" {
		at = base + "/sgx/certification/v4/rootcacrl"
	}
	if c.RootCRL, _, err = s.get(ctx, at); err != nil {
		return nil, fmt.Errorf("the list of revoked authorities: %w", err)
	}
	if raw, err := hex.DecodeString(string(bytes.TrimSpace(c.RootCRL))); err == nil {
		c.RootCRL = raw // mirrors send digits
	}
	return c, nil
}

func (s *Service) get(ctx context.Context, at string) (body []byte, head http.Header, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.HTTP.Do(q)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = r.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(r.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, nil, err
	case r.StatusCode != http.StatusOK:
		return nil, nil, fmt.Errorf("%s answers with status %d", q.URL.Host, r.StatusCode)
	case len(body) > maxAnswer || len(body) == 0:
		return nil, nil, fmt.Errorf("%s answers with nothing, or with more than %d bytes", q.URL.Host, maxAnswer)
	}
	return body, r.Header, nil
}

// chain is a chain of certificates that is in a header.
func chain(head http.Header, name string) ([]byte, error) {
	text := head.Get(name)
	if text == "" && strings.HasPrefix(name, "Tcb-") {
		text = head.Get("Sgx-" + name) // as older versions have it
	}
	text, err := url.QueryUnescape(text)
	if err != nil || text == "" || len(text) > maxChain {
		return nil, errors.New("the certificates of its signer are missing")
	}
	return []byte(text), nil
}

var errEnvelope = errors.New("its answer is not exactly the signed data and a signature")

// signed takes an answer apart: the bytes that are signed, and their signature. One
// that has any further member could be read in two ways.
func (s *Service) signed(ctx context.Context, at, member, header string) (data, signature, certs []byte, err error) {
	body, head, err := s.get(ctx, at)
	if err != nil {
		return nil, nil, nil, err
	}
	if certs, err = chain(head, header); err != nil {
		return nil, nil, nil, err
	}
	data, signature, err = split(body, member)
	return data, signature, certs, err
}

// The members of the two answers.
var shapes = map[string]*scan.Shape{
	"tcbInfo":         scan.NewShape(scan.Members(nil, "tcbInfo", "signature")...),
	"enclaveIdentity": scan.NewShape(scan.Members(nil, "enclaveIdentity", "signature")...),
}

func split(body []byte, member string) (data, signature []byte, err error) {
	var doc scan.Document
	if doc.SkimWhole(body, shapes[member], maxDepth) != nil {
		return nil, nil, errEnvelope
	}
	of, ok := doc.Top(0)
	by, also := doc.Top(1)
	if !ok || !also || doc.Members != 2 || of.Kind != scan.Object || by.Kind != scan.String {
		return nil, nil, errEnvelope
	}
	text := by.Raw(body)
	signature, err = hex.DecodeString(string(text[1 : len(text)-1]))
	if err != nil {
		return nil, nil, errEnvelope
	}
	return of.Raw(body), signature, nil
}
