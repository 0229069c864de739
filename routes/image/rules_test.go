package image_test

import (
	"testing"

	"farebox/config"
	"farebox/providers"
	"farebox/routes/chat"
	"farebox/routes/image"
	"farebox/routes/routestest"
)

// "A member was refused at the edge that its rule allows, or taken beyond it."
func TestRulesHoldAtTheirEdges(t *testing.T) {
	for _, extras := range []string{"false", "true"} {
		with := map[string]string{"scale": `"enhance":true,`}
		images := image.New(providers.NewFetcher(config.Fetch{}), chat.New(nil, nil, nil))
		routestest.Edges(t, "compat: { openai_extras: "+extras+" }", with, images)
	}
}
