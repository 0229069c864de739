package routes

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"farebox/config"
)

// offering is a capability without anything.
type offering struct{}

func (offering) Open(*Gateway) []Row { return nil }

// "A network whose name begins like another one's was not found."
func TestPathsOfNetworksLeadToTheirRow(t *testing.T) {
	networks := []string{"base-mainnet", "base-sepolia", "ethereum-mainnet", "ethereum-mainnet-archive",
		"networks-test"}
	g := &Gateway{capabilities: []Capability{offering{}}}
	for _, path := range []string{
		"GET /crypto/rpc/networks", "POST /crypto/rpc/{network}", "GET /models", "GET /models/traits",
		"GET /models/{id:*}",
		"GET /api_keys/{id}", "GET /api_keys/rate_limits", "GET /api_keys/rate_limits/log",
	} {
		row := Row{of: offering{}}
		row.Method, row.Path, _ = strings.Cut(path, " ")
		if strings.Contains(path, "{network}") {
			row.Each = func(own any) []string { return own.([]string) }
		}
		g.rows = append(g.rows, row)
	}
	alias := true
	d := g.newDirectory(&snapshot{views: []View{{Own: networks}},
		cfg: &config.Config{Compat: config.Compat{V1Alias: &alias}}})
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
		if serve, _ := d.serve.Lookup(c.method, Alias+c.path, nil); (serve != nil) != (got != "") {
			t.Errorf("%s %s has the row %q, and another one below %s", c.method, c.path, got, Alias)
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
func TestRowsThatContradictThemselvesAreRefused(t *testing.T) {
	rules := Always(&Rulebook{})
	for _, row := range []Row{
		{Method: "POST", Path: "/x", Access: Bearer, Form: JSONBody},
		{Method: "DELETE", Path: "/x", Access: Bearer, Form: JSONOrNone},
		{Method: "PUT", Path: "/x", Access: Bearer, Form: JSONBody, Rules: rules},
		{Method: "POST", Path: "/x", Access: Bearer, Form: NoBody},
		{Method: "GET", Path: "/x", Access: Bearer, Form: JSONBody, Rules: rules},
		{Method: "POST", Path: "/x", Access: Bearer, Form: JSONBody, Rules: rules, FormLimit: SmallBody},
		{Method: "POST", Path: "/x", Access: Public, Form: JSONBody, Rules: rules},
		{Method: "POST", Path: "/x", Access: Bearer, Form: JSONBody, Rules: rules, Operation: "chat"},
		{Method: "POST", Path: "/x", Access: Bearer, Form: JSONBody, Rules: rules, Rate: ByModel},
	} {
		if row.mistake() == "" {
			t.Errorf("%+v passes", row)
		}
	}
}
