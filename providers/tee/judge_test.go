package tee

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/enclave"
	"farebox/providers/tee/gpu"
	"farebox/providers/tee/tdx"
	"farebox/providers/tee/teetest"
)

// shelf has the collateral of one kind of processor.
type shelf struct{ c *tdx.Collateral }

func (s shelf) Collateral(context.Context, [6]byte, string) (*tdx.Collateral, error) {
	if s.c == nil {
		return nil, errors.New("nothing is published")
	}
	return s.c, nil
}

// started is an enclave that serves, with a policy under which it can be verified.
func started(t testing.TB, o enclave.Options) (*enclave.Enclave, string, *Policy, *Judge) {
	t.Helper()
	e, err := enclave.New(o)
	if err != nil {
		t.Fatal(err)
	}
	base, err := e.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	file, err := e.Collateral()
	if err != nil {
		t.Fatal(err)
	}
	c, err := tdx.ParseCollateral(file)
	if err != nil {
		t.Fatal(err)
	}
	root, err := tdx.RootOf(e.Root())
	if err != nil {
		t.Fatal(err)
	}
	return e, base, &Policy{TDX: tdx.Policy{Root: root, Accept: []string{tdx.UpToDate}}, Devices: deviceRoot(t, e),
		GPU: GPULocal, Scope: "model_instance"}, &Judge{Collaterals: shelf{c}, Now: time.Now}
}

func deviceRoot(t testing.TB, e *enclave.Enclave) gpu.Root {
	t.Helper()
	block, _ := pem.Decode(e.DeviceRoot())
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(c.Raw)
}

// report asks an enclave for a report.
func report(t testing.TB, base string, nonce [32]byte) []byte {
	t.Helper()
	r, err := http.Get(base + "/v1/attestation/report?signing_algo=ecdsa&nonce=" + hex.EncodeToString(nonce[:]))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	raw, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 {
		t.Fatal(r.Status, string(raw), err)
	}
	return raw
}

func fresh() (nonce [32]byte) {
	rand.Read(nonce[:])
	return nonce
}

// Lies of an enclave or its host, and the failed checks of each: only the honest one is verified.
func TestOnlyTheHonestEnclaveIsVerified(t *testing.T) {
	t.Parallel()
	e, base, p, j := started(t, enclave.Options{})
	rows := []string{"behaviour     verified  does not hold"}
	for _, c := range []struct {
		lie    string
		failed []string
	}{
		{enclave.Honest, []string{}},
		{enclave.Debug, []string{tdx.CheckDebug}},
		{enclave.StaleNonce, []string{CheckNonce}},
		{enclave.SwapKey, []string{CheckKeyBinding}},
		{enclave.SwapAddress, []string{CheckKeyBinding}},
		{enclave.OldModule, []string{tdx.CheckTCB}},
		{enclave.GPUFail, []string{CheckDevices}},
		{enclave.GPUNonce, []string{CheckDeviceNonce}},
		{enclave.WrongLog, []string{CheckLog}},
	} {
		e.Tell(c.lie)
		nonce := fresh()
		v := j.Verify(t.Context(), report(t, base, nonce), nonce, p)
		name := c.lie
		if name == "" {
			name = "honest"
		}
		rows = append(rows, fmt.Sprintf("%-13s %-9v %s", name, v.Verified(), strings.Join(v.Failed(), ", ")))
		if !slices.Equal(v.Failed(), c.failed) || v.Verified() != (c.lie == enclave.Honest) {
			t.Errorf("%s: verified %v, %+v", name, v.Verified(), v.Checks)
		}
		s := gjson.ParseBytes(v.JSON())
		if s.Get("failed.#").Int() != int64(len(c.failed)) || s.Get("tdx.debug").Bool() != (c.lie == enclave.Debug) ||
			s.Get("nonceBinding.bound").Bool() != (c.lie != enclave.StaleNonce) ||
			s.Get("signingAddressBinding.bound").Bool() != (c.lie != enclave.SwapKey && c.lie != enclave.SwapAddress) ||
			s.Get("nvidia.valid").Bool() != (c.lie != enclave.GPUFail && c.lie != enclave.GPUNonce) ||
			s.Get("nvidiaNonceBinding.bound").Bool() != (c.lie != enclave.GPUFail && c.lie != enclave.GPUNonce) ||
			s.Get("tdx.valid").Bool() != (c.lie != enclave.Debug && c.lie != enclave.OldModule) || !s.Get("testRoot").Bool() {
			t.Errorf("%s: %s", name, v.JSON())
		}
	}
	t.Log("\n" + strings.Join(rows, "\n"))
}

// The policy can require more.
func TestPoliciesAskForMore(t *testing.T) {
	t.Parallel()
	_, base, p, j := started(t, enclave.Options{})
	_, bare, bareP, bareJ := started(t, enclave.Options{Devices: -1})
	nonce := fresh()
	raw, without := report(t, base, nonce), report(t, bare, nonce)
	says := func(member string) []byte { return append([]byte("{"+member+","), raw[1:]...) }
	aggregates := says(`"service_capabilities":{"serving":"aggregator"}`)
	mrtd := j.Verify(t.Context(), raw, nonce, p).quote.Body.MRTD
	with := func(from *Policy, change func(p *Policy)) *Policy {
		other := *from
		change(&other)
		return &other
	}
	for name, c := range map[string]struct {
		j      *Judge
		report []byte
		p      *Policy
		failed []string
	}{
		"a pinned measurement":     {j, raw, with(p, func(p *Policy) { p.Pins = []Pin{{"mrtd", [][]byte{{1}, mrtd[:]}}} }), []string{}},
		"another measurement":      {j, raw, with(p, func(p *Policy) { p.Pins = []Pin{{"mrtd", [][]byte{{1}}}} }), []string{CheckPins}},
		"a pin of nothing":         {j, raw, with(p, func(p *Policy) { p.Pins = []Pin{{"rtmr1", nil}} }), []string{CheckPins}},
		"a gateway":                {j, aggregates, p, []string{CheckScope}},
		"a gateway by its form":    {j, says(`"api_version":"aci/1"`), p, []string{CheckScope}},
		"a gateway, as configured": {j, aggregates, with(p, func(p *Policy) { p.Scope = Aggregator }), []string{}},
		"no devices wanted":        {j, raw, with(p, func(p *Policy) { p.GPU = GPUOff }), []string{CheckDevices}},
		"no devices there":         {bareJ, without, bareP, []string{}},
		"devices wanted":           {bareJ, without, with(bareP, func(p *Policy) { p.GPU = GPURequire }), []string{CheckDevices}},
		"no service to judge them": {j, raw, with(p, func(p *Policy) { p.GPU = GPURemote }), []string{CheckJudged}},
		"nothing published": {&Judge{Collaterals: shelf{}, Now: time.Now}, raw, p,
			[]string{tdx.CheckRevocation, tdx.CheckTCBInfo, tdx.CheckQEIdentity, tdx.CheckTCB}},
		"later": {&Judge{Collaterals: j.Collaterals, Now: func() time.Time { return time.Now().Add(31 * 24 * time.Hour) }}, raw, p,
			[]string{tdx.CheckRevocation, tdx.CheckTCBInfo, tdx.CheckQEIdentity, tdx.CheckTCB}},
	} {
		v := c.j.Verify(t.Context(), c.report, nonce, c.p)
		if !slices.Equal(v.Failed(), c.failed) || v.Verified() != (len(c.failed) == 0) {
			t.Errorf("%s: verified %v, %+v", name, v.Verified(), v.Checks)
		}
	}
}

// Malformed reports are not verified, and nothing panics.
func TestMalformedReportsAreNotVerified(t *testing.T) {
	t.Parallel()
	_, base, p, j := started(t, enclave.Options{})
	nonce := fresh()
	good := string(report(t, base, nonce))
	set := func(member, raw string) string {
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(good), &m); err != nil {
			t.Fatal(err)
		}
		if m[member] = json.RawMessage(raw); raw == "" {
			delete(m, member)
		}
		out, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	compose, err := json.Marshal(gjson.Get(good, "info.tcb_info.app_compose").Str)
	if err != nil || len(compose) < 10 {
		t.Fatal(string(compose), err)
	}
	one, err := json.Marshal(`{"app_compose":` + string(compose) + `}`)
	if err != nil {
		t.Fatal(err)
	}
	if v := j.Verify(t.Context(), []byte(set("info", `{"tcb_info":`+string(one)+`}`)), nonce, p); !v.Verified() || v.composed != "true" {
		t.Error(v.Failed(), v.composed)
	}
	twice := string(one[:len(one)-2]) + `,\"app_compose\":\"another\"}"`
	for _, text := range []string{"", "null", "[]", "{}", `{"intel_quote":null}`, `{"intel_quote":7}`, `{"intel_quote":"zz"}`,
		set("intel_quote", ""), set("signing_address", ""), set("signing_address", `"0x00"`), set("signing_address", "{}"),
		set("signing_public_key", `"04"`), set("signing_key", `"`+strings.Repeat("ab", 64)+`"`), set("nvidia_payload", `"{}"`),
		good[:len(good)-1] + `,"signing_address":"0x00"}`, good[:len(good)-1] + `,"Signing_Address":"0x00"}`,
		good[:len(good)-1] + `,"intel_quot\u0065":""}`, good + "{}", good[:len(good)-1],
		set("nvidia_payload", `{"nonce":"x"}`), set("event_log", `"x"`), set("event_log", `[{}]`), set("event_log", `{}`),
		set("info", `{"tcb_info":{"app_compose":"other"}}`), set("info", `{"tcb_info":"{\"app_compose\":\"other\"}"}`),
		set("info", `{"tcb_info":`+twice+`}`), set("info", `{"tcb_info":"no JSON"}`)} {
		if v := j.Verify(t.Context(), []byte(text), nonce, p); v.Verified() || len(v.Failed()) == 0 || !json.Valid(v.JSON()) {
			t.Errorf("%.200s is verified", text)
		}
	}
}

// counted counts how often it is asked.
type counted struct {
	shelf
	asked int
}

func (c *counted) Collateral(ctx context.Context, fmspc [6]byte, ca string) (*tdx.Collateral, error) {
	c.asked++
	return c.shelf.Collateral(ctx, fmspc, ca)
}

// "A host made up kinds of processors, and we asked Intel about each": Intel is not asked
// before the certificates lead to the root.
func TestNobodyIsAskedAboutStrangers(t *testing.T) {
	t.Parallel()
	_, base, p, j := started(t, enclave.Options{})
	_, strangers, _, _ := started(t, enclave.Options{})
	shelf := &counted{shelf: j.Collaterals.(shelf)}
	j.Collaterals = shelf
	nonce := fresh()
	if v := j.Verify(t.Context(), report(t, strangers, nonce), nonce, p); v.Verified() || v.Holds(tdx.CheckChain) || shelf.asked != 0 {
		t.Errorf("asked %d times, %q", shelf.asked, v.Failed())
	}
	later := &Judge{Collaterals: shelf, Now: func() time.Time { return time.Now().AddDate(20, 0, 0) }}
	if v := later.Verify(t.Context(), report(t, base, nonce), nonce, p); v.Verified() || shelf.asked != 0 {
		t.Errorf("asked %d times about expired certificates, %q", shelf.asked, v.Failed())
	}
	if v := j.Verify(t.Context(), report(t, base, nonce), nonce, p); !v.Verified() || shelf.asked != 1 {
		t.Errorf("asked %d times, %q", shelf.asked, v.Failed())
	}
}

// broken is a shelf that panics on every request.
type broken struct{}

func (broken) Collateral(context.Context, [6]byte, string) (*tdx.Collateral, error) { panic("it fell") }

// "One enclave's report took the gateway from everybody": a report that breaks its judge
// is not verified, and that is all.
func TestAReportThatBreaksItsJudge(t *testing.T) {
	t.Parallel()
	_, base, p, j := started(t, enclave.Options{})
	nonce := fresh()
	v := (&Judge{Collaterals: broken{}, Now: j.Now}).Verify(t.Context(), report(t, base, nonce), nonce, p)
	if v.Verified() || !slices.Equal(v.Failed(), []string{CheckReport}) || !json.Valid(v.JSON()) {
		t.Errorf("%v: %s", v.Verified(), v.JSON())
	}
}

// Reports of real services hold for their nonce, but for the checks that only NVIDIA can make.
func TestReportsOfRealServices(t *testing.T) {
	t.Parallel()
	for _, of := range teetest.Captures(t) {
		if of.Collateral == nil {
			continue
		}
		c, err := tdx.ParseCollateral(of.Collateral)
		if err != nil {
			t.Fatal(err)
		}
		nonce, ok := ParseNonce(of.Nonce)
		if !ok {
			t.Fatal("its nonce is invalid")
		}
		j := &Judge{Collaterals: shelf{c}, Now: func() time.Time { return of.At }}
		p := &Policy{TDX: tdx.Policy{Root: tdx.Intel, Accept: []string{tdx.UpToDate}}, Devices: gpu.NVIDIA, GPU: GPULocal}
		v := j.Verify(t.Context(), of.Report, nonce, p)
		if !v.Verified() {
			t.Errorf("%s: %+v", of.Name, v.Checks)
		}
		theirs, ours := gjson.GetBytes(of.Report, "server_verification"), gjson.ParseBytes(v.JSON())
		for _, member := range []string{"tdx.valid", "tdx.reportData", "tdx.measurements", "signingAddressBinding.bound",
			"nonceBinding", "nvidiaNonceBinding", "nvidia.valid", "tdx.crlCheck"} {
			if want := theirs.Get(member); want.Exists() && want.Raw != ours.Get(member).Raw &&
				want.Get("@ugly").Raw != ours.Get(member).Get("@ugly").Raw {
				t.Errorf("%s: %s is %s; the service says %s", of.Name, member, ours.Get(member), want)
			}
		}
		if ours.Get("testRoot").Exists() {
			t.Error("it is said to be of a test root")
		}
		nonce[0] ^= 1
		if v := j.Verify(t.Context(), of.Report, nonce, p); v.Verified() || v.Holds(CheckNonce) {
			t.Error("for another nonce")
		}
	}
}

func FuzzVerify(f *testing.F) {
	j := &Judge{Collaterals: shelf{}, Now: time.Now}
	p := &Policy{TDX: tdx.Policy{Root: tdx.Intel}, GPU: GPULocal}
	for _, s := range []string{`{}`, `{"intel_quote":"0400020081","event_log":[{"imr":3}],"nvidia_payload":"{}"}`,
		`{"intel_quote":"00","info":{"tcb_info":"{}"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, report []byte) {
		v := j.Verify(t.Context(), report, [32]byte{}, p)
		if v.Verified() || !json.Valid(v.JSON()) {
			t.Errorf("%s", v.JSON())
		}
	})
}
