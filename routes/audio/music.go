package audio

import "farebox/routes"

// musicRows are the endpoints of music.
func musicRows(*Capability) []routes.Row { return nil }
