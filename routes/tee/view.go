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
	"reflect"
	"time"

	"farebox/config"
	"farebox/providers"
	"farebox/providers/chat/dialect"
	"farebox/providers/tee"
	"farebox/providers/tee/gpu"
	"farebox/providers/tee/published"
	"farebox/providers/tee/tdx"
	"farebox/routes"
)

// view is what a config says of enclaves.
type view struct {
	cfg        *config.TEE
	published  *published.Store
	watch      *tee.Watch
	each       []*tee.Enclave
	of         map[*dialect.Target]*tee.Enclave
	inFlight   map[*tee.Enclave]chan struct{} // questions of clients
	verifying  chan struct{}
	testRoot   bool
	began      bool
	hash, mode []byte // headers of answers
}

// verifyAtOnce is how many reports are judged at a time: it is work of some
// milliseconds, which strangers can cause.
const verifyAtOnce = 2

func (of *Capability) newView(cfg *config.Config, catalog *providers.Catalog, before *view) (*view, error) {
	v := &view{cfg: &cfg.TEE, of: map[*dialect.Target]*tee.Enclave{}, inFlight: map[*tee.Enclave]chan struct{}{},
		verifying: make(chan struct{}, verifyAtOnce), testRoot: cfg.TEE.AllowTestRoot}
	roots, err := rootsOf(&cfg.TEE)
	if err != nil {
		return nil, err
	}
	source, err := sourceOf(&cfg.TEE)
	if err != nil {
		return nil, err
	}
	v.published = published.New(source, roots.intel, *of.gateway.Logger(), nil)
	judge := &tee.Judge{Collaterals: v.published, Now: time.Now}
	if remote, err := remoteOf(&cfg.TEE); err != nil {
		return nil, err
	} else if remote != nil {
		judge.Remote = remote
	}
	v.watch = &tee.Watch{Judge: judge, Every: cfg.TEE.Recheck, Enforce: *cfg.TEE.Enforce, Log: *of.gateway.Logger()}
	for _, m := range catalog.Models() {
		if m.Chat == nil || m.Chat.Enclave == nil {
			continue
		}
		policy, err := policyOf(&cfg.TEE, m.Chat.Enclave, roots)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", m.ID, err)
		}
		for _, t := range m.Targets {
			e := &tee.Enclave{Model: m.ID, Name: t.Upstream.Name, Policy: policy,
				Upstream: &tee.Upstream{Proxy: of.gateway.Proxy(), Endpoint: t.Upstream.Proxy, Kind: m.Chat.Enclave.Kind,
					Model: t.Name, Timeout: cfg.TEE.Timeout}}
			if before != nil {
				e.GoOn(before.like(e))
			}
			v.each = append(v.each, e)
			v.of[t] = e
			v.inFlight[e] = make(chan struct{}, cfg.TEE.InFlight)
		}
	}
	return v, nil
}

// like is the same enclave of another config, asked about in the same way; nil: there
// is none.
func (v *view) like(e *tee.Enclave) *tee.Enclave {
	for _, o := range v.each {
		if o.Model == e.Model && o.Name == e.Name && o.Upstream.Kind == e.Upstream.Kind &&
			o.Upstream.Model == e.Upstream.Model && reflect.DeepEqual(o.Policy, e.Policy) {
			return o
		}
	}
	return nil
}

// serve begins to look after the enclaves.
func (v *view) serve() {
	v.began = true
	v.watch.Begin(v.each)
}

func (v *view) close(any) {
	if v.began {
		v.watch.Close()
	}
	v.published.Close()
}

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

// fetchLimit is for one question to those who publish or judge.
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
			return nil, errors.New("the ca_file holds no certificate; expected PEM")
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

// remoteOf is the service that judges graphics processors; nil: none is asked.
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

func policyOf(c *config.TEE, e *config.Enclave, r roots) (*tee.Policy, error) {
	p := &tee.Policy{TDX: tdx.Policy{Root: r.intel, Accept: c.Accept}, Devices: r.nvidia, GPU: c.GPU, Scope: e.Scope}
	if len(e.Accept) > 0 {
		p.TDX.Accept = e.Accept
	}
	if e.GPU != "" {
		p.GPU = e.GPU
	}
	for _, name := range tee.PinNames {
		values, ok := e.Pin[name]
		if !ok {
			continue
		}
		pin := tee.Pin{Name: name}
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

var _ routes.Enclaves = (*Capability)(nil)
