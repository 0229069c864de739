package audio

import (
	"slices"

	"farebox/routes"
)

// Capability is what main registers.
type Capability struct {
	gateway *routes.Gateway
}

// New makes the capability.
func New() *Capability { return &Capability{} }

// Open is routes.Capability.
func (of *Capability) Open(g *routes.Gateway) []routes.Row {
	of.gateway = g
	return slices.Concat(speechRows(of), transcriptionRows(of), musicRows(of))
}
