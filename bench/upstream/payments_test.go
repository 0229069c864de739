package upstream

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/chain"
)

// The Server has both chains and the facilitator below its root, as the demonstration
// uses them.
func TestTheServerHasChainsAndAFacilitator(t *testing.T) {
	_, root := start(t, Options{})
	res, err := http.Get(root + PathFacilitator + "/supported")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil || gjson.GetBytes(b, "kinds.#").Int() != 2 || !gjson.GetBytes(b, "simulated").Bool() {
		t.Errorf("supported: %s, %v", b, err)
	}
	for path, want := range map[string]string{PathPayEVM: `"0x2105"`, PathPaySolana: `"` + chain.SolanaGenesis + `"`} {
		method := "eth_chainId"
		if path == PathPaySolana {
			method = "getGenesisHash"
		}
		if got := post(t, root+path, `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":[]}`); gjson.GetBytes(got.body,
			"result").Raw != want || gjson.GetBytes(got.body, "id").Int() != 7 {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	got := post(t, root+PathFacilitator+"/settle", `{}`)
	if got.status != 400 || !strings.Contains(string(got.body), "x402Version") {
		t.Errorf("settle of nothing: %d %s", got.status, got.body)
	}
}

// The payment for a first try settles at the server's own facilitator.
func TestTheFirstPaymentSettles(t *testing.T) {
	s, root := start(t, Options{})
	first := s.FirstPayment("0x70997970c51812dc3a010c7d01b50e0d17dc79c8")
	raw, err := base64.StdEncoding.DecodeString(first.Header)
	if err != nil {
		t.Fatal(err)
	}
	payload := gjson.ParseBytes(raw)
	body := `{"x402Version":2,"paymentPayload":` + payload.Raw + `,"paymentRequirements":` + payload.Get("accepted").Raw + `}`
	got := post(t, root+PathFacilitator+"/settle", body)
	if !gjson.GetBytes(got.body, "success").Bool() || gjson.GetBytes(got.body, "payer").Str != first.Address {
		t.Errorf("settled as %s", got.body)
	}
}
