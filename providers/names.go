package providers

import (
	"farebox/providers/chat/dialect"
	"farebox/providers/chat/openai"
)

// The catalog's names of the types of package dialect.
type (
	// Model is one model of the catalog.
	Model = dialect.Model
	// Target is one upstream that serves a model.
	Target = dialect.Target
	// Upstream is one endpoint with its connections.
	Upstream = dialect.Upstream
)

// NewBodyMeter reads a large answer that is relayed as it arrives.
func NewBodyMeter(c *dialect.Chat, t *Target) dialect.Stream { return openai.NewBodyMeter(c, t) }
