package routes

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"farebox/config"
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
		if note, _ := d.find.Lookup(c.method, Prefix+c.path, nil); note != nil {
			ctx := &fasthttp.RequestCtx{}
			note(ctx)
			got = ctx.UserValue(foundRow{}).(*Row).Path
		}
		if serve, _ := d.serve.Lookup(c.method, Prefix+c.path, nil); (serve != nil) != (got != "") {
			t.Errorf("%s %s: is served: %v, its row is %q", c.method, c.path, serve != nil, got)
		}
		if got != c.row {
			t.Errorf("%s %s leads to %q, expected %q", c.method, c.path, got, c.row)
		}
	}
}

// "A row said less of its endpoint than its handler knew."
func TestEveryRowSaysWhatItsEndpointTakes(t *testing.T) {
	cfg := &config.Config{}
	cfg.Server.MaxBody, cfg.Server.MaxInFlight = 1<<20, 1<<30
	methods := "GET, POST, PATCH, DELETE" // of crossOrigin.preflight
	for i := range table {
		row := &table[i]
		name := row.Method + " " + row.Path
		if !strings.Contains(methods, row.Method) {
			t.Errorf("%s: pages of other origins may not use this method", name)
		}
		if takes := row.Method == "POST" || row.Method == "PATCH"; takes && row.Form == NoBody || row.Method == "GET" && row.Form != NoBody {
			t.Errorf("%s: its form is %d", name, row.Form)
		}
		if row.FormLimit != nil && row.Form != JSONOrForm {
			t.Errorf("%s: has a limit of forms and takes none", name)
		}
		if row.Access == Public && row.most(cfg) >= maxBody(cfg) {
			t.Errorf("%s: strangers may send %d bytes", name, row.most(cfg))
		}
		if (row.Operation != "") != (row.Rate == ByModel) {
			t.Errorf("%s: its operation is %q, and its limits are not those of a model, or the reverse", name, row.Operation)
		}
	}
}
