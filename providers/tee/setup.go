package tee

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/rs/zerolog"

	"farebox/config"
	"farebox/providers/tee/gpu"
	"farebox/providers/tee/published"
	"farebox/providers/tee/tdx"
)

// Setup is a config's settings for enclaves, ready to judge them.
type Setup struct {
	Judge     *Judge
	Published *published.Store
	config    *config.TEE
	roots     roots
}

// NewSetup is for a checked config.
func NewSetup(c *config.TEE, log zerolog.Logger) (*Setup, error) {
	s := &Setup{config: c}
	var err error
	if s.roots, err = rootsOf(c); err != nil {
		return nil, err
	}
	source, err := sourceOf(c)
	if err != nil {
		return nil, err
	}
	remote, err := remoteOf(c)
	if err != nil {
		return nil, err
	}
	s.Published = published.New(source, s.roots.intel, log, nil)
	s.Judge = &Judge{Collaterals: s.Published, Remote: remote, Now: time.Now}
	return s, nil
}

// Close ends the running fetches.
func (s *Setup) Close() { s.Published.Close() }

type roots struct {
	intel  tdx.Root
	nvidia gpu.Root
}

// rootsOf are Intel's and NVIDIA's, or those of a test.
func rootsOf(c *config.TEE) (r roots, err error) {
	r = roots{tdx.Intel, gpu.NVIDIA}
	for file, to := range map[string]*[32]byte{c.IntelRoot: (*[32]byte)(&r.intel), c.NVIDIARoot: (*[32]byte)(&r.nvidia)} {
		if file == "" {
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return r, fmt.Errorf("cannot read a root: %w", err)
		}
		if *to, err = tdx.RootOf(raw); err != nil {
			return r, err
		}
	}
	if (r.intel != tdx.Intel || r.nvidia != gpu.NVIDIA) && !c.AllowTestRoot {
		return r, errors.New("cannot take other roots than Intel's and NVIDIA's: set tee.allow_test_root, " +
			"and believe nothing that is attested then")
	}
	return r, nil
}

// fetchLimit is for one request to a service that publishes or judges.
const fetchLimit = 20 * time.Second

func clientOf(caFile string) (*http.Client, error) {
	t := &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10}
	if caFile != "" {
		raw, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read the ca_file: %w", err)
		}
		if t.TLSClientConfig.RootCAs = x509.NewCertPool(); !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(raw) {
			return nil, errors.New("the ca_file has no certificate; expected PEM")
		}
	}
	return &http.Client{Transport: t, Timeout: fetchLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

func sourceOf(c *config.TEE) (published.Source, error) {
	if c.Collateral.Source == "file" {
		return published.Folder(c.Collateral.Dir), nil
	}
	client, err := clientOf(c.Collateral.CAFile)
	if err != nil {
		return nil, err
	}
	s := &published.Service{Base: c.Collateral.URL, RootCRL: c.Collateral.RootCRLURL, HTTP: client}
	if s.Base == "" {
		s.Base = published.Intel
	}
	if s.Base == published.Intel && s.RootCRL == "" {
		s.RootCRL = published.IntelRootCRL
	}
	return s, nil
}

// remoteOf is the service that judges graphics processors.
func remoteOf(c *config.TEE) (*gpu.Remote, error) {
	client, err := clientOf("")
	if err != nil {
		return nil, err
	}
	base := c.NRASURL
	if base == "" {
		base = gpu.NRAS
	}
	return &gpu.Remote{Base: base, Issuer: gpu.NRAS, HTTP: client, Now: time.Now}, nil
}

// Policy is the policy for a model's enclaves.
func (s *Setup) Policy(e *config.Enclave) (*Policy, error) {
	c, r := s.config, s.roots
	p := &Policy{TDX: tdx.Policy{Root: r.intel, Accept: c.Accept}, Devices: r.nvidia, GPU: c.GPU, Scope: e.Scope}
	if len(e.Accept) > 0 {
		p.TDX.Accept = e.Accept
	}
	if e.GPU != "" {
		p.GPU = e.GPU
	}
	if e.HasGPU != nil {
		p.HasGPU, p.BareGPU = *e.HasGPU, !*e.HasGPU
	} else {
		p.BareGPU = e.GPU == GPURemote || e.GPU == GPULocal
	}
	for _, name := range PinNames {
		values, ok := e.Pin[name]
		if !ok {
			continue
		}
		pin := Pin{Name: name}
		for _, text := range values {
			raw, err := hex.DecodeString(text)
			if err != nil {
				return nil, fmt.Errorf("pin %s is not in hexadecimal digits", name)
			}
			pin.Values = append(pin.Values, raw)
		}
		p.Pins = append(p.Pins, pin)
	}
	return p, nil
}
