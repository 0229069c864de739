package routes

import (
	"testing"

	"github.com/valyala/fasthttp"
)

// "A network whose name begins like another one's was not found."
func TestPathsOfNetworksLeadToTheirRow(t *testing.T) {
	d := (&Gateway{}).newDirectory(&snapshot{rpc: &rpcOffer{names: []string{"base-mainnet", "base-sepolia", "ethereum-mainnet", "ethereum-mainnet-archive", "networks-test"}}})
	for _, c := range []struct{ method, path, row string }{
		{"POST", "/crypto/rpc/base-mainnet", "/crypto/rpc/{network}"},
		{"POST", "/crypto/rpc/ethereum-mainnet", "/crypto/rpc/{network}"},
		{"POST", "/crypto/rpc/ethereum-mainnet-archive", "/crypto/rpc/{network}"},
		{"POST", "/crypto/rpc/ethereum-mainnet-arch", "/crypto/rpc/{network}"},
		{"POST", "/crypto/rpc/ethereum", "/crypto/rpc/{network}"},
		{"POST", "/crypto/rpc/e", "/crypto/rpc/{network}"},
		{"POST", "/crypto/rpc/zora", "/crypto/rpc/{network}"},
		{"POST", "/crypto/rpc/networks", "/crypto/rpc/{network}"},
		{"POST", "/crypto/rpc/networks-test", "/crypto/rpc/{network}"},
		{"GET", "/crypto/rpc/networks", "/crypto/rpc/networks"},
		{"GET", "/crypto/rpc/base-mainnet", ""},
		{"POST", "/crypto/rpc/", ""},
		{"POST", "/crypto/rpc/base-mainnet/x", ""},
		{"GET", "/models/a/b", "/models/{id:*}"},
		{"GET", "/models/traits", "/models/traits"},
		{"GET", "/api_keys/rate_limits", "/api_keys/rate_limits"},
		{"GET", "/api_keys/rate_limits/log", "/api_keys/rate_limits/log"},
		{"GET", "/api_keys/rate", "/api_keys/{id}"},
		{"PUT", "/models", ""},
	} {
		got := ""
		if note, _ := d.find.Lookup(c.method, prefix+c.path, nil); note != nil {
			ctx := &fasthttp.RequestCtx{}
			note(ctx)
			got = ctx.UserValue(foundRow{}).(*route).path
		}
		if serve, _ := d.serve.Lookup(c.method, prefix+c.path, nil); (serve != nil) != (got != "") {
			t.Errorf("%s %s: is served: %v, its row is %q", c.method, c.path, serve != nil, got)
		}
		if got != c.row {
			t.Errorf("%s %s leads to %q, expected %q", c.method, c.path, got, c.row)
		}
	}
}
