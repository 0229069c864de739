package chat_test

import (
	"testing"

	"farebox/routes/chat"
	"farebox/routes/routestest"
)

// "A member was refused at the edge that its rule allows, or taken beyond it."
func TestRulesHoldAtTheirEdges(t *testing.T) {
	for _, compat := range []string{"{}", "{ openai_extras: true, token_input: true }"} {
		routestest.Edges(t, "compat: "+compat, nil, chat.New(nil, nil, nil))
	}
}
