package rpc_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/routes/routestest"
	"farebox/routes/rpc"
)

// A network that confirms payments is the operator's alone: customers would use its nodes
// at the operator's cost.
func TestPrivateNetworksAreNotSold(t *testing.T) {
	asked := make(chan struct{}, 16)
	up := routestest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+gjson.GetBytes(body, "id").Raw+`,"result":"0x1"}`)
	})
	rig := routestest.Start(t, `
log: { level: error }
rpc:
  networks:
    - { name: ethereum-mainnet, head_every: 0s, upstreams: [{ name: a, url: "http://ADDR" }] }
    - { name: base-mainnet, private: true, head_every: 0s, upstreams: [{ name: b, url: "http://ADDR" }] }
`, up, rpc.New())
	const call = `{"jsonrpc":"2.0","id":1,"method":"eth_gasPrice"}`
	if status, answer := rig.Post("/crypto/rpc/base-mainnet", call, ""); status != 400 ||
		!strings.Contains(answer, "Unsupported RPC network") || len(asked) != 0 {
		t.Errorf("the private one is answered %d %s, and asked %d times", status, answer, len(asked))
	}
	if status, answer := rig.Post("/crypto/rpc/ethereum-mainnet", call, ""); status != 200 {
		t.Errorf("the other is answered %d %s", status, answer)
	}
	res, err := http.Get("http://" + rig.Address + "/api/v1/crypto/rpc/networks")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if list, _ := io.ReadAll(res.Body); string(list) != `{"networks":["ethereum-mainnet"]}` {
		t.Errorf("the list is %s", list)
	}
}
