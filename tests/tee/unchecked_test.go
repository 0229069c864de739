package tee

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/enclave"
	"farebox/tests/rig"
)

// says reports whether a list of texts has one with this beginning.
func says(list gjson.Result, begin string) bool {
	for _, one := range list.Array() {
		if strings.HasPrefix(one.Str, begin) {
			return true
		}
	}
	return false
}

// "The report had proof of the graphics processors yesterday. Today it has none, and you
// still call it verified." A host cannot drop evidence that the model has.
func TestDroppedEvidenceOfGraphicsProcessorsIsNotVerified(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, s *shop) {
		t.Helper()
		a := s.attest("&nonce=" + nonce)
		if a.Get("verified").Bool() || a.Get("server_verification.failed").Raw != `["gpu_evidence"]` ||
			!a.Get("server_verification.policy.gpu_required").Bool() || a.Get("server_verification.nvidia.valid").Raw != "false" {
			t.Errorf("verified %s, %s", a.Get("verified"), a.Get("server_verification"))
		}
		verified := fmt.Sprintf(`farebox_tee_verified{model=%q,upstream="enclave0"}`, model)
		s.MetricIs(verified, func(v float64) bool { return v == 0 })
		if status, _, body := s.Post("/chat/completions", s.key, rig.Ask(model, "hello", "")); status != 503 {
			t.Errorf("a chat gets %d %s", status, body)
		}
	}
	taken := func(t *testing.T, s *shop) {
		t.Helper()
		s.verified()
		a := s.attest("&nonce=" + nonce)
		if !a.Get("verified").Bool() || !says(a.Get("not_checked"), "gpu_evidence") {
			t.Errorf("verified %s, not checked %s", a.Get("verified"), a.Get("not_checked"))
		}
	}
	t.Run("that was there before", func(t *testing.T) {
		t.Parallel()
		s := open(t, "", "").verified()
		s.enclaves[0].Tell(enclave.NoGPU)
		refused(t, s)
		s.WriteConfig(strings.Replace(s.config, "kind: dstack", "kind: dstack, has_gpu: false", 1))
		s.Signal(rig.Hangup)
		taken(t, s)
	})
	t.Run("that the config names", func(t *testing.T) {
		t.Parallel()
		refused(t, open(t, "", ", has_gpu: true", enclave.Options{Lie: enclave.NoGPU}))
	})
	t.Run("that the report speaks of", func(t *testing.T) {
		t.Parallel()
		refused(t, open(t, "", "", enclave.Options{Lie: enclave.NoGPU, VMConfig: `{"spec_version":1,"num_gpus":8}`}))
	})
	t.Run("that the config can do without", func(t *testing.T) {
		t.Parallel()
		taken(t, open(t, "", ", gpu: nras", enclave.Options{Lie: enclave.NoGPU, VMConfig: `{"num_gpus":8}`}))
	})
	t.Run("of a model without any", func(t *testing.T) {
		t.Parallel()
		taken(t, open(t, "", "", enclave.Options{Devices: -1}))
	})
}

// "Verified means what?" Every verdict names the omitted checks, and why.
func TestChecksThatWereNotMadeAreInTheVerdict(t *testing.T) {
	t.Parallel()
	s := open(t, "", "", enclave.Options{Devices: -1}).verified()
	a := s.attest("&nonce=" + nonce)
	want := `["gpu_evidence","gpu_nonce_bound","gpu_judged","measurements_pinned"]`
	if !a.Get("verified").Bool() || a.Get("not_checked").Raw != want {
		t.Errorf("verified %s, not checked %s", a.Get("verified"), a.Get("not_checked"))
	}
	v := a.Get("server_verification")
	if !says(v.Get("notChecked"), "measurements_pinned: nothing is pinned") || v.Get("failed.#").Int() != 0 ||
		v.Get(`checks.#(name=="measurements_pinned").state`).Str != "not_checked" ||
		v.Get(`checks.#(name=="measurements_pinned").holds`).Raw != "false" ||
		v.Get(`checks.#(name=="quote_signature").state`).Str != "passed" {
		t.Errorf("the verdict is %s", v.Raw)
	}
	s.MetricIs(fmt.Sprintf(`farebox_tee_not_checked{model=%q,upstream="enclave0",check="measurements_pinned"}`, model),
		func(v float64) bool { return v == 1 })
	if log := s.AwaitLog("the verdict about an enclave"); !strings.Contains(log, "not_checked") {
		t.Errorf("the log says %s", log)
	}

	const unpinned = "not checked: measurements_pinned"
	checked, err := rig.RunIn(t, s.Dir, "tee", "check", model, "-c", s.Config)
	if err != nil || !strings.Contains(checked, unpinned) || !strings.Contains(checked, "verified: true, until ") {
		t.Errorf("tee check says %v\n%s", err, checked)
	}
	collateral, err := s.enclaves[0].Collateral()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"report.json": []byte(a.Raw), "published.json": collateral,
		"intel.pem": s.enclaves[0].Root()} {
		if err := os.WriteFile(filepath.Join(s.Dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := rig.RunIn(t, s.Dir, "tee", "verify", "report.json", "--collateral", "published.json", "--intel-root", "intel.pem")
	if err != nil || !strings.Contains(out, unpinned) || !strings.Contains(out, "not checked: scope") {
		t.Errorf("tee verify says %v\n%s", err, out)
	}

	// A check after a failed one is not called good.
	s.enclaves[0].Tell(enclave.StaleNonce)
	a = s.attest("&nonce=" + nonce)
	if a.Get("verified").Bool() || a.Get("server_verification.failed.0").Str != "nonce_bound" {
		t.Errorf("a stale quote: %s", a.Get("server_verification.failed"))
	}

	// With a pin, the others are named.
	mrtd := a.Get("server_verification.tdx.measurements.mrtd").Str
	s.enclaves[0].Tell(enclave.Honest)
	s.WriteConfig(strings.Replace(s.config, "kind: dstack", "kind: dstack, pin: { mrtd: [\""+mrtd+"\"] }", 1))
	s.Signal(rig.Hangup)
	rig.Await(t, "the pin holds", func() bool {
		v := s.attest("").Get("server_verification")
		return v.Get(`checks.#(name=="measurements_pinned").state`).Str == "passed" &&
			says(v.Get("notChecked"), "other_measurements: rtmr0, rtmr1, ")
	})
}
