package tee

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"farebox/providers/tee/seal"
	"farebox/providers/tee/tdx"
)

// Check is one of the required checks. Err is why it does not hold.
type Check = tdx.Check

// Names of the checks that are made beside those of the quote.
const (
	CheckReport      = "report" // named only where it does not hold
	CheckQuote       = "quote"
	CheckHardware    = "tee_hardware"
	CheckKeyBinding  = "signing_key_bound"
	CheckNonce       = "nonce_bound"
	CheckDevices     = "gpu_evidence"
	CheckDeviceNonce = "gpu_nonce_bound"
	CheckJudged      = "gpu_judged" // by NVIDIA's service
	CheckPins        = "measurements_pinned"
	CheckOtherPins   = "other_measurements" // those that are not pinned; it is never made
	CheckLog         = "event_log"
	CheckCompose     = "compose"
	CheckScope       = "scope"
)

// made are the checks of every report; those after a failed one may be skipped.
var made = slices.Concat([]string{CheckQuote}, tdx.Checks, []string{CheckKeyBinding, CheckNonce, CheckDevices, CheckDeviceNonce,
	CheckJudged, CheckPins, CheckLog, CheckCompose, CheckScope})

// Verification is the verdict on a report.
type Verification struct {
	Checks []Check
	At     time.Time
	Took   time.Duration
	Until  time.Time // the earliest expiry of its evidence

	// Key is the one that contents are sealed to; nil if the report has none. Address is
	// the signer's. Both mean something only if their binding holds.
	Key     *seal.Key
	Address [20]byte

	quote    *tdx.Quote
	verdict  *tdx.Verdict
	devices  int  // that gave evidence
	required bool // the report must have evidence of graphics processors
	judged   bool
	away     bool   // NVIDIA's service did not answer
	replayed string // true, false, unavailable
	composed string
	policy   *Policy
}

// Verified says that every check of the policy holds.
func (v *Verification) Verified() bool {
	for _, c := range v.Checks {
		if c.Err != nil {
			return false
		}
	}
	return len(v.Checks) > 0 && v.verdict != nil
}

// unjudged says that NVIDIA's service did not answer, and everything else holds.
func (v *Verification) unjudged() bool {
	failed := v.Failed()
	return len(failed) == 1 && failed[0] == CheckJudged && v.away
}

// Holds says that a check was made and holds.
func (v *Verification) Holds(name string) bool {
	for _, c := range v.Checks {
		if c.Name == name {
			return c.Holds()
		}
	}
	return false
}

// Failed are the names of the checks that do not hold, in their order.
func (v *Verification) Failed() []string {
	names := []string{}
	for _, c := range v.Checks {
		if c.Err != nil {
			names = append(names, c.Name)
		}
	}
	return names
}

// NotChecked are the names of the checks that were not made, in their order.
func (v *Verification) NotChecked() []string {
	names := []string{}
	for _, c := range v.Checks {
		if c.Unmade != "" {
			names = append(names, c.Name)
		}
	}
	return names
}

// TestRoot says that the verification rests on a root that is not Intel's, and proves
// nothing.
func (v *Verification) TestRoot() bool { return v.policy.TDX.Root != tdx.Intel }

func (v *Verification) note(name string, err error) bool {
	v.Checks = append(v.Checks, Check{Name: name, Err: err})
	return err == nil
}

// skip notes a check that is not made, with the reason.
func (v *Verification) skip(name, why string) {
	v.Checks = append(v.Checks, Check{Name: name, Unmade: why})
}

// complete notes the checks that were skipped.
func (v *Verification) complete() {
	for _, name := range made {
		if !slices.ContainsFunc(v.Checks, func(c Check) bool { return c.Name == name }) {
			v.skip(name, "an earlier check did not hold")
		}
	}
}

// why is the first reason of those checks that were made; empty: they hold.
func (v *Verification) why(names ...string) string {
	for _, c := range v.Checks {
		for _, name := range names {
			if c.Name == name && c.Err != nil {
				return c.Err.Error()
			}
		}
	}
	return ""
}

// The members of server_verification (addendum 15.4), and ours beside them.
type (
	shownTDX struct {
		Valid        bool      `json:"valid"`
		Signature    bool      `json:"signatureValid"`
		Chain        bool      `json:"certificateChainValid"`
		Root         bool      `json:"rootCaPinned"`
		Key          bool      `json:"attestationKeyMatch"`
		ReportData   string    `json:"reportData,omitempty"`
		Measurements *measured `json:"measurements,omitempty"`
		CRL          shownCRL  `json:"crlCheck"`
		Debug        bool      `json:"debug"`
		Status       string    `json:"tcbStatus,omitempty"`
		Advisories   []string  `json:"advisoryIds"`
		Version      int       `json:"quoteVersion,omitempty"`
		Error        string    `json:"error,omitempty"`
	}
	measured struct {
		MRTD          string `json:"mrtd"`
		MRConfigID    string `json:"mrconfigid"`
		MROwner       string `json:"mrowner"`
		MROwnerConfig string `json:"mrownerconfig"`
		RTMR0         string `json:"rtmr0"`
		RTMR1         string `json:"rtmr1"`
		RTMR2         string `json:"rtmr2"`
		RTMR3         string `json:"rtmr3"`
		Attributes    string `json:"tdAttributes"`
		XFAM          string `json:"xfam"`
	}
	shownCRL struct {
		Checked bool `json:"checked"`
		Revoked bool `json:"revoked"`
	}
	shownDevices struct {
		Valid     bool   `json:"valid"`
		Signature bool   `json:"signatureVerified"`
		Chain     string `json:"certificateChainStatus"` // valid, or invalid
		Mode      string `json:"mode"`
		Error     string `json:"error,omitempty"`
	}
	shownAddress struct {
		Bound   bool   `json:"bound"`
		Address string `json:"reportDataAddress,omitempty"`
		Error   string `json:"error,omitempty"`
	}
	shownNonce struct {
		Bound  bool   `json:"bound"`
		Method string `json:"method"`
		Error  string `json:"error,omitempty"`
	}
	shownPolicy struct {
		Accept       []string `json:"tcb_accept"`
		GPU          string   `json:"gpu"`
		Measurements bool     `json:"measurements"`
		GPURequired  bool     `json:"gpu_required"`
		Pinned       []string `json:"pinned"`
	}
	shownCheck struct {
		Name  string `json:"name"`
		Holds bool   `json:"holds"`
		State string `json:"state"` // passed, failed, not_checked
		Error string `json:"error,omitempty"`
		Why   string `json:"reason,omitempty"` // why the check was not made
	}
	shown struct {
		TDX         shownTDX      `json:"tdx"`
		Devices     *shownDevices `json:"nvidia,omitempty"`
		Address     shownAddress  `json:"signingAddressBinding"`
		Nonce       shownNonce    `json:"nonceBinding"`
		DeviceNonce *shownNonce   `json:"nvidiaNonceBinding,omitempty"`
		At          string        `json:"verifiedAt"`
		TookMs      int64         `json:"verificationDurationMs"`
		Until       string        `json:"validUntil,omitempty"`
		Policy      shownPolicy   `json:"policy"`
		Scope       string        `json:"scope"`
		Log         string        `json:"eventLogReplay"`
		Compose     string        `json:"composeBinding"`
		Checks      []shownCheck  `json:"checks"`
		Failed      []string      `json:"failed"`
		NotChecked  []string      `json:"notChecked"` // each with its reason
		TestRoot    bool          `json:"testRoot,omitempty"`
	}
)

const isoMs = "2006-01-02T15:04:05.000Z"

// JSON is the member server_verification.
func (v *Verification) JSON() []byte {
	s := shown{
		TDX: v.shownTDX(), At: v.At.UTC().Format(isoMs), TookMs: v.Took.Milliseconds(),
		Policy: v.shownPolicy(), Scope: v.policy.Scope,
		Log: v.replayed, Compose: v.composed, Failed: v.Failed(), NotChecked: []string{}, TestRoot: v.TestRoot(),
		Address: shownAddress{Bound: v.Holds(CheckKeyBinding), Error: v.why(CheckKeyBinding)},
		Nonce:   shownNonce{v.Holds(CheckNonce), "raw", v.why(CheckNonce)},
	}
	if v.quote != nil {
		s.Address.Address = "0x" + hex.EncodeToString(v.quote.Body.ReportData[:20])
	}
	if !v.Until.IsZero() {
		s.Until = v.Until.UTC().Format(isoMs)
	}
	if v.devices > 0 || v.required {
		ok := v.Holds(CheckDevices) && (v.policy.GPU == GPULocal || v.Holds(CheckJudged))
		chain := "invalid"
		if v.Holds(CheckDevices) { // it holds only with the chain of each certificate
			chain = "valid"
		}
		s.Devices = &shownDevices{ok, v.Holds(CheckDevices), chain, v.policy.GPU, v.why(CheckDevices, CheckJudged)}
		s.DeviceNonce = &shownNonce{v.Holds(CheckDeviceNonce), "nvidia_payload", v.why(CheckDeviceNonce)}
	}
	for _, c := range v.Checks {
		one := shownCheck{Name: c.Name, Holds: c.Holds(), State: "passed", Why: c.Unmade}
		switch {
		case c.Err != nil:
			one.State, one.Error = "failed", c.Err.Error()
		case c.Unmade != "":
			one.State = "not_checked"
			s.NotChecked = append(s.NotChecked, c.Name+": "+c.Unmade)
		}
		s.Checks = append(s.Checks, one)
	}
	raw, err := json.Marshal(&s)
	if err != nil {
		panic("tee: a verification cannot be written as JSON: " + err.Error())
	}
	return raw
}

func (v *Verification) shownPolicy() shownPolicy {
	p := v.policy
	s := shownPolicy{Accept: p.TDX.Accept, GPU: p.GPU, Measurements: len(p.Pins) > 0, GPURequired: v.required, Pinned: []string{}}
	for _, pin := range p.Pins {
		s.Pinned = append(s.Pinned, pin.Name)
	}
	return s
}

func (v *Verification) shownTDX() (s shownTDX) {
	s.Advisories = []string{}
	if v.quote == nil {
		s.Error = v.why(CheckQuote)
		return s
	}
	b := &v.quote.Body
	s.Version, s.ReportData, s.Debug = v.quote.Version, hex.EncodeToString(b.ReportData[:]), b.Debug()
	s.Measurements = &measured{hex.EncodeToString(b.MRTD[:]), hex.EncodeToString(b.MRConfigID[:]),
		hex.EncodeToString(b.MROwner[:]), hex.EncodeToString(b.MROwnerConfig[:]), hex.EncodeToString(b.RTMR[0][:]),
		hex.EncodeToString(b.RTMR[1][:]), hex.EncodeToString(b.RTMR[2][:]), hex.EncodeToString(b.RTMR[3][:]),
		hex.EncodeToString(b.TDAttributes[:]), hex.EncodeToString(b.XFAM[:])}
	t := v.verdict
	s.Valid, s.Signature, s.Key = t.Valid(), t.Holds(tdx.CheckSignature), t.Holds(tdx.CheckKey) && t.Holds(tdx.CheckQE)
	s.Chain, s.Root = t.Holds(tdx.CheckChain), t.Holds(tdx.CheckChain) && v.policy.TDX.Root == tdx.Intel
	s.CRL = shownCRL{Checked: t.Checked, Revoked: t.Revoked}
	s.Status = t.Status
	s.Advisories = append(s.Advisories, t.Advisories...)
	for _, c := range t.Checks {
		if c.Err != nil && s.Error == "" {
			s.Error = c.Err.Error()
		}
	}
	return s
}
