package tee

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/enclave"
)

// "Your answer said that it was verified, my reader of JSON said that it was not": reports
// with a member twice, in another case or escaped are rejected.
func TestReportsThatReadersReadApart(t *testing.T) {
	t.Parallel()
	_, base, _, _ := started(t, enclave.Options{})
	good := string(report(t, base, fresh()))
	if _, err := split([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"intel_quote", "signing_address", "event_log"}, Ours...) {
		for _, member := range []string{strings.ToUpper(name[:1]) + name[1:], `\u00` + hex.EncodeToString([]byte(name[:1])) +
			name[1:], name + `":1,"` + name} {
			if _, err := split([]byte(`{"` + member + `":true,` + good[1:])); err == nil {
				t.Errorf("a report with %s is read", member)
			}
		}
	}
	for _, text := range []string{"", "null", "7", `"x"`, "[]", "[" + good + "]", good + good, good[:len(good)-1],
		`{"all_attestations":[7]}`, `{"all_attestations":[]}`, "\xef\xbb\xbf" + good} {
		if _, err := split([]byte(text)); err == nil {
			t.Errorf("%.40s is a report", text)
		}
	}
}

// The same holds for an enclave's signature: we judge the same text that a client reads.
func TestSignaturesThatReadersReadApart(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("ab", 32) + ":" + strings.Repeat("cd", 32)
	good := `{"text":"` + text + `","signature":"0x5da108ca2e282e9645a5d6576e2c6935caa9a47905eee6bc6b2ada1d980a6eb2` +
		`1f23b1376e2245f6d5ae543e204e653041649b38dabb94942631db93f863e37a1c",` +
		`"signing_address":"0x19e7e376e7c213b7e7e7e46cc70a5dd086daff2a","signing_algo":"ecdsa","receipt":{"a":1}}`
	if s, err := ReadSignature([]byte(good)); err != nil || !s.Valid || s.Request != strings.Repeat("ab", 32) ||
		s.Response != strings.Repeat("cd", 32) {
		t.Fatalf("%+v, %v", s, err)
	}
	object := strings.Replace(good, `"signature":`, `"signature":{"algorithm":"ecdsa","value":`, 1)
	object = strings.Replace(object, `,"signing_address"`, `},"signing_address"`, 1)
	if s, err := ReadSignature([]byte(object)); err != nil || !s.Valid {
		t.Fatalf("%+v, %v", s, err)
	}
	other, err := json.Marshal(strings.Repeat("ef", 32) + ":" + strings.Repeat("cd", 32))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		good[:len(good)-1] + `,"text":` + string(other) + "}", good[:len(good)-1] + `,"Text":` + string(other) + "}",
		`{"t\u0065xt":` + string(other) + "," + good[1:], good[:len(good)-1] + `,"signature":""}`,
		good[:len(good)-1] + `,"Server_Verification":{"signature_valid":true}}`,
		good[:len(good)-1] + `,"MODEL":"x"}`, strings.Replace(object, `"value":`, `"value":"","value":`, 1),
		"[" + good + "]", "null", "",
	} {
		if s, err := ReadSignature([]byte(bad)); err == nil {
			t.Errorf("%s is read: %+v", bad, s)
		}
	}
	if !gjson.Valid(good) {
		t.Error("no JSON")
	}
}
