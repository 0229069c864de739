package account_test

import (
	"testing"

	"farebox/routes/account"
	"farebox/routes/routestest"
)

// "A member was refused at the edge that its rule allows, or taken beyond it."
func TestRulesHoldAtTheirEdges(t *testing.T) {
	routestest.Edges(t, "web3_keys: { per_ip: 0 }", nil, account.New())
}
