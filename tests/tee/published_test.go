package tee

import (
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/enclave"
	"farebox/tests/rig"
)

// While Intel's data about processors cannot be fetched, the kept data are valid until
// their end, and not a moment longer. They are fetched again as soon as that is possible.
func TestPublishedDataHoldUntilTheirEnd(t *testing.T) {
	t.Parallel()
	const holds = 15 * time.Second
	s := open(t, "", "", enclave.Options{CollateralFor: time.Minute + holds}) // it was issued a minute ago
	e := s.enclaves[0]
	s.verified()
	e.Away(true)
	ask := func() int {
		status, _, _ := s.Post("/chat/completions", s.key, rig.Ask(model, "hello", ""))
		return status
	}
	var until time.Time
	for a := s.attest(""); a.Get("verified").Bool(); a = s.attest("") {
		said := a.Get("server_verification.validUntil").Time()
		if !until.IsZero() && !said.Equal(until) {
			t.Fatalf("data that ended %s end %s, without a new fetch", until, said)
		}
		until = said
		if status := ask(); status != 200 && time.Now().Before(until) {
			t.Fatalf("%s before its end a chat gets %d", time.Until(until), status)
		}
		if time.Now().After(until.Add(5 * time.Second)) {
			t.Fatal("it is verified after the end")
		}
		time.Sleep(time.Second)
	}
	if until.IsZero() || time.Now().Before(until.Truncate(time.Second)) {
		t.Errorf("it is verified no more before %s", until)
	}
	if status := ask(); status != 503 {
		t.Errorf("a chat gets %d then", status)
	}
	a := s.attest("")
	if failed := a.Get("server_verification.failed").Raw; a.Get("verified").Bool() || !strings.Contains(failed, "tcb_info") {
		t.Errorf("the failed check is %s", failed)
	}
	e.Away(false)
	s.verified()
	if status := ask(); status != 200 {
		t.Errorf("with an answer of the service a chat gets %d", status)
	}
}

// Proofs go to the clients that ask for them, and nowhere else: quotes and serials
// identify the machine, nonces and keys the client.
func TestProofsAreNotInTheLog(t *testing.T) {
	t.Parallel()
	s := open(t, "log: { level: debug, format: json, sample_above: 0 }", "").verified()
	for _, lie := range []string{enclave.Honest, enclave.Debug, enclave.SwapKey, enclave.GPUFail, enclave.StaleNonce} {
		s.enclaves[0].Tell(lie)
		a := s.attest("&nonce=" + nonce)
		device := gjson.Parse(a.Get("nvidia_payload").Str).Get("evidence_list.0")
		log, metrics := s.AwaitLog(`"path":"/tee/attestation"`), s.Metrics()
		for name, text := range map[string]string{"the nonce": nonce, "the quote": a.Get("intel_quote").Str[:64],
			"the registers": a.Get("server_verification.tdx.measurements.rtmr3").Str,
			"the key":       a.Get("signing_key").Str[2:], "the address": a.Get("signing_address").Str[2:],
			"the device": device.Get("certificate").Str[:48], "its evidence": device.Get("evidence").Str[:48]} {
			if len(text) < 40 || strings.Contains(log, text) || strings.Contains(metrics, text) {
				t.Errorf("%s: %s is in the log or the metrics: %q", lie, name, text)
			}
		}
	}
}
