package audio

import "farebox/routes"

// speechRows are the endpoints of speech and voices.
func speechRows(*Capability) []routes.Row { return nil }
