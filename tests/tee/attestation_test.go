package tee

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"farebox/bench/upstream/enclave"
	"farebox/tests/rig"
)

// "I want to see for myself": the report is relayed as the enclave wrote it, with our
// verdict beside it, without a key or a charge.
func TestAttestationsNeedNoKey(t *testing.T) {
	t.Parallel()
	s := open(t, "", "")
	before := s.Settled()["a"].USD
	a := s.attest("&nonce=" + nonce)
	for path, want := range map[string]string{
		"verified": "true", "nonce": nonce, "request_nonce": nonce, "nonce_source": "client", "model": model,
		"upstream_model": "org/secret", "tee_provider": "testers", "tee_hardware": "intel-tdx", "signing_algo": "ecdsa",
		"signing_public_key": s.enclaves[0].Public(), "signing_key": s.enclaves[0].Public(), "test_root": "true",
		"server_verification.tdx.valid": "true", "server_verification.tdx.tcbStatus": "UpToDate",
		"server_verification.tdx.rootCaPinned": "false", "server_verification.testRoot": "true",
		"server_verification.nonceBinding.bound": "true", "server_verification.nonceBinding.method": "raw",
		"server_verification.nvidia.valid": "true", "server_verification.nvidia.mode": "nras",
		"server_verification.nvidiaNonceBinding.bound": "true", "server_verification.eventLogReplay": "true",
		"server_verification.composeBinding": "true", "server_verification.scope": "model_instance",
		"server_verification.failed.#": "0", "candidates_evaluated": "1", "candidates_available": "1",
		"vm_config": `{"spec_version":1}`, "info.app_name": "farebox-test",
	} {
		if got := a.Get(path).String(); got != want {
			t.Errorf("%s is %q, expected %q", path, got, want)
		}
	}
	data := a.Get("server_verification.tdx.reportData").Str
	if !strings.HasSuffix(data, strings.Repeat("0", 24)+nonce) ||
		!strings.EqualFold("0x"+data[:40], a.Get("signing_address").Str) {
		t.Errorf("the report data are %s", data)
	}
	if quote, err := hex.DecodeString(a.Get("intel_quote").Str); err != nil || len(quote) < 4000 {
		t.Errorf("the quote has %d bytes, %v", len(quote), err)
	}
	one, two := s.attest(""), s.attest("")
	if one.Get("nonce_source").Str != "server" || len(one.Get("nonce").Str) != 64 ||
		one.Get("nonce").Str == two.Get("nonce").Str || !one.Get("verified").Bool() {
		t.Errorf("without a nonce: %s", one.Get("nonce"))
	}
	status, _, body := s.Get("/tee/attestation?model=e2ee-alias", "")
	if status != 200 || !strings.Contains(string(body), `"model":"e2ee-alias"`) { // clients compare
		t.Errorf("asked for by another name: %d %s", status, body)
	}
	if after := s.Settled()["a"].USD; after != before {
		t.Errorf("it cost %s", before-after)
	}
}

func TestAttestationsAreRefusedByTheirReason(t *testing.T) {
	t.Parallel()
	s := open(t, "", "")
	for _, c := range []struct {
		query  string
		status int
		says   string
	}{
		{"", 400, "model"},
		{"?model=", 400, "model"},
		{"?model=plain", 400, "e2ee-"},
		{"?model=e2ee-none", 404, "MODEL_NOT_FOUND"},
		{"?model=" + model + "&nonce=", 400, "64 lower-case"},
		{"?model=" + model + "&nonce=" + nonce[:32], 400, "64 lower-case"},
		{"?model=" + model + "&nonce=" + strings.ToUpper(nonce), 400, "64 lower-case"},
		{"?model=" + model + "&nonce=" + nonce + "00", 400, "64 lower-case"},
		{"?model=" + model + "&nonce=" + nonce[:63] + "g", 400, "64 lower-case"},
		{"?model=" + model + "&nonce=" + nonce + "&nonce=" + nonce, 400, "more than once"},
	} {
		asked := s.enclaves[0].Calls("/v1/attestation/report")
		status, _, body := s.Get("/tee/attestation"+c.query, "")
		if status != c.status || !strings.Contains(string(body), c.says) {
			t.Errorf("%s: %d %s", c.query, status, body)
		}
		if now := s.enclaves[0].Calls("/v1/attestation/report"); now > asked+1 { // our own rechecks go on
			t.Errorf("%s: the enclave was asked %d times", c.query, now-asked)
		}
	}
	s.enclaves[0].Close()
	if status, _, body := s.Get("/tee/attestation?model="+model, ""); status != 502 ||
		!strings.Contains(string(body), "TEE_ATTESTATION_FAILED") {
		t.Errorf("an enclave that is gone: %d %s", status, body)
	}
}

// Each lie is found, named, and keeps requests away once the gateway has seen it itself;
// an honest enclave is used again.
func TestLiesOfEnclavesAreReported(t *testing.T) {
	t.Parallel()
	s := open(t, "", "").verified()
	for lie, failed := range map[string]string{enclave.Debug: "debug_off", enclave.StaleNonce: "nonce_bound",
		enclave.SwapKey: "signing_key_bound", enclave.OldModule: "tcb_status", enclave.GPUFail: "gpu_evidence",
		enclave.GPUNonce: "gpu_nonce_bound", enclave.WrongLog: "event_log"} {
		s.enclaves[0].Tell(lie)
		a := s.attest("&nonce=" + nonce)
		if a.Get("verified").Bool() || a.Get("server_verification.failed.0").Str != failed ||
			a.Get("server_verification.failed.#").Int() != 1 {
			t.Errorf("%s: verified %s, failed %s", lie, a.Get("verified"), a.Get("server_verification.failed"))
		}
	}
	s.enclaves[0].Tell(enclave.Debug)
	verified := fmt.Sprintf(`farebox_tee_verified{model=%q,upstream="enclave0"}`, model)
	s.MetricIs(verified, func(v float64) bool { return v == 0 })
	s.AwaitLog("the verdict about an enclave")
	if status, _, body := s.Post("/chat/completions", s.key, rig.Ask(model, "hello", "")); status != 503 ||
		!strings.Contains(string(body), "MODEL_OFFLINE") {
		t.Errorf("an enclave that can be debugged is asked: %d %s", status, body)
	}
	s.enclaves[0].Tell(enclave.Honest)
	s.MetricIs(verified, func(v float64) bool { return v == 1 })
	s.Must(200, "POST", "/chat/completions", s.key, rig.Ask(model, "hello", ""), nil)
}

// Strangers have ten attestations a minute.
func TestAttestationsAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	s := open(t, "", "").verified()
	s.WriteConfig(strings.Replace(s.config, "per_ip: 0", "per_ip: 10", 1))
	s.Signal(rig.Hangup)
	rig.Await(t, "the limit holds", func() bool {
		status, header, _ := s.Get("/tee/attestation?model="+model, "")
		return status == 429 && header.Get("Retry-After") != ""
	})
	if status, _, body := s.Get("/tee/attestation?model="+model+"&nonce=x", ""); status != 400 {
		t.Errorf("wrong requests count, too: %d %s", status, body)
	}
}
