package config

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// Values of the keys about enclaves.
var (
	tcbStates = []string{"UpToDate", "SWHardeningNeeded", "ConfigurationNeeded", "ConfigurationAndSWHardeningNeeded",
		"OutOfDate", "OutOfDateConfigurationNeeded"}
	// pinned measurements with how many bytes they have.
	pinned = map[string]int{"mrtd": 48, "rtmr0": 48, "rtmr1": 48, "rtmr2": 48, "rtmr3": 48, "mr_config_id": 48,
		"compose_hash": 32}
)

// E2EEPrefix begins the ids of models that chats are encrypted to (interface.md, TEE).
const E2EEPrefix = "e2ee-"

const maxPins = 64

func (c *Config) completeTEE() {
	if t := &c.TEE; t.Collateral.Dir != "" && c.Source != "" && !filepath.IsAbs(t.Collateral.Dir) {
		t.Collateral.Dir = filepath.Join(filepath.Dir(c.Source), t.Collateral.Dir)
	}
}

func (v *validator) tee() {
	t := &v.c.TEE
	if len(t.Accept) == 0 {
		v.wrong("tee.tcb_accept", "nothing is accepted, so that no enclave could be verified; expected UpToDate")
	}
	v.webAddress("tee.nras_url", t.NRASURL)
	v.webAddress("tee.collateral.url", t.Collateral.URL)
	v.webAddress("tee.collateral.root_crl_url", t.Collateral.RootCRLURL)
	if t.Collateral.Source == "file" && t.Collateral.Dir == "" {
		v.wrong("tee.collateral.dir", "there is no folder of collaterals; expected dir: with files <fmspc>.json, or "+
			"source: http")
	}
	for path, file := range map[string]string{"tee.intel_root_file": t.IntelRoot, "tee.nvidia_root_file": t.NVIDIARoot} {
		if file != "" && !t.AllowTestRoot {
			v.wrong(path, "the owner of another root can forge any proof; expected Intel's and NVIDIA's own, or "+
				"allow_test_root: true for tests")
		}
	}
}

// webAddress checks an address of a service; empty is the usual one.
func (v *validator) webAddress(path, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || badHost(u) || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		v.wrong(path, "%s is not an address of a service; expected https://host[:port][/path]", v.shown(path))
	}
}

// enclave checks a text model's settings for its enclaves.
func (v *validator) enclave(path string, m *Model, e *Enclave) {
	if e == nil {
		if strings.HasPrefix(m.ID, E2EEPrefix) {
			v.wrong(path, "an id that begins with %s promises an enclave; expected tee: with its kind, or another id",
				E2EEPrefix)
		}
		return
	}
	if e.Kind == "aci" && e.Scope == "model_instance" {
		v.wrong(path+".scope", "a gateway in front of the models attests itself there; expected scope: aggregator, "+
			"which clients see")
	}
	if e.HasGPU != nil && *e.HasGPU && e.GPU == "off" {
		v.wrong(path+".has_gpu", "gpu: off does not check graphics processors; expected another gpu:, or no has_gpu")
	}
	if *e.Encrypted && !strings.HasPrefix(m.ID, E2EEPrefix) && !v.c.TEE.AnyModelID {
		v.wrong(path+".encrypted", "clients encrypt to models whose id begins with %s; expected such an id, "+
			"encrypted: false, or tee.any_model_id: true", E2EEPrefix)
	}
	if len(e.Provider) > 64 || strings.ContainsFunc(e.Provider, func(r rune) bool { return r < ' ' || r > '~' }) {
		v.wrong(path+".provider", "%s does not fit into a header; expected at most 64 printable ASCII characters",
			v.shown(path+".provider"))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Pin)) {
		v.pin(path+".pin."+name, name, e.Pin[name])
	}
}

func (v *validator) pin(path, name string, values []string) {
	bytes, known := pinned[name]
	if !known {
		v.wrongKey(path, "%s is not a measurement; expected %s", quote(name), choice(slices.Sorted(maps.Keys(pinned))))
		return
	}
	if n := len(values); n == 0 || n > maxPins {
		v.wrong(path, "%d values are listed; expected 1 to %d, of which an enclave must have one", n, maxPins)
	}
	for i, text := range values {
		if raw, err := hex.DecodeString(text); err != nil || len(raw) != bytes {
			v.wrong(fmt.Sprintf("%s[%d]", path, i), "this is not a value of %s; expected %d hexadecimal digits", name, 2*bytes)
		}
	}
}

// enclaveTarget checks that an upstream can be an enclave: it is spoken to as OpenAI's, and its
// requests are sent unchanged.
func (v *validator) enclaveTarget(path string, e *Enclave, u *Upstream) {
	if e != nil && u != nil && u.Dialect != dialects[0].name {
		v.wrong(path, "%s speaks %s; expected an upstream of dialect %s, which is how enclaves are asked", quote(u.Name),
			u.Dialect, dialects[0].name)
	}
}
